"""CorVer's evaluation of runs: accuracy, refusals, format, length and counts, by benchmark and on average.

A run holds the answers of one agent; several runs of one agent on different benchmarks are one report, which is a row
of the paper's Table 1. The average is that of benchmarks, not of questions, as the paper's is. Intervals are over
questions: samples of one question are not independent. Nothing in a record is trusted: what is no number is left out, and
only a label that is none of good, bad and na is an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.records import has_fault, is_scored, items, members, number, text_of
from factgym.benchmarks.statistics.intervals import NO_DATA, POSITIVE, UNIT, Estimate, Series, macro_interval, mean_of
from factgym.core.errors import DataError
from factgym.datasets.questions import popularity_quartiles
from factgym.rewards.corver.rubrics import find_rubric

GOOD, BAD, REFUSED = "good", "bad", "na"
LABELS = (GOOD, BAD, REFUSED)

JUDGES = ("reference", "boundary")
"""The published judge, and the one that closes its holes; records hold the labels of both."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored episode.

    label: of `LABELS`, by the judge that the run was made with or the one asked for. labels: by each judge that the
    record names. chars, words: of the answer without its tags, None where the record does not tell. counts: of
    each sentence, None where it gave no query. popularity: monthly page views of the subject, where known.
    components, gates: of the reward, by name, in their own ranges.
    counted: whether there was a counter.
    """

    benchmark: str
    task: str
    sample: int
    question: str
    label: str
    labels: Mapping[str, str]
    format_ok: bool
    chars: float | None
    words: float | None
    counts: tuple[int | None, ...]
    popularity: float | None
    reward: float
    components: Mapping[str, float]
    gates: Mapping[str, float]
    counted: bool

    @property
    def key(self) -> tuple[str, str, int]:
        """Benchmark, task and sample."""
        return self.benchmark, self.task, self.sample

    @property
    def good(self) -> bool:
        """Whether the answer is right."""
        return self.label == GOOD

    @property
    def refused(self) -> bool:
        """Whether it says that it does not know."""
        return self.label == REFUSED


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a run in the order of its file, and how many episodes gave none: faults, and not scored."""

    rows: tuple[Answer, ...]
    errors: int = 0
    unscored: int = 0

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks, in the order in which they come."""
        return tuple(dict.fromkeys(row.benchmark for row in self.rows))


def read_answers(
    episodes: Iterable[Mapping[str, Any]],
    where: str = "the run",
    *,
    benchmark: str = "questions",
    judge: str | None = None,
) -> Answers:
    """The answers of a run's episodes.

    benchmark: the name for questions that name none. judge: whose labels count ("reference", "boundary"); by default the
    one that the run was made with. Raises DataError, which names the task, for a run of another environment, and for
    one that does not hold the labels of that judge.
    """
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(_answer(episode, where, benchmark, judge))
    return Answers(tuple(rows), errors, unscored)


def _answer(episode: Mapping[str, Any], where: str, benchmark: str, judge: str | None) -> Answer:
    reward = members(episode.get("reward"))
    metrics, view = members(reward.get("metrics")), members(episode.get("task_view"))
    labels = {name: str(metrics[f"label_{name}"]) for name in JUDGES if metrics.get(f"label_{name}") in LABELS}
    label = metrics.get("label") if judge is None else labels.get(judge)
    if label not in LABELS:
        named = f" by the {judge} judge" if judge else ""
        raise DataError(
            f"{where}: task {episode['task']!r:.80} has no label{named} that is {', '.join(LABELS)}; is this a run of a "
            "corver environment?"
        )
    sample, answer = episode.get("sample"), metrics.get("answer")
    answer_text = answer if isinstance(answer, str) else None
    chars = number(metrics.get("answer_chars"))
    return Answer(
        benchmark=text_of(metrics.get("benchmark")) or text_of(view.get("benchmark")) or benchmark,
        task=str(episode["task"]),
        sample=sample if isinstance(sample, int) else 0,
        question=text_of(view.get("question")),
        label=label,
        labels=labels,
        format_ok=metrics.get("format_ok") is True,
        chars=chars if chars is not None or answer_text is None else float(len(answer_text)),
        words=float(len(answer_text.split())) if answer_text is not None else number(metrics.get("answer_words")),
        counts=tuple(_count(value) for value in items(metrics.get("counts"))),
        popularity=number(metrics.get("popularity")),
        reward=float(reward["total"]),
        components=_numbers(members(reward.get("components"))),
        gates=_numbers(members(metrics.get("gates"))),
        counted=metrics.get("counted") is not False,
    )


def _numbers(values_by_name: Mapping[str, Any]) -> dict[str, float]:
    values = ((str(name), number(value)) for name, value in values_by_name.items())
    return {name: value for name, value in values if value is not None}


def _count(value: Any) -> int | None:
    count = number(value)
    return None if count is None or count < 0 else int(count)


# Ablations (Table 2): A1 to A3 are readings of the reward, by its name or the environment's switches; A4 trains on the
# whole pool, which `factgym filter --keep 0:16` keeps.

FULL = "full"


@dataclass(frozen=True, slots=True)
class Ablation:
    """suffix, switch: of a reward's name, and the environment's setting that asks for the same; empty where there is none."""

    name: str
    title: str
    suffix: str = ""
    switch: str = ""


ABLATIONS: Mapping[str, Ablation] = MappingProxyType(
    {
        ablation.name: ablation
        for ablation in (
            Ablation(FULL, "CorVer (full)"),
            Ablation("A1", "no co-occurrence", "-no-cooccurrence", "no_cooccurrence"),
            Ablation("A2", "no judge", "-no-judge", "no_judge"),
            Ablation("A3", "no alignment", "-no-alignment", "no_alignment"),
            Ablation("A4", "no filter"),
        )
    }
)
"""By the paper's names."""

