"""The record of a fact-checked claim, as AVeriTeC annotates it: the claim, where it was made, and how it was checked.

The four labels are those of ProFact's "Task Definition". Texts of questions and answers are kept as the file has
them, white space included, since the official scores are computed on them. The strategies of the fact-checkers and
the cached copy of the claim itself are left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Label = Literal["Supported", "Refuted", "Not Enough Evidence", "Conflicting Evidence/Cherrypicking"]
LABELS: tuple[Label, ...] = get_args(Label)
SUPPORTED, REFUTED, NOT_ENOUGH, CONFLICTING = LABELS

NO_ANSWER = "No answer could be found."
"""What the official scorer puts where a question has no answer."""

_NAMES: Mapping[Label, tuple[str, ...]] = {
    "Supported": ("supported", "supports", "support"),
    "Refuted": ("refuted", "refutes", "refute"),
    "Not Enough Evidence": ("not enough evidence", "not enough information", "not enough info", "nei", "nee"),
    "Conflicting Evidence/Cherrypicking": (
        "conflicting evidence/cherrypicking",
        "conflicting evidence/cherry picking",
        "conflicting evidence",
        "cherrypicking",
        "cherry picking",
        "conflicting",
    ),
}
_LABELS: Mapping[str, Label] = {name: label for label, names in _NAMES.items() for name in names}
_LONGEST_NAME = 80


def fact_check_label(value: object) -> Label | None:
    """A data set's label as one of the four, None for anything else.

    Text in any case, with `_` or `-` for spaces. A model's own words are read elsewhere.
    """
    if not isinstance(value, str):
        return None
    words = value[:_LONGEST_NAME].lower().replace("_", " ").replace("-", " ").split()
    return _LABELS.get(" ".join(words).replace(" / ", "/"))


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """One annotated answer.

    type: "Extractive", "Abstractive", "Boolean" or "Unanswerable" in AVeriTeC; empty when the file says nothing.
    explanation: why, for a boolean answer; else empty. source_url: empty, or the word "Metadata", where no page is
    the source. cached_url: a copy of the source in an archive, or empty. medium: such as "Web text" or "PDF".
    """

    text: str
    type: str = ""
    explanation: str = ""
    source_url: str = ""
    cached_url: str = ""
    medium: str = ""


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One annotated question with its answers; a few questions have several, none at all is possible."""

    question: str
    answers: tuple[GoldAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class FactCheck:
    """One claim with its metadata and everything that is true of it.

    id: unique in its set, the set's name and `claim_id`. claim_id: the number under which official predictions and
    the published knowledge store know the claim: the file's own, or the place in the file counted from 0. Metadata
    that the file does not give is None. fact_checking_article: where the professional verdict stands, which is no
    evidence and nothing for a policy to read.
    """

    id: str
    claim_id: int
    claim: str
    label: Label
    justification: str = ""
    questions: tuple[GoldQuestion, ...] = ()
    claim_date: dt.date | None = None
    speaker: str | None = None
    location: str | None = None
    reporting_source: str | None = None
    original_claim_url: str | None = None
    fact_checking_article: str | None = None
    claim_types: tuple[str, ...] = ()


def evidence_strings(check: FactCheck) -> tuple[str, ...]:
    """The gold evidence as AVeriTeC's official scorer compares it: "question answer", one text for each answer.

    A boolean answer is followed by ". " and its explanation; a question without an answer by `NO_ANSWER`.
    """
    found = []
    for asked in check.questions:
        found += [f"{asked.question} {answer_string(answer)}" for answer in asked.answers]
        if not asked.answers:
            found.append(f"{asked.question} {NO_ANSWER}")
    return tuple(found)


def answer_string(answer: GoldAnswer) -> str:
    """The answer as the official scorer reads it."""
    explained = answer.type == "Boolean" and answer.explanation
    return f"{answer.text}. {answer.explanation}" if explained else answer.text
