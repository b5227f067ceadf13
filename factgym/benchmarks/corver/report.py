"""What CorVer's evaluation asks of runs: accuracy, refusals, format, length and counts, by benchmark and on average.

A run holds the answers of one agent; several runs of one agent on different benchmarks are one report, which is a row
of the paper's Table 1. The average is that of benchmarks, not of questions, as the paper's is. Intervals are over
questions: samples of one question are not independent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.averages import mean_of
from factgym.benchmarks.clusters import POSITIVE, UNIT, Series
from factgym.benchmarks.corver.answers import GOOD, JUDGES, Answer, Answers, read_answers
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.label import RunLabel, label_of
from factgym.benchmarks.corver.popularity import Popularity, by_popularity
from factgym.benchmarks.intervals import NO_DATA, Estimate, macro_interval
from factgym.core.errors import DataError


@dataclass(frozen=True, slots=True)
class BenchmarkScores:
    """One benchmark. Shares in [0, 1] of all scored answers unless said otherwise.

    n: answers, to `tasks` questions. accuracy: by the judge asked for; judged: by each judge. wrong: attempted and not right. attempted: accuracy over answers that are no
    refusal. chars, words: of an answer, means. sentences: of a completion. queried: share of sentences that gave a
    query; unsupported: share of those whose count is 0. mean_count, median_count: over sentences with a query.
    """

    benchmark: str
    n: int
    tasks: int
    accuracy: Estimate
    judged: Mapping[str, Estimate]
    refusal: Estimate
    wrong: Estimate
    attempted: Estimate
    format: Estimate
    chars: Estimate
    words: Estimate
    sentences: Estimate
    queried: Estimate
    unsupported: Estimate
    mean_count: float | None
    median_count: float | None
    reward: Estimate


SHARES = ("accuracy", "refusal", "wrong", "attempted", "format", "queried", "unsupported")
MEANS = ("chars", "words", "sentences", "reward")


@dataclass(frozen=True, slots=True)
class CorverReport:
    """The evaluation of one agent.

    judge: whose labels count, None for that of the runs. labels: what its runs are. average: of the benchmarks' values, with its interval; of `SHARES` and `MEANS`. popularity: None
    without page views. proxy: the counts of all sentences against whether their completion's answer is right, which is
    not whether the sentence is. notes: sentences for people.
    """

    name: str
    judge: str | None
    labels: tuple[RunLabel, ...]
    scores: Mapping[str, BenchmarkScores]
    average: Mapping[str, Estimate]
    popularity: Popularity | None
    proxy: CountCalibration | None
    errors: int
    unscored: int
    notes: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def n(self) -> int:
        """Scored answers."""
        return len(self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, without the answers themselves."""
        return {
            "name": self.name,
            "judge": self.judge,
            "runs": [one.to_dict() for one in self.labels],
            "benchmarks": {name: _plain(one) for name, one in self.scores.items()},
            "average": {name: _estimate(one) for name, one in self.average.items()},
            "popularity": self.popularity.to_dict() if self.popularity else None,
            "proxy_calibration": self.proxy.to_dict() if self.proxy else None,
            "errors": self.errors,
            "unscored": self.unscored,
            "notes": list(self.notes),
        }


def evaluate_runs(
    runs: Run | str | Path | Sequence[Run | str | Path], name: str | None = None, *, judge: str | None = None
) -> CorverReport:
    """Evaluate the recorded runs of one agent.

    name: in tables; by default the agent's. judge: "reference" (the paper's) or "boundary"; by default that of the runs.
    Raises DataError for a folder that holds no run, for a run of another environment, for runs without a scored
    answer, and for a question that two of the runs answer.
    """
    given = [runs] if isinstance(runs, (Run, str, Path)) else list(runs)
    opened = [one if isinstance(one, Run) else read_run(one) for one in given]
    labels = [label_of(run) for run in opened]
    found = [
        read_answers(run.episodes(), str(run.folder), benchmark=label.source or "questions", judge=judge)
        for run, label in zip(opened, labels, strict=True)
    ]
    rows = tuple(row for one in found for row in one.rows)
    if not rows:
        where = ", ".join(str(run.folder) for run in opened)
        raise DataError(f"{where}: no scored answer ({sum(one.errors for one in found)} ended by the infrastructure)")
    _check_once(rows)
    return _report(name or labels[0].agent or opened[0].folder.name, judge, opened, labels, found, rows)


def _check_once(rows: Sequence[Answer]) -> None:
    seen = {(one.benchmark, one.task, one.sample) for one in rows}
    if len(seen) < len(rows):
        raise DataError(
            f"{len(rows) - len(seen)} answers are there twice: give runs of different benchmarks, or one at a time"
        )


