"""Clauses of queries as posting lists, looked up once and cached.

A clause of one word is a list of the index. Any other (a word of several tokens, that is a phrase; an OR) is derived
once: its occurrences are found, encoded like the index's lists and cached within a memory budget. For NumPy the cache
drops the least recently used ones; the kernels' table of clauses is replaced as a whole.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence.engine import contains, position_chunks, run_phrases
from factgym.corpora.cooccurrence.postings import (
    BLOCK,
    I64,
    U32,
    BlockArrays,
    Blocks,
    PostingList,
    block_counts,
    decode,
    encode_list,
    encode_unpacked,
)
from factgym.corpora.cooccurrence.store import SMALL_BATCH, Store
from factgym.corpora.cooccurrence.tokenizer import Case, tokenize_bytes

ClauseKey = str | tuple[str, ...]
"""A word, or an OR of words."""

Phrase = tuple[int, ...]
"""Lists of a word's tokens, in order; empty when one of them is unknown."""

DAMAGED = "the index is damaged: open it with verify=True to see where, and build it again"

_NO_OCCURRENCE = 0
"""Row of a clause without occurrences."""

_MAX_CLAUSES = 1 << 18
"""Clauses in a table; some 30 MB when full."""
_DERIVATION_BYTES = 40
"""Working memory per occurrence of a derived clause."""
_LIST_OVERHEAD = 800
"""Bytes of a cached list besides its arrays."""


class Clause(NamedTuple):
    """Occurrences of a clause."""

    frequency: int
    """Occurrences; a position at which two of its terms occur is two."""
    postings: PostingList


class ClauseTable:
    """Rows of numbers by which the kernels know clauses, and the lists that are not in the index.

    One thread writes at a time; readers may go on meanwhile, as nothing that they refer to changes.

    numbers: each clause's number in `rows`: first block, end, positions in the last block, frequency, 1 for a derived
    list in `derived`.
    """

    __slots__ = ("_blocks", "_data", "_firsts", "_offsets", "_size", "_words", "derived", "numbers", "rows")

    def __init__(self) -> None:
        self.numbers: dict[ClauseKey, int] = {}
        self.rows = np.zeros((256, 5), np.int64)
        self._size = 1
        self._firsts, self._offsets, self._data = (np.zeros(256, np.uint32) for _ in range(3))
        self._blocks = self._words = 0
        self.derived = _read_only(self._firsts, self._offsets, self._data)

    @property
    def nbytes(self) -> int:
        """Memory of the derived lists."""
        return 4 * (2 * self._blocks + self._words)

    def add_rows(self, rows: I64) -> int:
        """Append rows; return the number of the first."""
        first = self._size
        self.rows = _with_capacity(self.rows, first + len(rows))
        self.rows[first : first + len(rows)] = rows
        self._size += len(rows)
        return first

    def add_lists(self, blocks: Blocks, lengths: I64, frequencies: I64) -> int:
        """Append derived lists of one or more positions each and their rows; return the number of the first.

        frequencies: larger than the lengths where one position counts for two occurrences.
        """
        block, word = self._blocks, self._words
        block_end, word_end = block + len(blocks.firsts), word + len(blocks.data)
        self._firsts = _with_capacity(self._firsts, block_end)
        self._offsets = _with_capacity(self._offsets, block_end + 1)
        self._data = _with_capacity(self._data, word_end + 1)  # the kernels read one word beyond a block's data
        self._firsts[block:block_end] = blocks.firsts
        self._offsets[block + 1 : block_end + 1] = word + np.cumsum(blocks.sizes, dtype=np.int64)
        self._data[word:word_end] = blocks.data
        self.derived = _read_only(self._firsts, self._offsets, self._data)
        self._blocks, self._words = block_end, word_end
        counts = block_counts(lengths)
        ends = block + np.cumsum(counts)
        tails = lengths - (counts - 1) * BLOCK
        return self.add_rows(np.stack([ends - counts, ends, tails, frequencies, np.ones_like(counts)], axis=1))


