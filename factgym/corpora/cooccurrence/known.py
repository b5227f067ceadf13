"""What the compiled kernels know of clauses: a row of numbers for each, and the lists that the index does not have."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.blocks import BLOCK, Blocks, block_counts

I64 = NDArray[np.int64]
Arrays: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""firsts, offsets and data: see `blocks`."""

ClauseKey = str | tuple[str, ...]
"""A word, or words of which one is enough."""

NOWHERE = 0
"""The row of a clause without occurrences."""


class Known:
    """Clauses that were looked up. One writes at a time; readers may go on meanwhile, as nothing they see changes.

    index: each clause's number in `rows`: first block, end, positions in the last block, frequency, 1 for a list that
    was made and lies in `made()`.
    """

    __slots__ = ("_blocks", "_data", "_firsts", "_made", "_offsets", "_words", "count", "index", "rows")

    def __init__(self) -> None:
        self.index: dict[ClauseKey, int] = {}
        self.rows = np.zeros((256, 5), np.int64)
        self.count = 1
        self._firsts, self._offsets, self._data = (np.zeros(256, np.uint32) for _ in range(3))
        self._blocks = self._words = 0
        self._made = _unwritable(self._firsts, self._offsets, self._data)

    @property
    def nbytes(self) -> int:
        """Memory that the made lists take."""
        return 4 * (2 * self._blocks + self._words)

    def made(self) -> Arrays:
        """The made lists' arrays; read them after the rows that point into them."""
        return self._made

    def add(self, rows: I64) -> int:
        """Note rows; the number of the first."""
        first = self.count
        self.rows = _with_room(self.rows, first + len(rows))
        self.rows[first : first + len(rows)] = rows
        self.count += len(rows)
        return first

    def add_lists(self, lists: Blocks, lengths: I64, frequencies: I64) -> int:
        """Keep made lists of one or more positions each and note their rows; the number of the first.

        frequencies: where one position stands for two occurrences they are more than the lengths.
        """
        block, word = self._blocks, self._words
        ends = np.cumsum(lists.sizes, dtype=np.int64)
        self._firsts = _with_room(self._firsts, block + len(lists.firsts))
        self._offsets = _with_room(self._offsets, block + len(lists.firsts) + 1)
        self._data = _with_room(self._data, word + len(lists.data) + 1)  # a reader looks one word ahead
        self._firsts[block : block + len(lists.firsts)] = lists.firsts
        self._offsets[block + 1 : block + 1 + len(ends)] = word + ends
        self._data[word : word + len(lists.data)] = lists.data
        self._made = _unwritable(self._firsts, self._offsets, self._data)
        self._blocks, self._words = block + len(lists.firsts), word + len(lists.data)
        counts = block_counts(lengths)
        list_ends = block + np.cumsum(counts)
        tails = lengths - (counts - 1) * BLOCK
        return self.add(np.stack([list_ends - counts, list_ends, tails, frequencies, np.ones_like(counts)], axis=1))


def _unwritable(firsts: NDArray[np.uint32], offsets: NDArray[np.uint32], data: NDArray[np.uint32]) -> Arrays:
    """Views that the kernels take as they take the index's arrays."""
    arrays = (firsts.view(), offsets.view(), data.view())
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _with_room(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array, or a longer copy where it has fewer items."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.zeros((max(size, 2 * len(array)) - len(array), *array.shape[1:]), array.dtype)])