def _report(
    name: str,
    judge: str | None,
    runs: Sequence[Run],
    labels: Sequence[RunLabel],
    found: Sequence[Answers],
    rows: tuple[Answer, ...],
) -> CorverReport:
    benchmarks = dict.fromkeys(row.benchmark for row in rows)
    scores = {one: score(one, [row for row in rows if row.benchmark == one]) for one in benchmarks}
    pairs = [(one, row.good) for row in rows for one in row.counts]
    notes = [note for run in runs for note in run.notes]
    if not all(row.counted for row in rows):
        notes.append("There was no counter: the sentence term of the reward is 0. Give one with --set counter=PATH.")
    if "popqa" in scores and all(row.popularity is None for row in rows):
        notes.append("These questions of PopQA come without page views: there are no quarters of popularity.")
    clustered = sum(one.tasks for one in scores.values()) < len(rows)
    if clustered:
        notes.append("Questions were sampled several times: intervals are over questions.")
    return CorverReport(
        name=name,
        judge=judge,
        labels=tuple(labels),
        scores=scores,
        average=_average(list(scores.values())),
        popularity=by_popularity(rows),
        proxy=calibrate(pairs) if any(one is not None for one, _ in pairs) else None,
        errors=sum(one.errors for one in found),
        unscored=sum(one.unscored for one in found),
        notes=tuple(notes),
        answers=rows,
    )


def _average(scores: Sequence[BenchmarkScores]) -> dict[str, Estimate]:
    """Of the benchmarks, each counting the same."""
    shares = {part: macro_interval([getattr(one, part) for one in scores]) for part in SHARES}
    return shares | {part: mean_of([getattr(one, part) for one in scores]) for part in MEANS}


def score(benchmark: str, rows: Sequence[Answer]) -> BenchmarkScores:
    """The scores of one benchmark's answers."""
    numbers = {task: i for i, task in enumerate(dict.fromkeys(row.task for row in rows))}

    def mean(value: Callable[[Answer], float | None], bounds: tuple[float, float] | None) -> Estimate:
        series = Series()
        for row in rows:
            if (found := value(row)) is not None:
                series.add(numbers[row.task], found)
        return series.mean(bounds) if len(series) else NO_DATA

    def ratio(top: Callable[[Answer], int], bottom: Callable[[Answer], int]) -> Estimate:
        series = Series()
        for row in rows:
            series.add(numbers[row.task], top(row), bottom(row))
        return series.share() if len(series) else NO_DATA

    counts = [one for row in rows for one in row.counts if one is not None]
    return BenchmarkScores(
        benchmark=benchmark,
        n=len(rows),
        tasks=len(numbers),
        accuracy=mean(lambda row: float(row.good), UNIT),
        judged={judge: mean(lambda row, judge=judge: _judged(row, judge), UNIT) for judge in JUDGES},  # type: ignore[misc]
        refusal=mean(lambda row: float(row.refused), UNIT),
        wrong=mean(lambda row: float(not row.good and not row.refused), UNIT),
        attempted=mean(lambda row: None if row.refused else float(row.good), UNIT),
        format=mean(lambda row: float(row.format_ok), UNIT),
        chars=mean(lambda row: row.chars, POSITIVE),
        words=mean(lambda row: row.words, POSITIVE),
        sentences=mean(lambda row: float(len(row.counts)), POSITIVE),
        queried=ratio(_queries, lambda row: len(row.counts)),
        unsupported=ratio(lambda row: sum(one == 0 for one in row.counts), _queries),
        mean_count=statistics.fmean(counts) if counts else None,
        median_count=float(statistics.median(counts)) if counts else None,
        reward=mean(lambda row: row.reward, None),
    )


def _judged(row: Answer, judge: str) -> float | None:
    return float(row.labels[judge] == GOOD) if judge in row.labels else None


def _queries(row: Answer) -> int:
    return sum(one is not None for one in row.counts)


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs by agent, as reports take them: a run whose benchmark its agent's report has already begins another one."""
    groups: list[tuple[tuple[str, ...], set[str], list[Run]]] = []
    for run in runs:
        label = label_of(run)
        key, source = (label.agent, label.variant, label.env), f"{label.source} {label.split}"
        for known, sources, members in groups:
            if known == key and source not in sources:
                sources.add(source)
                members.append(run)
                break
        else:
            groups.append((key, {source}, [run]))
    return [members for _, _, members in groups]


def _plain(one: BenchmarkScores) -> dict[str, Any]:
    kept: dict[str, Any] = {"n": one.n, "tasks": one.tasks}
    kept |= {part: _estimate(getattr(one, part)) for part in (*SHARES, *MEANS)}
    kept["judged"] = {judge: _estimate(found) for judge, found in one.judged.items()}
    return kept | {"mean_count": one.mean_count, "median_count": one.median_count}


def _estimate(one: Estimate) -> dict[str, Any]:
    return {"value": one.value, "low": one.low, "high": one.high, "n": one.n}
