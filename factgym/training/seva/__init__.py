"""SEVA's self-evolution: a verifier that is refined on claims aimed at its own weaknesses."""

from factgym.training.seva.loop import Evolution
from factgym.training.seva.report import read_report
from factgym.training.seva.settings import ARMS, EvolveSettings

__all__ = ["ARMS", "Evolution", "EvolveSettings", "read_report"]
