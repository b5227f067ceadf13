"""Clauses of queries as posting lists, looked up once and cached.

A clause of one word is a list of the index. Any other (a word of several tokens, that is a phrase; an OR) is derived
once: its occurrences are found, encoded like the index's lists and appended to a table, which is replaced as a whole
when it exceeds the memory budget.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

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
    block_counts,
    encode_unpacked,
    posting_list,
)
from factgym.corpora.cooccurrence.store import Store
from factgym.corpora.cooccurrence.tokenizer import Case, tokenize_bytes

ClauseKey = str | tuple[str, ...]
"""A word, or an OR of words."""

Phrase = tuple[int, ...]
"""Lists of a word's tokens, in order; empty when one of them is unknown."""

Derived = tuple[Sequence[tuple[Phrase, ...]], U32, I64, I64]
"""Clauses that are no lists of the index: all their positions, how many each has, and their frequencies."""

DAMAGED = "the index is damaged: open it with verify=True to see where, and build it again"

_NO_OCCURRENCE = 0
"""Row of a clause without occurrences."""

_MAX_CLAUSES = 1 << 18
"""Clauses in a table; some 30 MB when full."""
_DERIVATION_BYTES = 40
"""Working memory per occurrence of a derived clause."""


class ClauseTable:
    """Clauses as rows of numbers, and the lists that are not in the index.

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

    chunk: positions that NumPy decodes together. unique: whether a position at which two terms occur is one anchor.
    memory: budget in bytes. threads: in which the kernels look for phrases.
    """

    def __init__(self, store: Store, *, chunk: int, unique: bool, memory: int, threads: int) -> None:
        self._store = store
        self._case: Case = store.meta["case"]
        self._chunk = chunk
        self._unique = unique
        self._memory = memory
        self._threads = threads
        self._table = ClauseTable()
        self._lock = threading.Lock()

    def table(self) -> ClauseTable:
        """Return the table; a new one when it is full, which does not affect users of the previous one."""
        if len(self._table.numbers) > _MAX_CLAUSES or self._table.nbytes > self._memory // 2:
            self._table = ClauseTable()
        return self._table

    def rows(self, clauses: Sequence[ClauseKey], kernels: Any) -> tuple[I64, BlockArrays]:
        """Return the row of each clause, and the lists that are not in the index. kernels: None for NumPy."""
        table = self.table()
        new = set(clauses).difference(table.numbers)
        if new:
            self._add(table, list(new), kernels)
        numbers = np.array(list(map(table.numbers.__getitem__, clauses)), np.int64)
        # `derived` is read after the rows that refer to it, as another thread may be adding to both.
        return table.rows[numbers], table.derived

    def _add(self, table: ClauseTable, keys: Sequence[ClauseKey], kernels: Any) -> None:
        """Look clauses up, all together: afterwards `table.numbers` has each."""
        words = [(key,) if isinstance(key, str) else key for key in keys]
        phrases = iter(self._phrases([word for terms in words for word in terms]))
        clauses = [tuple(sorted(filter(None, itertools.islice(phrases, len(terms))))) for terms in words]
        distinct = set(clauses) - {()}
        single_words = [clause for clause in distinct if len(clause) == 1 == len(clause[0])]
        rows = self._list_rows([phrase[0] for (phrase,) in single_words])
        derived = list(self._derive_phrases([c for c in distinct if len(c) == 1 < len(c[0])], kernels))
        derived += [self._derive_or(clause) for clause in distinct if len(clause) > 1]
        numbers: dict[tuple[Phrase, ...], int] = {(): _NO_OCCURRENCE}
        with self._lock:
            numbers.update(zip(single_words, itertools.count(table.add_rows(rows))))
            for group, positions, lengths, frequencies in derived:
                occurs = lengths > 0
                blocks = encode_unpacked(positions, lengths[occurs])
                first = table.add_lists(blocks, lengths[occurs], frequencies[occurs])
                group_numbers = np.where(occurs, first + np.cumsum(occurs) - 1, _NO_OCCURRENCE)
                numbers.update(zip(group, group_numbers.tolist(), strict=True))
            table.numbers.update(zip(keys, [numbers[clause] for clause in clauses], strict=True))

    def _phrases(self, words: Sequence[str]) -> list[Phrase]:
        """Return the lists of each word's tokens in order; empty when one of them is unknown."""
        tokens = [tokenize_bytes(word, self._case) for word in words]
        numbers = self._store.find([token for group in tokens for token in group]).tolist()
        ends = itertools.accumulate(map(len, tokens), initial=0)
        phrases = (tuple(numbers[start:end]) for start, end in itertools.pairwise(ends))
        return [() if -1 in phrase else phrase for phrase in phrases]

    def _derive_phrases(self, clauses: Sequence[tuple[Phrase, ...]], kernels: Any) -> Iterator[Derived]:
        """Find the phrases of clauses of one term, in groups that the memory permits."""
        start = occurrences = 0
        for i, (phrase,) in enumerate(clauses):
            bound = self._max_occurrences([phrase])
            if start < i and (occurrences + bound) * _DERIVATION_BYTES > self._memory:
                yield self._find_phrases(clauses[start:i], kernels)
                start, occurrences = i, 0
            occurrences += bound
        if start < len(clauses):
            yield self._find_phrases(clauses[start:], kernels)

    def _find_phrases(self, clauses: Sequence[tuple[Phrase, ...]], kernels: Any) -> Derived:
        if kernels is None:
            lists = [self._occurrences(phrase) for (phrase,) in clauses]
            lengths = np.array([len(positions) for positions in lists], np.int64)
            return clauses, np.concatenate(lists), lengths, lengths
        starts = np.array(list(itertools.accumulate((len(phrase) for (phrase,) in clauses), initial=0)), np.int64)
        rows = self._list_rows([number for (phrase,) in clauses for number in phrase])
        positions, lengths = run_phrases(kernels, self._store, rows, starts, self._threads)
        if lengths.min() < 0:
            raise DataError(DAMAGED)
        return clauses, positions, lengths, lengths

    def _derive_or(self, clause: tuple[Phrase, ...]) -> Derived:
        self._max_occurrences(clause)
        positions = np.concatenate([self._occurrences(phrase) for phrase in clause])
        distinct = np.unique(positions) if self._unique else np.sort(positions)
        return [clause], distinct, np.array([len(distinct)], np.int64), np.array([len(positions)], np.int64)

    def _max_occurrences(self, terms: Sequence[Phrase]) -> int:
        """Return an upper bound of a clause's occurrences. Raises `ConfigError` if they do not fit into the memory."""
        occurrences = sum(int(self._store.frequencies[list(phrase)].min()) for phrase in terms)
        if occurrences * _DERIVATION_BYTES > self._memory:
            raise ConfigError(
                f"a clause of {len(terms)} terms may occur {occurrences:,} times, and finding them takes up to"
                f" {occurrences * _DERIVATION_BYTES >> 20} MB: open the index with a larger memory_mb"
            )
        return occurrences

    def _list_rows(self, numbers: Sequence[int]) -> I64:
        """Return the rows of lists of the index. Raises `DataError` for an inconsistent list."""
        lists = np.array(numbers, np.int64)
        starts, ends = (self._store.block_starts[lists + i].astype(np.int64) for i in (0, 1))
        frequencies = self._store.frequencies[lists].astype(np.int64)
        tails = frequencies - (ends - starts - 1) * BLOCK
        if np.any((starts >= ends) | (ends > len(self._store.firsts)) | (tails < 1) | (tails > BLOCK)):
            raise DataError(DAMAGED)
        return np.stack([starts, ends, tails, frequencies, np.zeros_like(starts)], axis=1)

    def separators(self) -> I64:
        """Return the row of the separators; all zeros if the corpus is empty."""
        number = len(self._store.keys)
        return self._list_rows([number])[0] if self._store.frequencies[number] else np.zeros(5, np.int64)

    def _occurrences(self, phrase: Phrase) -> U32:
        """Return the positions of the first token where all tokens are adjacent.

        Intersection from the smallest list: its positions, shifted to the phrase's start, are looked up in the others.
        """
        lists = [posting_list(row, self._store.blocks) for row in self._list_rows(phrase)]
        rarest = min(range(len(lists)), key=lambda i: lists[i].length)
        parts = [np.empty(0, np.int64)]
        try:
            for positions in position_chunks(lists[rarest], self._chunk):
                starts = positions - rarest
                for i, postings in enumerate(lists):
                    if i != rarest and len(starts):
                        starts = starts[contains(postings, starts + i)]
                parts.append(starts)
        except IndexError:
            raise DataError(DAMAGED) from None
        return np.concatenate(parts).astype(np.uint32)
