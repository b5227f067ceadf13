"""Corruptions of documents' sentences for ClaimCheck ("Building The Benchmark"): the operators and the label check.

One controlled evidence failure per claim, so that label and reason are known. Labels are strict: *contradicted*, the
document says otherwise; *overclaim*, it supports a narrower or a conditional version; *unsupported*, it is silent. An
operator makes no edit wherever the result would not be grammatical or its label could be disputed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from factgym.datasets.claims import Status
from factgym.generators.perturbations.additions import ADDITION, CAUSE, IRRELEVANT, JOINED
from factgym.generators.perturbations.adjuncts import (
    CONDITION_EXCHANGED,
    CONTRARY,
    HEDGE,
    LIMIT,
    LIMIT_ADDED,
    PURPOSE_ADDED,
)
from factgym.generators.perturbations.clauses import CONDITION, EXCEPTION
from factgym.generators.perturbations.entities import EXCHANGE, PARTY
from factgym.generators.perturbations.modals import DUTY, MODAL
from factgym.generators.perturbations.numbers import AMOUNT, DATE, FREQUENCY, NUMBER, VERSION
from factgym.generators.perturbations.operator import NoEdit, Operator, Statement
from factgym.generators.perturbations.polarity import POLARITY
from factgym.generators.perturbations.scope import MODALITY, SCOPE

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        *(NUMBER, AMOUNT, DATE, FREQUENCY, VERSION, PARTY, EXCHANGE, POLARITY, MODAL, CONTRARY),
        *(SCOPE, MODALITY, DUTY, HEDGE, LIMIT, CONDITION, EXCEPTION),
        *(CAUSE, PURPOSE_ADDED, LIMIT_ADDED, CONDITION_EXCHANGED, JOINED, ADDITION, IRRELEVANT),
    )
}
"""The operators by name, in a fixed order: those that contradict, those that claim too much, those without support."""

DONOR_OPERATORS = (ADDITION.name, IRRELEVANT.name)
"""Operators that need sentences of other documents."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """A corrupted sentence.

    text: one grammatical sentence. unsupported_span: verbatim in `text`, the shortest part that the document does not
    support. operator: the name under which the claim is recorded. reason: one sentence for people.
    """

    text: str
    status: Status
    unsupported_span: str
    operator: str
    reason: str


def status_of(operator: str) -> Status:
    """The status of an operator's claims."""
    return cast(Status, OPERATORS[operator].categories[0])


def corrupt(operator: str, statement: Statement) -> Corruption | None:
    """Corrupt a sentence by the named operator; None where it does not apply.

    The check on every operator: the sentence changed, and its unsupported span occurs in it.
    """
    edit = OPERATORS[operator].propose(statement)
    if isinstance(edit, NoEdit):
        return None
    text, span = edit.apply(statement.text), edit.span or edit.replacement
    old = statement.text[edit.start : edit.end].strip().rstrip(",")
    reason = edit.reason or OPERATORS[operator].reason.format(old=old, new=span)
    if text == statement.text or not span or span not in text:
        return None
    return Corruption(text, status_of(operator), span, operator, reason)
