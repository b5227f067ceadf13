"""Answers of recorded runs and their means: the part that the reports of all benchmarks share.

Nothing in a record is trusted: a value of the wrong type is left out, and only a record without a gold label or verdict of
its own environment is an error. Episodes that a fault ended, or that were not scored, are counted and left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import has_fault, is_scored
from factgym.benchmarks.statistics.bootstrap import bca_mean
from factgym.benchmarks.statistics.classification import McNemar, mcnemar
from factgym.benchmarks.statistics.intervals import UNIT, Estimate, Series, macro_interval, mean_of, wilson
from factgym.core.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """One scored episode. sample: its number among the samples of the task. benchmark: where a run may hold several."""

    task: str
    sample: int = 0
    benchmark: str = ""

    @property
    def question_key(self) -> tuple[str, str]:
        """Benchmark and task."""
        return self.benchmark, self.task

    @property
    def key(self) -> tuple[str, str, int]:
        """Benchmark, task and sample."""
        return self.benchmark, self.task, self.sample


AnswerT = TypeVar("AnswerT", bound=RecordedAnswer)
ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT", bound=Hashable)


def clusters_of(rows: Sequence[RecordedAnswer]) -> list[str] | None:
    """Return the task of each answer; None where each was answered once, so that answers are independent."""
    return None if len({row.question_key for row in rows}) == len(rows) else [row.task for row in rows]


def group_by(items: Iterable[ItemT], key: Callable[[ItemT], KeyT]) -> dict[KeyT, list[ItemT]]:
    """Return items by key, keys in the order in which they come."""
    groups: dict[KeyT, list[ItemT]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True, slots=True)
class Answers(Generic[AnswerT]):
    """Answers in the order of their files. errors, unscored: episodes that a fault ended, or that have no score."""

    rows: tuple[AnswerT, ...]
    errors: int = 0
    unscored: int = 0

    @property
    def tasks(self) -> int:
        """The number of different tasks."""
        return len({row.question_key for row in self.rows})


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
    repeated = len(rows) - len({row.key for row in rows})
    if repeated:
        raise DataError(f"{repeated} answers occur twice: give runs of different benchmarks, or one at a time")
    return opened, Answers(rows, errors, sum(part.unscored for part in parts))


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


@dataclass(frozen=True, slots=True)
class Measure(Generic[AnswerT]):
    """A number of an answer, and its mean over the answers that have it.

    size: the mean is the sum of the values over the sum of the sizes. bounds: of the mean. share: whether it is a
    proportion, so that an average over benchmarks is cut to [0, 1].
    """

    value: Callable[[AnswerT], float | None]
    size: Callable[[AnswerT], int] | None = None
    bounds: tuple[float, float] | None = UNIT
    share: bool = True

    def mean(self, rows: Iterable[AnswerT]) -> Estimate:
        """Return the mean, its interval over tasks."""
        series, tasks = Series(), dict[tuple[str, str], int]()
        for row in rows:
            if (value := self.value(row)) is not None:
                task = tasks.setdefault(row.question_key, len(tasks))
                series.add(task, float(value), 1.0 if self.size is None else self.size(row))
        return series.mean(self.bounds) if self.size is None else series.share()


@dataclass(frozen=True, slots=True)
class BenchmarkScores:
    """Means by measure over the `n` answers to `tasks` questions of one benchmark."""

    n: int
    tasks: int
    means: Mapping[str, Estimate]

    def __getitem__(self, measure: str) -> Estimate:
        return self.means[measure]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, the means by name beside the other fields."""
        values = asdict(self)
        return {**values.pop("means"), **values}


def benchmark_average(
    scores: Iterable[BenchmarkScores], measures: Mapping[str, Measure[AnswerT]]
) -> dict[str, Estimate]:
    """Return the unweighted means over benchmarks, as the papers average."""
    rows = list(scores)
    return {
        name: (macro_interval if measure.share else mean_of)([row[name] for row in rows])
        for name, measure in measures.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport(ABC):
    """The evaluation of one agent on several benchmarks.

    judge: who judged; None for the judge of the runs. average: over the benchmarks. notes: sentences for people.
    """

    name: str
    judge: str | None
    scores: Mapping[str, BenchmarkScores]
    average: Mapping[str, Estimate]
    n: int
    errors: int
    unscored: int
    notes: tuple[str, ...]

    @property
    @abstractmethod
    def detail(self) -> str:
        """A text that distinguishes reports of the same name."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "name": self.name,
            "judge": self.judge,
            "benchmarks": {name: scores.to_dict() for name, scores in self.scores.items()},
            "average": {name: asdict(mean) for name, mean in self.average.items()},
            "errors": self.errors,
            "unscored": self.unscored,
            "notes": list(self.notes),
        }


Pair = tuple[AnswerT, AnswerT]


def pair_answers(
    first: Iterable[AnswerT], second: Iterable[AnswerT], names: str, content: Callable[[AnswerT], Any]
) -> list[Pair[AnswerT]]:
    """Return the answers of two agents to the same task and sample.

    names: of the two, for errors. content: of a task, equal in both. Raises ConfigError where no answer is shared, and
    where contents differ.
    """
    partners = {row.key: row for row in second}
    pairs = [(row, partners[row.key]) for row in first if row.key in partners]
    if not pairs:
        raise ConfigError(f"{names} share no scored answer: give runs on the same questions")
    for a, b in pairs:
        if content(a) != content(b):
            task = " ".join(filter(None, (a.benchmark, repr(a.task)[:80])))
            raise ConfigError(f"{names} disagree on the content of task {task}: the runs were made on different files")
    return pairs


def paired_mcnemar(pairs: Sequence[Pair[AnswerT]], right: Callable[[AnswerT], bool]) -> McNemar | None:
    """Return the test of equal accuracy; None where tasks were sampled several times: such samples are no pairs."""
    if clusters_of([a for a, _ in pairs]) is not None:
        return None
    return mcnemar([right(a) for a, _ in pairs], [right(b) for _, b in pairs])


def exclusion_notes(errors: int, unscored: int = 0) -> list[str]:
    """Return notes on the episodes that no score counts."""
    notes = [f"{count(errors, 'infrastructure error')} left out of all scores."] if errors else []
    return [*notes, f"{count(unscored, 'episode')} not scored."] if unscored else notes


def resampling_note(scores: Iterable[BenchmarkScores]) -> list[str]:
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
