"""Two reports on the same questions, such as a raw model and a trained one: paired differences, and their sources.

The same questions are resampled for both (BCa bootstrap), and McNemar's test is over right answers. The average is that of
the benchmarks' differences; its interval combines theirs, since benchmarks are independent of each other. `decompose`
divides a change of accuracy: the paper looks at the questions that the raw model refused and the trained one attempts
(Table 17); questions that both attempt and questions that only the raw model attempts are the rest, and the three parts
add up to the whole change exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.corver.report import NAMES, Answer, CorverReport, bounds_of
from factgym.benchmarks.formats import count
from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.classification import McNemar, mcnemar
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_of, wilson
from factgym.core.errors import ConfigError
from factgym.datasets.questions import popularity_quartiles

Pair = tuple[Answer, Answer]

PARTS: Mapping[str, Callable[[Answer], float | None]] = MappingProxyType(
    {
        "accuracy": lambda answer: float(answer.good),
        "refusal": lambda answer: float(answer.refused),
        "format": lambda answer: float(answer.format_ok),
        "words": lambda answer: answer.words,
    }
)
"""Quantities that are compared."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`second - first` of one quantity: both values on the shared answers, and the difference with its interval."""

    first: float | None
    second: float | None
    difference: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        change = self.difference
        values = {"first": self.first, "second": self.second, "difference": change.value}
        return values | {"low_95": change.low, "high_95": change.high}


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
                {"name": one.name, "low": one.low, "high": one.high, "n": one.n, **one.accuracy.to_dict()}
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
    found = {name: _compared(name, own_pairs, seed) for name, own_pairs in by_benchmark.items()}
    average = {part: _average([one.parts[part] for one in found.values()]) for part in PARTS}
    return CorverComparison(
        first.name, second.name, found, average, _quarters(shared, seed), tuple(_notes(first, second, len(shared)))
    )


def pairs(first: CorverReport, second: CorverReport) -> list[Pair]:
    """The answers of both to the same question and sample. Raises ConfigError as `compare` does."""
    others = {answer.key: answer for answer in second.answers}
    matched = [(answer, others[answer.key]) for answer in first.answers if answer.key in others]
    if not matched:
        raise ConfigError(f"{first.name} and {second.name} share no answer: give runs on the same questions")
    for answer, other in matched:
        if answer.question != other.question:
            raise ConfigError(
                f"{first.name} and {second.name} disagree on question {answer.task!r:.80} of {answer.benchmark}: "
                "the runs were made on different files"
            )
    return matched


def _compared(name: str, own_pairs: Sequence[Pair], seed: int) -> BenchmarkComparison:
    tasks = [one.task for one, _ in own_pairs]
    clustered = len(set(tasks)) < len(tasks)
    parts = {part: _difference(own_pairs, value, tasks if clustered else None, seed) for part, value in PARTS.items()}
    test = None if clustered else mcnemar([a.good for a, _ in own_pairs], [b.good for _, b in own_pairs])
    return BenchmarkComparison(name, len(own_pairs), parts, test)


def _quarters(shared: Sequence[Pair], seed: int) -> tuple[QuarterComparison, ...]:
    """The questions that both answer, by the quarters of their popularity."""
    known = {(a.benchmark, a.task): a.popularity for a, _ in shared if a.popularity is not None}
    if not known:
        return ()
    views = list(known.values())
    quarters = dict(zip(known, popularity_quartiles(views), strict=True))
    cuts = bounds_of(views)
    names = {i + 1: (name, cuts[i], cuts[i + 1]) for i, name in enumerate(NAMES)} | {0: ("All", cuts[0], cuts[-1])}
    rows = []
    for number, (name, low, high) in names.items():
        tasks = {task for task, quarter in quarters.items() if number in (0, quarter)}
        own = [pair for pair in shared if (pair[0].benchmark, pair[0].task) in tasks]
        clusters = [f"{a.benchmark} {a.task}" for a, _ in own]
        several = clusters if len(tasks) < len(clusters) else None
        accuracy = _difference(own, PARTS["accuracy"], several, seed)
        rows.append(QuarterComparison(name, low, high, len(tasks), accuracy))
    return tuple(rows)


