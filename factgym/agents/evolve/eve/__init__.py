"""EVE's self-evolution: a proposer and a solver that learn, one after the other, from evidence that can be checked."""

from factgym.agents.evolve.eve.learner import Learner
from factgym.agents.evolve.eve.loop import EveEvolution
from factgym.agents.evolve.eve.settings import DRAWS, EveSettings
from factgym.agents.evolve.eve.summary import summary_of
from factgym.agents.evolve.eve.trainers import EVE_TRAINERS, Checked, Untrained

__all__ = ["DRAWS", "EVE_TRAINERS", "Checked", "EveEvolution", "EveSettings", "Learner", "Untrained", "summary_of"]
