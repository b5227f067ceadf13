"""How far a run is: counters that the engine keeps and a display reads."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from factgym.agents.rollout.record import Record


@dataclass(slots=True)
class Progress:
    """Counts of episodes unless said otherwise.

    total: planned. before: of these, finished by earlier calls of a resumed run. done: by this call, errors included.
    earned: sum of the rewards of the `scored`. tokens: prompt and completion tokens of this call. started: on
    `time.monotonic`'s clock.
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
    started: float = field(default_factory=time.monotonic)

    def add(self, record: Record) -> None:
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

    @property
    def reward(self) -> float | None:
        """Mean reward so far."""
        return self.earned / self.scored if self.scored else None

    @property
    def seconds(self) -> float:
        """Since this call began."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """By the pace so far; None before the first episode is done."""
        left = self.total - self.before - self.done
        return self.seconds / self.done * left if self.done else None