def _difference(
    own_pairs: Sequence[Pair], value: Callable[[Answer], float | None], clusters: Sequence[str] | None, seed: int
) -> Difference:
    indices = [i for i, (a, b) in enumerate(own_pairs) if value(a) is not None and value(b) is not None]
    if not indices:
        return Difference(None, None, NO_DATA)
    before, after = ([value(own_pairs[i][side]) or 0.0 for i in indices] for side in (0, 1))
    own = None if clusters is None else [clusters[i] for i in indices]
    change = bca_mean([b - a for a, b in zip(before, after, strict=True)], clusters=own, seed=seed)
    return Difference(math.fsum(before) / len(before), math.fsum(after) / len(after), change)


def _average(differences: Sequence[Difference]) -> Difference:
    known = [one for one in differences if one.difference.value is not None]
    if not known:
        return Difference(None, None, NO_DATA)
    k = len(known)
    values = [math.fsum(getattr(one, name) for one in known) / k for name in ("first", "second")]
    return Difference(values[0], values[1], mean_of([one.difference for one in known]))


def _notes(first: CorverReport, second: CorverReport, shared: int) -> list[str]:
    notes = []
    unpaired = first.n + second.n - 2 * shared
    if unpaired:
        notes.append(f"{count(unpaired, 'answer')} that only one of the two gave left out.")
    for part in ("prompt", "counter", "extractor"):
        settings = [{getattr(label, part) for label in report.labels} for report in (first, second)]
        if settings[0] != settings[1]:
            names = " against ".join(", ".join(sorted(name or "unknown" for name in own)) for own in settings)
            notes.append(f"The runs differ in the {part}: {names}.")
    return notes


def _parts(parts: Mapping[str, Difference]) -> dict[str, Any]:
    return {name: part.to_dict() for name, part in parts.items()}


@dataclass(frozen=True, slots=True)
class Decomposition:
    """One benchmark, over `n` answers that both gave; shares in [0, 1].

    raw_refusal, trained_refusal: of all answers. unlocked: accuracy of the trained model on the answers that the raw one
    refused and it attempts (the paper's "Subset Cor."), over unlocked.n answers. from_unlocked, from_both, from_withdrawn:
    what newly attempted questions, questions that both attempt and newly refused questions add to the accuracy; together
    they are `gain`.
    """

    benchmark: str
    n: int
    raw_refusal: Estimate
    trained_refusal: Estimate
    unlocked: Estimate
    gain: float
    from_unlocked: float
    from_both: float
    from_withdrawn: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "benchmark": self.benchmark,
            "n": self.n,
            "raw_refusal": self.raw_refusal.value,
            "trained_refusal": self.trained_refusal.value,
            "unlocked": self.unlocked.value,
            "unlocked_n": self.unlocked.n,
            "gain": self.gain,
            "from_unlocked": self.from_unlocked,
            "from_both": self.from_both,
            "from_withdrawn": self.from_withdrawn,
        }


def decompose(raw: CorverReport, trained: CorverReport) -> tuple[Decomposition, ...]:
    """One row for each benchmark that both answer. Raises ConfigError as `compare` does.

    The intervals are Wilson's over answers; where questions were sampled several times they are too narrow.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in pairs(raw, trained):
        groups.setdefault(pair[0].benchmark, []).append(pair)
    return tuple(_decomposed(name, group) for name, group in groups.items())


def _decomposed(name: str, group: Sequence[Pair]) -> Decomposition:
    n = len(group)
    unlocked = [(a, b) for a, b in group if a.refused and not b.refused]
    both = [(a, b) for a, b in group if not a.refused and not b.refused]
    withdrawn = [(a, b) for a, b in group if not a.refused and b.refused]
    return Decomposition(
        benchmark=name,
        n=n,
        raw_refusal=wilson(sum(a.refused for a, _ in group), n),
        trained_refusal=wilson(sum(b.refused for _, b in group), n),
        unlocked=wilson(sum(b.good for _, b in unlocked), len(unlocked)) if unlocked else NO_DATA,
        gain=_gain(group, n),
        from_unlocked=_gain(unlocked, n),
        from_both=_gain(both, n),
        from_withdrawn=_gain(withdrawn, n),
    )


def _gain(group: Sequence[Pair], n: int) -> float:
    return (sum(b.good for _, b in group) - sum(a.good for a, _ in group)) / n
