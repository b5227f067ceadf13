"""Groups: several samples of one task (`-k`), as group-based training sees them.

A group whose rewards are all the same teaches nothing under GRPO: every advantage is zero. A task's samples keep only
their running totals and how often each verdict was submitted. Only scored episodes count, and a group needs two of
them. Groups are independent of each other, so that every interval here is over groups.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from factgym.benchmarks.statistics.intervals import NO_DATA, UNIT, Estimate, mean_interval

SAME = 1e-9
"""Rewards of a group that lie within this count as equal."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The groups of a run.

    n: groups, of `smallest` to `largest` scored samples. collapsed: share of groups whose rewards are all equal.
    spread: mean sample standard deviation (n - 1) of the rewards within a group. best and worst: means over groups of
    the highest and the lowest reward. majority: share of groups whose most frequent verdict is right; of several that
    are equally frequent one is drawn, in expectation; a sample without a verdict casts no vote. right_within: k ->
    chance that at least one of k samples has the right verdict, over the tasks with at least k samples. The last two
    are empty where tasks have no gold label.
    """

    n: int
    smallest: int
    largest: int
    collapsed: Estimate
    spread: Estimate
    best: Estimate
    worst: Estimate
    majority: Estimate
    right_within: Mapping[int, Estimate]


@dataclass(slots=True)
class _Group:
    """Running totals of one task's samples (Welford 1962 for the squares)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    best: float = -math.inf
    worst: float = math.inf
    gold: str | None = None
    right: int = 0
    votes: dict[str, int] = field(default_factory=dict)

    def add(self, reward: float, gold: str | None, verdict: str | None) -> None:
        self.n += 1
        step = reward - self.mean
        self.mean += step / self.n
        self.squares += step * (reward - self.mean)
        self.best, self.worst = max(self.best, reward), min(self.worst, reward)
        self.gold = gold if gold is None else sys.intern(gold)
        self.right += gold is not None and gold == verdict
        if verdict is not None:
            verdict = sys.intern(verdict)
            self.votes[verdict] = self.votes.get(verdict, 0) + 1

    @property
    def majority(self) -> float:
        most = max(self.votes.values(), default=0)
        first = [verdict for verdict, votes in self.votes.items() if votes == most]
        return (self.gold in first) / len(first) if first else 0.0


class GroupTally:
    """Collects the scored episodes of a run by task."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}

    def add(self, task: int, reward: float, gold: str | None, verdict: str | None) -> None:
        """Add one scored episode of the task with this number."""
        self._groups.setdefault(task, _Group()).add(reward, gold, verdict)

    def summary(self) -> GroupSummary | None:
        """The groups, or None when no task has two scored samples."""
        groups = [one for one in self._groups.values() if one.n > 1]
        if not groups:
            return None
        labelled = [one for one in groups if one.gold is not None]
        sizes = [one.n for one in groups]
        rewards = [end for one in groups for end in (one.best, one.worst)]
        bounds = UNIT if all(0 <= reward <= 1 for reward in rewards) else None
        return GroupSummary(
            n=len(groups),
            smallest=min(sizes),
            largest=max(sizes),
            collapsed=mean_interval([float(one.best - one.worst <= SAME) for one in groups], bounds=UNIT),
            spread=mean_interval([math.sqrt(one.squares / (one.n - 1)) for one in groups], bounds=(0.0, math.inf)),
            best=mean_interval([one.best for one in groups], bounds=bounds),
            worst=mean_interval([one.worst for one in groups], bounds=bounds),
            majority=mean_interval([one.majority for one in labelled], bounds=UNIT),
            right_within=_right_within(self._groups.values()) if labelled else {},
        )


def _right_within(groups: Iterable[_Group]) -> dict[int, Estimate]:
    known = [(one.n, one.right) for one in groups if one.gold is not None]
    found = {}
    k, largest = 1, max((n for n, _ in known), default=0)
    while k <= largest:
        found[k] = mean_interval([chance_within(n, right, k) for n, right in known if n >= k], bounds=UNIT)
        k *= 2
    return {k: one for k, one in found.items() if one != NO_DATA}


def chance_within(n: int, right: int, k: int) -> float:
    """The unbiased estimate of the chance that at least one of `k` samples is right, when `right` of `n` were.

    1 - C(n - right, k) / C(n, k): pass@k of Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
    Raises ValueError unless 0 <= right <= n and 1 <= k <= n.
    """
    if not (0 <= right <= n and 1 <= k <= n):
        raise ValueError(f"{k} of {n} samples, of which {right} are right")
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)