OF_REWARD = (FULL, "A1", "A2", "A3")


def variant_of(config: Mapping[str, Any]) -> str:
    """Which ablation an environment's configuration asks for, several joined by `+`; empty for none."""
    reward = _named(config.get("reward"))
    names = []
    for ablation in ABLATIONS.values():
        by_reward = bool(ablation.suffix) and ablation.suffix in reward
        if by_reward or (ablation.switch and config.get(ablation.switch) is True):
            names.append(ablation.name)
    return "+".join(names)


def mean_reward(answers: Sequence[Answer], variant: str, preset: str = "reference") -> Estimate:
    """The mean reward of answers under a variant of a preset, over those that have all of its components.

    Raises ConfigError for a preset that there is not, and KeyError for a variant.
    """
    rubric = find_rubric(f"{preset}{ABLATIONS[variant].suffix}")
    series = Series()
    numbers: dict[tuple[str, str], int] = {}
    for answer in answers:
        if set(rubric.weights) <= set(answer.components) and set(rubric.gated.values()) <= set(answer.gates):
            index = numbers.setdefault((answer.benchmark, answer.task), len(numbers))
            series.add(index, rubric.total(answer.components, answer.gates))
    return series.mean() if len(series) else NO_DATA


# A run's label, from its manifest.

NO_COUNTER = "no counter"
DEFAULT_EXTRACTOR = "rule"


@dataclass(frozen=True, slots=True)
class RunLabel:
    """Empty where the manifest does not tell. counter: what counted, or `NO_COUNTER`. variant: which ablation, if any."""

    folder: str
    env: str
    agent: str
    source: str
    split: str
    n: int | None
    k: int | None
    seed: int | None
    prompt: str
    reward: str
    judge: str
    counter: str
    extractor: str
    variant: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    def questions(self) -> str:
        """`nq-open dev, n = 60`; with the samples of each where there are several."""
        size = f"n = {self.n:,}" if self.n is not None else "n unknown"
        size += f" × {self.k}" if self.k and self.k > 1 else ""
        return ", ".join(filter(None, (" ".join(filter(None, (self.source, self.split))), size)))

    def setting(self) -> str:
        """How they were asked and what scored the answers, in one line."""
        parts = [self.env]
        parts += [f"{self.prompt} prompt" if self.prompt else "", f"reward {self.reward}" if self.reward else ""]
        parts.append(f"{self.judge} judge" if self.judge else "")
        parts += [f"counts: {self.counter}" if self.counter != NO_COUNTER else NO_COUNTER]
        parts.append(f"extractor {self.extractor}" if self.extractor not in ("", DEFAULT_EXTRACTOR) else "")
        return " · ".join(filter(None, parts))


