"""Documents in, numbered words out: the part of a build that sees text, in Python or, with numba, compiled.

Both give each word a number of its own in the order of first appearance, so what is inverted from them is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.tokens import Case, tokenize_bytes


class Numbered(NamedTuple):
    """Documents as numbers of words."""

    words: list[bytes]
    """By number."""
    tokens: list[NDArray[np.uint32]]
    """All documents' words, in pieces."""
    lengths: NDArray[np.int64]
    """Words of each document."""


class WordIds(dict[bytes, int]):
    """Numbers words by first appearance: `ids[word]` is the word's number, a new one for a new word."""

    def __missing__(self, word: bytes) -> int:
        number = self[word] = len(self)
        return number


def number_plainly(texts: Iterator[str], case: Case, room: int | None) -> Numbered:
    """Take documents until they fill `room` positions (all, for None), a document never cut."""
    ids, numbered, lengths = WordIds(), [], []
    lookup = ids.__getitem__
    for text in texts:
        words = tokenize_bytes(text, case)
        numbered.append(np.fromiter(map(lookup, words), np.uint32, len(words)))
        lengths.append(len(words))
        if room is not None:
            room -= len(words) + 1
            if room <= 0:
                break
    return Numbered(list(ids), numbered, np.array(lengths, np.int64))


_BATCH_BYTES = 1 << 20


class _Vocabulary:
    """The compiled scan's tables; grown when it says that they are full."""

    def __init__(self) -> None:
        self.slots = np.zeros(1 << 16, np.int64)
        self.hashes = np.zeros(1 << 15, np.uint64)
        self.spelling = np.zeros(1 << 19, np.uint8)
        self.ends = np.zeros((1 << 15) + 1, np.int64)
        self.used = np.zeros(2, np.int64)

    def grow(self, needed: int) -> None:
        """Make room for the words of a document of `needed` bytes."""
        count = int(self.used[0])
        while 2 * (count + (needed + 1) // 2) > len(self.slots):
            self._double()
        while int(self.ends[count]) + needed > len(self.spelling):
            self.spelling = np.concatenate([self.spelling, np.zeros_like(self.spelling)])

    def _double(self) -> None:
        count, size = int(self.used[0]), 2 * len(self.slots)
        self.hashes = np.concatenate([self.hashes, np.zeros_like(self.hashes)])
        self.ends = np.concatenate([self.ends, np.zeros(len(self.ends) - 1, np.int64)])
        self.slots = np.zeros(size, np.int64)
        _place(self.slots, self.hashes[:count])

    def words(self) -> list[bytes]:
        """The words by number."""
        raw, ends = self.spelling.tobytes(), self.ends[: int(self.used[0]) + 1].tolist()
        return [raw[begin:end] for begin, end in itertools.pairwise(ends)]


def _place(slots: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """Put numbers into empty slots by linear probing, all that find theirs free at a time."""
    mask = len(slots) - 1
    numbers = np.arange(1, len(hashes) + 1)
    wanted = (hashes >> np.uint64(20)).astype(np.int64) & mask
    while len(numbers):
        free = slots[wanted] == 0
        slots[wanted[free]] = numbers[free]
        left = slots[wanted] != numbers
        numbers, wanted = numbers[left], (wanted[left] + 1) & mask


class Kernels(NamedTuple):
    """`compiled_words`, as far as it is used here."""

    scan: Callable[..., int]
    find_simple: Callable[..., None]
    classes: Callable[[Case], NDArray[np.uint8]]


def number_compiled(kernels: Kernels, texts: Iterator[str], case: Case, room: int | None) -> Numbered:
    """`number_plainly` by the compiled scan; may take some hundred documents more than fill `room`."""
    vocabulary = _Vocabulary()
    tokens: list[NDArray[np.uint32]] = []
    lengths: list[NDArray[np.int64]] = []
    for batch in _batches(texts, _BATCH_BYTES if room is None else min(_BATCH_BYTES, room)):
        found, counts = _number_batch(kernels, batch, case, vocabulary)
        tokens.append(found)
        lengths.append(counts)
        if room is not None:
            room -= len(found) + len(counts)
            if room <= 0:
                break
    joined = np.concatenate(lengths) if lengths else np.empty(0, np.int64)
    return Numbered(vocabulary.words(), tokens, joined)


def _batches(texts: Iterator[str], size: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    held = 0
    for text in texts:
        batch.append(text.encode("utf-8", "surrogatepass"))
        held += len(batch[-1])
        if held >= size:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _number_batch(
    kernels: Kernels, batch: list[bytes], case: Case, vocabulary: _Vocabulary
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    kinds = kernels.classes(case)
    simple = np.ones(len(batch), np.bool_)
    text, bounds = _joined(batch)
    kernels.find_simple(text, bounds, kinds, simple)
    if not simple.all():
        for i in np.flatnonzero(~simple).tolist():
            batch[i] = b" ".join(tokenize_bytes(batch[i].decode("utf-8", "surrogatepass"), case))
        text, bounds = _joined(batch)
    out = np.empty((len(text) + len(batch)) // 2 + 1, np.uint32)
    lengths = np.zeros(len(batch), np.int64)
    vocabulary.used[1] = at = 0
    while at < len(batch):
        vocabulary.grow(len(batch[at]))
        tables = (vocabulary.slots, vocabulary.hashes, vocabulary.spelling, vocabulary.ends, vocabulary.used)
        at = kernels.scan(text, bounds, at, kinds, simple, case == "fold", *tables, out, lengths)
    return out[: int(vocabulary.used[1])].copy(), lengths


def _joined(batch: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    text = np.frombuffer(bytearray(b"".join(batch)), np.uint8)
    bounds = np.zeros(len(batch) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, batch), np.int64, len(batch)), out=bounds[1:])
    return text, bounds
