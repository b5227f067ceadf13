"""Tokenisation and numbering of documents, compiled with numba: equal to `tokenizer.number_documents`.

Documents are consecutive UTF-8 bytes. Characters below U+3000 have a class: part of a word, separator, or one that only
the tokenizer proper can handle (marks, characters that NFKC changes). A document with one of the last class is left to
it (`find_simple` marks the others) and comes back as its words with spaces between. Imported by `engine` only.
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

from factgym.corpora.cooccurrence.tokenizer import SPECIAL, Case

F = TypeVar("F", bound=Callable[..., Any])

SEPARATOR, WORD, OTHER = 0, 1, 2
_CLASSES = 0x3000
_ONE = np.uint64(1)


@cache
def char_classes(case: Case) -> NDArray[np.uint8]:
    """Return the class of each character below U+3000; with `fold`, none beyond ASCII is simple."""
    classes = np.zeros(_CLASSES, np.uint8)
    for code in range(_CLASSES):
        character = chr(code)
        simple = code < 128 or (case == "keep" and not SPECIAL.match(character))
        if not simple or unicodedata.normalize("NFKC", character) != character:
            classes[code] = OTHER
        elif character.isalnum():
            classes[code] = WORD
    return classes


def _inline(function: F) -> F:
    compiled: F = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return compiled


@_inline
def _decode_character(text: Any, index: Any) -> tuple[int, int]:
    """Return the non-ASCII character at a byte of UTF-8, and its length; a large number beyond U+FFFF."""
    # UTF-8 (RFC 3629) without validation: the bytes come from `str.encode`, lone surrogates as three bytes each.
    index = np.uint64(index)
    first = np.int64(text[index])
    if first < 0xE0:
        return ((first & 0x1F) << 6) | (text[index + _ONE] & 0x3F), 2
    if first < 0xF0:
        return ((first & 0x0F) << 12) | ((text[index + _ONE] & 0x3F) << 6) | (text[index + _ONE + _ONE] & 0x3F), 3
    return 0x10000, 4


def _find_simple(text: Any, bounds: Any, classes: Any, simple: Any) -> None:
    """Write whether each document, text[bounds[d]:bounds[d + 1]], has no character of the class `OTHER`."""
    for d in range(bounds.size - 1):
        index, end = bounds[d], bounds[d + 1]
        is_simple = True
        while index < end:
            if text[index] < 128:
                index += 1
                continue
            code, size = _decode_character(text, index)
            if code >= _CLASSES or classes[code] == OTHER:
                is_simple = False
                break
            index += size
        simple[d] = is_simple


@_inline
def _mix(key: Any) -> Any:
    """Return a hash whose middle bits depend on every byte, also of a short word (Fibonacci hashing)."""
    # The factor is 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4).
    return (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


@_inline
def _character_size(byte: Any) -> Any:
    """Return the bytes of the character that begins with this one."""
    return (
        np.uint64(1) if byte < 128 else np.uint64(2) if byte < 0xE0 else np.uint64(3) if byte < 0xF0 else np.uint64(4)
    )


def _scan(  # noqa: C901, PLR0915 - one loop: passing an array to a function costs more than a word
    text: Any, bounds: Any, first: int, classes: Any, simple: Any, lower: bool, slots: Any, hashes: Any, spelling: Any,
    ends: Any, used: Any, tokens: Any, lengths: Any,
) -> Any:  # fmt: skip
    """Number the words of documents from `first` on, until the tables are too full for the next; return its number.

    text: documents one after the other, made lower case with `lower`. simple: from `_find_simple`; the other documents
    are words between spaces. slots, hashes, spelling, ends, used: see `tokenizer._Vocabulary`. Words are hashed by
    FNV-1a, and looked up by linear probing. Indexes are unsigned: numba need not check whether they count from the end.
    """
    # FNV-1a with 64 bits (Fowler, Noll and Vo): this prime, and the offset basis with which every key begins.
    prime = np.uint64(0x100000001B3)
    mask = np.uint64(slots.size - 1)
    written = np.uint64(used[1])
    for d in range(first, bounds.size - 1):
        index, end = np.uint64(bounds[d]), np.uint64(bounds[d + 1])
        # b bytes hold at most (b + 1) / 2 words. Room is checked for a document as a whole, and no word needs a check.
        max_words = (end - index + _ONE) >> _ONE
        if 2 * (used[0] + np.int64(max_words)) > slots.size or ends[used[0]] + np.int64(end - index) > spelling.size:
            return d
        is_simple, written_before = simple[d], written
        if lower and is_simple:
            for i in range(index, end):
                if text[i] >= 65 and text[i] <= 90:
                    text[i] += np.uint8(32)
        while index < end:
            key, start = np.uint64(0xCBF29CE484222325), index
            while index < end:
                byte = text[index]
                if not is_simple:
                    if byte == 32:
                        break
                elif byte < 128:
                    if classes[byte] != WORD:
                        break
                else:
                    code, size = _decode_character(text, index)
                    if classes[code] != WORD:
                        break
                    for _ in range(size - 1):
                        key = (key ^ np.uint64(text[index])) * prime
                        index += _ONE
                    byte = text[index]
                key = (key ^ np.uint64(byte)) * prime
                index += _ONE
            if index > start:
                # Linear probing; the table is at most half full, so an empty slot ends every search.
                key = _mix(key)
                slot = (key >> np.uint64(20)) & mask
                length = index - start
                while True:
                    number = np.uint64(slots[slot])
                    if number == 0:
                        number = np.uint64(used[0])
                        slots[slot] = np.int64(number + _ONE)
                        hashes[number] = key
                        offset = np.uint64(ends[number])
                        for i in range(length):
                            spelling[offset + i] = text[start + i]
                        ends[number + _ONE] = np.int64(offset + length)
                        used[0] += 1
                        break
                    number -= _ONE
                    offset = np.uint64(ends[number])
                    if hashes[number] == key and np.uint64(ends[number + _ONE]) - offset == length:
                        is_equal = True
                        for i in range(length):
                            is_equal &= spelling[offset + i] == text[start + i]
                        if is_equal:
                            break
                    slot = (slot + _ONE) & mask
                tokens[written] = np.uint32(number)
                written += _ONE
            if index < end:
                index += _character_size(text[index])
        lengths[d] = np.int64(written - written_before)
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
