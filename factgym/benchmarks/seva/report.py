"""SEVA's evaluation of a run, and of two runs on the same claims (sections 3 and 4, appendices D and O).

"Positive" is what a verifier looks for: a false positive is a supported claim that is called Not Attributable, as in the
paper. Alignment and chain quality are means over the outputs that parse: the paper's .917 beside a format rate of 72 %
is hardly a mean over all outputs. The means over all outputs, where what does not parse counts as 0, are beside it. An
answer without a label is wrong for every label. Nothing in a record is trusted: an unknown label or error type counts as
none, and only an unreadable gold label is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import gold_of, has_fault, is_scored, items, members, number, text_of, verdict_of
from factgym.benchmarks.statistics.bootstrap import Comparison, bca_mean, bca_score, paired_bca
from factgym.benchmarks.statistics.classification import (
    Confusion,
    Distribution,
    LabelScores,
    McNemar,
    Reliability,
    SeedVariance,
    accuracy,
    confusion,
    distribution,
    false_positive_rates,
    label_scores,
    macro_f1,
    mcnemar,
    negative_bias,
    reliability,
    seed_variance,
    stratified_slices,
)
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, wilson
from factgym.benchmarks.statistics.style import STYLES, style_groups
from factgym.core.errors import ConfigError, DataError
from factgym.rewards.seva.output import ERROR_TYPES, LABELS
from factgym.rewards.seva.rubrics import RUBRICS
from factgym.rewards.seva.scoring import COMPONENTS, GROUNDED_COMPONENTS

POSITIVE, NEGATIVE = LABELS
SLICE = 200
"""Items of a stratified slice, as the paper's auxiliary benchmarks have."""
SLICE_SEEDS = (0, 1, 2)
REWARDS = ("process", "grounded", "binary")
NO_TYPE = "none named"


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored episode.

    label: the predicted one, None for none. confidence: as it was counted, None where nothing was parsed. error_type,
    gold_error_type: of the taxonomy, else None. components: by name, in their own ranges; those that the record holds.
    consistent: whether the label followed from the output's own alignments and steps; None where it was not scored.
    """

    task: str
    sample: int
    claim: str
    source: str
    gold: str
    label: str | None
    parsed: bool
    format_ok: bool
    confidence: float | None
    error_type: str | None
    gold_error_type: str | None
    components: Mapping[str, float]
    consistent: bool | None

    @property
    def correct(self) -> bool:
        """Whether the label is the gold one."""
        return self.label == self.gold


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a run in the order of its file, and how many episodes gave none: faults, and not scored."""

    rows: tuple[Answer, ...]
    errors: int = 0
    unscored: int = 0

    @property
    def golds(self) -> list[str]:
        """The gold labels."""
        return [row.gold for row in self.rows]

    @property
    def labels(self) -> list[str | None]:
        """The predicted labels."""
        return [row.label for row in self.rows]

    @property
    def clusters(self) -> list[str] | None:
        """The task of each answer; None where every task was answered once, so that answers are independent."""
        tasks = [row.task for row in self.rows]
        return None if len(set(tasks)) == len(tasks) else tasks


def read_answers(episodes: Iterable[Mapping[str, Any]], where: str = "the run") -> Answers:
    """Return the answers of a run's episodes. Raises DataError, naming the task, for a run of another environment."""
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(_answer(episode, where))
    return Answers(tuple(rows), errors, unscored)


def _answer(episode: Mapping[str, Any], where: str) -> Answer:
    metrics = members(members(episode.get("reward")).get("metrics"))
    view = members(episode.get("task_view"))
    gold, label = gold_of(episode), verdict_of(episode)
    if gold not in LABELS:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} has no gold label that is {' or '.join(LABELS)}; "
            "is this a run of a seva environment?"
        )
    sample = episode.get("sample")
    parsed = metrics.get("parsed") is True
    consistent = number(members(metrics.get("gates")).get("consistent"))
    components = members(members(episode.get("reward")).get("components"))
    values = ((name, number(components.get(name))) for name in (*COMPONENTS, *GROUNDED_COMPONENTS))
    return Answer(
        task=str(episode["task"]),
        sample=sample if isinstance(sample, int) else 0,
        claim=text_of(view.get("answer")),
        source="\n".join(text_of(members(passage).get("text")) for passage in items(view.get("passages"))),
        gold=str(gold),
        label=label if label in LABELS else None,
        parsed=parsed,
        format_ok=metrics.get("format_ok") is True,
        confidence=number(metrics.get("confidence")) if parsed else None,
        error_type=_error_type(metrics.get("error_type")),
        gold_error_type=_error_type(metrics.get("gold_error_type")),
        components={name: value for name, value in values if value is not None},
        consistent=None if consistent is None else consistent > 0,
    )


