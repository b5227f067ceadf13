"""The words of a sentence in bytes (see `stand_ins`), classified by compiled code: what `units` does with a regular expression and tables.

Imported by `compiled_rules` alone. A word is a place in the text, a kind, and bits that say what the rules ask of its
spelling. The lexicon is one hash table from words in lower case to kinds and bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from factgym.rewards.corver.fallback_judges import CAPITALS, EM_DASH, EN_DASH, LETTERS, QUOTE
from factgym.rewards.corver.lexicon import (
    ADV,
    ENT,
    GERUND,
    JOINERS,
    KINDS,
    MONTHS,
    NOUN,
    NUM,
    PLACE_PREPOSITIONS,
    POSSESSIVES,
    ROLES,
    VERB,
)
from factgym.rewards.corver.triplets import PRONOUNS

F = TypeVar("F", bound=Callable[..., Any])

MONTH, ROLE, POSSESSIVE, PLACE, ARTICLE, PRONOUN = (1 << bit for bit in range(6))
"""What a word is in lower case."""
OF, FOR, JOINER, AS, THAN, ALSO = (1 << bit for bit in range(6, 12))
"""What it is as it is spelled: these are lower-case words."""
(DIGITS, VALUE, GENITIVE, PLURAL_GENITIVE, QUOTED, PRESENT, IN_LY, BARE_PRONOUN, IS_COMMA) = (
    1 << bit for bit in range(12, 21)
)
"""Digits alone; a digit at the end of no short range; "'s", "s'", "'" at the end (or with ’); an "s" that a verb may
have; "ly"; a pronoun without its "'s" or "'"; a comma."""

_SPELLED = OF | FOR | JOINER | AS | THAN | ALSO
_OTHER_BYTE, _WORD_BYTE, _INNER_BYTE, _MARK_BYTE = range(4)
_LONGEST = 24
"""No word of the lexicon is longer."""
_SLOTS = 1 << 13


class Table(NamedTuple):
    """The lexicon for compiled code: open addressing, 0 for an empty slot."""

    slots: NDArray[np.int64]
    spelling: NDArray[np.uint8]
    """(entries, _LONGEST), padded with zeros."""
    entries: NDArray[np.int64]
    """(entries, 2): kind (0 for none), bits."""
    classes: NDArray[np.int64]
    """Of each byte: part of a word, only inside one, a mark that is a word of its own, or nothing."""


def inner(function: F) -> F:
    """For a function that kernels call."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def _bits() -> Mapping[str, int]:
    found: dict[str, int] = {}
    sets = (
        *((MONTH, {one.lower() for one in MONTHS}), (ROLE, ROLES), (POSSESSIVE, POSSESSIVES)),
        *((PLACE, PLACE_PREPOSITIONS), (ARTICLE, {"the", "a", "an"}), (PRONOUN, PRONOUNS), (JOINER, JOINERS)),
        *((OF, {"of"}), (FOR, {"for"}), (AS, {"as"}), (THAN, {"than"}), (ALSO, {"also"})),
    )
    for bit, words in sets:
        for word in words:
            found[word] = found.get(word, 0) | bit
    return found


def make_table() -> Table:
    """The lexicon's table."""
    bits = _bits()
    words = sorted({*KINDS, *bits})
    entries = np.array([(KINDS.get(one, 0), bits.get(one, 0)) for one in words], np.int64)
    spelling = np.zeros((len(words), _LONGEST), np.uint8)
    slots = np.zeros(_SLOTS, np.int64)
    for number, word in enumerate(words):
        raw = np.frombuffer(word.replace("—", chr(EM_DASH)).encode("latin-1"), np.uint8)
        spelling[number, : len(raw)] = raw
        slot = int(_hash(raw, 0, len(raw))) & (_SLOTS - 1)
        while slots[slot]:
            slot = (slot + 1) & (_SLOTS - 1)
        slots[slot] = number + 1
    classes = np.zeros(256, np.int64)
    for code in range(128):
        char = chr(code)
        inside = _INNER_BYTE if char in "'/-" else _MARK_BYTE if char in ",;:()&" else _OTHER_BYTE
        classes[code] = _WORD_BYTE if char.isalnum() or char == "_" else inside
    classes[CAPITALS:QUOTE] = _WORD_BYTE
    classes[[QUOTE, EN_DASH]] = _INNER_BYTE
    classes[EM_DASH] = _MARK_BYTE
    return Table(slots, spelling, entries, classes)


@inner
def _hash(text: Any, begin: int, end: int) -> Any:
    """Of a word in lower case."""
    key = np.uint64(0xCBF29CE484222325)
    for i in range(begin, end):
        byte = np.uint64(text[i])
        if byte >= 65 and byte <= 90:
            byte += np.uint64(32)
        key = (key ^ byte) * np.uint64(0x100000001B3)
    return key >> np.uint64(20)


@inner
def _look_up(table: Any, text: Any, begin: int, end: int) -> Any:
    """The entry of a word in lower case, or -1."""
    size = end - begin
    if size > _LONGEST:
        return -1
    slot = np.int64(_hash(text, begin, end)) & (_SLOTS - 1)
    while table.slots[slot]:
        number = table.slots[slot] - 1
        same = size == _LONGEST or table.spelling[number, size] == 0
        for i in range(size):
            byte = text[begin + i]
            if byte >= 65 and byte <= 90:
                byte += np.uint8(32)
            same = same and table.spelling[number, i] == byte
        if same:
            return number
        slot = (slot + 1) & (_SLOTS - 1)
    return -1