def label_of(run: Run) -> RunLabel:
    """The label of a run."""
    manifest = run.manifest
    config = members(manifest.get("config"))
    path = config.get("path")
    source = text_of(config.get("source"))
    return RunLabel(
        folder=str(run.folder),
        env=text_of(manifest.get("env")),
        agent=text_of(manifest.get("agent")),
        source=Path(path).stem if source == "file" and isinstance(path, str) else source,
        split=text_of(config.get("split")),
        n=_integer(manifest.get("n")),
        k=_integer(manifest.get("k")),
        seed=_integer(manifest.get("seed")),
        prompt=text_of(config.get("prompt")),
        reward=_named(config.get("reward")),
        judge=_judge(config),
        counter=_counter(config, source),
        extractor=_named(config.get("extractor")),
        variant=variant_of(config),
    )


def _judge(config: Mapping[str, Any]) -> str:
    """The judge whose labels a run reports: the one asked for, else that of its reward."""
    named = text_of(config.get("judge"))
    reward = _named(config.get("reward"))
    return named or ("" if not reward else "reference" if reward.startswith("reference") else "boundary")


def _counter(config: Mapping[str, Any], source: str) -> str:
    named = config.get("counter")
    if named == "none":
        return NO_COUNTER
    if named is not None:
        options = config.get("counter_options")
        details = ", ".join(f"{key} {value}" for key, value in options.items()) if isinstance(options, Mapping) else ""
        return f"{_named(named)} ({details})" if details else _named(named)
    return "its own generated corpus" if source == "synthetic" else NO_COUNTER


