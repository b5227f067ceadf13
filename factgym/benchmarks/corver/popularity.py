"""Accuracy by how popular the question's entity is: Table 3, over PopQA's monthly page views.

The quarters are those of the questions that have page views, each counted once (`popularity_quartiles`). The paper
prints sizes of 3,257 to 3,277 for 13,066 questions and does not say how it cut; equal values at a bound make quarters
uneven in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from factgym.benchmarks.clusters import UNIT, Series
from factgym.benchmarks.corver.answers import Answer
from factgym.benchmarks.intervals import Estimate
from factgym.datasets.questions import popularity_quartiles

NAMES = ("Q1 (rare)", "Q2", "Q3", "Q4 (popular)")


@dataclass(frozen=True, slots=True)
class Quartile:
    """One bucket: page views from `low` to `high`, and the accuracy over its `n` questions."""

    name: str
    low: float
    high: float
    n: int
    accuracy: Estimate


@dataclass(frozen=True, slots=True)
class Popularity:
    """The four buckets, all of them together, and how many questions of the same benchmarks have no page views."""

    quartiles: tuple[Quartile, ...]
    all: Quartile
    excluded: int

    @property
    def monotone(self) -> bool:
        """Whether accuracy never falls as popularity rises."""
        values = [one.accuracy.value for one in self.quartiles if one.accuracy.value is not None]
        return all(a <= b for a, b in pairwise(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        rows = [_row(one) for one in (*self.quartiles, self.all)]
        return {"excluded": self.excluded, "monotone": self.monotone, "rows": rows}


def bounds_of(views: Sequence[float]) -> tuple[float, ...]:
    """The five bounds of four buckets: the least, the three quartiles (by linear interpolation), the greatest."""
    return tuple(float(one) for one in np.quantile(np.asarray(views, np.float64), (0, 0.25, 0.5, 0.75, 1)))


def by_popularity(answers: Sequence[Answer]) -> Popularity | None:
    """Accuracy by quarter; None where no question has page views."""
    with_views = {one.benchmark for one in answers if one.popularity is not None}
    views = {(one.benchmark, one.task): one.popularity for one in answers if one.benchmark in with_views}
    known = {task: value for task, value in views.items() if value is not None}
    if not known:
        return None
    cuts = bounds_of(list(known.values()))
    quarters = dict(zip(known, popularity_quartiles(list(known.values())), strict=True))
    rows = [
        _quartile(name, cuts[i], cuts[i + 1], [task for task, one in quarters.items() if one == i + 1], answers)
        for i, name in enumerate(NAMES)
    ]
    everything = _quartile("All", cuts[0], cuts[-1], list(known), answers)
    return Popularity(tuple(rows), everything, len(views) - len(known))


def _quartile(
    name: str, low: float, high: float, tasks: Sequence[tuple[str, str]], answers: Sequence[Answer]
) -> Quartile:
    series = Series()
    numbers = {task: number for number, task in enumerate(tasks)}
    for one in answers:
        number = numbers.get((one.benchmark, one.task))
        if number is not None:
            series.add(number, float(one.good))
    return Quartile(name, low, high, len(tasks), series.mean(UNIT))


def _row(one: Quartile) -> dict[str, Any]:
    return {
        "name": one.name,
        "low": one.low,
        "high": one.high,
        "n": one.n,
        "accuracy": one.accuracy.value,
        "low_95": one.accuracy.low,
        "high_95": one.accuracy.high,
    }