@inner
def _is_digit(byte: int) -> bool:
    return byte >= 48 and byte <= 57


@inner
def _number_with_commas(text: Any, at: int, end: int) -> int:
    """Where "1,000,000" ends that begins here, or `at`."""
    i = at
    while i < end and _is_digit(text[i]):
        i += 1
    if i == at or i - at > 3:
        return at
    groups = 0
    while (
        i + 3 < end and text[i] == 44 and _is_digit(text[i + 1]) and _is_digit(text[i + 2]) and _is_digit(text[i + 3])
    ):
        i += 4
        groups += 1
    if groups and i < end and _is_digit(text[i]):
        i -= 4
        groups -= 1
    return i if groups else at


@inner
def _word_end(table: Any, text: Any, at: int, end: int) -> int:
    """Where the word that begins here ends: letters, digits, what may stand inside, full stops between two letters."""
    i = at + 1
    while i < end:
        kind = table.classes[text[i]]
        if kind in (_WORD_BYTE, _INNER_BYTE) or text[i] == 38:
            i += 1
        elif text[i] == 46 and i + 1 < end and table.classes[text[i + 1]] == _WORD_BYTE:
            i += 2
        else:
            break
    return i


@inner
def _guess(text: Any, begin: int, end: int) -> int:
    """As `units._guess`."""
    first, size, last, other = (text[begin], end - begin, text[end - 1], text[max(begin, end - 2)])
    if (first >= 65 and first <= 90) or (first >= CAPITALS and first < LETTERS):
        return ENT
    if _is_digit(first):
        return NUM
    if size < 5:
        return NOUN
    if other == 101 and last == 100:
        return VERB
    if other == 108 and last == 121:
        return ADV
    return GERUND if size > 5 and text[end - 3] == 105 and other == 110 and last == 103 else NOUN


@inner
def _has_digits_only(text: Any, begin: int, end: int) -> bool:
    for i in range(begin, end):  # noqa: SIM110 - numba has no generators here
        if not _is_digit(text[i]):
            return False
    return True


@inner
def _is_quote(byte: Any) -> Any:
    return byte == 39 or byte == QUOTE


@inner
def _number_bits(text: Any, begin: int, end: int) -> int:
    """Of a word with a digit at its end. One such as "3–2", with a dash and under six characters, has no value."""
    if end - begin < 6:
        for i in range(begin, end):
            if text[i] == EN_DASH:
                return 0
    return VALUE | DIGITS if _has_digits_only(text, begin, end) else VALUE


@inner
def _shape(text: Any, begin: int, end: int) -> int:
    """The bits that a word's spelling gives."""
    last, other = text[end - 1], text[end - 2] if end - begin > 1 else np.uint8(0)
    bits = 0
    if _is_digit(last):
        bits |= _number_bits(text, begin, end)
    elif last == 115:
        if _is_quote(other):
            bits |= GENITIVE
        if other not in (115, 117, 105, 97, 111):
            bits |= PRESENT
    elif _is_quote(last):
        bits |= QUOTED
        if other == 115:
            bits |= PLURAL_GENITIVE
    elif (last == 121 or last == 89) and (other == 108 or other == 76):
        bits |= IN_LY
    elif last == 44:
        bits |= IS_COMMA
    return bits


@inner
def _has_capital(text: Any, begin: int, end: int) -> bool:
    for i in range(begin, end):  # noqa: SIM110 - numba has no generators here
        if text[i] >= 65 and text[i] <= 90:
            return True
    return False


@inner
def _classify(table: Any, text: Any, begin: int, end: int, words: Any, n: int) -> None:
    entry, bits = _look_up(table, text, begin, end), _shape(text, begin, end)
    capital = _has_capital(text, begin, end)
    kind = known = 0
    if entry >= 0:
        known = table.entries[entry, 0]
        said = table.entries[entry, 1]
        if capital:
            said &= ~_SPELLED
            if said & MONTH and (text[begin] > 90 or _has_capital(text, begin + 1, end)):
                said &= ~MONTH
        else:
            kind = known
            said &= ~MONTH
        bits |= said
    if bits & (GENITIVE | QUOTED):
        bare = _look_up(table, text, begin, end - (2 if bits & GENITIVE else 1))
        if bare >= 0 and table.entries[bare, 1] & PRONOUN:
            bits |= BARE_PRONOUN
    elif bits & PRONOUN:
        bits |= BARE_PRONOUN
    words[0, n], words[1, n], words[2, n] = (begin, end, kind if kind else _guess(text, begin, end))
    words[3, n], words[4, n] = bits, known


@inner
def find_words(table: Any, text: Any, begin: int, end: int, words: Any) -> int:
    """Note the words of text[begin:end] in `words`; how many."""
    at, n = begin, 0
    while at < end:
        kind = table.classes[text[at]]
        if kind == _WORD_BYTE:
            stop = _number_with_commas(text, at, end)
            if stop == at:
                stop = _word_end(table, text, at, end)
        elif kind == _MARK_BYTE:
            stop = at + 1
        else:
            at += 1
            continue
        _classify(table, text, at, stop, words, n)
        n += 1
        at = stop
    return n
