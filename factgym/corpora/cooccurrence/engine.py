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
from factgym.corpora.cooccurrence.blocks import BLOCK
from factgym.corpora.cooccurrence.known import Arrays
from factgym.corpora.cooccurrence.numbering import Kernels
from factgym.corpora.cooccurrence.plain import NO_LIMIT
from factgym.corpora.cooccurrence.store import Store

Engine = Literal["auto", "numba", "numpy"]
I64 = NDArray[np.int64]
_all: list[Loading] = []


class Loading:
    """A module that takes long to import as it needs numba, imported in a thread by whoever asks first."""

    def __init__(self, module: str) -> None:
        self._module = module
        _all.append(self)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.found: Any = None
        self.failure: Exception | None = None

    def start(self) -> None:
        """Begin, if nobody has."""
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

    def wait(self, seconds: float | None = None) -> None:
        """Until it is there, or has failed; no longer than `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

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
counting = Loading("factgym.corpora.cooccurrence.compiled")
words = Loading("factgym.corpora.cooccurrence.compiled_words")


def _after_fork(loadings: Sequence[Loading] = _all) -> None:
    """In a child process what was being loaded stays half loaded, and is not touched again."""
    if any(one.half_done for one in loadings):
        for loading in loadings:
            if loading.found is None:
                loading.give_up("the process was forked while numba was loading")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def settled(seconds: float) -> bool:
    """Whether nothing is being loaded, once each module had at most so many seconds more; before, no process can end."""
    for one in _all:
        one.wait(seconds)
    return not any(one.half_done for one in _all)


def kernel(engine: Engine, worth: bool = True) -> Any:
    """The module `compiled`, or None for NumPy: by choice, without numba, or ("auto") while it is loading.

    worth: whether "auto" is to begin loading it.
    """
    if engine == "numpy":
        return None
    if counting.found is None and (worth or engine == "numba"):
        counting.start()
        if engine == "numba":
            counting.wait()
            need(counting, "counting")
    return counting.found


def need(loading: Loading, what: str) -> None:
    """Raise for what was waited for and is not there: ConfigError where numba failed, MissingExtraError without it."""
    if loading.failure is not None:
        why = f"numba cannot compile the {what} kernels ({loading.failure}): use another engine than 'numba'"
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
    """A row per clause: see `known.Known`."""
    starts: I64
    """The first row of each query; one more than queries."""
    made: Arrays
    """The lists that the index does not have."""


_ALONE = 40_000
"""Anchors of a batch below which threads cost more than they save."""
_SHARES = 8
_COST_OF_HIT = 16
"""Anchors that it may take to find a hit, where counting stops at some: only to share work out."""


class Rules(NamedTuple):
    """By which rules queries are counted, and how far: none of the counts is above `most`."""

    window: int
    chained: bool
    most: int = NO_LIMIT


def run_batch(compiled: Any, store: Store, separators: I64, batch: Batch, rules: Rules, threads: int) -> I64:
    """Counts of a batch by the compiled kernel; -1 where the index is damaged."""
    if threads == 1:
        return _run(compiled, store, separators, batch, rules, None, 1)
    costs = np.minimum(np.minimum.reduceat(batch.lists[:, 3], batch.starts[:-1]), _COST_OF_HIT * rules.most)
    pieces = _cut(batch, costs)
    if pieces is None:
        return _run(compiled, store, separators, batch, rules, costs, threads)
    cut, owners = pieces
    counts = _run(compiled, store, separators, cut, rules, costs[owners] // np.bincount(owners)[owners], threads)
    begins = np.searchsorted(owners, np.arange(len(costs)))
    summed = np.minimum(np.add.reduceat(counts, begins), rules.most)
    return np.where(np.minimum.reduceat(counts, begins) < 0, -1, summed)


def _run(
    compiled: Any, store: Store, separators: I64, batch: Batch, rules: Rules, costs: I64 | None, threads: int
) -> I64:
    """costs: of each query, to share them out; None where one thread does them all."""
    out = np.zeros(len(batch.starts) - 1, np.int64)
    main = (store.firsts, store.offsets, store.data)

    def part(span: tuple[int, int]) -> None:
        compiled.count_batch(main, batch.made, batch.lists, batch.starts, separators, *rules, *span, out)

    if costs is None:
        part((0, len(out)))
    else:
        _share_out(part, costs, threads)
    return out


def _cut(batch: Batch, costs: I64) -> tuple[Batch, I64] | None:
    """The batch with its dear queries cut into pieces, each with some of the anchors, and the query of each piece.

    None where no query is dear enough. A piece keeps the frequencies, so that its clauses are sorted as the whole's are.
    """
    starts = batch.starts
    parts = np.where(np.diff(starts) > 1, costs // _ALONE, 1)
    if parts.max() < 2:
        return None
    lists: list[I64] = []
    owners: list[int] = []
    for query, wanted in enumerate(parts.tolist()):
        rows = batch.lists[starts[query] : starts[query + 1]]
        made = _pieces(rows, wanted) if wanted > 1 else [rows]
        lists.extend(made)
        owners.extend([query] * len(made))
    lengths = [0, *map(len, lists)]
    return Batch(np.concatenate(lists), np.cumsum(lengths), batch.made), np.array(owners, np.int64)


def _pieces(rows: I64, wanted: int) -> list[I64]:
    """A query's rows, several times, each with some blocks of its anchors."""
    anchors = int(rows[:, 3].argmin())
    begin, end, tail = rows[anchors, :3].tolist()
    edges = np.linspace(begin, end, min(wanted, end - begin) + 1).astype(np.int64).tolist()
    pieces: list[I64] = []
    for low, high in itertools.pairwise(edges):
        piece = rows.copy()
        piece[anchors, :3] = low, high, tail if high == end else BLOCK
        pieces.append(piece)
    return pieces


