"""Answers of recorded runs and their means: the part that the reports of all benchmarks share.

Nothing in a record is trusted: a value of the wrong type is left out, and only a record without a gold label or verdict of
its own environment is an error. Episodes that a fault ended, or that were not scored, are counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import has_fault, is_scored, members
from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.intervals import (
    UNIT,
    Estimate,
    Series,
    macro_interval,
    mean_of,
    wilson,
)
from factgym.core.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """One scored episode. sample: its number among the samples of the task. benchmark: where a run may hold several."""

    task: str
    sample: int = 0
    benchmark: str = ""


AnswerT = TypeVar("AnswerT", bound=RecordedAnswer)


@dataclass(frozen=True, slots=True)
class Answers(Generic[AnswerT]):
    """Answers in the order of their files. errors, unscored: episodes that a fault ended, or that have no score."""

    rows: tuple[AnswerT, ...]
    errors: int = 0
    unscored: int = 0

    @property
    def tasks(self) -> int:
        """The number of different tasks."""
        return len({(row.benchmark, row.task) for row in self.rows})

    @property
    def clusters(self) -> list[str] | None:
        """The task of each answer; None where each was answered once, so that answers are independent."""
        return None if self.tasks == len(self.rows) else [row.task for row in self.rows]

    def by_benchmark(self) -> dict[str, list[AnswerT]]:
        """Answers by benchmark, in the order in which benchmarks come."""
        groups: dict[str, list[AnswerT]] = {}
        for row in self.rows:
            groups.setdefault(row.benchmark, []).append(row)
        return groups


Episode = Mapping[str, Any]


def read_answers(episodes: Iterable[Episode], read: Callable[[Episode], AnswerT]) -> Answers[AnswerT]:
    """Return the answers of a run's episodes, each by `read`."""
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(read(episode))
    return Answers(tuple(rows), errors, unscored)


def read_run_answers(run: Run, read: Callable[[Episode], AnswerT]) -> Answers[AnswerT]:
    """Return the answers of one run. Raises DataError for a run without any."""
    answers = read_answers(run.episodes(), read)
    if not answers.rows:
        raise DataError(f"{run.folder}: holds no scored episode ({answers.errors} ended by the infrastructure)")
    return answers


RunLike = Run | str | Path


def open_run(run: RunLike) -> Run:
    """Return a run, read from its folder where it is a path. Raises DataError for a folder that holds no run."""
    return run if isinstance(run, Run) else read_run(run)


def read_agent_answers(
    runs: RunLike | Sequence[RunLike], read: Callable[[Run, Episode], AnswerT]
) -> tuple[list[Run], Answers[AnswerT]]:
    """Return the runs of one agent on several benchmarks, and all of their answers.

    Raises DataError for runs without any answer, and for a question that two runs answer.
    """
    opened = [open_run(run) for run in ([runs] if isinstance(runs, (Run, str, Path)) else runs)]
    parts = [read_answers(run.episodes(), lambda episode, run=run: read(run, episode)) for run in opened]  # type: ignore[misc]
    rows = tuple(row for part in parts for row in part.rows)
    errors = sum(part.errors for part in parts)
    if not rows:
        folders = ", ".join(str(run.folder) for run in opened)
        raise DataError(f"{folders}: no scored answer ({errors} ended by the infrastructure)")
    repeated = len(rows) - len({(row.benchmark, row.task, row.sample) for row in rows})
    if repeated:
        raise DataError(f"{repeated} answers are there twice: give runs of different benchmarks, or one at a time")
    return opened, Answers(rows, errors, sum(part.unscored for part in parts))


def parts_of(episode: Episode) -> tuple[Episode, Episode, Episode]:
    """Return an episode's reward report, the report's metrics, and the view of the task."""
    reward = members(episode.get("reward"))
    return reward, members(reward.get("metrics")), members(episode.get("task_view"))


