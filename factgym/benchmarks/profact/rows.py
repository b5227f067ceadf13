"""What the evaluation needs of one claim, from a recorded episode or from a prediction.

The scores of an episode are those that its environment gave, or, with the gold records at hand, computed anew from the
questions and answers in its record. Nothing in a run is trusted: a label that is none of the four counts as none, what
is no number is left out; only a gold label that cannot be read is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.benchmarks.formats import count
from factgym.benchmarks.profact.predictions import Prediction, is_answer
from factgym.benchmarks.records import gold_of, has_fault, is_scored, items, members, number, verdict_of
from factgym.core.errors import DataError
from factgym.datasets.averitec import LABELS, FactCheck, Label, evidence_strings
from factgym.rewards.profact.matching import MAX_PREDICTIONS, match_texts
from factgym.rewards.profact.tokens import Tokenize, word_tokens


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One answered claim.

    question, qa: the two METEOR scores in [0, 1], None where they are not known. said: the predicted label, None for
    none. asked, answered: questions posed, and those with an answer. searches, seconds: None where they are not known.
    """

    task: str
    gold: Label
    said: Label | None
    question: float | None
    qa: float | None
    asked: int
    answered: int
    searches: int | None = None
    seconds: float | None = None

    @property
    def right(self) -> bool:
        """Whether the label is the gold one."""
        return self.said == self.gold


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
    by_id = _checked({one.claim_id: one for one in predictions}, checks, where)
    rows = tuple(_predicted(check, by_id.get(check.claim_id), limit, tokenize) for check in checks)
    odd = sum(one.label is None and bool(one.said) for one in by_id.values())
    return Rows(rows, missing=len(checks) - len(by_id), odd_labels=odd)


def _checked(by_id: dict[int, Prediction], checks: Sequence[FactCheck], where: str) -> dict[int, Prediction]:
    known = {check.claim_id: check for check in checks}
    strange = [one for one in by_id if one not in known]
    if strange:
        raise DataError(
            f"{where}: {count(len(strange), 'prediction')} of claims that the gold file does not have "
            f"(claim_id {strange[0]} first). Give the gold file of the same split with --path."
        )
    for claim_id, one in by_id.items():
        if one.claim and _folded(one.claim) != _folded(known[claim_id].claim):
            raise DataError(
                f"{where}: claim {claim_id} reads {one.claim[:60]!r}, in the gold file {known[claim_id].claim[:60]!r}. "
                "Give the gold file of the same split with --path."
            )
    return by_id


def _folded(text: str) -> str:
    return " ".join(text.split())


def _predicted(check: FactCheck, one: Prediction | None, limit: int, tokenize: Tokenize) -> ClaimRow:
    if one is None:
        return ClaimRow(check.id, check.label, None, 0.0, 0.0, 0, 0)
    question, qa = _scores(check, one.questions, one.pairs, limit, tokenize)
    return ClaimRow(check.id, check.label, one.label, question, qa, len(one.questions), one.answered)


def _scores(
    check: FactCheck, questions: Sequence[str], pairs: Sequence[str], limit: int, tokenize: Tokenize
) -> tuple[float, float]:
    golds = [one.question for one in check.questions]
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
    known = None if checks is None else {check.claim_id: check for check in checks}
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            metrics = members(members(episode.get("reward")).get("metrics"))
            stores.update(_store(metrics.get("store")))
            splits.update(dict.fromkeys([episode["split"]] if isinstance(episode.get("split"), str) else []))
            rows.append(_played(episode, metrics, where, known, tokenize))
    return Rows(tuple(rows), errors, unscored, stores=stores, splits=tuple(splits))


def _played(
    episode: Mapping[str, Any],
    metrics: Mapping[str, Any],
    where: str,
    known: Mapping[int, FactCheck] | None,
    tokenize: Tokenize,
) -> ClaimRow:
    gold = next((one for one in LABELS if one == gold_of(episode)), None)
    if gold is None:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} has no gold label that is one of {', '.join(LABELS)}; "
            "is this a run of a profact environment?"
        )
    said = verdict_of(episode)
    questions = [one for one in items(metrics.get("questions")) if isinstance(one, str)]
    pairs = [(str(one[0]), str(one[1])) for one in items(metrics.get("pairs")) if len(items(one)) == 2]
    question, qa = _rescored(episode, metrics, where, known, questions, pairs, tokenize)
    searches = [found for one in items(metrics.get("searches")) if (found := number(one)) is not None]
    return ClaimRow(
        task=str(episode["task"]),
        gold=gold,
        said=next((one for one in LABELS if one == said), None),
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
    known: Mapping[int, FactCheck] | None,
    questions: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    tokenize: Tokenize,
) -> tuple[float | None, float | None]:
    if known is None:
        components = members(members(episode.get("reward")).get("components"))
        return number(components.get("question")), number(components.get("qa"))
    claim_id = metrics.get("claim_id")
    check = known.get(claim_id) if isinstance(claim_id, int) else None
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
    found = members(value)
    kind, note = found.get("kind"), found.get("note")
    return {kind: note if isinstance(note, str) else ""} if isinstance(kind, str) else {}
