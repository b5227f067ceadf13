"""The episodes of a run: which, in which order and with which seeds (a function of the run's seed alone), and progress."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """k episodes of each task, the samples of a task next to each other so that groups are complete early."""
    for index in order:
        yield from (Job(index, sample, derive(seed, "episode", index, sample)) for sample in range(k))


@dataclass(slots=True)
class Progress:
    """Counters of a run, which the engine updates and a display reads; of episodes unless noted otherwise.

    total: planned. before: of these, finished by earlier calls of a resumed run. done: by this call, errors included.
    earned: sum of the rewards of the `scored`. tokens: prompt and completion tokens of this call. turns, requests,
    retries: so far, of running episodes too; worker processes report those of an episode at its end. started: on
    `time.monotonic`'s clock. notice: returns what a run waits for, None while it does not.
    """

    total: int
    before: int = 0
    done: int = 0
    running: int = 0
    scored: int = 0
    errors: int = 0
    earned: float = 0.0
    tokens: int = 0
    errors_in_row: int = 0
    turns: int = 0
    requests: int = 0
    retries: int = 0
    started: float = field(default_factory=time.monotonic)
    notice: Callable[[], str | None] = lambda: None

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a finished episode."""
        self.done += 1
        usage = record["usage"] or {}
        self.tokens += usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        if record["error"] is not None:
            self.errors += 1
            self.errors_in_row += 1
            return
        self.errors_in_row = 0
        total = (record["reward"] or {}).get("total")
        if total is not None:
            self.scored += 1
            self.earned += total

    def add_turn(self, completion: Mapping[str, Any] | None) -> None:
        """Count a turn by the completion of its reply, which lists its requests where there were any."""
        self.turns += 1
        if completion:
            self.requests += completion.get("requests", 1)
            self.retries += len(completion.get("retries", ()))

    @property
    def reward(self) -> float | None:
        """Mean reward so far."""
        return self.earned / self.scored if self.scored else None

    @property
    def seconds(self) -> float:
        """Seconds since this call began."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Seconds to go at the pace so far; None before the first episode is done."""
        remaining = self.total - self.before - self.done
        return self.seconds / self.done * remaining if self.done else None
