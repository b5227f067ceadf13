"""Self-evolution of verifiers: SEVA's loop, its controls, and the trainers that refine a verifier between rounds."""

from factgym.agents.evolve.allocation import ceiling_allocation, random_allocation, weakness_weights
from factgym.agents.evolve.loop import Evolution
from factgym.agents.evolve.played import find_model
from factgym.agents.evolve.playing import Watch
from factgym.agents.evolve.profile import Profile, profile_of
from factgym.agents.evolve.settings import ARMS, Arm, EvolveSettings
from factgym.agents.evolve.trainer import TRAINERS, Dataset, Trainer, find_trainer

__all__ = [
    "ARMS",
    "TRAINERS",
    "Arm",
    "Dataset",
    "Evolution",
    "EvolveSettings",
    "Profile",
    "Trainer",
    "Watch",
    "ceiling_allocation",
    "find_model",
    "find_trainer",
    "profile_of",
    "random_allocation",
    "weakness_weights",
]
