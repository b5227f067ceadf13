"""Everything that ProFact's evaluation asks of a run or of a file of predictions: one report with intervals.

The scores are those of AVeriTeC's official scorer: METEOR of the best one-to-one assignment over the number of gold
items, the share of right labels, F1 by label, and the AVeriTeC score, the share of claims whose label is right and whose
question-answer score lies above a cutoff. Above, not at: so the scorer has it, and so the paper says ("exceeds"). A
claim without a label is wrong for every label; a claim without a prediction scores 0 everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.intervals import Estimate, wilson
from factgym.benchmarks.profact.predictions import read_predictions
from factgym.benchmarks.profact.rows import ClaimRow, Rows, rows_of_episodes, rows_of_predictions
from factgym.benchmarks.statistics import (
    LabelScores,
    accuracy,
    bca,
    bca_mean,
    bca_score,
    confusion,
    label_scores,
    sample_of,
)
from factgym.benchmarks.summary import Confusion
from factgym.benchmarks.usage import UsageSummary, UsageTally, model_of
from factgym.core.errors import DataError
from factgym.datasets.averitec import LABELS, FactCheck
from factgym.rewards.profact.matching import MAX_PREDICTIONS
from factgym.rewards.profact.stages import CUTOFFS, averitec_correct
from factgym.rewards.profact.tokens import Tokenize, word_tokens


@dataclass(frozen=True, slots=True)
class ProFactReport:
    """The evaluation of one run, or of one file of predictions; scores and shares in [0, 1].

    agent, split: empty where they are not known. source: the folder or file. n: scored episodes or claims, of `tasks`
    claims; errors and unscored episodes are left out, `missing` claims (without a prediction) count as 0. question,
    qa: METEOR of the questions, and of the questions with their answers. averitec: by cutoff. labels, confusion: over
    the four labels; f1: by label. no_label: share without a label. asked, searches: for a claim. unanswered: share of
    the questions without an answer. seconds: of an episode on the clock, others at the same time included. usage:
    None where nothing is known of it. stores: what the evidence was, kind -> note; empty for predictions.
    """

    env: str
    agent: str
    split: str
    source: str
    n: int
    tasks: int
    errors: int
    unscored: int
    missing: int
    notes: tuple[str, ...]
    stores: Mapping[str, str]
    question: Estimate
    qa: Estimate
    accuracy: Estimate
    averitec: Mapping[float, Estimate]
    macro_f1: Estimate
    f1: Mapping[str, Estimate]
    labels: Mapping[str, LabelScores]
    confusion: Confusion
    no_label: Estimate
    asked: Estimate
    unanswered: Estimate
    searches: Estimate
    seconds: Estimate
    usage: UsageSummary | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, keys in the order above; cutoffs as text."""
        found = dataclasses.asdict(self)
        found["averitec"] = {str(cutoff): one for cutoff, one in found["averitec"].items()}
        return found


def evaluate_run(
    run: Run | str | Path,
    *,
    checks: Sequence[FactCheck] | None = None,
    tokenize: Tokenize = word_tokens,
    seed: int = 0,
) -> ProFactReport:
    """Evaluate a recorded run of `profact` or `profact-noprocess`.

    checks: the gold records; with them questions and answers are scored anew, by `tokenize`, instead of taken from the
    records. seed: of the bootstrap. Raises DataError for a folder that holds no run, for a run of another environment,
    and for one without a scored episode.
    """
    run = run if isinstance(run, Run) else read_run(run)
    usage = UsageTally(model=model_of(run.manifest))
    found = rows_of_episodes(_watched(run, usage), str(run.folder), checks=checks, tokenize=tokenize)
    if not found.rows:
        raise DataError(f"{run.folder}: holds no scored episode ({found.errors} ended by the infrastructure)")
    return _report(
        found,
        seed,
        env=str(run.manifest.get("env") or ""),
        agent=str(run.manifest.get("agent") or ""),
        split=" + ".join(found.splits),
        source=str(run.folder),
        notes=(*run.notes, *_notes(found)),
        usage=usage.summary(),
    )


def _watched(run: Run, usage: UsageTally) -> Any:
    places: dict[str, int] = {}
    for episode in run.episodes():
        usage.add(places.setdefault(str(episode.get("task")), len(places)), episode)
        yield episode


def evaluate_predictions(
    path: str | Path,
    checks: Sequence[FactCheck],
    *,
    name: str = "",
    split: str = "",
    limit: int = MAX_PREDICTIONS,
    tokenize: Tokenize = word_tokens,
    seed: int = 0,
) -> ProFactReport:
    """Evaluate a file of predictions for all of `checks`, in AVeriTeC's submission layout.

    name: whose they are, by default the file's name. limit: how many questions of a claim count; ten for the official
    scorer, five in the paper. tokenize: `nltk_tokens()` cuts words as the official scorer does; the default needs
    nothing installed. Raises DataError for an unusable file and for predictions of other claims.
    """
    found = rows_of_predictions(read_predictions(path), checks, where=str(path), limit=limit, tokenize=tokenize)
    if not found.rows:
        raise DataError(f"{path}: there are no claims to score it against")
    notes = _notes(found)
    if limit != MAX_PREDICTIONS:
        notes = (f"Only the first {count(limit, 'question')} of a claim count.", *notes)
    return _report(found, seed, agent=name or Path(path).stem, split=split, source=str(path), notes=notes)