def _error_type(value: Any) -> str | None:
    return value if isinstance(value, str) and value in ERROR_TYPES else None


@dataclass(frozen=True, slots=True)
class SevaReport:
    """The evaluation of one run; shares, F1 and components in [0, 1] unless another range is given.

    n: scored episodes, of `tasks` tasks; errors and unscored are left out. scores: macro_f1, accuracy,
    balanced_accuracy and matthews (in [-1, 1]). structure: parsed and format (all four fields) as shares of all
    outputs; alignment and chain over outputs that parse, alignment_all and chain_all over all of them, the grounded
    ones and consistent where they were scored. rewards: the mean total under each of `REWARDS`. false_positive:
    supported claims that are rejected; false_negative: the reverse; by_style: false positives by dimension and group.
    negative_bias: share predicted Not Attributable minus the share that is, in [-1, 1]. diagnoses: error types of the
    negative predictions, `NO_TYPE` where none is named. diagnosed: share of right types where the gold type is known
    and the claim was rejected. slices: macro-F1 over stratified slices of `SLICE` items; None where there are not more.
    """

    env: str
    agent: str
    folder: str
    n: int
    tasks: int
    errors: int
    unscored: int
    notes: tuple[str, ...]
    scores: Mapping[str, Estimate]
    structure: Mapping[str, Estimate]
    rewards: Mapping[str, Estimate]
    labels: Mapping[str, LabelScores]
    confusion: Confusion
    false_positive: Estimate
    false_negative: Estimate
    by_style: Mapping[str, Mapping[str, Estimate]]
    predicted_negative: Estimate
    negative_bias: Estimate
    diagnoses: Distribution
    diagnosed: Estimate
    reliability: Reliability
    slices: SeedVariance | None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, keys in the order above."""
        return dataclasses.asdict(self)


def evaluate_run(run: Run | str | Path, *, seed: int = 0) -> SevaReport:
    """Evaluate a recorded run of a `seva*` environment. seed: of the bootstrap.

    Raises DataError for a folder that holds no run, for a run of another environment, and for one without a scored
    episode.
    """
    run = run if isinstance(run, Run) else read_run(run)
    answers = read_answers(run.episodes(), str(run.folder))
    if not answers.rows:
        raise DataError(f"{run.folder}: holds no scored episode ({answers.errors} ended by the infrastructure)")
    notes = list(run.notes)
    if answers.clusters is not None:
        notes.append("Tasks were sampled several times: bootstrap intervals are over tasks, the others over episodes.")
    golds, labels, everybody = answers.golds, answers.labels, [""] * len(answers.rows)
    table = confusion(golds, labels, LABELS)
    return SevaReport(
        env=str(run.manifest.get("env") or ""),
        agent=str(run.manifest.get("agent") or ""),
        folder=str(run.folder),
        n=len(answers.rows),
        tasks=len({row.task for row in answers.rows}),
        errors=answers.errors,
        unscored=answers.unscored,
        notes=tuple(notes),
        scores=_scores(answers, table, seed),
        structure=_structure(answers, seed),
        rewards={name: _reward(answers, name, seed) for name in REWARDS},
        labels=dict(label_scores(table)),
        confusion=table,
        false_positive=false_positive_rates(golds, labels, NEGATIVE, everybody).get("", NO_DATA),
        false_negative=false_positive_rates(golds, labels, POSITIVE, everybody).get("", NO_DATA),
        by_style=_by_style(answers),
        predicted_negative=wilson(labels.count(NEGATIVE), len(labels)),
        negative_bias=negative_bias(golds, labels, NEGATIVE),
        diagnoses=_diagnoses(answers.rows),
        diagnosed=_diagnosed(answers.rows),
        reliability=_reliability(answers.rows),
        slices=_slices(golds, labels),
    )


def _scores(answers: Answers, table: Confusion, seed: int) -> dict[str, Estimate]:
    scores = {
        name: bca_score(answers.golds, answers.labels, name, labels=LABELS, clusters=answers.clusters, seed=seed)
        for name in ("macro_f1", "accuracy", "balanced_accuracy", "matthews")
    }
    if answers.clusters is None:  # A proportion of independent items: Wilson's interval is the better one.
        scores["accuracy"] = accuracy(table)
    return scores


def _structure(answers: Answers, seed: int) -> dict[str, Estimate]:
    outputs, parsed = answers.rows, [row for row in answers.rows if row.parsed]

    def component(rows: Sequence[Answer], name: str) -> Estimate:
        return mean(rows, lambda row: row.components.get(name))

    def mean(rows: Sequence[Answer], value: Callable[[Answer], float | None]) -> Estimate:
        return _mean(rows, value, answers.clusters is not None, seed)

    return {
        "parsed": mean(outputs, lambda row: row.parsed),
        "format": mean(outputs, lambda row: row.format_ok),
        "alignment": component(parsed, "alignment"),
        "chain": component(parsed, "chain"),
        "alignment_all": component(outputs, "alignment"),
        "chain_all": component(outputs, "chain"),
        "grounded_alignment": component(outputs, "grounded_alignment"),
        "grounded_chain": component(outputs, "grounded_chain"),
        "consistent": mean(outputs, lambda row: row.consistent),
    }


def _mean(
    rows: Sequence[Answer], value: Callable[[Answer], float | bool | None], clustered: bool, seed: int
) -> Estimate:
    """The mean over rows that have a value, with Wilson's interval for independent yes and no, else BCa's."""
    values = [(row.task, found) for row in rows if (found := value(row)) is not None]
    if not clustered and all(isinstance(found, bool) for _, found in values):
        return wilson(sum(bool(found) for _, found in values), len(values))
    clusters = [task for task, _ in values] if clustered else None
    return bca_mean([float(found) for _, found in values], clusters=clusters, seed=seed)


def _reward(answers: Answers, name: str, seed: int) -> Estimate:
    """The mean total under a rubric, of the answers that have all that it weighs."""
    rubric = RUBRICS[name]

    def total(row: Answer) -> float | None:
        if not set(rubric.weights) <= set(row.components) or (rubric.gated and row.consistent is None):
            return None
        return rubric.total(row.components, {"consistent": float(bool(row.consistent))})

    return _mean(answers.rows, total, answers.clusters is not None, seed)


def _by_style(answers: Answers) -> dict[str, dict[str, Estimate]]:
    """Empty for a run that does not hold the claims' texts."""
    if not any(row.claim for row in answers.rows):
        return {}
    styles = [style_groups(row.claim, row.source) for row in answers.rows]
    return {
        name: false_positive_rates(answers.golds, answers.labels, NEGATIVE, [style[name] for style in styles])
        for name in STYLES
    }


