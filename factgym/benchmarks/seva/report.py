"""SEVA's evaluation of a run, and of two runs on the same claims (sections 3 and 4, appendices D and O).

"Positive" is the class that a verifier detects: a supported claim that is called Not Attributable is a false positive. An
answer without a label is wrong for every label. Nothing in a record is trusted: an unknown label or error type counts as
none, and only an unreadable gold label is an error.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from types import MappingProxyType
from typing import Any

from factgym.agents.runs.read import Run
from factgym.benchmarks.answers import (
    Answers,
    Episode,
    RecordedAnswer,
    RunLike,
    bootstrap_mean,
    clusters_of,
    manifest_text,
    open_run,
    pair_answers,
    paired_mcnemar,
    read_answers,
    read_run_answers,
    sample_number,
)
from factgym.benchmarks.comparison import manifest_differences
from factgym.benchmarks.formats import count
from factgym.benchmarks.page import cut
from factgym.benchmarks.records import gold_of, items, members, number, numbers, parts_of, text_of, verdict_of
from factgym.benchmarks.statistics.bootstrap import Comparison, bca_score, paired_bca
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
    negative_bias,
    reliability,
    seed_variance,
    stratified_slices,
    table_score,
)
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, wilson
from factgym.core.errors import ConfigError, DataError
from factgym.rewards.seva.output import ERROR_TYPES, LABELS
from factgym.rewards.seva.rubrics import RUBRICS
from factgym.rewards.seva.scoring import COMPONENTS, GROUNDED_COMPONENTS
from factgym.text.folding import fold
from factgym.text.words import terms

POSITIVE, NEGATIVE = LABELS
SLICE = 200
"""Items of a stratified slice, as the paper's auxiliary benchmarks have."""
SLICE_SEEDS = (0, 1, 2)
SCORES = ("macro_f1", "accuracy", "balanced_accuracy", "matthews")
REWARDS = ("balanced", "process", "grounded", "binary")
NO_TYPE = "none named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(RecordedAnswer):
    """One scored episode.

    label: the predicted one, None for none. confidence: as the reward counted it, None where nothing was parsed.
    error_type, gold_error_type: of the taxonomy, else None. components: by name, in their own ranges; those that the
    record holds. consistent: the gate of that name, above 0 where the label follows from the entries; None where it was
    not scored.
    """

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
    consistent: float | None

    @property
    def correct(self) -> bool:
        """Whether the label is the gold one."""
        return self.label == self.gold


def read_answer(episode: Episode, source: str) -> Answer:
    """Return the answer of an episode. Raises DataError, naming the task, for a run of another environment."""
    reward, metrics, view = parts_of(episode)
    gold, label = gold_of(episode), verdict_of(episode)
    if gold not in LABELS:
        raise DataError(
            f"{source}: task {episode['task']!r:.80} has no gold label that is {' or '.join(LABELS)}; "
            "is this a run of a seva environment?"
        )
    parsed = metrics.get("parsed") is True
    consistent = number(members(metrics.get("gates")).get("consistent"))
    components = numbers(reward.get("components"))
    error_type, gold_error_type = (
        value if isinstance(value := metrics.get(key), str) and value in ERROR_TYPES else None
        for key in ("error_type", "gold_error_type")
    )
    return Answer(
        task=str(episode["task"]),
        sample=sample_number(episode),
        claim=text_of(view.get("answer")),
        source="\n".join(text_of(members(passage).get("text")) for passage in items(view.get("passages"))),
        gold=str(gold),
        label=label if label in LABELS else None,
        parsed=parsed,
        format_ok=metrics.get("format_ok") is True,
        confidence=number(metrics.get("confidence")) if parsed else None,
        error_type=error_type,
        gold_error_type=gold_error_type,
        components={name: components[name] for name in (*COMPONENTS, *GROUNDED_COMPONENTS) if name in components},
        consistent=consistent,
    )


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


