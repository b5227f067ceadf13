"""A verifier that trains on a processor in a second: two logistic regressions over features that can be read."""

from factgym.agents.evolve.verifier.features import FEATURES, Look, look_at
from factgym.agents.evolve.verifier.fitting import fine_tune
from factgym.agents.evolve.verifier.model import FeatureVerifier
from factgym.agents.evolve.verifier.trainer import FeatureTrainer
from factgym.agents.evolve.verifier.weights import Weights

__all__ = ["FEATURES", "FeatureTrainer", "FeatureVerifier", "Look", "Weights", "fine_tune", "look_at"]
