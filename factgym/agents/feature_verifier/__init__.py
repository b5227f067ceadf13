"""A verifier that trains on a processor in a second: two logistic regressions over features that can be read."""

from factgym.agents.feature_verifier.features import FEATURES, Look, look_at
from factgym.agents.feature_verifier.fitting import fine_tune
from factgym.agents.feature_verifier.model import FeatureVerifier
from factgym.agents.feature_verifier.weights import Weights

__all__ = ["FEATURES", "FeatureTrainer", "FeatureVerifier", "Look", "Weights", "fine_tune", "look_at"]