def evaluate_run(run: RunLike) -> SevaReport:
    """Evaluate a recorded run of a `seva*` environment.

    Raises DataError for a folder that holds no run, for a run of another environment, and for one without a scored
    episode.
    """
    run = open_run(run)
    answers = read_run_answers(run, partial(read_answer, source=str(run.folder)))
    rows, clusters = answers.rows, clusters_of(answers.rows)
    notes = list(run.notes)
    if clusters is not None:
        notes.append("Tasks were sampled several times: bootstrap intervals are over tasks, the others over episodes.")
    golds, labels, everyone = [row.gold for row in rows], [row.label for row in rows], [""] * len(rows)
    table = confusion(golds, labels, LABELS)
    scores = {name: bca_score(golds, labels, name, labels=LABELS, clusters=clusters) for name in SCORES}
    if clusters is None:  # A proportion of independent items: Wilson's interval is better.
        scores["accuracy"] = accuracy(table)
    # A confidence is about a label: answers without one are left out.
    stated = [(row.confidence, row.correct) for row in rows if row.confidence is not None and row.label is not None]
    false = [row for row in rows if row.gold == NEGATIVE]
    rejected = [row for row in rows if row.label == NEGATIVE]
    gold_types = [row.gold_error_type for row in false if row.gold_error_type is not None]
    typed = [row for row in rejected if row.gold_error_type is not None]
    by_style: dict[str, Mapping[str, Estimate]] = {}
    if any(row.claim for row in rows):
        styles = [style_groups(row.claim, row.source) for row in rows]
        for name in STYLES:
            by_style[name] = false_positive_rates(golds, labels, NEGATIVE, [style[name] for style in styles])

    def slice_f1(indices: Sequence[int]) -> float:
        return table_score(confusion([golds[i] for i in indices], [labels[i] for i in indices], LABELS), "macro_f1")

    return SevaReport(
        env=manifest_text(run, "env"),
        agent=manifest_text(run, "agent"),
        folder=str(run.folder),
        n=len(rows),
        tasks=answers.tasks,
        errors=answers.errors,
        unscored=answers.unscored,
        notes=tuple(notes),
        scores=scores,
        structure=_structure(answers),
        rewards={name: _mean_reward(answers, name) for name in REWARDS},
        labels=dict(label_scores(table)),
        confusion=table,
        false_positive=false_positive_rates(golds, labels, NEGATIVE, everyone).get("", NO_DATA),
        false_negative=false_positive_rates(golds, labels, POSITIVE, everyone).get("", NO_DATA),
        by_style=by_style,
        predicted_negative=wilson(labels.count(NEGATIVE), len(labels)),
        negative_bias=negative_bias(golds, labels, NEGATIVE),
        # Compared with the gold error types where every false claim has one.
        diagnoses=distribution(
            [row.error_type or NO_TYPE for row in rejected],
            gold_types if gold_types and len(gold_types) == len(false) else None,
        ),
        diagnosed=wilson(sum(row.error_type == row.gold_error_type for row in typed), len(typed)),
        reliability=reliability([confidence for confidence, _ in stated], [correct for _, correct in stated]),
        slices=seed_variance(slice_f1, stratified_slices(golds, SLICE, SLICE_SEEDS)) if len(golds) > SLICE else None,
    )


def _structure(answers: Answers[Answer]) -> dict[str, Estimate]:
    # Over the outputs that parse, as in the paper: .917 beside a format rate of 72 % is hardly a mean over all outputs.
    outputs, parsed = answers.rows, [row for row in answers.rows if row.parsed]
    mean = partial(bootstrap_mean, clustered=clusters_of(outputs) is not None)
    return {
        "parsed": mean(outputs, lambda row: row.parsed),
        "format": mean(outputs, lambda row: row.format_ok),
        "alignment": mean(parsed, lambda row: row.components.get("alignment")),
        "chain": mean(parsed, lambda row: row.components.get("chain")),
        "alignment_all": mean(outputs, lambda row: row.components.get("alignment")),
        "chain_all": mean(outputs, lambda row: row.components.get("chain")),
        "grounded_alignment": mean(outputs, lambda row: row.components.get("grounded_alignment")),
        "grounded_chain": mean(outputs, lambda row: row.components.get("grounded_chain")),
        "consistent": mean(outputs, lambda row: row.consistent),
    }


def _mean_reward(answers: Answers[Answer], name: str) -> Estimate:
    """Return the mean total under a rubric, of the answers that have all that it weighs."""
    rubric = RUBRICS[name]

    def total(row: Answer) -> float | None:
        if not set(rubric.weights) <= set(row.components) or (rubric.gated and row.consistent is None):
            return None
        return rubric.total(row.components, {"consistent": row.consistent or 0.0})

    return bootstrap_mean(answers.rows, total, clustered=clusters_of(answers.rows) is not None)


_TASK_KEYS = ("env", "version", "n", "k", "seed", "fingerprints")
"""Keys of a manifest that decide which tasks a run has, and how they read."""
_MAX_VALUE_CHARS = 60


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