def _notes(found: Rows) -> tuple[str, ...]:
    notes = []
    if found.missing:
        notes.append(
            f"{count(found.missing, 'claim')} without a prediction: they count as 0. The official scorer pairs by place "
            "and cannot score such a file."
        )
    if found.odd_labels:
        notes.append(f"{count(found.odd_labels, 'prediction')} with a label that is none of the four: they are wrong.")
    if found.clusters is not None:
        notes.append("Claims were sampled several times: bootstrap intervals are over claims.")
    if any(row.qa is None or row.question is None for row in found.rows):
        notes.append("Some episodes have no METEOR scores in their record: give the gold file with --path.")
    return (*notes, *(note for note in (found.stores or {}).values() if note))


def _report(
    found: Rows,
    seed: int,
    *,
    env: str = "",
    agent: str,
    split: str,
    source: str,
    notes: tuple[str, ...],
    usage: UsageSummary | None = None,
) -> ProFactReport:
    rows, golds, said = found.rows, [row.gold for row in found.rows], [row.said for row in found.rows]
    table = confusion(golds, said, LABELS)

    def mean(value: Callable[[ClaimRow], float | bool | None]) -> Estimate:
        return _mean(found, value, seed)

    return ProFactReport(
        env=env,
        agent=agent,
        split=split,
        source=source,
        n=len(rows),
        tasks=found.tasks,
        errors=found.errors,
        unscored=found.unscored,
        missing=found.missing,
        notes=notes,
        stores=dict(found.stores or {}),
        question=mean(lambda row: row.question),
        qa=mean(lambda row: row.qa),
        accuracy=accuracy(table) if found.clusters is None else mean(lambda row: float(row.right)),
        averitec={cutoff: mean(_counts_at(cutoff)) for cutoff in CUTOFFS},
        macro_f1=bca_score(golds, said, "macro_f1", labels=LABELS, clusters=found.clusters, seed=seed),
        f1={label: _f1(found, label, seed) for label in LABELS},
        labels=dict(label_scores(table)),
        confusion=table,
        no_label=mean(lambda row: row.said is None),
        asked=mean(lambda row: float(row.asked)),
        unanswered=_unanswered(found, seed),
        searches=mean(lambda row: None if row.searches is None else float(row.searches)),
        seconds=mean(lambda row: row.seconds),
        usage=usage,
    )


def _counts_at(cutoff: float) -> Callable[[ClaimRow], bool | None]:
    """Whether a claim counts for the AVeriTeC score at a cutoff."""
    return lambda row: None if row.qa is None else averitec_correct(row.right, row.qa, cutoff, strict=True)


def _mean(found: Rows, value: Callable[[ClaimRow], float | bool | None], seed: int) -> Estimate:
    """The mean where it is known, with Wilson's interval for independent yes and no, else BCa's."""
    known = [(row.task, one) for row in found.rows if (one := value(row)) is not None]
    clustered = found.clusters is not None
    if known and not clustered and all(isinstance(one, bool) for _, one in known):
        return wilson(sum(bool(one) for _, one in known), len(known))
    clusters = [task for task, _ in known] if clustered else None
    return bca_mean([float(one) for _, one in known], clusters=clusters, seed=seed)


def _unanswered(found: Rows, seed: int) -> Estimate:
    """The share of all questions, its interval over claims."""
    asked = [row for row in found.rows if row.asked]
    rows = [(max(0, row.asked - row.answered), row.asked) for row in asked]
    if not rows:
        return bca_mean([], seed=seed)
    clusters = [row.task for row in asked] if found.clusters is not None else None
    return bca(sample_of(rows, clusters), lambda sums: np.asarray(sums[..., 0] / sums[..., 1]), seed=seed)


def _f1(found: Rows, label: str, seed: int) -> Estimate:
    """F1 of one label against the rest, 0 where it occurs nowhere, with its BCa interval."""
    rows = [(row.gold == label == row.said, (row.gold == label) + (row.said == label)) for row in found.rows]
    return bca(sample_of(rows, found.clusters), _f1_of, seed=seed)


def _f1_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """From sums of (both are the label, how many of the two are), shape (..., 2)."""
    both, either = sums[..., 0], sums[..., 1]
    return np.divide(2 * both, either, out=np.zeros(np.shape(both)), where=either > 0)
