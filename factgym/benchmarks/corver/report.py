"""CorVer's evaluation of runs: accuracy, refusals, format, length and counts, by benchmark and on average.

Several runs of one agent on different benchmarks are one report, a row of the paper's Table 1. Nothing in a record is
trusted: values that are not numbers are left out, and only a label that is none of good, bad and na is an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from factgym.agents.runs.read import Run
from factgym.benchmarks.answers import (
    AgentReport,
    BenchmarkScores,
    Episode,
    Measure,
    RecordedAnswer,
    RunLike,
    benchmark_average,
    group_by,
    read_agent_answers,
    resampling_note,
    sample_number,
)
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate, with_bounds
from factgym.benchmarks.records import items, members, number, numbers, parts_of, text_of
from factgym.benchmarks.statistics.intervals import POSITIVE, Estimate
from factgym.core.errors import DataError
from factgym.datasets.questions import popularity_quartiles
from factgym.rewards.corver.rubrics import find_rubric

GOOD, BAD, REFUSED = "good", "bad", "na"
LABELS = (GOOD, BAD, REFUSED)

JUDGES = ("reference", "boundary")
"""The published judge, and the one that closes its holes; records hold the labels of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(RecordedAnswer):
    """One scored episode.

    label: of `LABELS`, by the judge of the run or the requested one. labels: by each judge that the record names. chars,
    words: of the answer without its tags, None where the record has none. counts: of each sentence, None where it gave
    no query. popularity: monthly page views of the subject, where available. components, gates: of the reward, by name,
    in their own ranges. counted: whether there was a counter.
    """

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
    def good(self) -> bool:
        """Whether the answer is right."""
        return self.label == GOOD

    @property
    def refused(self) -> bool:
        """Whether it says that it does not know."""
        return self.label == REFUSED

    @property
    def queries(self) -> int:
        """How many sentences gave a query."""
        return sum(count is not None for count in self.counts)


def read_answer(run: Run, episode: Episode, judge: str | None = None) -> Answer:
    """Return the answer of an episode.

    judge: whose labels count ("reference", "boundary"); by default the run's own. Raises DataError, which names the task,
    for a run of another environment, and for a run without the labels of that judge.
    """
    reward, metrics, view = parts_of(episode)
    labels = {name: str(metrics[f"label_{name}"]) for name in JUDGES if metrics.get(f"label_{name}") in LABELS}
    label = metrics.get("label") if judge is None else labels.get(judge)
    if label not in LABELS:
        by_judge = f" by the {judge} judge" if judge else ""
        raise DataError(
            f"{run.folder}: task {episode['task']!r:.80} has no label{by_judge} that is {', '.join(LABELS)}; is this a run "
            "of a corver environment?"
        )
    text = answer if isinstance(answer := metrics.get("answer"), str) else None
    chars, words = number(metrics.get("answer_chars")), number(metrics.get("answer_words"))
    if text is not None:
        chars, words = float(len(text)) if chars is None else chars, float(len(text.split()))
    counts = [number(value) for value in items(metrics.get("counts"))]
    return Answer(
        benchmark=text_of(metrics.get("benchmark"))
        or text_of(view.get("benchmark"))
        or question_source(run)
        or "questions",
        task=str(episode["task"]),
        sample=sample_number(episode),
        question=text_of(view.get("question")),
        label=label,
        labels=labels,
        format_ok=metrics.get("format_ok") is True,
        chars=chars,
        words=words,
        counts=tuple(None if count is None or count < 0 else int(count) for count in counts),
        popularity=number(metrics.get("popularity")),
        reward=float(reward["total"]),
        components=numbers(reward.get("components")),
        gates=numbers(metrics.get("gates")),
        counted=metrics.get("counted") is not False,
    )


# Ablations (Table 2): A1 to A3 are readings of the reward, by its name or the environment's switches; A4 trains on the
# whole pool, which `factgym filter --keep 0:16` keeps.

FULL = "full"
ABLATIONS: Mapping[str, str] = MappingProxyType(
    {FULL: "", "A1": "no_cooccurrence", "A2": "no_judge", "A3": "no_alignment", "A4": ""}
)
"""The environment's switch of each, by the paper's names; the reward's name has the same words after a hyphen."""

