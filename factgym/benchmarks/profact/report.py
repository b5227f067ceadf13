"""ProFact's evaluation of a run or of a file of predictions: one report with intervals.

The scores are those of AVeriTeC's official scorer: METEOR of the best one-to-one assignment over the number of gold
items, the share of right labels, F1 by label, and the AVeriTeC score, the share of claims whose label is right and whose
question-answer score lies above a cutoff. Above, not at: so the scorer has it, and so the paper says ("exceeds"). A
claim without a label is wrong for every label; a claim without a prediction scores 0 everywhere.

The scores of an episode are those of its record, or, with the gold records at hand, computed anew from its questions and
answers. Nothing in a record is trusted: a label that is none of the four counts as none, what is no number is left out;
only an unreadable gold label is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.costs import UsageSummary, UsageTally, model_of
from factgym.benchmarks.formats import count
from factgym.benchmarks.profact.predictions import Prediction, is_answer, read_predictions
from factgym.benchmarks.records import gold_of, has_fault, is_scored, items, members, number, verdict_of
from factgym.benchmarks.statistics.bootstrap import bca, bca_mean, bca_score, sample_of
from factgym.benchmarks.statistics.classification import Confusion, LabelScores, accuracy, confusion, label_scores
from factgym.benchmarks.statistics.intervals import Estimate, wilson
from factgym.core.errors import DataError
from factgym.datasets.averitec import LABELS, FactCheck, Label, evidence_strings
from factgym.rewards.profact.meteor import MAX_PREDICTIONS, match_texts
from factgym.rewards.profact.stages import CUTOFFS, averitec_correct
from factgym.rewards.profact.tokens import Tokenize, word_tokens


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One answered claim.

    question, qa: the two METEOR scores in [0, 1], None where they are not known. label: the predicted one, None for
    none. asked, answered: questions posed, and those with an answer. searches, seconds: None where they are not known.
    """

    task: str
    gold: Label
    label: Label | None
    question: float | None
    qa: float | None
    asked: int
    answered: int
    searches: int | None = None
    seconds: float | None = None

    @property
    def right(self) -> bool:
        """Whether the label is the gold one."""
        return self.label == self.gold


@dataclass(frozen=True, slots=True)
class Rows:
    """All claims that count, and what does not. stores: what the evidence was, by kind, with its note. splits: by name.

    errors, unscored: episodes that a fault ended, or that have no score. missing: claims without a prediction.
    odd_labels: predictions whose label is none of the four.
    """

    rows: tuple[ClaimRow, ...]
    errors: int = 0
    unscored: int = 0
    missing: int = 0
    odd_labels: int = 0
    stores: Mapping[str, str] | None = None
    splits: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """The number of different claims."""
        return len({row.task for row in self.rows})

    @property
    def clusters(self) -> list[str] | None:
        """The claim of each row; None where each was answered once, so that rows are independent."""
        return None if self.tasks == len(self.rows) else [row.task for row in self.rows]


def rows_of_predictions(
    predictions: Iterable[Prediction],
    checks: Sequence[FactCheck],
    *,
    where: str = "the predictions",
    limit: int = MAX_PREDICTIONS,
    tokenize: Tokenize = word_tokens,
) -> Rows:
    """One row for each of `checks`; a claim without a prediction scores 0 and has no label.

    limit: how many questions, and how many pieces of evidence, of a claim count. Raises DataError for predictions of
    claims that are not in `checks`, and for a claim without a gold question, which the official score divides by.
    """
    by_id = _checked({prediction.claim_id: prediction for prediction in predictions}, checks, where)
    rows = tuple(_predicted(check, by_id.get(check.claim_id), limit, tokenize) for check in checks)
    odd = sum(prediction.label is None and bool(prediction.label_text) for prediction in by_id.values())
    return Rows(rows, missing=len(checks) - len(by_id), odd_labels=odd)


def _checked(by_id: dict[int, Prediction], checks: Sequence[FactCheck], where: str) -> dict[int, Prediction]:
    golds = {check.claim_id: check for check in checks}
    strange = [claim_id for claim_id in by_id if claim_id not in golds]
    if strange:
        raise DataError(
            f"{where}: {count(len(strange), 'prediction')} of claims that the gold file does not have "
            f"(claim_id {strange[0]} first). Give the gold file of the same split with --path."
        )
    for claim_id, prediction in by_id.items():
        claim = golds[claim_id].claim
        if prediction.claim and prediction.claim.split() != claim.split():
            raise DataError(
                f"{where}: claim {claim_id} reads {prediction.claim[:60]!r}, in the gold file {claim[:60]!r}. "
                "Give the gold file of the same split with --path."
            )
    return by_id


def _predicted(check: FactCheck, prediction: Prediction | None, limit: int, tokenize: Tokenize) -> ClaimRow:
    if prediction is None:
        return ClaimRow(check.id, check.label, None, 0.0, 0.0, 0, 0)
    question, qa = _scores(check, prediction.questions, prediction.pairs, limit, tokenize)
    asked = len(prediction.questions)
    return ClaimRow(check.id, check.label, prediction.label, question, qa, asked, prediction.answered)


