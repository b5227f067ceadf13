"""EVE's self-evolution: a proposer and a solver that learn, one after the other, from evidence that can be checked."""

from factgym.benchmarks.eve.evolution import summary_of
from factgym.training.eve.loop import EveEvolution, EveRounds
from factgym.training.eve.settings import EveSettings
from factgym.training.eve.trainers import EVE_TRAINERS, Checked, Learner, Untrained

__all__ = ["EVE_TRAINERS", "Checked", "EveEvolution", "EveRounds", "EveSettings", "Learner", "Untrained", "summary_of"]