OF_REWARD = (FULL, "A1", "A2", "A3")


def variant_of(config: Mapping[str, Any]) -> str:
    """Return the ablation that an environment's configuration requests, several joined by `+`; empty for none."""
    reward = setting_name(config.get("reward"))
    return "+".join(
        name
        for name, switch in ABLATIONS.items()
        if switch and (_suffix(switch) in reward or config.get(switch) is True)
    )


def _suffix(switch: str) -> str:
    return f"-{switch}".replace("_", "-") if switch else ""


def mean_reward(answers: Sequence[Answer], variant: str, preset: str = "reference") -> Estimate:
    """Return the mean reward of answers under a variant of a preset, over those that have all of its components.

    Raises ConfigError for an unknown preset, and KeyError for an unknown variant.
    """
    rubric = find_rubric(f"{preset}{_suffix(ABLATIONS[variant])}")

    def total(row: Answer) -> float | None:
        complete = set(rubric.weights) <= set(row.components) and set(rubric.gated.values()) <= set(row.gates)
        return rubric.total(row.components, row.gates) if complete else None

    return Measure(total, bounds=None).mean(answers)


# A run's label, from its manifest.

NO_COUNTER = "no counter"


@dataclass(frozen=True, slots=True)
class RunLabel:
    """Texts are empty where the manifest has none. counter: name of the counter, or `NO_COUNTER`. variant: the ablation."""

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

    def questions(self) -> str:
        """`nq-open dev, n = 60`; with the samples of each where there are several."""
        size = f"n = {self.n:,}" if self.n is not None else "n unknown"
        size += f" × {self.k}" if self.k and self.k > 1 else ""
        return ", ".join(filter(None, (" ".join(filter(None, (self.source, self.split))), size)))

    def setting(self) -> str:
        """Environment, prompt, reward, judge, counter and extractor, in one line."""
        parts = [self.env]
        parts += [f"{self.prompt} prompt" if self.prompt else "", f"reward {self.reward}" if self.reward else ""]
        parts.append(f"{self.judge} judge" if self.judge else "")
        parts += [f"counts: {self.counter}" if self.counter != NO_COUNTER else NO_COUNTER]
        parts.append(f"extractor {self.extractor}" if self.extractor not in ("", "rule") else "")
        return " · ".join(filter(None, parts))


def question_source(run: Run) -> str:
    """Return the source of a run's questions by its manifest: a data set, or the name of a file without its suffix."""
    config = members(run.manifest.get("config"))
    source, path = text_of(config.get("source")), config.get("path")
    return Path(path).stem if source == "file" and isinstance(path, str) else source


def label_of(run: Run) -> RunLabel:
    """Return the label of a run."""
    manifest = run.manifest
    config = members(manifest.get("config"))
    n, k, seed = (
        value if isinstance(value := manifest.get(key), int) and not isinstance(value, bool) else None
        for key in ("n", "k", "seed")
    )
    reward = setting_name(config.get("reward"))
    judge = text_of(config.get("judge"))
    # A run without a judge of its own reports the labels of its reward's judge.
    if not judge and reward:
        judge = "reference" if reward.startswith("reference") else "boundary"
    counter, options = config.get("counter"), members(config.get("counter_options"))
    if counter is None and text_of(config.get("source")) == "synthetic":
        counter_name = "its own generated corpus"
    elif counter is None or counter == "none":
        counter_name = NO_COUNTER
    else:
        details = ", ".join(f"{key} {value}" for key, value in options.items())
        counter_name = f"{setting_name(counter)} ({details})" if details else setting_name(counter)
    return RunLabel(
        folder=str(run.folder),
        env=text_of(manifest.get("env")),
        agent=text_of(manifest.get("agent")),
        source=question_source(run),
        split=text_of(config.get("split")),
        n=n,
        k=k,
        seed=seed,
        prompt=text_of(config.get("prompt")),
        reward=reward,
        judge=judge,
        counter=counter_name,
        extractor=setting_name(config.get("extractor")),
        variant=variant_of(config),
    )


