"""Phase B: the solver answers the rows of its data set, several times each, and is compared within a row (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.rollout.jobs import task_order
from factgym.core.env import Env
from factgym.core.seeds import derive
from factgym.datasets.multihop import Triple
from factgym.training.eve.material import Material
from factgym.training.eve.measures import solver_measures
from factgym.training.eve.phase import Batch, Episodes
from factgym.training.eve.rows import Phase


@dataclass(frozen=True)
class Solving:
    """The course of Phase B. env: over the whole data set."""

    material: Material
    triples: Sequence[Triple]
    env: Env[Any]
    phase: Phase = "solver"

    def batch(self, number: int) -> Batch:
        """The rows of an iteration. Every row comes up once before one comes up again."""
        own = self.material.settings
        order = rows_of(number, len(self.triples), own.rows, own.seed)
        rows = [{"row": place, "id": self.triples[place].id, "hops": self.triples[place].hops} for place in order]
        return Batch(self.env, order, own.group, rows)

    def after(self, number: int, folder: Path, env: Env[Any], episodes: Episodes) -> dict[str, Any]:
        """What the iteration amounts to."""
        return solver_measures(episodes)


def rows_of(number: int, total: int, batch: int, seed: int) -> list[int]:
    """Which of `total` rows iteration `number` (from 1) plays: the next `batch` of shuffled passes, none of them twice."""
    places = range((number - 1) * batch, number * batch)
    passes = {place // total: task_order(total, None, derive(seed, "pass", place // total)) for place in places}
    return list(dict.fromkeys(passes[place // total][place % total] for place in places))
