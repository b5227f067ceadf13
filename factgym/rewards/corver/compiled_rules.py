"""The rule extractor compiled with numba: the first valid triplet of many sentences, as `rule_extractor` finds it.

Each function here and in the modules `compiled_…` is the twin of the one of its name there, over numbers in place of
texts. Imported by `fast_rules` alone, in the background, as importing numba takes a second and compiling takes some
twenty. numba caches on disk and looks at this file alone to tell whether that is stale: whoever changes another of
these modules or the lexicon raises VERSION here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from factgym.rewards.corver.compiled_triplets import (
    AT,
    DONE,
    FOUND,
    NO_RELATION,
    TEXT,
    WITH_ARTICLE,
    add,
    is_possessive,
    name_of,
    relation_of,
    role_of,
    span_of,
    write_entity,
)
from factgym.rewards.corver.compiled_units import (
    BITS,
    is_finite,
    join,
    main_verb,
    next_of,
    present_verb,
    size_of,
    skip_introduction,
    subject_end,
)
from factgym.rewards.corver.compiled_words import ARTICLE, OF, POSSESSIVE, THAN, VALUE, find_words, inner, make_table
from factgym.rewards.corver.lexicon import (
    ADV,
    BE,
    COMMA,
    CONJ,
    DATE,
    DET,
    ENT,
    GERUND,
    NOUN,
    NUM,
    PREP,
    PRON,
    STOP,
    SUB,
    VERB,
    WH,
)

VERSION = 2
MAX_CHARS = 2_000
"""Of a sentence; room for so many words is taken once."""
BYTES_PER_CHAR = 6
"""Of output: three texts, in each of which a space may stand between any two characters."""

make_lexicon = make_table


_NOBODY = (-1, -1, TEXT)
_NO_ROLE = (NO_RELATION, 0, 0)


@inner
def _heads(s: Any, start: int, end: int, verb: int) -> Any:
    """The subject as the head of triplets, and what it is asked about; `_NOBODY` without one."""
    _, words, kinds, starts, _, _ = s
    while start < end and (kinds[start] == DET or kinds[start] == ADV or kinds[start] == PREP):
        if words[BITS, starts[start]] & POSSESSIVE:
            return (starts[start], starts[start] + 1, TEXT), _NO_ROLE
        start += 1
    if start >= end:
        alone = start > 0 and (kinds[start - 1] == DET or kinds[start - 1] == WH)
        return ((starts[start - 1], starts[start - 1] + 1, TEXT) if alone else _NOBODY), _NO_ROLE
    first = next_of(kinds, end, ENT, start)
    if first < 0:
        return _common_head(s, start, end), _NO_ROLE
    if first == start:
        if is_possessive(s, first) and first + 1 < end and (kinds[first + 1] == NOUN or kinds[first + 1] == VERB):
            return _possessed(s, first, end, verb)
        return name_of(s, first), _NO_ROLE
    before = kinds[first - 1]
    if before == PREP and kinds[verb] == BE:
        return name_of(s, first), role_of(s, start, first - 1)
    if before in (NOUN, GERUND, VERB):
        return name_of(s, first), _NO_ROLE
    return span_of(s, start, first + 1), _NO_ROLE


@inner
def _common_head(s: Any, start: int, end: int) -> Any:
    """A subject without a name, up to its last nominal word, with its article."""
    _, words, kinds, starts, _, _ = s
    last = -1
    for i in range(start, end):
        kind = kinds[i]
        if kind in (NOUN, PRON, NUM, DATE):
            last = i
    if last < 0:
        return _NOBODY
    article = start > 0 and kinds[start - 1] == DET and words[BITS, starts[start - 1]] & ARTICLE != 0
    if article and kinds[start] != PRON:
        return starts[start - 1], starts[last + 1], WITH_ARTICLE
    return span_of(s, start, last + 1)


@inner
def _possessed(s: Any, first: int, end: int, verb: int) -> Any:
    kinds = s[2]
    role = role_of(s, first + 1, end)
    if end + 1 < verb and kinds[end] == COMMA and kinds[end + 1] == ENT:
        other = name_of(s, end + 1)
        add(s, name_of(s, first), role, other)
        return other, _NO_ROLE
    return name_of(s, first), (role if kinds[verb] == BE else _NO_ROLE)


@inner
def _predicate(s: Any, head: Any, role: Any, verb: int, count: int) -> None:
    """Every name, date and number after the verb, with the head that it belongs to."""
    _, words, kinds, starts, _, state = s
    subject, since, last, relation = head, verb, _NOBODY, _NO_ROLE
    while since and kinds[since - 1] == ADV:
        since -= 1
    first_found = state[FOUND]
    i = verb + 1
    while i < count and not state[DONE]:
        kind = kinds[i]
        if kind in (ENT, DATE) or (kind == NUM and _is_value(s, i, count)):
            after = _tail_end(s, i, count)
            tail = name_of(s, i)
            if kind == ENT and not is_possessive(s, i):
                tail = span_of(s, i, after)
            relation = relation_of(s, since, i, role, relation)
            if not words[BITS, starts[i - 1]] & THAN:
                add(s, head, relation, tail)
            last = tail if kind == ENT and after == i + 1 and kinds[i - 1] != DET else _NOBODY
            since = i = after
            continue
        if kind == WH and last[0] >= 0 and i + 1 < count and is_finite(kinds[i + 1]):
            head, role, since = last, _NO_ROLE, i + 1
        elif kind == CONJ and i + 1 < count and (is_finite(kinds[i + 1]) or kinds[i + 1] == ADV):
            head, role, since = subject, _NO_ROLE, i + 1
        elif kind in (STOP, SUB):
            break
        i += 1
    if state[FOUND] == first_found:
        _common_object(s, subject, role, verb, count)


@inner
def _is_value(s: Any, i: int, count: int) -> bool:
    _, words, kinds, starts, _, _ = s
    word = starts[i]
    if not words[BITS, word] & VALUE:
        return False
    counts = i + 1 < count and (kinds[i + 1] == NOUN or kinds[i + 1] == ENT)
    return not counts or (size_of(words, word) >= 4 and kinds[i - 1] != DET)


@inner
def _tail_end(s: Any, i: int, count: int) -> int:
    """Where the name ends with the common nouns that belong to it."""
    kinds = s[2]
    end = i + 1
    if kinds[i] == ENT and not is_possessive(s, i):
        while end < count and kinds[end] == NOUN:
            end += 1
    return end


@inner
def _common_object(s: Any, head: Any, role: Any, verb: int, count: int) -> None:
    _, words, kinds, starts, _, _ = s
    i = verb + 1
    while i < count and (is_finite(kinds[i]) or kinds[i] == ADV or kinds[i] == PREP):
        i += 1
    if i >= count or (kinds[verb] == BE and i == verb + 1 and kinds[i] != DET and role[0] == NO_RELATION):
        return
    start = i
    while start < count and (kinds[start] == DET or kinds[start] == NUM):
        start += 1
    end = start
    while end < count:
        of = end > start and words[BITS, starts[end]] & OF != 0 and end + 1 < count and kinds[end + 1] == NOUN
        if not (kinds[end] == NOUN or kinds[end] == GERUND or kinds[end] == VERB or of):
            break
        end += 1
    if end > start:
        add(s, head, relation_of(s, verb, i, role, _NO_ROLE), span_of(s, start, end))


@inner
def _appositions(s: Any, head: Any, start: int, verb: int) -> None:
    kinds, state = s[2], s[5]
    since = start
    for i in range(start, verb):
        if kinds[i] == COMMA:
            since = i + 1
        elif (kinds[i] == ENT or kinds[i] == DATE) and not state[DONE] and i > since and kinds[since] != ENT:
            name = name_of(s, i)
            if not _are_same(s, head, name):
                add(s, head, relation_of(s, since, i, _NO_ROLE, _NO_ROLE), name)
            since = i + 1


@inner
def _are_same(s: Any, one: Any, other: Any) -> bool:
    """Whether two entities have the same text; both are written where the next output goes."""
    out, at = s[4], s[5][AT]
    middle = write_entity(s, one, at)
    end = write_entity(s, other, middle)
    if end - middle != middle - at:
        return False
    for k in range(middle - at):  # noqa: SIM110 - numba has no generators here
        if out[at + k] != out[middle + k]:
            return False
    return True


@inner
def _read(s: Any, count: int) -> None:
    _, words, kinds, starts, _, state = s
    start = skip_introduction(kinds, count)
    verb = main_verb(kinds, count, start)
    if verb < 0:
        verb = present_verb(words, kinds, starts, count, start)
    if verb < 0:
        return
    end = subject_end(kinds, count, start, verb)
    head, role = _heads(s, start, end, verb)
    if head[0] < 0:
        return
    if not state[DONE]:
        _predicate(s, head, role, verb, count)
    if end < verb and not state[DONE]:
        _appositions(s, head, end, verb)


def _read_many(lexicon: Any, text: Any, bounds: Any, out: Any, places: Any) -> None:
    """Write the first valid triplet of each sentence text[bounds[i]:bounds[i + 1]] one after the other to `out`.

    places: (sentences, 4), where head, relation and tail begin and the tail ends; zeros for a sentence without one.
    """
    words, kinds = (np.empty((5, MAX_CHARS + 1), np.int64), np.empty(MAX_CHARS + 1, np.int64))
    starts, state = np.empty(MAX_CHARS + 2, np.int64), np.zeros(6, np.int64)
    at = 0
    for i in range(bounds.size - 1):
        n = find_words(lexicon, text, bounds[i], bounds[i + 1], words)
        if n < 3:
            continue
        state[:] = 0
        state[AT] = at
        _read((text, words, kinds, starts, out, state), join(words, n, kinds, starts))
        if state[AT + 3]:
            places[i] = state[AT : AT + 4]
            at = state[AT + 3]


read_many: Callable[..., None] = numba.njit(nogil=True, cache=True, error_model="numpy")(_read_many)