def setting_name(value: Any) -> str:
    """Return the name of a setting that is a name, or a user's own object."""
    if isinstance(value, Mapping):
        return text_of(value.get("name")) or "a user's own"
    return text_of(value)


# Accuracy by popularity (Table 3).

NAMES = ("Q1 (rare)", "Q2", "Q3", "Q4 (popular)")


ValueT = TypeVar("ValueT")
Task = tuple[str, str]
"""Benchmark and task of a question."""


@dataclass(frozen=True, slots=True)
class Quarter(Generic[ValueT]):
    """The `n` questions with page views from `low` to `high`. accuracy: of one report, or of two that are compared."""

    name: str
    low: float
    high: float
    n: int
    accuracy: ValueT

    def to_dict(self, accuracy: Mapping[str, Any]) -> dict[str, Any]:
        """Return JSON data, with the accuracy as such."""
        return {"name": self.name, "low": self.low, "high": self.high, "n": self.n, **accuracy}


@dataclass(frozen=True, slots=True)
class Popularity:
    """The four quarters and last all of them together; how many questions of the same benchmarks have no page views."""

    quarters: tuple[Quarter[Estimate], ...]
    excluded: int

    @property
    def monotone(self) -> bool:
        """Whether accuracy never falls as popularity rises."""
        values = [row.accuracy.value for row in self.quarters[:-1] if row.accuracy.value is not None]
        return all(a <= b for a, b in pairwise(values))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        rows = [row.to_dict(with_bounds("accuracy", row.accuracy)) for row in self.quarters]
        return {"excluded": self.excluded, "monotone": self.monotone, "rows": rows}


def popularity_quarters(
    views: Mapping[Task, float], accuracy: Callable[[Collection[Task]], ValueT]
) -> tuple[Quarter[ValueT], ...]:
    """Return the accuracy of the questions of each quarter; last "All".

    The bounds are the least, the three quartiles (by linear interpolation) and the greatest value; each question counts
    once (`popularity_quartiles`). The paper prints sizes of 3,257 to 3,277 for 13,066 questions and does not say how it
    cut; equal values at a bound make quarters uneven in any case.
    """
    values = list(views.values())
    cuts = [float(cut) for cut in np.quantile(np.asarray(values, np.float64), (0, 0.25, 0.5, 0.75, 1))]
    tasks = group_by(zip(views, popularity_quartiles(values), strict=True), lambda pair: pair[1])
    rows = []
    for i, name in enumerate(NAMES):
        group = {task for task, _ in tasks.get(i + 1, ())}
        rows.append(Quarter(name, cuts[i], cuts[i + 1], len(group), accuracy(group)))
    return (*rows, Quarter("All", cuts[0], cuts[-1], len(views), accuracy(views)))


def by_popularity(answers: Sequence[Answer]) -> Popularity | None:
    """Return the accuracy by quarter of popularity; None where no question has page views."""
    with_views = {answer.benchmark for answer in answers if answer.popularity is not None}
    all_views = {row.question_key: row.popularity for row in answers if row.benchmark in with_views}
    views = {task: value for task, value in all_views.items() if value is not None}

    def accuracy(tasks: Collection[Task]) -> Estimate:
        return MEASURES["accuracy"].mean(answer for answer in answers if answer.question_key in tasks)

    return Popularity(popularity_quarters(views, accuracy), len(all_views) - len(views)) if views else None


MEASURES: Mapping[str, Measure[Answer]] = MappingProxyType(
    {
        "accuracy": Measure(lambda row: row.good),
        "refusal": Measure(lambda row: row.refused),
        "wrong": Measure(lambda row: not row.good and not row.refused),
        "attempted": Measure(lambda row: None if row.refused else row.good),
        "format": Measure(lambda row: row.format_ok),
        "queried": Measure(lambda row: row.queries, size=lambda row: len(row.counts)),
        "unsupported": Measure(lambda row: row.counts.count(0), size=lambda row: row.queries),
        "chars": Measure(lambda row: row.chars, bounds=POSITIVE, share=False),
        "words": Measure(lambda row: row.words, bounds=POSITIVE, share=False),
        "sentences": Measure(lambda row: len(row.counts), bounds=POSITIVE, share=False),
        "reward": Measure(lambda row: row.reward, bounds=None, share=False),
    }
)
"""Means of a benchmark.

accuracy: by the requested judge. wrong: attempted and not right. attempted: accuracy over answers that are no refusal.
queried: share of sentences that gave a query; unsupported: share of those whose count is 0. chars, words: of an answer.
sentences: of a completion.
"""


