"""Which episodes a run plays, in which order and with which seeds: a function of the run's seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from factgym.core.seeds import derive


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play.

    index: of the task. sample: which of the k episodes of that task. seed: of the policy's own choices. attempt: from
    1; above it where earlier attempts met a fault of the infrastructure.
    """

    index: int
    sample: int = 0
    seed: int = 0
    attempt: int = 1


def task_order(total: int, n: int | None, seed: int) -> list[int]:
    """`n` different task indices out of `total` (all of them when n is None or larger), in an order set by the seed."""
    return random.Random(f"factgym task order {seed}").sample(range(total), min(n or total, total))


def jobs_of(order: list[int], k: int, seed: int) -> Iterator[Job]:
    """k episodes of each task, the samples of a task beside each other so that groups are complete early."""
    for index in order:
        for sample in range(k):
            yield Job(index, sample, derive(seed, "episode", index, sample))
