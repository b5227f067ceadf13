"""Entities, relations and triplets of the compiled rules, and how they become text; imported by `compiled_rules` alone.

An entity is a span of words (a, b, how), a relation (how, a, b) the words of a role or what units [a, b) say. A sentence
is a tuple s: its text, its words (see `compiled_units`), the kinds of its units, their first words, the output, a state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from factgym.rewards.corver.compiled_units import BEGIN, BITS, END, size_of
from factgym.rewards.corver.compiled_words import ALSO, BARE_PRONOUN, GENITIVE, PLURAL_GENITIVE, PRONOUN, QUOTED, inner
from factgym.rewards.corver.lexicon import AUX, BE, COMMA, CONJ, DET, NUM

MAX_TRIPLETS = 8
TEXT, NAME, WITH_ARTICLE = range(3)
NO_RELATION, AS_ROLE, AS_PARTS = range(3)
FOUND, DONE, AT = range(3)
"""Of a sentence's state: triplets so far, whether to stop, where the output goes on; then the ends of the three texts."""


@inner
def write_words(s: Any, a: int, b: int, at: int) -> int:
    """Words [a, b) with single spaces, none before a comma; where they end."""
    text, words, _, _, out, _ = s
    for i in range(a, b):
        begin, end = words[BEGIN, i], words[END, i]
        if i > a and not (end == begin + 1 and text[begin] == 44):
            out[at] = 32
            at += 1
        for k in range(begin, end):
            out[at] = text[k]
            at += 1
    return at


@inner
def write_entity(s: Any, entity: Any, at: int) -> int:
    """The text of an entity; where it ends."""
    _, words, _, _, out, _ = s
    a, b, how = entity
    end = write_words(s, a, b, at)
    if how == NAME:
        bits = words[BITS, b - 1]
        return end - (2 if bits & GENITIVE else 1 if bits & QUOTED else 0)
    if how == WITH_ARTICLE:
        for k in range(at, at + size_of(words, a)):
            if out[k] >= 65 and out[k] <= 90:
                out[k] += np.uint8(32)
    return end


@inner
def is_silent(kind: int) -> bool:
    """Whether a relation leaves it out."""
    return kind in (DET, COMMA, NUM, CONJ)


@inner
def _is_also(s: Any, i: int) -> Any:
    return s[3][i + 1] == s[3][i] + 1 and s[1][BITS, s[3][i]] & ALSO != 0


@inner
def _first_part(s: Any, since: int, end: int) -> int:
    """Where a relation's words begin: past what is not said, and past auxiliaries before another word."""
    kinds = s[2]
    left = 0
    for i in range(since, end):
        left += not is_silent(kinds[i])
    i = since
    while i < end:
        if not is_silent(kinds[i]):
            if left <= 1 or not (kinds[i] == BE or kinds[i] == AUX):
                break
            left -= 1
        i += 1
    return i


@inner
def write_relation(s: Any, relation: Any, at: int) -> int:
    """The text of a relation; where it ends."""
    how, a, b = relation
    _, _, kinds, starts, out, _ = s
    if how == AS_ROLE:
        return write_words(s, a, b, at)
    if how == NO_RELATION:
        return at
    if b == a + 1 and not is_silent(kinds[a]):
        return write_words(s, starts[a], starts[b], at)
    begin = at
    for i in range(_first_part(s, a, b), b):
        if not is_silent(kinds[i]) and not _is_also(s, i):
            if at > begin:
                out[at] = 32
                at += 1
            at = write_words(s, starts[i], starts[i + 1], at)
    return at


@inner
def relation_of(s: Any, since: int, end: int, role: Any, old: Any) -> Any:
    """The relation from the verb to the object: the role, the words between, or the old one where they say nothing."""
    if role[0] != NO_RELATION:
        return role
    kinds = s[2]
    if end == since + 1 and not is_silent(kinds[since]):
        return AS_PARTS, since, end
    for i in range(_first_part(s, since, end), end):
        if not is_silent(kinds[i]) and not _is_also(s, i):
            return AS_PARTS, since, end
    return old


@inner
def _is_pronoun(s: Any, entity: Any) -> Any:
    a, b, how = entity
    return b == a + 1 and s[1][BITS, a] & (BARE_PRONOUN if how == NAME else PRONOUN) != 0


@inner
def add(s: Any, head: Any, relation: Any, tail: Any) -> None:
    """Count a triplet; the first valid one is written out and ends the sentence."""
    state = s[5]
    state[FOUND] += 1
    if _is_pronoun(s, head) or _is_pronoun(s, tail):
        state[DONE] = state[FOUND] >= MAX_TRIPLETS
        return
    state[DONE] = 1
    state[AT + 1] = write_entity(s, head, state[AT])
    state[AT + 2] = write_relation(s, relation, state[AT + 1])
    state[AT + 3] = write_entity(s, tail, state[AT + 2])


@inner
def span_of(s: Any, start: int, end: int) -> Any:
    """Units [start, end) as they stand."""
    return s[3][start], s[3][end], TEXT


@inner
def name_of(s: Any, i: int) -> Any:
    """A name without its possessive ending."""
    return s[3][i], s[3][i + 1], NAME


@inner
def is_possessive(s: Any, i: int) -> Any:
    """Whether a unit ends in "'s" or "s'"."""
    return s[1][BITS, s[3][i + 1] - 1] & (GENITIVE | PLURAL_GENITIVE) != 0


@inner
def role_of(s: Any, start: int, end: int) -> Any:
    """Units [start, end) as a relation."""
    return AS_ROLE, s[3][start], s[3][end]