@dataclass(frozen=True, slots=True)
class CorverScores(BenchmarkScores):
    """The means of `MEASURES`. judged: accuracy by each judge. mean_count, median_count: over sentences with a query."""

    judged: Mapping[str, Estimate]
    mean_count: float | None
    median_count: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorverReport(AgentReport):
    """The evaluation of one agent, its means those of `MEASURES`.

    labels: of its runs. popularity: None without page views. proxy: the counts of all sentences against whether their
    completion's answer is right, which is not whether the sentence is.
    """

    scores: Mapping[str, CorverScores]
    labels: tuple[RunLabel, ...]
    popularity: Popularity | None
    proxy: CountCalibration | None
    answers: tuple[Answer, ...]

    @property
    def detail(self) -> str:
        """The ablation, else the folder of the first run."""
        return self.labels[0].variant or Path(self.labels[0].folder).name

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, without the answers themselves."""
        return {
            **AgentReport.to_dict(self),
            "runs": [asdict(label) for label in self.labels],
            "popularity": self.popularity.to_dict() if self.popularity else None,
            "proxy_calibration": self.proxy.to_dict() if self.proxy else None,
        }


def evaluate_runs(
    runs: RunLike | Sequence[RunLike], name: str | None = None, *, judge: str | None = None
) -> CorverReport:
    """Evaluate the recorded runs of one agent.

    name: in tables; by default the agent's. judge: "reference" (the paper's) or "boundary"; by default that of the runs.
    Raises DataError for a folder that holds no run, for a run of another environment, for runs without a scored
    answer, and for a question that two of the runs answer.
    """
    opened, answers = read_agent_answers(runs, lambda run, episode: read_answer(run, episode, judge))
    labels, rows = tuple(label_of(run) for run in opened), answers.rows
    scores = {benchmark: score(group) for benchmark, group in group_by(rows, lambda row: row.benchmark).items()}
    pairs = [(count, row.good) for row in rows for count in row.counts]
    notes = [note for run in opened for note in run.notes]
    if not all(row.counted for row in rows):
        notes.append("There was no counter: the sentence term of the reward is 0. Give one with --set counter=PATH.")
    if "popqa" in scores and all(row.popularity is None for row in rows):
        notes.append("These questions of PopQA come without page views: there are no quarters of popularity.")
    return CorverReport(
        name=name or labels[0].agent or opened[0].folder.name,
        judge=judge,
        labels=labels,
        scores=scores,
        average=benchmark_average(scores.values(), MEASURES),
        popularity=by_popularity(rows),
        proxy=calibrate(pairs) if any(count is not None for count, _ in pairs) else None,
        n=len(rows),
        errors=answers.errors,
        unscored=answers.unscored,
        notes=(*notes, *resampling_note(scores.values())),
        answers=rows,
    )


def score(rows: Sequence[Answer]) -> CorverScores:
    """Return the scores of one benchmark's answers."""

    def judged(judge: str) -> Measure[Answer]:
        return Measure(lambda row: row.labels[judge] == GOOD if judge in row.labels else None)

    counts = [count for row in rows for count in row.counts if count is not None]
    return CorverScores(
        n=len(rows),
        tasks=len({row.task for row in rows}),
        means={name: measure.mean(rows) for name, measure in MEASURES.items()},
        judged={judge: judged(judge).mean(rows) for judge in JUDGES},
        mean_count=statistics.fmean(counts) if counts else None,
        median_count=float(statistics.median(counts)) if counts else None,
    )


def run_key(run: Run) -> tuple[Any, str]:
    """Return the identity of a run's agent, and the run's benchmark."""
    label = label_of(run)
    return (label.agent, label.variant, label.env), f"{label.source} {label.split}"
