"""The scripted players of EVE; those of the proposer are in `factgym.envs.eve.agents.proposer`."""

from __future__ import annotations

from factgym.envs.eve.agents.solver import SOLVER_AGENTS

__all__ = ["SOLVER_AGENTS"]