def _scores(
    check: FactCheck, questions: Sequence[str], pairs: Sequence[str], limit: int, tokenize: Tokenize
) -> tuple[float, float]:
    golds = [item.question for item in check.questions]
    return (
        match_texts(questions, golds, tokenize=tokenize, limit=limit).score,
        match_texts(pairs, evidence_strings(check), tokenize=tokenize, limit=limit).score,
    )


def rows_of_episodes(
    episodes: Iterable[Mapping[str, Any]],
    where: str = "the run",
    *,
    checks: Sequence[FactCheck] | None = None,
    tokenize: Tokenize = word_tokens,
) -> Rows:
    """One row for each scored episode of a run of `profact*`.

    checks: the gold records; with them questions and answers are scored anew. Raises DataError, which names the task,
    for a run of another environment, and for a claim that `checks` lacks.
    """
    rows, errors, unscored, stores, splits = [], 0, 0, dict[str, str](), dict[str, None]()
    golds = None if checks is None else {check.claim_id: check for check in checks}
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            metrics = members(members(episode.get("reward")).get("metrics"))
            stores.update(_store(metrics.get("store")))
            splits.update(dict.fromkeys([episode["split"]] if isinstance(episode.get("split"), str) else []))
            rows.append(_played(episode, metrics, where, golds, tokenize))
    return Rows(tuple(rows), errors, unscored, stores=stores, splits=tuple(splits))


def _played(
    episode: Mapping[str, Any],
    metrics: Mapping[str, Any],
    where: str,
    golds: Mapping[int, FactCheck] | None,
    tokenize: Tokenize,
) -> ClaimRow:
    gold = next((label for label in LABELS if label == gold_of(episode)), None)
    if gold is None:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} has no gold label that is one of {', '.join(LABELS)}; "
            "is this a run of a profact environment?"
        )
    questions = [text for text in items(metrics.get("questions")) if isinstance(text, str)]
    pairs = [(str(pair[0]), str(pair[1])) for pair in items(metrics.get("pairs")) if len(items(pair)) == 2]
    question, qa = _rescored(episode, metrics, where, golds, questions, pairs, tokenize)
    searches = [n for value in items(metrics.get("searches")) if (n := number(value)) is not None]
    return ClaimRow(
        task=str(episode["task"]),
        gold=gold,
        label=next((label for label in LABELS if label == verdict_of(episode)), None),
        question=question,
        qa=qa,
        asked=len(questions),
        answered=sum(is_answer(answer) for _, answer in pairs),
        searches=round(sum(searches)) if "searches" in metrics else None,
        seconds=number(episode.get("seconds")),
    )


def _rescored(
    episode: Mapping[str, Any],
    metrics: Mapping[str, Any],
    where: str,
    golds: Mapping[int, FactCheck] | None,
    questions: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    tokenize: Tokenize,
) -> tuple[float | None, float | None]:
    if golds is None:
        components = members(members(episode.get("reward")).get("components"))
        return number(components.get("question")), number(components.get("qa"))
    claim_id = metrics.get("claim_id")
    check = golds.get(claim_id) if isinstance(claim_id, int) else None
    if check is None:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} is claim {str(claim_id)[:20]}, which the gold file does not have. "
            "Give the gold file of the same split with --path, or leave it out."
        )
    texts = [f"{question} {answer}" for question, answer in pairs]
    return _scores(check, questions, texts, MAX_PREDICTIONS, tokenize)


def _store(value: object) -> dict[str, str]:
    """What the evidence was, by kind, with its note."""
    if isinstance(value, str):
        return {value: ""}
    store = members(value)
    kind, note = store.get("kind"), store.get("note")
    return {kind: note if isinstance(note, str) else ""} if isinstance(kind, str) else {}


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
        values = dataclasses.asdict(self)
        values["averitec"] = {str(cutoff): estimate for cutoff, estimate in values["averitec"].items()}
        return values


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
    claims = rows_of_episodes(_tallied(run, usage), str(run.folder), checks=checks, tokenize=tokenize)
    if not claims.rows:
        raise DataError(f"{run.folder}: holds no scored episode ({claims.errors} ended by the infrastructure)")
    return _report(
        claims,
        seed,
        env=str(run.manifest.get("env") or ""),
        agent=str(run.manifest.get("agent") or ""),
        split=" + ".join(claims.splits),
        source=str(run.folder),
        notes=(*run.notes, *_notes(claims)),
        usage=usage.summary(),
    )