def sample_number(episode: Episode) -> int:
    """Return the number of the sample; 0 where the record has none."""
    sample = episode.get("sample")
    return sample if isinstance(sample, int) else 0


def manifest_text(run: Run, key: str) -> str:
    """Return a text of a run's manifest; empty where it is missing."""
    return str(run.manifest.get(key) or "")


def bootstrap_mean(
    rows: Iterable[AnswerT], value: Callable[[AnswerT], float | bool | None], *, clustered: bool
) -> Estimate:
    """Return the mean over rows that have a value: Wilson's interval for independent yes and no, else BCa's.

    clustered: tasks have several rows, and are resampled as a whole.
    """
    values = [(row.task, measured) for row in rows if (measured := value(row)) is not None]
    if not clustered and values and all(isinstance(measured, bool) for _, measured in values):
        return wilson(sum(bool(measured) for _, measured in values), len(values))
    clusters = [task for task, _ in values] if clustered else None
    return bca_mean([float(measured) for _, measured in values], clusters=clusters)


def task_mean(
    rows: Iterable[AnswerT], value: Callable[[AnswerT], float | None], bounds: tuple[float, float] | None = UNIT
) -> Estimate:
    """Return the mean over rows that have a value, its interval over tasks, cut to `bounds`."""
    series, indices = Series(), dict[tuple[str, str], int]()
    for row in rows:
        if (measured := value(row)) is not None:
            series.add(indices.setdefault((row.benchmark, row.task), len(indices)), float(measured))
    return series.mean(bounds)


def task_share(
    rows: Iterable[AnswerT], numerator: Callable[[AnswerT], int], denominator: Callable[[AnswerT], int]
) -> Estimate:
    """Return the ratio of two sums over rows as a share, its interval over tasks."""
    series, indices = Series(), dict[str, int]()
    for row in rows:
        series.add(indices.setdefault(row.task, len(indices)), numerator(row), denominator(row))
    return series.share()


def benchmark_average(scores: Sequence[Any], shares: Iterable[str], means: Iterable[str]) -> dict[str, Estimate]:
    """Return the unweighted means over benchmarks. shares: attributes that are proportions; means: the others."""
    return {name: macro_interval([getattr(score, name) for score in scores]) for name in shares} | {
        name: mean_of([getattr(score, name) for score in scores]) for name in means
    }


def exclusion_notes(errors: int, unscored: int = 0) -> list[str]:
    """Return notes on the episodes that no score counts."""
    notes = [f"{count(errors, 'infrastructure error')} left out of all scores."] if errors else []
    return [*notes, f"{count(unscored, 'episode')} not scored."] if unscored else notes


def resampling_note(*scores: Any) -> list[str]:
    """Return a note where questions of any benchmark were sampled several times."""
    repeated = any(score.tasks < score.n for score in scores)
    return ["Questions were sampled several times: intervals are over questions."] * repeated


def group_runs(runs: Iterable[Run], key: Callable[[Run], tuple[Any, str]]) -> list[list[Run]]:
    """Return the runs of each agent. key: of the agent, and the name of the benchmark.

    A run whose benchmark the agent has already begins another group.
    """
    groups: list[tuple[Any, set[str], list[Run]]] = []
    for run in runs:
        agent, benchmark = key(run)
        # The first group of the agent that lacks the benchmark takes the run.
        for group_agent, benchmarks, group in groups:
            if group_agent == agent and benchmark not in benchmarks:
                benchmarks.add(benchmark)
                group.append(run)
                break
        else:
            groups.append((agent, {benchmark}, [run]))
    return [group for _, _, group in groups]


def distinct_names(names: Sequence[tuple[str, str]]) -> list[str]:
    """Return names, each followed by its detail where several are equal. names: pairs of a name and its detail."""
    plain = [name for name, _ in names]
    return [name if plain.count(name) == 1 else f"{name} ({detail})" for name, detail in names]
