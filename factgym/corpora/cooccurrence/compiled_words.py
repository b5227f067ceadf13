"""Tokenising and numbering documents, compiled with numba: what `tokens.tokenize_bytes` and `store.WordIds` do.

Documents come as one run of UTF-8 bytes. Bytes and the characters below U+3000 have a class: part of a word, separator,
or one that only the tokenizer proper knows how to treat (marks, characters that NFKC changes). A document with one of
the last kind is left to it (`find_simple` says which) and comes back as its words with spaces between. Imported by `engine` alone, like `compiled`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.tokens import SPECIAL, Case

F = TypeVar("F", bound=Callable[..., Any])

SEPARATOR, WORD, OTHER = 0, 1, 2
_CLASSES = 0x3000


@cache
def classes(case: Case) -> NDArray[np.uint8]:
    """The class of each character below U+3000; with `fold`, none beyond ASCII is simple."""
    found = np.zeros(_CLASSES, np.uint8)
    for code in range(_CLASSES):
        character = chr(code)
        simple = code < 128 or (case == "keep" and not SPECIAL.match(character))
        if not simple or unicodedata.normalize("NFKC", character) != character:
            found[code] = OTHER
        elif character.isalnum():
            found[code] = WORD
    return found


def _inner(function: F) -> F:
    compiled: F = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return compiled


@_inner
def _character(text: Any, at: Any) -> tuple[int, int]:
    """The character that begins at a byte of UTF-8 beyond ASCII, and its length; a large number beyond U+FFFF."""
    at, one = np.uint64(at), np.uint64(1)
    first = np.int64(text[at])
    if first < 0xE0:
        return ((first & 0x1F) << 6) | (text[at + one] & 0x3F), 2
    if first < 0xF0:
        return ((first & 0x0F) << 12) | ((text[at + one] & 0x3F) << 6) | (text[at + one + one] & 0x3F), 3
    return 0x10000, 4


def _find_simple(text: Any, bounds: Any, kinds: Any, simple: Any) -> None:
    """Whether each document, at bounds[d] to bounds[d + 1], has no character of the class `OTHER`."""
    for d in range(bounds.size - 1):
        at, end = bounds[d], bounds[d + 1]
        fine = True
        while at < end:
            if text[at] < 128:
                at += 1
                continue
            code, size = _character(text, at)
            if code >= _CLASSES or kinds[code] == OTHER:
                fine = False
                break
            at += size
        simple[d] = fine


@_inner
def _mixed(key: Any) -> Any:
    """A hash whose middle bits depend on every byte, also of a short word."""
    return (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


@_inner
def _size_of(byte: Any) -> Any:
    """Bytes of the character that begins with this one."""
    return (
        np.uint64(1) if byte < 128 else np.uint64(2) if byte < 0xE0 else np.uint64(3) if byte < 0xF0 else np.uint64(4)
    )


def _scan(  # noqa: C901, PLR0915 - one loop: every array that is passed on costs more than a word takes here
    text: Any, bounds: Any, first: int, kinds: Any, simple: Any, lower: bool, slots: Any, hashes: Any, spelling: Any,
    ends: Any, used: Any, out: Any, lengths: Any,
) -> Any:  # fmt: skip
    """Number the words of documents from `first` on, until the tables are too full for the next; its number.

    text: documents one after the other, made lower case with `lower`. simple: from `_find_simple`; the others' words
    stand between spaces. slots, hashes, spelling, ends: the words so far; used: how many, and the numbers in `out`.
    Indices are unsigned, which spares numba the question whether they count from the end.
    """
    one, prime = np.uint64(1), np.uint64(0x100000001B3)
    mask = np.uint64(slots.size - 1)
    written = np.uint64(used[1])
    for d in range(first, bounds.size - 1):
        at, end = np.uint64(bounds[d]), np.uint64(bounds[d + 1])
        most = (end - at + one) >> one
        if 2 * (used[0] + np.int64(most)) > slots.size or ends[used[0]] + np.int64(end - at) > spelling.size:
            return d
        plain, before = simple[d], written
        if lower and plain:
            for i in range(at, end):
                if text[i] >= 65 and text[i] <= 90:
                    text[i] += np.uint8(32)
        while at < end:
            key, start = np.uint64(0xCBF29CE484222325), at
            while at < end:
                byte = text[at]
                if not plain:
                    if byte == 32:
                        break
                elif byte < 128:
                    if kinds[byte] != WORD:
                        break
                else:
                    code, size = _character(text, at)
                    if kinds[code] != WORD:
                        break
                    for _ in range(size - 1):
                        key = (key ^ np.uint64(text[at])) * prime
                        at += one
                    byte = text[at]
                key = (key ^ np.uint64(byte)) * prime
                at += one
            if at > start:
                key = _mixed(key)
                slot = (key >> np.uint64(20)) & mask
                length = at - start
                while True:
                    number = np.uint64(slots[slot])
                    if number == 0:
                        number = np.uint64(used[0])
                        slots[slot] = np.int64(number + one)
                        hashes[number] = key
                        held = np.uint64(ends[number])
                        for i in range(length):
                            spelling[held + i] = text[start + i]
                        ends[number + one] = np.int64(held + length)
                        used[0] += 1
                        break
                    number -= one
                    held = np.uint64(ends[number])
                    if hashes[number] == key and np.uint64(ends[number + one]) - held == length:
                        same = True
                        for i in range(length):
                            same &= spelling[held + i] == text[start + i]
                        if same:
                            break
                    slot = (slot + one) & mask
                out[written] = np.uint32(number)
                written += one
            if at < end:
                at += _size_of(text[at])
        lengths[d] = np.int64(written - before)
        used[1] = np.int64(written)
    return bounds.size - 1


_U8 = types.Array(types.uint8, 1, "C")
_I64 = types.Array(types.int64, 1, "C")
_U32 = types.Array(types.uint32, 1, "C")
_U64 = types.Array(types.uint64, 1, "C")

_BOOLS = types.Array(types.boolean, 1, "C")

find_simple: Callable[..., None] = numba.njit(
    types.void(_U8, _I64, _U8, _BOOLS), nogil=True, cache=True, error_model="numpy"
)(_find_simple)

scan: Callable[..., int] = numba.njit(
    types.int64(_U8, _I64, types.int64, _U8, _BOOLS, types.boolean, _I64, _U64, _U8, _I64, _I64, _U32, _I64),
    nogil=True,
    cache=True,
    error_model="numpy",
)(_scan)
