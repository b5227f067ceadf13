"""Do counts tell right sentences from wrong ones? Shares with Wilson intervals by bucket of the count (section 6.1, B.5).

The paper's five buckets: 0, 1-4, 5-9, 10-19, 20 and more. A threshold of the reward belongs where the share jumps, and
the jump of a boundary has an interval too: Newcombe's hybrid of the two Wilson intervals (1998, method 10).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from factgym.benchmarks.intervals import NO_DATA, Estimate, wilson
from factgym.core.errors import ConfigError

EDGES = (0, 1, 5, 10, 20)
"""The lowest count of each bucket."""

Pair = tuple[int, bool]
"""A sentence's count, and whether the sentence is right."""


@dataclass(frozen=True, slots=True)
class CountBucket:
    """Sentences with low <= count <= high; high is None in the last bucket. share: of right ones, with its interval."""

    low: int
    high: int | None
    correct: int
    n: int
    share: Estimate

    @property
    def name(self) -> str:
        """`c = 0`, `1 ≤ c ≤ 4`, `c ≥ 20`."""
        if self.high is None:
            return f"c ≥ {self.low}"
        return f"c = {self.low}" if self.low == self.high else f"{self.low} ≤ c ≤ {self.high}"


@dataclass(frozen=True, slots=True)
class Jump:
    """How much the share rises where the count reaches `at`, with its interval; between buckets that hold sentences."""

    at: int
    rise: Estimate


@dataclass(frozen=True, slots=True)
class CountCalibration:
    """The curve. skipped: sentences without a count. auc: the chance that a right sentence has the higher count, ties half."""

    buckets: tuple[CountBucket, ...]
    jumps: tuple[Jump, ...]
    n: int
    skipped: int
    auc: float | None

    @property
    def monotone(self) -> bool:
        """Whether no jump goes down."""
        return all((one.rise.value or 0.0) >= 0 for one in self.jumps)

    @property
    def sure(self) -> bool:
        """Whether every jump is up by its whole interval."""
        return bool(self.jumps) and all(one.rise.low is not None and one.rise.low > 0 for one in self.jumps)

    def largest(self, most: int = 2) -> tuple[int, ...]:
        """The boundaries of the largest jumps, the largest first."""
        return tuple(one.at for one in sorted(self.jumps, key=lambda one: -(one.rise.value or 0.0))[:most])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "n": self.n,
            "skipped": self.skipped,
            "monotone": self.monotone,
            "auc": self.auc,
            "buckets": [
                {"low": b.low, "high": b.high, "n": b.n, "correct": b.correct, **_reach("share", b.share)}
                for b in self.buckets
            ],
            "jumps": [{"at": one.at, **_reach("rise", one.rise)} for one in self.jumps],
        }


def calibrate(pairs: Iterable[tuple[int | None, bool]], edges: Sequence[int] = EDGES) -> CountCalibration:
    """The curve of any pairs of count and correctness. A count of None (no query) is skipped and counted.

    edges: the lowest count of each bucket, from 0 upwards. Raises ConfigError for other edges or a negative count.
    """
    if not edges or edges[0] != 0 or any(b <= a for a, b in pairwise(edges)):
        raise ConfigError(f"edges start at 0 and rise, such as 0, 1, 5, 10, 20; not {list(edges)}")
    right, wrong = [0] * len(edges), [0] * len(edges)
    known: list[Pair] = []
    skipped = 0
    for count, correct in pairs:
        if count is None:
            skipped += 1
            continue
        if count < 0:
            raise ConfigError(f"a count is 0 or more, not {count}")
        (right if correct else wrong)[bisect_right(edges, count) - 1] += 1
        known.append((count, bool(correct)))
    buckets = tuple(_bucket(edges, i, right[i], right[i] + wrong[i]) for i in range(len(edges)))
    return CountCalibration(buckets, tuple(jumps(buckets)), len(known), skipped, auc(known))


def _bucket(edges: Sequence[int], i: int, correct: int, n: int) -> CountBucket:
    high = edges[i + 1] - 1 if i + 1 < len(edges) else None
    return CountBucket(edges[i], high, correct, n, wilson(correct, n))


def jumps(buckets: Sequence[CountBucket]) -> list[Jump]:
    """Between neighbours among the buckets that hold sentences."""
    held = [one for one in buckets if one.n]
    return [Jump(b.low, rise(a.share, b.share)) for a, b in pairwise(held)]


def rise(first: Estimate, second: Estimate) -> Estimate:
    """`second - first` of two independent proportions with Wilson intervals, by Newcombe's hybrid score method."""
    if first.value is None or second.value is None:
        return NO_DATA
    assert first.low is not None and first.high is not None and second.low is not None and second.high is not None
    found = second.value - first.value
    down = math.hypot(second.value - second.low, first.high - first.value)
    up = math.hypot(second.high - second.value, first.value - first.low)
    return Estimate(found, max(-1.0, found - down), min(1.0, found + up), first.n + second.n)


def auc(pairs: Iterable[Pair]) -> float | None:
    """The chance that a right sentence has a higher count than a wrong one, ties by half; None without one of each."""
    tallies: dict[int, list[int]] = {}
    for count, correct in pairs:
        tallies.setdefault(count, [0, 0])[correct] += 1
    right = sum(two[1] for two in tallies.values())
    wrong = sum(two[0] for two in tallies.values())
    if not right or not wrong:
        return None
    below, wins = 0, 0.0
    for count in sorted(tallies):
        bad, good = tallies[count]
        wins += good * (below + bad / 2)
        below += bad
    return wins / (right * wrong)


def _reach(name: str, found: Estimate) -> dict[str, float | None]:
    return {name: found.value, "low_95": found.low, "high_95": found.high}