def _diagnoses(rows: Sequence[Answer]) -> Distribution:
    """Against the gold's error types where every false claim has one."""
    false = [row for row in rows if row.gold == NEGATIVE]
    golds = [row.gold_error_type for row in false if row.gold_error_type is not None]
    named = [row.error_type or NO_TYPE for row in rows if row.label == NEGATIVE]
    return distribution(named, golds if golds and len(golds) == len(false) else None)


def _diagnosed(rows: Sequence[Answer]) -> Estimate:
    rejected = [row for row in rows if row.gold_error_type is not None and row.label == NEGATIVE]
    return wilson(sum(row.error_type == row.gold_error_type for row in rejected), len(rejected))


def _reliability(rows: Sequence[Answer]) -> Reliability:
    """Over the answers that name a label: a confidence is about a label."""
    stated = [(row.confidence, row.correct) for row in rows if row.confidence is not None and row.label is not None]
    return reliability([confidence for confidence, _ in stated], [correct for _, correct in stated])


def _slices(golds: Sequence[str], labels: Sequence[str | None]) -> SeedVariance | None:
    if len(golds) <= SLICE:
        return None

    def score(indices: Sequence[int]) -> float:
        return macro_f1(confusion([golds[i] for i in indices], [labels[i] for i in indices], LABELS))

    return seed_variance(score, stratified_slices(golds, SLICE, SLICE_SEEDS))


