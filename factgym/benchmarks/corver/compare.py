"""Two reports on the same questions, such as a raw model and a trained one: paired differences, and their sources.

The same questions are resampled for both (BCa bootstrap), and McNemar's test is over right answers. The average is that of
the benchmarks' differences; its interval combines theirs, since benchmarks are independent of each other. `decompose`
divides a change of accuracy: the paper looks at the questions that the raw model refused and the trained one attempts
(Table 17); questions that both attempt and questions that only the raw model attempts are the rest, and the three parts
add up to the whole change exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.answers import Pair, clusters_of, group_by, pair_answers, paired_mcnemar
from factgym.benchmarks.corver.calibration import with_bounds
from factgym.benchmarks.corver.report import Answer, CorverReport, Quarter, Task, popularity_quarters
from factgym.benchmarks.formats import count
from factgym.benchmarks.statistics.bootstrap import Comparison, bca_mean
from factgym.benchmarks.statistics.classification import McNemar
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_of, wilson

PARTS: Mapping[str, Callable[[Answer], float | None]] = MappingProxyType(
    {
        "accuracy": lambda answer: answer.good,
        "refusal": lambda answer: answer.refused,
        "format": lambda answer: answer.format_ok,
        "words": lambda answer: answer.words,
    }
)
"""Quantities that are compared."""


def comparison_data(row: Comparison) -> dict[str, Any]:
    """Return JSON data of a paired difference."""
    return {"first": row.first, "second": row.second, **with_bounds("difference", row.difference)}


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """One benchmark, over the `n` answers that both gave; mcnemar is None where questions were sampled several times."""

    n: int
    parts: Mapping[str, Comparison]
    mcnemar: McNemar | None


@dataclass(frozen=True, slots=True)
class CorverComparison:
    """`second` against `first`.

    average: of the benchmarks. quarters: by popularity (Table 3), the last one of all together; empty where no question
    has any. notes: missing data and differences.
    """

    first: str
    second: str
    benchmarks: Mapping[str, BenchmarkComparison]
    average: Mapping[str, Comparison]
    quarters: tuple[Quarter[Comparison], ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""

        def differences(parts: Mapping[str, Comparison]) -> dict[str, Any]:
            return {name: comparison_data(part) for name, part in parts.items()}

        return {
            "first": self.first,
            "second": self.second,
            "benchmarks": {name: differences(row.parts) | {"n": row.n} for name, row in self.benchmarks.items()},
            "average": differences(self.average),
            "quarters": [row.to_dict(comparison_data(row.accuracy)) for row in self.quarters],
            "notes": list(self.notes),
        }


def compare(first: CorverReport, second: CorverReport) -> CorverComparison:
    """Compare two reports on the questions that both answer.

    Raises ConfigError when they share no answer, and when they disagree on the text of a question.
    """
    groups = pairs_by_benchmark(first, second)
    shared = [pair for group in groups.values() for pair in group]
    benchmarks = {}
    for name, group in groups.items():
        parts = {part: _difference(group, value) for part, value in PARTS.items()}
        benchmarks[name] = BenchmarkComparison(len(group), parts, paired_mcnemar(group, lambda answer: answer.good))
    average = {part: _average([row.parts[part] for row in benchmarks.values()]) for part in PARTS}
    views = {a.question_key: a.popularity for a, _ in shared if a.popularity is not None}

    def accuracy(tasks: Collection[Task]) -> Comparison:
        return _difference([pair for pair in shared if pair[0].question_key in tasks], PARTS["accuracy"])

    notes = []
    if unpaired := first.n + second.n - 2 * len(shared):
        notes.append(f"{count(unpaired, 'answer')} that only one of the two gave left out.")
    for part in ("prompt", "counter", "extractor"):
        settings = [{getattr(label, part) for label in report.labels} for report in (first, second)]
        if settings[0] != settings[1]:
            texts = " against ".join(", ".join(sorted(name or "unknown" for name in names)) for names in settings)
            notes.append(f"The runs differ in the {part}: {texts}.")
    quarters = popularity_quarters(views, accuracy) if views else ()
    return CorverComparison(first.name, second.name, benchmarks, average, quarters, tuple(notes))


def pairs_by_benchmark(first: CorverReport, second: CorverReport) -> dict[str, list[Pair[Answer]]]:
    """Return the answers of both to the same question and sample. Raises ConfigError as `compare` does."""
    names = f"{first.name} and {second.name}"
    pairs = pair_answers(first.answers, second.answers, names, lambda answer: answer.question)
    return group_by(pairs, lambda pair: pair[0].benchmark)


def _difference(group: Sequence[Pair[Answer]], value: Callable[[Answer], float | None]) -> Comparison:
    """Return the paired difference over the pairs that have both values, resampled by question where there are samples."""
    rows = [(a, x, y) for a, b in group if (x := value(a)) is not None and (y := value(b)) is not None]
    if not rows:
        return Comparison(None, None, NO_DATA, None)
    answers, before, after = zip(*rows, strict=True)
    clusters = None if clusters_of([a for a, _ in group]) is None else [answer.question_key for answer in answers]
    change = bca_mean([y - x for x, y in zip(before, after, strict=True)], clusters=clusters)
    return Comparison(math.fsum(before) / len(before), math.fsum(after) / len(after), change, None)


def _average(differences: Sequence[Comparison]) -> Comparison:
    rows = [row for row in differences if row.difference.value is not None]
    if not rows:
        return Comparison(None, None, NO_DATA, None)
    first, second = (math.fsum(getattr(row, name) for row in rows) / len(rows) for name in ("first", "second"))
    return Comparison(first, second, mean_of([row.difference for row in rows]), None)


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
        values = {name: getattr(self, name).value for name in ("raw_refusal", "trained_refusal", "unlocked")}
        return {**asdict(self), **values, "unlocked_n": self.unlocked.n}


def decompose(raw: CorverReport, trained: CorverReport) -> tuple[Decomposition, ...]:
    """Return a row for each benchmark that both answer. Raises ConfigError as `compare` does.

    The intervals are Wilson's over answers; where questions were sampled several times they are too narrow.
    """
    rows = []
    for name, group in pairs_by_benchmark(raw, trained).items():
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
