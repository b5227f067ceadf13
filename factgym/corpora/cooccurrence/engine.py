"""Which code counts a batch: the compiled kernels once they are there, NumPy until then and where numba is not.

With numba on disk (and its cache warm) the kernels take most of a second to load, without the cache several more. That
happens in a thread while NumPy answers, so that a first query waits for nothing; both give the same counts.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.corpora.cooccurrence.blocks import BLOCK, PostingList
from factgym.corpora.cooccurrence.clauses import Clause
from factgym.corpora.cooccurrence.numbering import Kernels
from factgym.corpora.cooccurrence.store import Store

Engine = Literal["auto", "numba", "numpy"]
I64 = NDArray[np.int64]


class _Loading:
    """A module that takes long to import, imported in a thread by whoever asks first."""

    def __init__(self, module: str) -> None:
        self._module = f"factgym.corpora.cooccurrence.{module}"
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.found: Any = None
        self.failure: Exception | None = None

    def start(self) -> None:
        with self._lock:
            if self._thread is None and self.failure is None and has_numba():
                # Not a daemon: a process that ended in the middle of LLVM's work would crash.
                self._thread = threading.Thread(target=self._load, name=self._module)
                self._thread.start()

    @property
    def half_done(self) -> bool:
        """Whether it is being loaded."""
        return self._thread is not None and self.found is None and self.failure is None

    def give_up(self, why: str) -> None:
        """Leave it as it is: not loaded."""
        self._lock = threading.Lock()
        self.failure = self.failure or RuntimeError(why)

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _load(self) -> None:
        try:
            with _one_at_a_time:  # two threads that import numba at once wait for each other's modules
                self.found = import_module(self._module)
        except Exception as error:  # noqa: BLE001 - whatever numba cannot do here, NumPy can; "numba" reports it
            self.failure = error


LARGE = 1_000_000
"""Tokens from which it is worth loading numba."""


@cache
def has_numba() -> bool:
    """Whether the extra "counting" is installed."""
    return find_spec("numba") is not None


_one_at_a_time = threading.Lock()
counting = _Loading("compiled")
words = _Loading("compiled_words")


def _after_fork() -> None:
    """In a child process what was being loaded stays half loaded, and is not touched again."""
    if counting.half_done or words.half_done:
        for loading in (counting, words):
            if loading.found is None:
                loading.give_up("the process was forked while numba was loading")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def kernel(engine: Engine, worth: bool = True) -> Callable[..., None] | None:
    """The compiled kernel, or None for NumPy: by choice, without numba, or ("auto") while it is loading.

    worth: whether "auto" is to begin loading it.
    """
    if engine == "numpy":
        return None
    if counting.found is None and (worth or engine == "numba"):
        counting.start()
        if engine == "numba":
            counting.wait()
            _need(counting)
    return None if counting.found is None else counting.found.count_batch


def _need(loading: _Loading) -> None:
    if loading.failure is not None:
        why = f"numba cannot compile the counting kernels ({loading.failure}): use engine='numpy'"
        raise ConfigError(why) from loading.failure
    if loading.found is None:
        raise MissingExtraError("engine='numba'", "counting")


def scanning(worth: bool = True) -> Kernels | None:
    """The compiled scan of text, or None without numba and while it is loading, which `worth` begins."""
    if words.found is None and worth:
        words.start()
    if words.found is None:
        return None
    return Kernels(words.found.scan, words.found.find_simple, words.found.classes)


class Batch(NamedTuple):
    """Queries as the kernels take them."""

    lists: I64
    """A row per clause: first block, end, positions in the last block, frequency, 1 for a list of `made`."""
    starts: I64
    """The first row of each query; one more than queries."""
    made: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]


_NOTHING_MADE = (np.zeros(0, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
for _array in _NOTHING_MADE:
    _array.setflags(write=False)


def batch_of(rows: I64, numbers: list[int], starts: I64, made: Sequence[Clause]) -> Batch:
    """`numbers`: for each clause a row of `rows`, or -1 - i for the i-th of `made`."""
    chosen = np.array(numbers, np.int64)
    lists = rows[chosen]
    return Batch(lists, starts, _joined(lists, chosen, made) if made else _NOTHING_MADE)


def _joined(
    rows: I64, numbers: I64, made: Sequence[Clause]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Put the made lists one after the other and fill in their rows."""
    block, word = 0, 0
    firsts, offsets, data = [], [np.zeros(1, np.uint32)], []
    for i, clause in enumerate(made):
        places = clause.places
        begin, count = int(places.offsets[0]), len(places.firsts)
        size = int(places.offsets[-1]) - begin
        rows[numbers == -1 - i] = (block, block + count, tail_of(places), clause.frequency, 1)
        firsts.append(places.firsts)
        offsets.append((places.offsets[1:].astype(np.int64) - begin + word).astype(np.uint32))
        data.append(places.data[begin : begin + size])
        block, word = block + count, word + size
    joined = [np.concatenate(parts) for parts in (firsts, offsets, [*data, np.zeros(1, np.uint32)])]
    for array in joined:
        array.setflags(write=False)
    return joined[0], joined[1], joined[2]


def tail_of(places: PostingList) -> int:
    """Positions in a list's last block."""
    return places.frequency - (len(places.firsts) - 1) * BLOCK


_ALONE = 20_000
"""Anchors of a batch below which threads cost more than they save."""
_SHARES = 8


def run_batch(
    call: Callable[..., None], store: Store, separators: I64, batch: Batch, window: int, chained: bool, threads: int
) -> I64:
    """Counts of a batch by the compiled kernel; -1 where the index is damaged."""
    queries = len(batch.starts) - 1
    out = np.zeros(queries, np.int64)
    main = (store.firsts, store.offsets, store.data)

    def part(span: tuple[int, int]) -> None:
        call(main, batch.made, batch.lists, batch.starts, separators, window, chained, *span, out)

    if threads == 1 or queries == 1:
        part((0, queries))
        return out
    costs = np.minimum.reduceat(batch.lists[:, 3], batch.starts[:-1])
    if int(costs.sum()) < _ALONE:
        part((0, queries))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, _spans(costs, threads * _SHARES)))
    return out


def _spans(costs: I64, shares: int) -> Iterator[tuple[int, int]]:
    """Queries in order, cut into spans of about equal cost."""
    sums = np.cumsum(costs + 64)
    edges = np.searchsorted(sums, np.arange(1, shares) * (sums[-1] / shares))
    bounds = np.unique(np.concatenate([[0], edges, [len(costs)]])).tolist()
    yield from itertools.pairwise(bounds)
