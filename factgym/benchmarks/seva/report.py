"""Everything that SEVA's evaluation asks of a run: one report with intervals (sections 3 and 4, appendices D and O).

"Positive" is what a verifier looks for: a false positive is a supported claim that is called Not Attributable, as in
the paper. Alignment and chain quality are means over the outputs that parse: the paper's .917 beside a format rate of
72 % is hardly a mean over all outputs. The means over all outputs, where what does not parse counts as 0, are beside
it. An answer without a label is wrong for every label.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.intervals import NO_DATA, Estimate, wilson
from factgym.benchmarks.seva.answers import NEGATIVE, POSITIVE, Answer, Answers, read_answers
from factgym.benchmarks.statistics import (
    STYLES,
    Distribution,
    LabelScores,
    Reliability,
    SeedVariance,
    accuracy,
    bca_mean,
    bca_score,
    confusion,
    distribution,
    false_positive_rates,
    label_scores,
    macro_f1,
    negative_bias,
    reliability,
    seed_variance,
    stratified_slices,
    style_groups,
)
from factgym.benchmarks.summary import Confusion
from factgym.core.errors import DataError
from factgym.rewards.seva import LABELS, RUBRICS

SLICE = 200
"""Items of a stratified slice, as the paper's auxiliary benchmarks have."""
SLICE_SEEDS = (0, 1, 2)

REWARDS = ("process", "grounded", "binary")
NO_TYPE = "none named"


