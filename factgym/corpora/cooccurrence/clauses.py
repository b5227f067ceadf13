"""From words to posting lists: what a query's clauses mean in an index, looked up once and kept.

A clause of one word is a list of the index. Every other one (a word of several tokens, an OR) is worked out once: its
occurrences are found, encoded like the index's lists and kept, the least recently used ones dropped beyond a budget.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence.blocks import BLOCK, PostingList, block_counts, encode
from factgym.corpora.cooccurrence.plain import chunks, contains
from factgym.corpora.cooccurrence.store import Store, running
from factgym.corpora.cooccurrence.tokens import Case, tokenize

UNKNOWN = -1
"""What `Store.find` says of a word that the index does not hold."""

DAMAGED = "the index is damaged: open it with verify=True to see where, and build it again"

_MAX_WORDS = 1 << 18
"""Looked-up words that are remembered; some 30 MB when full."""


class Clause(NamedTuple):
    """Where a clause of a query occurs."""

    frequency: int
    """Occurrences; a place where two of its terms occur is two."""
    places: PostingList


_MADE_BYTES = 40
"""Working memory per occurrence of a clause that is worked out."""

_NONE = PostingList(0, np.empty(0, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
_NEVER = Clause(0, _NONE)


SEVERAL = -1
"""In place of a row: a word of several tokens."""


class Known:
    """Words that were looked up, and a row for the kernels of each: see `engine.Batch`. Row 0 is of unknown words."""

    __slots__ = ("count", "index", "rows")

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.rows = np.zeros((256, 5), np.int64)
        self.count = 1

    def add(self, word: str, row: tuple[int, ...]) -> int:
        """Note a word's row; its number. Readers may go on at the same time: what they see does not change."""
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self.count] = row
        self.count += 1
        self.index[word] = self.count - 1
        return self.count - 1


class Lexicon:
    """Lists of clauses over one store; safe under threads."""

    def __init__(self, store: Store, *, chunk: int, unique: bool, memory: int) -> None:
        self._store = store
        self._case: Case = store.meta["case"]
        self._chunk = chunk
        self._unique = unique
        self._memory = memory
        self._known = Known()
        self._made: OrderedDict[tuple[tuple[int, ...], ...], Clause] = OrderedDict()
        self._made_bytes = 0
        self._lock = threading.Lock()

    def known(self) -> Known:
        """The words looked up so far; forgotten when they are many, which does not concern who holds them."""
        if len(self._known.index) > _MAX_WORDS:
            self._known = Known()
        return self._known

    def learn(self, known: Known, word: str) -> int:
        """Look a word up and note it: the number of its row, or `SEVERAL`."""
        tokens = tokenize(word, self._case)
        number = self._store.find(tokens[0]) if len(tokens) == 1 else UNKNOWN
        with self._lock:
            if len(tokens) > 1 or number == UNKNOWN:
                found = known.index[word] = SEVERAL if len(tokens) > 1 else 0
                return found
            return known.add(word, (*self._row(number), 0))

    def _row(self, number: int) -> tuple[int, int, int, int]:
        """First block, end, positions in the last one, frequency; `DataError` where a damaged file leads astray."""
        frequency = int(self._store.frequencies[number])
        begin, end = int(self._store.block_starts[number]), int(self._store.block_starts[number + 1])
        tail = frequency - (end - begin - 1) * BLOCK
        if not begin < end <= len(self._store.firsts) or not 1 <= tail <= BLOCK:
            raise DataError(DAMAGED)
        return begin, end, tail, frequency

    def separators(self) -> NDArray[np.int64]:
        """The row of the separators; all zeros where the corpus is empty."""
        number = len(self._store.keys)
        row = self._row(number) if self._store.frequencies[number] else (0, 0, 0, 0)
        return np.array([*row, 0], np.int64)

    def clause(self, terms: Sequence[str]) -> Clause:
        """The occurrences of an OR of words."""
        return self._made_list(tuple(sorted(filter(None, map(self._term, terms)))))

    def _word(self, number: int) -> Clause:
        self._row(number)
        postings = self._store.postings(number)
        return Clause(postings.frequency, postings)

    def _term(self, word: str) -> tuple[int, ...]:
        """The lists of a term's tokens in order; empty when one of them is unknown."""
        numbers = tuple(self._store.find(token) for token in tokenize(word, self._case))
        return () if UNKNOWN in numbers else numbers

    def _made_list(self, terms: tuple[tuple[int, ...], ...]) -> Clause:
        if not terms:
            return _NEVER
        if len(terms) == 1 == len(terms[0]):
            return self._word(terms[0][0])
        with self._lock:
            made = self._made.get(terms)
            if made is not None:
                self._made.move_to_end(terms)
                return made
        made = self._make(terms)
        with self._lock:
            self._keep(terms, made)
        return made

    def _keep(self, terms: tuple[tuple[int, ...], ...], made: Clause) -> None:
        if terms in self._made:
            return
        self._made[terms] = made
        self._made_bytes += _size(made.places)
        while self._made_bytes > self._memory // 2 and len(self._made) > 1:
            _, dropped = self._made.popitem(last=False)
            self._made_bytes -= _size(dropped.places)

    def _make(self, terms: tuple[tuple[int, ...], ...]) -> Clause:
        most = sum(min(self._store.postings(number).frequency for number in term) for term in terms)
        if most * _MADE_BYTES > self._memory:
            raise ConfigError(
                f"a clause of {len(terms)} terms may occur {most:,} times, and working it out takes up to"
                f" {most * _MADE_BYTES >> 20} MB: open the index with a larger memory_mb"
            )
        found = np.concatenate([part for term in terms for part in self._occurrences(term)])
        distinct = np.unique(found) if self._unique else np.sort(found)
        return Clause(len(found), as_list(distinct.astype(np.uint32)))

    def _occurrences(self, term: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
        """Positions of the first token wherever all of them stand side by side."""
        lists = [self._store.postings(number) for number in term]
        rarest = min(range(len(lists)), key=lambda i: lists[i].frequency)
        yield np.empty(0, np.int64)
        for points in chunks(lists[rarest], self._chunk):
            starts = points - rarest
            for i, postings in enumerate(lists):
                if i != rarest and len(starts):
                    starts = starts[contains(postings, starts + i)]
            yield starts


def as_list(positions: NDArray[np.uint32]) -> PostingList:
    """Sorted positions as a list of its own."""
    frequencies = np.array([len(positions)], np.int64)
    if not len(positions):
        return _NONE
    blocks = encode(positions, frequencies)
    assert len(blocks.firsts) == int(block_counts(frequencies)[0])
    offsets = running(blocks.sizes.astype(np.int64)).astype(np.uint32)
    return PostingList(len(positions), blocks.firsts, offsets, np.append(blocks.data, np.uint32(0)))


def _size(postings: PostingList) -> int:
    """Bytes that keeping a list takes."""
    return 800 + postings.firsts.nbytes + postings.offsets.nbytes + postings.data.nbytes
