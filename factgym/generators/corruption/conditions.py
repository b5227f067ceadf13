"""Dropping what limits a rule: a condition or an exception. The rest is an *overclaim*: true, but not so generally."""

from __future__ import annotations

import random
import re

from factgym.generators.corruption.base import Context, Corruption, Operator, bare
from factgym.generators.corruption.clauses import Clause, find_condition, find_exception

_CONDITION_CUE = re.compile(
    r"\b(?:if|unless|provided|so long as|as long as|in the event|on (?:the )?condition|subject to|when|whenever|once|upon"
    r"|without|with)\b",
    re.I,
)
_EXCEPTION_CUE = re.compile(r"\b(?:except\w*|other than|excluding|apart from|but not)\b", re.I)


def _corruption(clause: Clause, name: str, kind: str) -> Corruption:
    """The whole remaining statement is what the document does not carry: nothing shorter in it is wrong."""
    limit = f"{clause.word} {clause.text}"
    shown = limit if len(limit) <= 120 else f"{limit[:117]}…"
    reason = f"The document states this with {kind}, which the claim leaves out: {shown!r}."
    return Corruption(f"{clause.main}.", "overclaim", clause.main, name, reason)


def drop_condition(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Leaves out "if …", "unless …", "provided that …", "without consent" and the like."""
    clause = find_condition(bare(sentence))
    return None if clause is None else _corruption(clause, "condition_dropped", "a condition")


def drop_exception(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Leaves out "except …", "other than …" and the like."""
    clause = find_exception(bare(sentence))
    return None if clause is None else _corruption(clause, "exception_dropped", "an exception")


CONDITION = Operator("condition_dropped", "overclaim", _CONDITION_CUE, drop_condition)
EXCEPTION = Operator("exception_dropped", "overclaim", _EXCEPTION_CUE, drop_exception)
