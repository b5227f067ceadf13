"""Ensembles: several members play as one model, by majority vote or as the best of n replies."""

from factgym.agents.ensembles.best import BestOf, JudgeScore, MeanLogprob, step_case
from factgym.agents.ensembles.members import Choice, Ensemble
from factgym.agents.ensembles.vote import MALFORMED, ActionKey, MajorityVote

__all__ = [
    "MALFORMED",
    "ActionKey",
    "BestOf",
    "Choice",
    "Ensemble",
    "JudgeScore",
    "MajorityVote",
    "MeanLogprob",
    "step_case",
]