@dataclass(frozen=True, slots=True)
class SevaReport:
    """The evaluation of one run; shares, F1 and components in [0, 1] unless said otherwise.

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
        """Plain JSON data, keys in the order above."""
        return dataclasses.asdict(self)


def evaluate_run(run: Run | str | Path, *, seed: int = 0) -> SevaReport:
    """Evaluate a recorded run of a `seva*` environment. seed: of the bootstrap.

    Raises DataError for a folder that holds no run, for a run of another environment, and for one without a scored
    episode.
    """
    run = run if isinstance(run, Run) else read_run(run)
    found = read_answers(run.episodes(), str(run.folder))
    if not found.rows:
        raise DataError(f"{run.folder}: holds no scored episode ({found.errors} ended by the infrastructure)")
    notes = list(run.notes)
    if found.clusters is not None:
        notes.append("Tasks were sampled several times: bootstrap intervals are over tasks, the others over episodes.")
    return _report(run, found, tuple(notes), seed)


def _report(run: Run, found: Answers, notes: tuple[str, ...], seed: int) -> SevaReport:
    table = confusion(found.golds, found.said, LABELS)
    rates = false_positive_rates(found.golds, found.said, NEGATIVE, [""] * len(found.rows))
    missed = false_positive_rates(found.golds, found.said, POSITIVE, [""] * len(found.rows))
    rejected = sum(said == NEGATIVE for said in found.said)
    return SevaReport(
        env=str(run.manifest.get("env") or ""),
        agent=str(run.manifest.get("agent") or ""),
        folder=str(run.folder),
        n=len(found.rows),
        tasks=found.tasks,
        errors=found.errors,
        unscored=found.unscored,
        notes=notes,
        scores=_scores(found, table, seed),
        structure=_structure(found, seed),
        rewards={name: _reward(found, name, seed) for name in REWARDS},
        labels=dict(label_scores(table)),
        confusion=table,
        false_positive=rates.get("", NO_DATA),
        false_negative=missed.get("", NO_DATA),
        by_style=_by_style(found),
        predicted_negative=wilson(rejected, len(found.rows)),
        negative_bias=negative_bias(found.golds, found.said, NEGATIVE),
        diagnoses=_diagnoses(found.rows),
        diagnosed=_diagnosed(found.rows),
        reliability=_reliability(found.rows),
        slices=_slices(found),
    )


def _scores(found: Answers, table: Confusion, seed: int) -> dict[str, Estimate]:
    scores = {
        name: bca_score(found.golds, found.said, name, labels=LABELS, clusters=found.clusters, seed=seed)
        for name in ("macro_f1", "accuracy", "balanced_accuracy", "matthews")
    }
    if found.clusters is None:  # a proportion of independent items: Wilson's interval is the better one
        scores["accuracy"] = accuracy(table)
    return scores


def _structure(found: Answers, seed: int) -> dict[str, Estimate]:
    everything, parsed = found.rows, [row for row in found.rows if row.parsed]

    def mean(rows: Sequence[Answer], value: Callable[[Answer], float | None]) -> Estimate:
        return _mean(rows, value, found.clusters is not None, seed)

    return {
        "parsed": mean(everything, lambda row: row.parsed),
        "format": mean(everything, lambda row: row.format_ok),
        "alignment": mean(parsed, lambda row: row.components.get("alignment")),
        "chain": mean(parsed, lambda row: row.components.get("chain")),
        "alignment_all": mean(everything, lambda row: row.components.get("alignment")),
        "chain_all": mean(everything, lambda row: row.components.get("chain")),
        "grounded_alignment": mean(everything, lambda row: row.components.get("grounded_alignment")),
        "grounded_chain": mean(everything, lambda row: row.components.get("grounded_chain")),
        "consistent": mean(everything, lambda row: row.consistent),
    }


def _mean(
    rows: Sequence[Answer], value: Callable[[Answer], float | bool | None], clustered: bool, seed: int
) -> Estimate:
    """The mean where it is known, with Wilson's interval for independent yes and no, else BCa's."""
    known = [(row.task, one) for row in rows if (one := value(row)) is not None]
    if not clustered and all(isinstance(one, bool) for _, one in known):
        return wilson(sum(bool(one) for _, one in known), len(known))
    clusters = [task for task, _ in known] if clustered else None
    return bca_mean([float(one) for _, one in known], clusters=clusters, seed=seed)


def _reward(found: Answers, name: str, seed: int) -> Estimate:
    """The mean total under a rubric, of the answers that have all that it weighs."""
    rubric = RUBRICS[name]

    def total(row: Answer) -> float | None:
        if not set(rubric.weights) <= set(row.components) or (rubric.gated and row.consistent is None):
            return None
        return rubric.total(row.components, {"consistent": float(bool(row.consistent))})

    return _mean(found.rows, total, found.clusters is not None, seed)


def _by_style(found: Answers) -> dict[str, dict[str, Estimate]]:
    """Without the texts there are no styles."""
    if not any(row.claim for row in found.rows):
        return {}
    groups = [style_groups(row.claim, row.source) for row in found.rows]
    return {
        name: false_positive_rates(found.golds, found.said, NEGATIVE, [one[name] for one in groups]) for name in STYLES
    }


def _diagnoses(rows: Sequence[Answer]) -> Distribution:
    """Against the gold's error types where every false claim has one."""
    false = [row for row in rows if row.gold == NEGATIVE]
    golds = [row.gold_error_type for row in false if row.gold_error_type is not None]
    named = [row.error_type or NO_TYPE for row in rows if row.said == NEGATIVE]
    return distribution(named, golds if golds and len(golds) == len(false) else None)


def _diagnosed(rows: Sequence[Answer]) -> Estimate:
    known = [row for row in rows if row.gold_error_type is not None and row.said == NEGATIVE]
    return wilson(sum(row.error_type == row.gold_error_type for row in known), len(known))


def _reliability(rows: Sequence[Answer]) -> Reliability:
    """Over the answers that name a label: without one there is nothing that a confidence could be about."""
    sure = [(row.confidence, row.correct) for row in rows if row.confidence is not None and row.said is not None]
    return reliability([confidence for confidence, _ in sure], [right for _, right in sure])


def _slices(found: Answers) -> SeedVariance | None:
    if len(found.rows) <= SLICE:
        return None
    golds, said = found.golds, found.said

    def score(places: Sequence[int]) -> float:
        return macro_f1(confusion([golds[i] for i in places], [said[i] for i in places], LABELS))

    return seed_variance(score, stratified_slices(golds, SLICE, SLICE_SEEDS))