_TASK_KEYS = ("env", "version", "n", "k", "seed", "fingerprints")
"""Keys of a manifest that decide which tasks a run has, and how they read."""
_MAX_SHOWN = 60

Pair = tuple[Answer, Answer]


@dataclass(frozen=True, slots=True)
class SevaComparison:
    """`second` against `first`, by their agents' names, on the `n` episodes of `env` that both answered.

    macro_f1, accuracy: both values, and the difference second - first with its paired BCa interval, as in the paper's
    appendix on significance. mcnemar: None where tasks were sampled several times, since samples of two agents are no
    pairs. notes: other differences between the runs.
    """

    env: str
    first: str
    second: str
    n: int
    macro_f1: Comparison
    accuracy: Comparison
    mcnemar: McNemar | None
    notes: tuple[str, ...]


def compare(first: Run | str | Path, second: Run | str | Path, *, seed: int = 0) -> SevaComparison:
    """Compare two runs of the same tasks. seed: of the bootstrap.

    Raises ConfigError when the manifests disagree on the tasks, or one is missing, and DataError as `evaluate_run`.
    """
    runs = [run if isinstance(run, Run) else read_run(run) for run in (first, second)]
    _check_same_tasks(*runs)
    pairs, unpaired = _pairs(*runs)
    notes = [
        f"The runs differ in {difference}."
        for key in ("factgym", "prompts")
        for difference in _differences(key, *(run.manifest.get(key) for run in runs))[:5]
    ]
    if unpaired:
        notes.append(f"{count(unpaired, 'episode')} that only one of the runs has scored left out.")
    golds, labels = [a.gold for a, _ in pairs], [[pair[i].label for pair in pairs] for i in (0, 1)]
    tasks = [a.task for a, _ in pairs]
    clusters = tasks if len(set(tasks)) < len(tasks) else None
    if clusters is not None:
        notes.append("Tasks were sampled several times: intervals are over tasks, and there is no McNemar test.")
    f1, share = (
        paired_bca(golds, labels[0], labels[1], name, labels=LABELS, clusters=clusters, seed=seed)
        for name in ("macro_f1", "accuracy")
    )
    test = None if clusters else mcnemar([a.correct for a, _ in pairs], [b.correct for _, b in pairs])
    names = [str(run.manifest.get("agent") or run.folder.name) for run in runs]
    env = str(runs[0].manifest.get("env") or "")
    return SevaComparison(env, names[0], names[1], len(pairs), f1, share, test, tuple(notes))


def _check_same_tasks(first: Run, second: Run) -> None:
    for run in (first, second):
        if not run.manifest:
            raise ConfigError(f"{run.folder} has no manifest, so its tasks are unknown: it cannot be compared")
    differences = [
        difference
        for key in _TASK_KEYS
        for difference in _differences(key, first.manifest.get(key), second.manifest.get(key))
    ]
    if differences:
        raise ConfigError(
            f"{first.folder} and {second.folder} are runs of different tasks and cannot be compared: "
            f"{'; '.join(differences)}. Make both with the same environment, data, -n, -k and --seed"
        )


def _differences(key: str, first: Any, second: Any) -> list[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        names = [*first, *(name for name in second if name not in first)]
        return [line for name in names for line in _differences(f"{key} {name}", first.get(name), second.get(name))]
    return [] if first == second else [f"{key} {_short(first)} against {_short(second)}"]


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _pairs(first: Run, second: Run) -> tuple[list[Pair], int]:
    """The answers to the same task and sample, and how many answers have no partner."""
    ours, theirs = (
        {(answer.task, answer.sample): answer for answer in read_answers(run.episodes(), str(run.folder)).rows}
        for run in (first, second)
    )
    pairs = [(answer, theirs[key]) for key, answer in ours.items() if key in theirs]
    if not pairs:
        raise ConfigError(f"{first.folder} and {second.folder} share no scored episode")
    for a, b in pairs:
        if (a.gold, a.claim) != (b.gold, b.claim):
            raise ConfigError(
                f"{first.folder} and {second.folder} disagree on the claim or gold label of task {a.task!r:.80}"
            )
    return pairs, len(ours) + len(theirs) - 2 * len(pairs)
