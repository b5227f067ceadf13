"""Two reports on the same questions, such as a raw model and a trained one: paired differences, benchmark by benchmark.

The same questions are resampled for both (BCa bootstrap), and McNemar's test asks which answers are right. The average
is that of the benchmarks' differences; its interval combines theirs, since benchmarks are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.benchmarks.averages import mean_of
from factgym.benchmarks.corver.answers import Answer
from factgym.benchmarks.corver.popularity import NAMES, bounds_of
from factgym.benchmarks.corver.report import CorverReport
from factgym.benchmarks.formats import count
from factgym.benchmarks.intervals import NO_DATA, Estimate
from factgym.benchmarks.statistics import McNemar, bca_mean, mcnemar
from factgym.core.errors import ConfigError
from factgym.datasets.questions import popularity_quartiles

Pair = tuple[Answer, Answer]

PARTS: Mapping[str, Callable[[Answer], float | None]] = {
    "accuracy": lambda one: float(one.good),
    "refusal": lambda one: float(one.refused),
    "format": lambda one: float(one.format_ok),
    "words": lambda one: one.words,
}
"""What is compared."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`second - first` of one quantity: both values on the shared answers, and the difference with its interval."""

    first: float | None
    second: float | None
    difference: Estimate


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """One benchmark, over the `n` answers that both gave; mcnemar is None where questions were sampled several times."""

    benchmark: str
    n: int
    parts: Mapping[str, Difference]
    mcnemar: McNemar | None


@dataclass(frozen=True, slots=True)
class QuarterComparison:
    """Accuracy in one quarter of popularity, from `low` to `high`, over `n` questions."""

    name: str
    low: float
    high: float
    n: int
    accuracy: Difference


@dataclass(frozen=True, slots=True)
class CorverComparison:
    """`second` against `first`.

    average: of the benchmarks. quarters: by popularity (Table 3), the last one of all together; empty where no question
    has any. notes: what is missing or differs.
    """

    first: str
    second: str
    benchmarks: Mapping[str, BenchmarkComparison]
    average: Mapping[str, Difference]
    quarters: tuple[QuarterComparison, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        rows = {name: _parts(one.parts) | {"n": one.n} for name, one in self.benchmarks.items()}
        return {
            "first": self.first,
            "second": self.second,
            "benchmarks": rows,
            "average": _parts(self.average),
            "quarters": [
                {"name": one.name, "low": one.low, "high": one.high, "n": one.n, **_plain(one.accuracy)}
                for one in self.quarters
            ],
            "notes": list(self.notes),
        }


def compare(first: CorverReport, second: CorverReport, *, seed: int = 0) -> CorverComparison:
    """Compare two reports on the questions that both answer. seed: of the bootstrap.

    Raises ConfigError when they share no answer, and when they disagree on what a question is.
    """
    shared = pairs(first, second)
    by_benchmark: dict[str, list[Pair]] = {}
    for pair in shared:
        by_benchmark.setdefault(pair[0].benchmark, []).append(pair)
    found = {name: _compared(name, some, seed) for name, some in by_benchmark.items()}
    average = {part: _average([one.parts[part] for one in found.values()]) for part in PARTS}
    return CorverComparison(
        first.name, second.name, found, average, _quarters(shared, seed), tuple(_notes(first, second, len(shared)))
    )


def pairs(first: CorverReport, second: CorverReport) -> list[Pair]:
    """The answers of both to the same question and sample. Raises ConfigError as `compare` does."""
    known = {(one.benchmark, one.task, one.sample): one for one in second.answers}
    found = [(one, known[key]) for one in first.answers if (key := (one.benchmark, one.task, one.sample)) in known]
    if not found:
        raise ConfigError(f"{first.name} and {second.name} share no answer: give runs on the same questions")
    for one, other in found:
        if one.question != other.question:
            raise ConfigError(
                f"{first.name} and {second.name} disagree on question {one.task!r:.80} of {one.benchmark}: "
                "the runs were made on different files"
            )
    return found


def _compared(name: str, some: Sequence[Pair], seed: int) -> BenchmarkComparison:
    tasks = [one.task for one, _ in some]
    clustered = len(set(tasks)) < len(tasks)
    parts = {part: _difference(some, value, tasks if clustered else None, seed) for part, value in PARTS.items()}
    test = None if clustered else mcnemar([a.good for a, _ in some], [b.good for _, b in some])
    return BenchmarkComparison(name, len(some), parts, test)


def _quarters(shared: Sequence[Pair], seed: int) -> tuple[QuarterComparison, ...]:
    """The questions that both answer, by the quarters of their popularity."""
    known = {(a.benchmark, a.task): a.popularity for a, _ in shared if a.popularity is not None}
    if not known:
        return ()
    views = list(known.values())
    places = dict(zip(known, popularity_quartiles(views), strict=True))
    cuts = bounds_of(views)
    names = {i + 1: (name, cuts[i], cuts[i + 1]) for i, name in enumerate(NAMES)} | {0: ("All", cuts[0], cuts[-1])}
    found = []
    for place, (name, low, high) in names.items():
        tasks = [task for task, one in places.items() if place in (0, one)]
        chosen = set(tasks)
        some = [pair for pair in shared if (pair[0].benchmark, pair[0].task) in chosen]
        clusters = [f"{a.benchmark} {a.task}" for a, _ in some]
        several = clusters if len(chosen) < len(clusters) else None
        found.append(
            QuarterComparison(name, low, high, len(tasks), _difference(some, PARTS["accuracy"], several, seed))
        )
    return tuple(found)


def _difference(
    some: Sequence[Pair], value: Callable[[Answer], float | None], clusters: Sequence[str] | None, seed: int
) -> Difference:
    places = [i for i, (a, b) in enumerate(some) if value(a) is not None and value(b) is not None]
    if not places:
        return Difference(None, None, NO_DATA)
    one = [value(some[i][0]) or 0.0 for i in places]
    two = [value(some[i][1]) or 0.0 for i in places]
    chosen = None if clusters is None else [clusters[i] for i in places]
    changes = [b - a for a, b in zip(one, two, strict=True)]
    return Difference(
        math.fsum(one) / len(one), math.fsum(two) / len(two), bca_mean(changes, clusters=chosen, seed=seed)
    )


def _average(found: Sequence[Difference]) -> Difference:
    known = [one for one in found if one.difference.value is not None]
    if not known:
        return Difference(None, None, NO_DATA)
    k = len(known)
    values = [math.fsum(getattr(one, name) for one in known) / k for name in ("first", "second")]
    return Difference(values[0], values[1], mean_of([one.difference for one in known]))


def _notes(first: CorverReport, second: CorverReport, shared: int) -> list[str]:
    notes = []
    left = first.n + second.n - 2 * shared
    if left:
        notes.append(f"{count(left, 'answer')} that only one of the two gave left out.")
    for part in ("prompt", "counter", "extractor"):
        one, two = ({getattr(label, part) for label in report.labels} for report in (first, second))
        if one != two:
            notes.append(f"The runs differ in the {part}: {_names(one)} against {_names(two)}.")
    return notes


def _names(found: set[str]) -> str:
    return ", ".join(sorted(one or "unknown" for one in found))


def _parts(found: Mapping[str, Difference]) -> dict[str, Any]:
    return {name: _plain(one) for name, one in found.items()}


def _plain(one: Difference) -> dict[str, Any]:
    found = one.difference
    values = {"first": one.first, "second": one.second, "difference": found.value}
    return values | {"low_95": found.low, "high_95": found.high}
