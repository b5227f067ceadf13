"""Small EVE evolutions for tests: a generated world, the scripted proposer and solver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from factgym.agents.resolve import find_agent
from factgym.training.eve import EVE_TRAINERS, EveEvolution, EveSettings, Learner
from factgym.training.trainer import find_trainer

PHASES = ("proposer", "solver")


def small(**changes: Any) -> EveSettings:
    """Settings under which both phases take some seconds."""
    values: dict[str, Any] = {
        "size": 40,
        "batch": 12,
        "prompts": 6,
        "samples": 3,
        "rows": 5,
        "group": 3,
        "n": 3,
        "m": 2,
    }
    return EveSettings(**values | changes)


def learner(role: str, agent: str = "extractive", trainer: str = "check") -> Learner:
    return Learner(role, lambda: find_agent(agent, f"eve-{role}"), find_trainer(trainer, {}, EVE_TRAINERS))


def evolution(out: Path, settings: EveSettings | None = None, **parts: Any) -> EveEvolution:
    given: dict[str, Any] = {role: learner(role) for role in PHASES}
    return EveEvolution(out, settings or small(), **given | parts)