def _named(value: Any) -> str:
    if isinstance(value, Mapping):
        return text_of(value.get("name")) or "a user's own"
    return text_of(value)


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Accuracy by popularity (Table 3).

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
        values = [row.accuracy.value for row in self.quartiles if row.accuracy.value is not None]
        return all(a <= b for a, b in pairwise(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        rows = [
            {"name": row.name, "low": row.low, "high": row.high, "n": row.n, "accuracy": row.accuracy.value}
            | {"low_95": row.accuracy.low, "high_95": row.accuracy.high}
            for row in (*self.quartiles, self.all)
        ]
        return {"excluded": self.excluded, "monotone": self.monotone, "rows": rows}


def bounds_of(views: Sequence[float]) -> tuple[float, ...]:
    """The five bounds of four buckets: the least, the three quartiles (by linear interpolation), the greatest."""
    return tuple(float(bound) for bound in np.quantile(np.asarray(views, np.float64), (0, 0.25, 0.5, 0.75, 1)))


def by_popularity(answers: Sequence[Answer]) -> Popularity | None:
    """Accuracy by quarter; None where no question has page views.

    The quarters are those of the questions that have page views, each counted once (`popularity_quartiles`). The paper
    prints sizes of 3,257 to 3,277 for 13,066 questions and does not say how it cut; equal values at a bound make quarters
    uneven in any case.
    """
    with_views = {answer.benchmark for answer in answers if answer.popularity is not None}
    views = {(row.benchmark, row.task): row.popularity for row in answers if row.benchmark in with_views}
    known = {task: value for task, value in views.items() if value is not None}
    if not known:
        return None
    cuts = bounds_of(list(known.values()))
    quarters = dict(zip(known, popularity_quartiles(list(known.values())), strict=True))

    def quartile(name: str, low: float, high: float, tasks: Sequence[tuple[str, str]]) -> Quartile:
        series, numbers = Series(), {task: i for i, task in enumerate(tasks)}
        for answer in answers:
            if (i := numbers.get((answer.benchmark, answer.task))) is not None:
                series.add(i, float(answer.good))
        return Quartile(name, low, high, len(tasks), series.mean(UNIT))

    rows = [
        quartile(name, cuts[i], cuts[i + 1], [task for task, quarter in quarters.items() if quarter == i + 1])
        for i, name in enumerate(NAMES)
    ]
    return Popularity(tuple(rows), quartile("All", cuts[0], cuts[-1], list(known)), len(views) - len(known))


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
            "benchmarks": {name: _score_dict(one) for name, one in self.scores.items()},
            "average": {name: asdict(one) for name, one in self.average.items()},
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
    opened = [run if isinstance(run, Run) else read_run(run) for run in given]
    labels = [label_of(run) for run in opened]
    parts = [
        read_answers(run.episodes(), str(run.folder), benchmark=label.source or "questions", judge=judge)
        for run, label in zip(opened, labels, strict=True)
    ]
    rows = tuple(row for part in parts for row in part.rows)
    errors = sum(part.errors for part in parts)
    if not rows:
        where = ", ".join(str(run.folder) for run in opened)
        raise DataError(f"{where}: no scored answer ({errors} ended by the infrastructure)")
    distinct = {(row.benchmark, row.task, row.sample) for row in rows}
    if len(distinct) < len(rows):
        raise DataError(
            f"{len(rows) - len(distinct)} answers are there twice: give runs of different benchmarks, or one at a time"
        )
    names = dict.fromkeys(row.benchmark for row in rows)
    scores = {one: score(one, [row for row in rows if row.benchmark == one]) for one in names}
    pairs = [(count, row.good) for row in rows for count in row.counts]
    shares = {part: macro_interval([getattr(one, part) for one in scores.values()]) for part in SHARES}
    means = {part: mean_of([getattr(one, part) for one in scores.values()]) for part in MEANS}
    return CorverReport(
        name=name or labels[0].agent or opened[0].folder.name,
        judge=judge,
        labels=tuple(labels),
        scores=scores,
        average=shares | means,
        popularity=by_popularity(rows),
        proxy=calibrate(pairs) if any(count is not None for count, _ in pairs) else None,
        errors=errors,
        unscored=sum(part.unscored for part in parts),
        notes=tuple(_notes(opened, rows, scores)),
        answers=rows,
    )


def _notes(runs: Sequence[Run], rows: Sequence[Answer], scores: Mapping[str, BenchmarkScores]) -> Iterator[str]:
    yield from (note for run in runs for note in run.notes)
    if not all(row.counted for row in rows):
        yield "There was no counter: the sentence term of the reward is 0. Give one with --set counter=PATH."
    if "popqa" in scores and all(row.popularity is None for row in rows):
        yield "These questions of PopQA come without page views: there are no quarters of popularity."
    if sum(one.tasks for one in scores.values()) < len(rows):
        yield "Questions were sampled several times: intervals are over questions."


def score(benchmark: str, rows: Sequence[Answer]) -> BenchmarkScores:
    """The scores of one benchmark's answers."""
    numbers = {task: i for i, task in enumerate(dict.fromkeys(row.task for row in rows))}

    def mean(value: Callable[[Answer], float | None], bounds: tuple[float, float] | None) -> Estimate:
        series = Series()
        for row in rows:
            if (measured := value(row)) is not None:
                series.add(numbers[row.task], measured)
        return series.mean(bounds) if len(series) else NO_DATA

    def ratio(top: Callable[[Answer], int], bottom: Callable[[Answer], int]) -> Estimate:
        series = Series()
        for row in rows:
            series.add(numbers[row.task], top(row), bottom(row))
        return series.share() if len(series) else NO_DATA

    counts = [count for row in rows for count in row.counts if count is not None]
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
        unsupported=ratio(lambda row: row.counts.count(0), _queries),
        mean_count=statistics.fmean(counts) if counts else None,
        median_count=float(statistics.median(counts)) if counts else None,
        reward=mean(lambda row: row.reward, None),
    )


def _judged(row: Answer, judge: str) -> float | None:
    return float(row.labels[judge] == GOOD) if judge in row.labels else None


def _queries(row: Answer) -> int:
    return sum(count is not None for count in row.counts)


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs by agent, as reports take them: a run whose benchmark its agent's report has already begins another one."""
    groups: list[tuple[tuple[str, ...], set[str], list[Run]]] = []
    for run in runs:
        label = label_of(run)
        key, source = (label.agent, label.variant, label.env), f"{label.source} {label.split}"
        for other, sources, group in groups:
            if other == key and source not in sources:
                sources.add(source)
                group.append(run)
                break
        else:
            groups.append((key, {source}, [run]))
    return [group for _, _, group in groups]


def _score_dict(score: BenchmarkScores) -> dict[str, Any]:
    values: dict[str, Any] = {"n": score.n, "tasks": score.tasks}
    values |= {part: asdict(getattr(score, part)) for part in (*SHARES, *MEANS)}
    values["judged"] = {judge: asdict(estimate) for judge, estimate in score.judged.items()}
    return values | {"mean_count": score.mean_count, "median_count": score.median_count}
