"""Two reports on the same questions, such as a raw model and a trained one: paired differences, and their sources.

The same questions are resampled for both (BCa bootstrap), and McNemar's test is over right answers. The average is that of
the benchmarks' differences; its interval combines theirs, since benchmarks are independent of each other. `decompose`
divides a change of accuracy: the paper looks at the questions that the raw model refused and the trained one attempts
(Table 17); questions that both attempt and questions that only the raw model attempts are the rest, and the three parts
add up to the whole change exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.corver.calibration import with_bounds
from factgym.benchmarks.corver.report import Answer, CorverReport, popularity_quarters
from factgym.benchmarks.formats import count
from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.classification import McNemar, mcnemar
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_of, wilson
from factgym.core.errors import ConfigError

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
        """Return JSON data."""
        return {"first": self.first, "second": self.second, **with_bounds("difference", self.difference)}


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """One benchmark, over the `n` answers that both gave; mcnemar is None where questions were sampled several times."""

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
    has any. notes: missing data and differences.
    """

    first: str
    second: str
    benchmarks: Mapping[str, BenchmarkComparison]
    average: Mapping[str, Difference]
    quarters: tuple[QuarterComparison, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""

        def differences(parts: Mapping[str, Difference]) -> dict[str, Any]:
            return {name: part.to_dict() for name, part in parts.items()}

        return {
            "first": self.first,
            "second": self.second,
            "benchmarks": {name: differences(row.parts) | {"n": row.n} for name, row in self.benchmarks.items()},
            "average": differences(self.average),
            "quarters": [
                {"name": row.name, "low": row.low, "high": row.high, "n": row.n, **row.accuracy.to_dict()}
                for row in self.quarters
            ],
            "notes": list(self.notes),
        }


def compare(first: CorverReport, second: CorverReport) -> CorverComparison:
    """Compare two reports on the questions that both answer.

    Raises ConfigError when they share no answer, and when they disagree on the text of a question.
    """
    shared = pairs(first, second)
    benchmarks = {}
    for name, group in pairs_by_benchmark(shared).items():
        tasks = [a.task for a, _ in group]
        clusters = tasks if len(set(tasks)) < len(tasks) else None
        parts = {part: _difference(group, value, clusters) for part, value in PARTS.items()}
        test = None if clusters else mcnemar([a.good for a, _ in group], [b.good for _, b in group])
        benchmarks[name] = BenchmarkComparison(len(group), parts, test)
    average = {part: _average([row.parts[part] for row in benchmarks.values()]) for part in PARTS}
    quarters = []
    views = {(a.benchmark, a.task): a.popularity for a, _ in shared if a.popularity is not None}
    for name, low, high, questions in popularity_quarters(views) if views else ():
        group = [pair for pair in shared if (pair[0].benchmark, pair[0].task) in questions]
        names = [f"{a.benchmark} {a.task}" for a, _ in group]
        accuracy = _difference(group, PARTS["accuracy"], names if len(questions) < len(names) else None)
        quarters.append(QuarterComparison(name, low, high, len(questions), accuracy))
    notes = []
    if unpaired := first.n + second.n - 2 * len(shared):
        notes.append(f"{count(unpaired, 'answer')} that only one of the two gave left out.")
    for part in ("prompt", "counter", "extractor"):
        settings = [{getattr(label, part) for label in report.labels} for report in (first, second)]
        if settings[0] != settings[1]:
            texts = " against ".join(", ".join(sorted(name or "unknown" for name in names)) for names in settings)
            notes.append(f"The runs differ in the {part}: {texts}.")
    return CorverComparison(first.name, second.name, benchmarks, average, tuple(quarters), tuple(notes))


def pairs(first: CorverReport, second: CorverReport) -> list[Pair]:
    """Return the answers of both to the same question and sample. Raises ConfigError as `compare` does."""
    second_answers = {answer.key: answer for answer in second.answers}
    matched = [(answer, second_answers[answer.key]) for answer in first.answers if answer.key in second_answers]
    if not matched:
        raise ConfigError(f"{first.name} and {second.name} share no answer: give runs on the same questions")
    for a, b in matched:
        if a.question != b.question:
            raise ConfigError(
                f"{first.name} and {second.name} disagree on question {a.task!r:.80} of {a.benchmark}: "
                "the runs were made on different files"
            )
    return matched


def pairs_by_benchmark(matched: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Return pairs of answers by benchmark, in the order in which benchmarks come."""
    groups: dict[str, list[Pair]] = {}
    for pair in matched:
        groups.setdefault(pair[0].benchmark, []).append(pair)
    return groups


def _difference(
    group: Sequence[Pair], value: Callable[[Answer], float | None], clusters: Sequence[str] | None
) -> Difference:
    indices = [i for i, (a, b) in enumerate(group) if value(a) is not None and value(b) is not None]
    if not indices:
        return Difference(None, None, NO_DATA)
    before, after = ([value(group[i][side]) or 0.0 for i in indices] for side in (0, 1))
    chosen = None if clusters is None else [clusters[i] for i in indices]
    change = bca_mean([b - a for a, b in zip(before, after, strict=True)], clusters=chosen)
    return Difference(math.fsum(before) / len(before), math.fsum(after) / len(after), change)


def _average(differences: Sequence[Difference]) -> Difference:
    rows = [row for row in differences if row.difference.value is not None]
    if not rows:
        return Difference(None, None, NO_DATA)
    first, second = (math.fsum(getattr(row, name) for row in rows) / len(rows) for name in ("first", "second"))
    return Difference(first, second, mean_of([row.difference for row in rows]))


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
        """Return JSON data."""
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
    """Return a row for each benchmark that both answer. Raises ConfigError as `compare` does.

    The intervals are Wilson's over answers; where questions were sampled several times they are too narrow.
    """
    rows = []
    for name, group in pairs_by_benchmark(pairs(raw, trained)).items():
        n = len(group)
        # Answers that both refuse change nothing, so the three groups add up to the whole gain exactly.
        unlocked = [(a, b) for a, b in group if a.refused and not b.refused]
        attempted = [(a, b) for a, b in group if not a.refused and not b.refused]
        withdrawn = [(a, b) for a, b in group if not a.refused and b.refused]
        gain, *parts = (
            (sum(b.good for _, b in part) - sum(a.good for a, _ in part)) / n
            for part in (group, unlocked, attempted, withdrawn)
        )
        rows.append(
            Decomposition(
                name,
                n,
                wilson(sum(a.refused for a, _ in group), n),
                wilson(sum(b.refused for _, b in group), n),
                wilson(sum(b.good for _, b in unlocked), len(unlocked)),
                gain,
                *parts,
            )
        )
    return tuple(rows)
