"""Self-evolution of verifiers: SEVA's loop, its controls, and the trainers that refine a verifier between rounds."""

from factgym.training.rollouts import Callbacks, RolloutError
from factgym.training.seva.allocation import ceiling_allocation, random_allocation, weakness_weights
from factgym.training.seva.loop import Evolution
from factgym.training.seva.profile import Profile, profile_of
from factgym.training.seva.settings import ARMS, Arm, EvolveSettings
from factgym.training.trainer import TRAINERS, Dataset, Trainer, find_trainer

__all__ = [
    "ARMS",
    "TRAINERS",
    "Arm",
    "Callbacks",
    "Dataset",
    "Evolution",
    "EvolveSettings",
    "Profile",
    "RolloutError",
    "Trainer",
    "ceiling_allocation",
    "find_trainer",
    "profile_of",
    "random_allocation",
    "weakness_weights",
]
