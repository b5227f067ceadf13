"""The scripted players of EVE; those of the proposer are in `factgym.envs.eve.players.proposer`."""

from __future__ import annotations

from factgym.envs.eve.players.solver import SOLVER_PLAYERS

__all__ = ["SOLVER_PLAYERS"]