def compare(first: RunLike, second: RunLike) -> SevaComparison:
    """Compare two runs of the same tasks.

    Raises ConfigError when the manifests disagree on the tasks, or one is missing, and DataError as `evaluate_run`.
    """
    runs = [open_run(run) for run in (first, second)]
    for run in runs:
        if not run.manifest:
            raise ConfigError(f"{run.folder} has no manifest, so its tasks are unknown: it cannot be compared")
    folders = f"{runs[0].folder} and {runs[1].folder}"
    if differences := _differences(runs, _TASK_KEYS):
        raise ConfigError(
            f"{folders} are runs of different tasks and cannot be compared: {'; '.join(differences)}. "
            "Make both with the same environment, data, -n, -k and --seed"
        )
    rows, others = (read_answers(run.episodes(), partial(read_answer, source=str(run.folder))).rows for run in runs)
    pairs = pair_answers(rows, others, folders, lambda answer: (answer.gold, answer.claim))
    notes = [
        f"The runs differ in {difference}."
        for key in ("factgym", "prompts")
        for difference in _differences(runs, (key,))[:5]
    ]
    if unpaired := len(rows) + len(others) - 2 * len(pairs):
        notes.append(f"{count(unpaired, 'episode')} that only one of the runs has scored left out.")
    golds, labels = [a.gold for a, _ in pairs], [[pair[i].label for pair in pairs] for i in (0, 1)]
    clusters = clusters_of([a for a, _ in pairs])
    if clusters is not None:
        notes.append("Tasks were sampled several times: intervals are over tasks, and there is no McNemar test.")
    f1, share = (
        paired_bca(golds, labels[0], labels[1], name, labels=LABELS, clusters=clusters)
        for name in ("macro_f1", "accuracy")
    )
    test = paired_mcnemar(pairs, lambda answer: answer.correct)
    a, b = (manifest_text(run, "agent") or run.folder.name for run in runs)
    return SevaComparison(manifest_text(runs[0], "env"), a, b, len(pairs), f1, share, test, tuple(notes))


def _differences(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return the differences of two manifests under keys, in words."""
    first, second = (run.manifest for run in runs)
    lines = []
    for path, *values in (row for key in keys for row in manifest_differences(first.get(key), second.get(key), key)):
        texts = (cut("nothing" if value is None else str(value), _MAX_VALUE_CHARS) for value in values)
        lines.append(f"{' '.join(path)} {' against '.join(texts)}")
    return lines


# Wording of a claim beside its source, to audit whether a verifier mistakes another wording for another meaning.
#
# SEVA (section 4.2 and its ethics statement) asks for such an audit. Five dimensions, each with a few groups, from the text
# alone: English word lists and counts. They describe wording, not truth; the passive is found by pattern and sometimes
# missed.

COPY = 0.8
"""From this share of copied content words up, a claim counts as copied from its source."""
PARAPHRASE = 0.5
"""Under this share, a claim counts as a paraphrase; between the two it is mixed."""
SHORT = 8
"""Up to this many words a claim is short."""
LONG = 20
"""From this many words up a claim is long."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@cache
def _words(kind: str) -> frozenset[str]:
    """Return the words of a kind in `style.toml`."""
    text = resources.files("factgym.benchmarks.seva").joinpath("style.toml").read_text("utf-8")
    return frozenset(tomllib.loads(text)[kind].split())


@dataclass(frozen=True, slots=True)
class Style:
    """The wording of a claim.

    copied: share in [0, 1] of its distinct content words that its source has too; 1 where it has none. words: their
    number, function words included. hedged, numbers, passive: whether it has such words or such a construction.
    """

    copied: float
    words: int
    hedged: bool
    numbers: bool
    passive: bool


def style_of(claim: str, source: str) -> Style:
    """Measure a claim beside its source. Linear in both texts; equal for texts that differ in white space alone."""
    content = set(terms(claim))
    shared = len(content.intersection(terms(source)))
    written = _WORD.findall(fold(claim))
    words = [word.lower().replace("’", "'") for word in written]
    return Style(
        copied=shared / len(content) if content else 1.0,
        words=len(words),
        hedged=any(word.lower() in _words("hedges") and word != "May" for word in written),
        numbers=any(word in _words("numbers") or any(char.isdigit() for char in word) for word in words),
        passive=any(_is_passive(words, i) for i, word in enumerate(words) if word in _words("be")),
    )


def _is_passive(words: list[str], index: int) -> bool:
    """Return whether a participle follows the form of "be" at `index`, with at most two adverbs between."""
    for word in words[index + 1 : index + 4]:
        if word in _words("participles") or (
            word.endswith("ed") and len(word) > 3 and word not in _words("no_participles")
        ):
            return True
        if word not in _words("between") and not word.endswith("ly") and word not in _words("be"):
            return False
    return False


STYLES: Mapping[str, Callable[[Style], str]] = MappingProxyType(
    {
        "copying": lambda style: (
            "copy" if style.copied >= COPY else "paraphrase" if style.copied < PARAPHRASE else "mixed"
        ),
        "length": lambda style: "short" if style.words <= SHORT else "long" if style.words >= LONG else "medium",
        "hedging": lambda style: "hedged" if style.hedged else "plain",
        "numbers": lambda style: "numbers" if style.numbers else "no numbers",
        "voice": lambda style: "passive" if style.passive else "active",
    }
)
"""The dimensions by name, each with the group that a style belongs to."""


def style_groups(claim: str, source: str) -> dict[str, str]:
    """The group of a claim in every dimension of `STYLES`, such as `{"copying": "paraphrase", "length": "short", …}`."""
    style = style_of(claim, source)
    return {name: group(style) for name, group in STYLES.items()}
