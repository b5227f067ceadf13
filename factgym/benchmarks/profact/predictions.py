"""Files of predictions in AVeriTeC's submission layout, read for scoring.

    [{"claim_id": 0, "claim": …, "evidence": [{"question": …, "answer": …, "url": …}, …], "pred_label": "Refuted"}, …]

Also read: JSON lines; `label` for `pred_label`; the older layout with `questions` and `answers`; `string_evidence`. The
official scorer pairs by position in the file; here the `claim_id` counts, the position only where no prediction has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.corpora.rows import Row, read_rows
from factgym.datasets.averitec import LABELS, NO_ANSWER, Label
from factgym.rewards.profact.stages import comparison_strings

_EXPECTED = 'Expected are objects with claim_id, evidence (a list of {"question", "answer"}) and pred_label.'
_MAX_TEXT_CHARS = 100_000
_MAX_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one claim.

    claim: its text where the file has it, else empty. questions: as asked. pairs: "question answer", as the official
    scorer compares them, then the evidence without a question. answered: how many of the pairs have an answer. label:
    one of the four letter by letter, else None; label_text: as in the file.
    """

    claim_id: int
    claim: str
    questions: tuple[str, ...]
    pairs: tuple[str, ...]
    answered: int
    label: Label | None
    label_text: str


def read_predictions(path: str | Path) -> tuple[Prediction, ...]:
    """Return the predictions of a file, in its order.

    Raises DataError, which names file and entry, for a row that is no prediction, and for a claim that is predicted twice.
    """
    file = Path(path)
    entries: dict[int, int] = {}
    predictions: list[Prediction] = []
    numbered: bool | None = None
    for index, row in enumerate(read_rows(file, suffixes=None)):
        has_id = "claim_id" in row.values
        if numbered is not None and numbered != has_id:
            raise _unusable(row, "some predictions have a claim_id and some have none")
        numbered = has_id
        prediction = _prediction(row, index)
        claim_id, entry = prediction.claim_id, len(predictions) + 1
        if claim_id in entries:
            raise DataError(
                f"{file} entry {entry}: claim {claim_id} is predicted twice (entry {entries[claim_id]} too). "
                "Remove one of them."
            )
        entries[claim_id] = entry
        predictions.append(prediction)
    if not predictions:
        raise DataError(f"{file}: holds no prediction. {_EXPECTED}")
    return tuple(predictions)


def is_answer(text: str) -> bool:
    """Return whether a text answers anything: it is not blank, and not the words for "no answer"."""
    return bool(text.strip()) and text.strip().rstrip(".").casefold() != NO_ANSWER.rstrip(".").casefold()


def _unusable(row: Row, problem: str) -> DataError:
    return DataError(f"{row.location}: {problem}. {_EXPECTED}")


def _prediction(row: Row, index: int) -> Prediction:
    """Read a prediction in the layout of AVeriTeC's scorer, or in that of its baseline (`string_evidence`, `pred_label`)."""
    values = row.values
    label = values.get("pred_label", values.get("label"))
    if label is not None and not isinstance(label, str):
        raise _unusable(row, f"the label is {str(label)[:40]!r}, which is no text")
    questions, pairs, answered = _evidence(row)
    loose = tuple(_text(row, text, "a string of evidence") for text in _items(row, "string_evidence"))
    if "evidence" not in values and "questions" not in values:
        questions = loose
    claim, claim_id = values.get("claim"), values.get("claim_id", index)
    if isinstance(claim_id, str) and claim_id.isascii() and claim_id.isdigit() and len(claim_id) < 10:
        claim_id = int(claim_id)
    if isinstance(claim_id, bool) or not isinstance(claim_id, int) or not 0 <= claim_id < 10**9:
        raise _unusable(row, f"the claim_id is {str(claim_id)[:40]!r}, and must be a whole number from 0")
    return Prediction(
        claim_id=claim_id,
        claim=claim if isinstance(claim, str) else "",
        questions=questions,
        pairs=(*pairs, *loose),
        answered=answered + len(loose),
        label=next((name for name in LABELS if name == label), None),
        label_text=label or "",
    )


def _evidence(row: Row) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return questions, pairs, and how many pairs have an answer."""
    questions, pairs, answered = [], [], 0
    if "evidence" not in row.values and "questions" in row.values:
        entries = _items(row, "questions")
        try:
            questions = [_text(row, item["question"], "a question") for item in entries]
            pairs = [_text(row, text, "an answer") for text in comparison_strings(entries)]
            answers = [item["answers"] for item in entries if item["answers"]]
            answered = sum(len(texts) if isinstance(texts, list) else 1 for texts in answers)
        except (KeyError, TypeError, AttributeError) as error:
            raise _unusable(row, f"'questions' is not as in AVeriTeC's files ({error!r:.60})") from None
    for item in _items(row, "evidence"):
        if not isinstance(item, Mapping):
            raise _unusable(row, f"a piece of evidence is {str(item)[:40]!r}, which is no object")
        question, answer = _text(row, item.get("question"), "a question"), _text(row, item.get("answer"), "an answer")
        questions.append(question)
        pairs.append(f"{question} {answer}")
        answered += is_answer(answer)
    return tuple(questions), tuple(pairs), answered


def _items(row: Row, key: str) -> list[Any]:
    value = row.values.get(key, [])
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        raise _unusable(row, f"{key!r} must be a list of at most {_MAX_ITEMS:,}")
    return value


def _text(row: Row, value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        raise _unusable(row, f"{name} must be a text of at most {_MAX_TEXT_CHARS:,} characters")
    return clean_text(value)