def _read_only(firsts: U32, offsets: U32, data: U32) -> BlockArrays:
    """Return views of the type that the kernels are compiled for, that of a mapped index."""
    arrays = (firsts.view(), offsets.view(), data.view())
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _with_capacity(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array, or a longer copy if it has fewer items."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.zeros((max(size, 2 * len(array)) - len(array), *array.shape[1:]), array.dtype)])


class ClauseIndex:
    """Clauses over one store; safe in threads.

    chunk: positions that are decoded together. unique: whether a position at which two terms occur is one anchor.
    memory: budget in bytes.
    """

    def __init__(self, store: Store, *, chunk: int, unique: bool, memory: int) -> None:
        self._store = store
        self._case: Case = store.meta["case"]
        self._chunk = chunk
        self._unique = unique
        self._memory = memory
        self._table = ClauseTable()
        self._cache: OrderedDict[tuple[Phrase, ...], Clause] = OrderedDict()
        self._cache_bytes = 0
        self._lock = threading.Lock()

    def table(self) -> ClauseTable:
        """Return the kernels' table; a new one when it is full, which does not affect users of the previous one."""
        if len(self._table.numbers) > _MAX_CLAUSES or self._table.nbytes > self._memory // 2:
            self._table = ClauseTable()
        return self._table

    def add_to_table(self, table: ClauseTable, clauses: Iterable[ClauseKey], kernels: Any, threads: int) -> None:
        """Look clauses up, all together: afterwards `table.numbers` has each."""
        words: list[str] = []
        for key in clauses:
            if isinstance(key, str):
                words.append(key)
                continue
            clause = self.clause(key)
            positions = decode(clause.postings)
            length, frequency = np.array([len(positions)], np.int64), np.array([clause.frequency], np.int64)
            with self._lock:
                added = clause.frequency and table.add_lists(encode_unpacked(positions, length), length, frequency)
                table.numbers[key] = added or _NO_OCCURRENCE
        phrases = self._phrases(words)
        singles = [phrase for phrase in phrases if len(phrase) == 1]
        rows = self._rows([number for phrase in singles for number in phrase])
        derived = list(self._find_phrases(list({phrase for phrase in phrases if len(phrase) > 1}), kernels, threads))
        numbers: dict[Phrase, int] = {(): _NO_OCCURRENCE}
        with self._lock:
            numbers.update(zip(singles, itertools.count(table.add_rows(rows))))
            for group, positions, lengths in derived:
                occurs = lengths > 0
                first = table.add_lists(encode_unpacked(positions, lengths[occurs]), lengths[occurs], lengths[occurs])
                group_numbers = np.where(occurs, first + np.cumsum(occurs) - 1, _NO_OCCURRENCE)
                numbers.update(zip(group, group_numbers.tolist(), strict=True))
            table.numbers.update(zip(words, [numbers[phrase] for phrase in phrases], strict=True))

    def _phrases(self, words: Sequence[str]) -> list[Phrase]:
        """Return the lists of each word's tokens in order; empty when one of them is unknown."""
        tokens = [tokenize_bytes(word, self._case) for word in words]
        numbers = self._store.find_many([token for group in tokens for token in group]).tolist()
        ends = itertools.accumulate(map(len, tokens), initial=0)
        phrases = (tuple(numbers[start:end]) for start, end in itertools.pairwise(ends))
        return [() if -1 in phrase else phrase for phrase in phrases]

    def _find_phrases(
        self, phrases: Sequence[Phrase], kernels: Any, threads: int
    ) -> Iterator[tuple[Sequence[Phrase], U32, I64]]:
        """Yield phrases in groups that the memory permits, with all their positions, and how many each has."""
        start = occurrences = 0
        for i, phrase in enumerate(phrases):
            bound = min(int(self._store.frequencies[number]) for number in phrase)
            self._check_memory(bound, 1)
            if start < i and (occurrences + bound) * _DERIVATION_BYTES > self._memory:
                yield phrases[start:i], *self._run_phrases(phrases[start:i], kernels, threads)
                start, occurrences = i, 0
            occurrences += bound
        if start < len(phrases):
            yield phrases[start:], *self._run_phrases(phrases[start:], kernels, threads)

    def _run_phrases(self, phrases: Sequence[Phrase], kernels: Any, threads: int) -> tuple[U32, I64]:
        starts = np.array(list(itertools.accumulate(map(len, phrases), initial=0)), np.int64)
        rows = self._rows([number for phrase in phrases for number in phrase])
        positions, lengths = run_phrases(kernels, self._store, rows, starts, threads)
        if lengths.min() < 0:
            raise DataError(DAMAGED)
        return positions, lengths

    def _rows(self, numbers: Sequence[int]) -> I64:
        """Return the kernels' rows of lists of the index. Raises `DataError` for an inconsistent list."""
        if len(numbers) <= SMALL_BATCH:  # plain numbers take a fraction of the time of NumPy for a few
            few: list[tuple[int, ...]] = []
            for number in numbers:
                start, end = self._store.block_starts[number : number + 2].tolist()
                frequency = int(self._store.frequencies[number])
                tail = frequency - (end - start - 1) * BLOCK
                if start >= end or end > len(self._store.firsts) or not 1 <= tail <= BLOCK:
                    raise DataError(DAMAGED)
                few.append((start, end, tail, frequency, 0))
            small = np.array(few, np.int64).reshape(-1, 5)
            self._store.check_blocks(small[:, 0], small[:, 1])
            return small
        lists = np.array(numbers, np.int64)
        rows = np.zeros((len(lists), 5), np.int64)
        rows[:, 0], rows[:, 1] = self._store.block_starts[lists], self._store.block_starts[lists + 1]
        rows[:, 3] = self._store.frequencies[lists]
        rows[:, 2] = rows[:, 3] - (rows[:, 1] - rows[:, 0] - 1) * BLOCK
        invalid = (rows[:, 0] >= rows[:, 1]) | (rows[:, 1] > len(self._store.firsts))
        if np.any(invalid | (rows[:, 2] < 1) | (rows[:, 2] > BLOCK)):
            raise DataError(DAMAGED)
        self._store.check_blocks(rows[:, 0], rows[:, 1])
        return rows

    def separators(self) -> I64:
        """Return the row of the separators; all zeros if the corpus is empty."""
        number = len(self._store.keys)
        return self._rows([number])[0] if self._store.frequencies[number] else np.zeros(5, np.int64)

    def clause(self, words: Sequence[str]) -> Clause:
        """Return the occurrences of an OR of words."""
        terms = tuple(sorted(filter(None, self._phrases(words))))
        if not terms:
            return Clause(0, encode_list(np.empty(0, np.uint32)))
        if len(terms) == 1 == len(terms[0]):
            self._rows(terms[0])  # checks the list
            postings = self._store.postings(terms[0][0])
            return Clause(postings.frequency, postings)
        with self._lock:
            cached = self._cache.get(terms)
            if cached is not None:
                self._cache.move_to_end(terms)
                return cached
        bound = sum(min(self._store.postings(number).frequency for number in term) for term in terms)
        self._check_memory(bound, len(terms))
        positions = np.concatenate([part for term in terms for part in self._occurrences(term)])
        distinct = np.unique(positions) if self._unique else np.sort(positions)
        clause = Clause(len(positions), encode_list(distinct.astype(np.uint32)))
        with self._lock:
            if terms not in self._cache:
                self._cache[terms] = clause
                self._cache_bytes += _cached_bytes(clause)
            while self._cache_bytes > self._memory // 2 and len(self._cache) > 1:
                self._cache_bytes -= _cached_bytes(self._cache.popitem(last=False)[1])
        return clause

    def _check_memory(self, occurrences: int, terms: int) -> None:
        if occurrences * _DERIVATION_BYTES > self._memory:
            raise ConfigError(
                f"a clause of {terms} terms may occur {occurrences:,} times, and finding them takes up to"
                f" {occurrences * _DERIVATION_BYTES >> 20} MB: open the index with a larger memory_mb"
            )

    def _occurrences(self, phrase: Phrase) -> Iterator[I64]:
        """Yield the positions of the first token where all tokens are adjacent: the rarest's, filtered by the others."""
        # Intersection from the smallest list: its positions, shifted to the phrase's start, are looked up in the others.
        self._rows(phrase)  # checks the lists
        lists = [self._store.postings(number) for number in phrase]
        rarest = min(range(len(lists)), key=lambda i: lists[i].frequency)
        yield np.empty(0, np.int64)
        for positions in position_chunks(lists[rarest], self._chunk):
            starts = positions - rarest
            for i, postings in enumerate(lists):
                if i != rarest and len(starts):
                    starts = starts[contains(postings, starts + i)]
            yield starts


def _cached_bytes(clause: Clause) -> int:
    _, firsts, offsets, data = clause.postings
    return _LIST_OVERHEAD + firsts.nbytes + offsets.nbytes + data.nbytes