def _tallied(run: Run, usage: UsageTally) -> Iterator[Mapping[str, Any]]:
    numbers: dict[str, int] = {}
    for episode in run.episodes():
        usage.add(numbers.setdefault(str(episode.get("task")), len(numbers)), episode)
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
    claims = rows_of_predictions(read_predictions(path), checks, where=str(path), limit=limit, tokenize=tokenize)
    if not claims.rows:
        raise DataError(f"{path}: there are no claims to score it against")
    notes = _notes(claims)
    if limit != MAX_PREDICTIONS:
        notes = (f"Only the first {count(limit, 'question')} of a claim count.", *notes)
    return _report(claims, seed, agent=name or Path(path).stem, split=split, source=str(path), notes=notes)


def _notes(claims: Rows) -> tuple[str, ...]:
    notes = []
    if claims.missing:
        notes.append(
            f"{count(claims.missing, 'claim')} without a prediction: they count as 0. The official scorer pairs by place "
            "and cannot score such a file."
        )
    if claims.odd_labels:
        notes.append(
            f"{count(claims.odd_labels, 'prediction')} with a label that is none of the four: they are wrong."
        )
    if claims.clusters is not None:
        notes.append("Claims were sampled several times: bootstrap intervals are over claims.")
    if any(row.qa is None or row.question is None for row in claims.rows):
        notes.append("Some episodes have no METEOR scores in their record: give the gold file with --path.")
    return (*notes, *(note for note in (claims.stores or {}).values() if note))


def _report(
    claims: Rows,
    seed: int,
    *,
    env: str = "",
    agent: str,
    split: str,
    source: str,
    notes: tuple[str, ...],
    usage: UsageSummary | None = None,
) -> ProFactReport:
    rows, golds, labels = claims.rows, [row.gold for row in claims.rows], [row.label for row in claims.rows]
    table = confusion(golds, labels, LABELS)

    def mean(value: Callable[[ClaimRow], float | bool | None]) -> Estimate:
        return _mean(claims, value, seed)

    return ProFactReport(
        env=env,
        agent=agent,
        split=split,
        source=source,
        n=len(rows),
        tasks=claims.tasks,
        errors=claims.errors,
        unscored=claims.unscored,
        missing=claims.missing,
        notes=notes,
        stores=dict(claims.stores or {}),
        question=mean(lambda row: row.question),
        qa=mean(lambda row: row.qa),
        accuracy=accuracy(table) if claims.clusters is None else mean(lambda row: float(row.right)),
        averitec={cutoff: mean(_counts_at(cutoff)) for cutoff in CUTOFFS},
        macro_f1=bca_score(golds, labels, "macro_f1", labels=LABELS, clusters=claims.clusters, seed=seed),
        f1={label: _f1(claims, label, seed) for label in LABELS},
        labels=dict(label_scores(table)),
        confusion=table,
        no_label=mean(lambda row: row.label is None),
        asked=mean(lambda row: float(row.asked)),
        unanswered=_unanswered(claims, seed),
        searches=mean(lambda row: None if row.searches is None else float(row.searches)),
        seconds=mean(lambda row: row.seconds),
        usage=usage,
    )


def _counts_at(cutoff: float) -> Callable[[ClaimRow], bool | None]:
    """Whether a claim counts for the AVeriTeC score at a cutoff."""
    return lambda row: None if row.qa is None else averitec_correct(row.right, row.qa, cutoff, strict=True)


def _mean(claims: Rows, value: Callable[[ClaimRow], float | bool | None], seed: int) -> Estimate:
    """The mean where it is known, with Wilson's interval for independent yes and no, else BCa's."""
    values = [(row.task, measured) for row in claims.rows if (measured := value(row)) is not None]
    clustered = claims.clusters is not None
    if values and not clustered and all(isinstance(measured, bool) for _, measured in values):
        return wilson(sum(bool(measured) for _, measured in values), len(values))
    clusters = [task for task, _ in values] if clustered else None
    return bca_mean([float(measured) for _, measured in values], clusters=clusters, seed=seed)


def _unanswered(claims: Rows, seed: int) -> Estimate:
    """The share of all questions, its interval over claims."""
    asked = [row for row in claims.rows if row.asked]
    rows = [(max(0, row.asked - row.answered), row.asked) for row in asked]
    if not rows:
        return bca_mean([], seed=seed)
    clusters = [row.task for row in asked] if claims.clusters is not None else None
    return bca(sample_of(rows, clusters), lambda sums: np.asarray(sums[..., 0] / sums[..., 1]), seed=seed)


def _f1(claims: Rows, label: str, seed: int) -> Estimate:
    """F1 of one label against the rest, 0 where it occurs nowhere, with its BCa interval."""
    rows = [(row.gold == label == row.label, (row.gold == label) + (row.label == label)) for row in claims.rows]
    return bca(sample_of(rows, claims.clusters), _f1_of, seed=seed)


def _f1_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """From sums of (both are the label, how many of the two are), shape (..., 2)."""
    both, either = sums[..., 0], sums[..., 1]
    return np.divide(2 * both, either, out=np.zeros(np.shape(both)), where=either > 0)