def run_phrases(compiled: Any, store: Store, lists: I64, starts: I64, threads: int) -> tuple[NDArray[np.uint32], I64]:
    """Where the words of each phrase stand side by side: all positions, and how many each has, -1 in a damaged file.

    lists: a row per word of every phrase, in order; starts: the first row of each, one more than phrases.
    """
    rarest = np.minimum.reduceat(lists[:, 3], starts[:-1])
    places = np.cumsum(rarest) - rarest
    out, found = np.empty(int(rarest.sum()), np.uint32), np.zeros(len(rarest), np.int64)
    main = (store.firsts, store.offsets, store.data)

    def part(span: tuple[int, int]) -> None:
        compiled.find_phrases(main, lists, starts, *span, places, out, found)

    _share_out(part, rarest, threads)
    spans = zip(places.tolist(), np.maximum(found, 0).tolist(), strict=True)
    return np.concatenate([out[begin : begin + count] for begin, count in spans]), found


def _share_out(part: Callable[[tuple[int, int]], None], costs: I64, threads: int) -> None:
    """Do the work [0, len(costs)) in parts of about equal cost, in threads where that is worth it."""
    if threads == 1 or len(costs) == 1 or int(costs.sum()) < _ALONE:
        part((0, len(costs)))
        return
    spans = iter(list(_spans(costs, threads * _SHARES)))

    def work() -> None:
        for span in spans:  # each thread takes the next one
            part(span)

    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work) for _ in range(threads - 1)]
        work()
    for one in others:
        one.result()


def _spans(costs: I64, shares: int) -> Iterator[tuple[int, int]]:
    """Queries in order, cut into spans of about equal cost."""
    sums = np.cumsum(costs + 64)
    edges = np.searchsorted(sums, np.arange(1, shares) * (sums[-1] / shares))
    bounds = np.unique(np.concatenate([[0], edges, [len(costs)]])).tolist()
    yield from itertools.pairwise(bounds)
