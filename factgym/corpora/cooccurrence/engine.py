"""Query engines: the counting rules in NumPy, and the choice, loading and parallel execution of the compiled kernels.

The package's docstring defines the semantics. Both engines give the same counts. With numba on disk and its cache warm
the kernels load in most of a second, without the cache in several. That happens in a thread while NumPy counts, so that
the first query does not wait.
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
from factgym.corpora.cooccurrence.postings import BLOCK, I64, BlockArrays, PostingList, decode
from factgym.corpora.cooccurrence.store import Store

Engine = Literal["auto", "numba", "numpy"]

# The NumPy engine. Anchors are taken in chunks, so memory does not grow with the query.

FAR = 1 << 40
"""Beyond every position: the neighbour that does not exist."""

NO_LIMIT = 1 << 50
"""More than any count."""

ANCHOR_CHUNK = 1 << 13
"""Anchors taken together by default."""

ANCHOR_BYTES = 6144
"""Working memory per anchor in the worst case, when each one needs a block of its own."""

_FIRST_CHUNK = 512
"""Anchors of the first chunk of a bounded count: fewer cost as much."""


class CountRules(NamedTuple):
    """Semantics and limit of a count. chained: "infini-gram", else "window"."""

    window: int
    chained: bool
    limit: int = NO_LIMIT


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def position_chunks(postings: PostingList, size: int, first: int = NO_LIMIT) -> Iterator[I64]:
    """Yield the list's positions, about `size` at a time; `first` in the first chunk, doubled in each further one."""
    max_blocks = max(1, size // BLOCK)
    start, blocks = 0, max(1, min(size, first) // BLOCK)
    while start < len(postings.firsts):
        yield decode(postings, np.arange(start, min(start + blocks, len(postings.firsts)))).astype(np.int64)
        start, blocks = start + blocks, min(2 * blocks, max_blocks)


def neighbours(postings: PostingList, points: I64) -> tuple[I64, I64]:
    """Return for each point the last position before it and the first at or after it; -FAR and FAR for none.

    A binary search over the blocks' first positions, then one over the decoded blocks that contain a point.
    """
    # The decoded blocks are ascending but have gaps. The last position before a point is in its own block; the next
    # one may begin a block that was not decoded, and then is that block's first.
    firsts = postings.firsts
    block = np.searchsorted(firsts, points.astype(np.uint32), "left") - 1
    has_block = block >= 0
    positions = decode(postings, np.unique(block[has_block])).astype(np.int64)
    index = np.searchsorted(positions, points, "left")
    # Index -1 reads the appended sentinel: no decoded position is below the point.
    before = np.where(has_block, np.append(positions, -FAR)[index - 1], -FAR)
    last = len(firsts) - 1
    next_first = np.where(block < last, firsts[np.minimum(block + 1, last)].astype(np.int64), FAR)
    after = np.minimum(np.append(positions, FAR)[index], next_first)
    return before, after


def contains(postings: PostingList, points: I64) -> NDArray[np.bool_]:
    """Return whether the list contains each point."""
    mask: NDArray[np.bool_] = neighbours(postings, points)[1] == points
    return mask


def count_lists(
    lists: Sequence[PostingList], separators: PostingList, rules: CountRules, chunk: int = ANCHOR_CHUNK
) -> int:
    """Count an AND of clauses, up to the limit.

    lists: by ascending frequency; under "window" each without repeated positions.
    """
    if len(lists) == 1:
        return min(lists[0].frequency, rules.limit)
    count = _count_spans if rules.chained else _count_windows
    total = 0
    for anchors in position_chunks(lists[0], chunk, max(rules.limit, _FIRST_CHUNK)):
        total += count(anchors, lists[1:], separators, rules.window)
        if total >= rules.limit:
            return rules.limit
    return total


def _count_spans(anchors: I64, lists: Sequence[PostingList], separators: PostingList, window: int) -> int:
    """Grow each anchor's span clause by clause; count the spans that remain and contain no separator."""
    # Points 2 and 3 of the semantics in the package's docstring, for all anchors at once. Invariant: starts[i], ends[i]
    # is the span of one surviving anchor; they are ascending only at first, as spans grow at different rates.
    starts = ends = anchors
    for postings in lists:
        before, after = neighbours(postings, starts)
        inside = after < ends
        nearest_before = np.where(inside, starts, before)
        # An occurrence inside the span hides the following ones only as long as the span grows to neither side.
        grow_left = inside | (starts - nearest_before <= window)
        grow_right = inside | (after - ends <= window)
        survives = grow_left | grow_right
        new_starts = np.where(grow_left, nearest_before, starts)
        new_ends = np.where(grow_right & ~inside, np.maximum(after, ends), ends)
        starts, ends = new_starts[survives], new_ends[survives]
        if not len(starts):
            return 0
    _, separator = neighbours(separators, starts)
    return int(np.count_nonzero(separator >= ends))


def _count_windows(anchors: I64, lists: Sequence[PostingList], separators: PostingList, window: int) -> int:
    """Count the anchors that a window can contain together with every clause, inside their document."""
    # Invariant: lefts[c][i] and rights[c][i] are anchor i's distances to the nearest occurrence of clause c on either
    # side inside its document, FAR for none. Farther occurrences can be left out: a window around the anchor that holds
    # any occurrence on a side holds the nearest one.
    document_start, document_end = neighbours(separators, anchors)
    lefts: list[I64] = []
    rights: list[I64] = []
    for postings in lists:
        before, after = neighbours(postings, anchors)
        before = np.where(after == anchors, anchors, before)
        to_left = np.where(before > document_start, anchors - before, FAR)
        to_right = np.where(after < document_end, after - anchors, FAR)
        survives = np.minimum(to_left, to_right) <= window
        anchors, document_start, document_end = anchors[survives], document_start[survives], document_end[survives]
        if not len(anchors):
            return 0
        lefts = [*(distances[survives] for distances in lefts), to_left[survives]]
        rights = [*(distances[survives] for distances in rights), to_right[survives]]
    return int(np.count_nonzero(_window_exists(lefts, rights, window)))


def _window_exists(lefts: Sequence[I64], rights: Sequence[I64], window: int) -> NDArray[np.bool_]:
    """Return for each anchor whether the nearest occurrences of all clauses fit into one window around it.

    lefts, rights: by clause, the anchors' distances to the nearest occurrence on each side. The left end of a smallest
    window is the anchor or one of the left neighbours; every clause that it misses must be reached on the right.
    """
    fits = np.zeros(len(lefts[0]), np.bool_)
    for left_reach in (np.zeros_like(lefts[0]), *lefts):
        right_reach = np.zeros_like(left_reach)
        for to_left, to_right in zip(lefts, rights, strict=True):
            np.maximum(right_reach, np.where(to_left > left_reach, to_right, 0), out=right_reach)
        fits |= left_reach + right_reach <= window
    return fits


# Loading the kernels

LARGE_INDEX = 1_000_000
"""Tokens from which it is worth loading numba."""

_import_lock = threading.Lock()
_lazy_modules: list[LazyModule] = []


@cache
def has_numba() -> bool:
    """Return whether the extra "counting" is installed."""
    return find_spec("numba") is not None


class LazyModule:
    """A module that needs numba, imported in a background thread on the first request."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.module: Any = None
        self.failure: Exception | None = None
        _lazy_modules.append(self)

    def start(self) -> None:
        """Start loading, unless it has started."""
        with self._lock:
            if self._thread is None and self.failure is None and has_numba():
                # Not a daemon: a process that ended in the middle of LLVM's work would crash.
                self._thread = threading.Thread(target=self._load, name=self._name)
                self._thread.start()

    @property
    def is_loading(self) -> bool:
        """Whether it has started and not ended."""
        return self._thread is not None and self.module is None and self.failure is None

    def wait(self, seconds: float | None = None) -> None:
        """Wait until loading has ended, up to `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _load(self) -> None:
        try:
            with _import_lock:  # two threads that import numba at once would wait for each other's modules
                self.module = import_module(self._name)
        except Exception as error:  # noqa: BLE001 - NumPy counts in its place; the engine "numba" reports the failure
            self.failure = error


counting_module = LazyModule("factgym.corpora.cooccurrence.kernels")
text_module = LazyModule("factgym.corpora.cooccurrence.kernel_text")


def _after_fork(modules: Sequence[LazyModule] = _lazy_modules) -> None:
    """In a child process, give modules up: a thread that was loading one does not exist there."""
    if any(module.is_loading for module in modules):
        for module in modules:
            if module.module is None:
                module._lock = threading.Lock()
                module.failure = module.failure or RuntimeError("the process was forked while numba was loading")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def wait_for_kernels(seconds: float) -> bool:
    """Wait up to `seconds` for each module; return whether none is still loading. A process cannot end before."""
    for module in _lazy_modules:
        module.wait(seconds)
    return not any(module.is_loading for module in _lazy_modules)


def counting_kernels(engine: Engine, load: bool = True) -> Any:
    """Return the module `kernels`, or None for NumPy: by choice, without numba, or ("auto") while it is loading.

    load: whether "auto" starts loading it. With "numba", raises ConfigError if numba fails, MissingExtraError without
    it.
    """
    if engine == "numpy":
        return None
    if counting_module.module is None and (load or engine == "numba"):
        counting_module.start()
        if engine == "numba":
            counting_module.wait()
            if failure := counting_module.failure:
                raise ConfigError(
                    f"numba cannot compile the counting kernels ({failure}): use another engine than 'numba'"
                ) from failure
            if counting_module.module is None:
                raise MissingExtraError("engine='numba'", "counting")
    return counting_module.module


def text_kernels(load: bool = True) -> Any:
    """Return the module `kernel_text`, or None without numba and while it is loading, which `load` starts."""
    if text_module.module is None and load:
        text_module.start()
    return text_module.module


# Running the kernels

_MIN_PARALLEL_COST = 40_000
"""Anchors of a batch below which threads cost more than they save."""
_SHARES_PER_THREAD = 8
_QUERY_COST = 64
"""Anchors that a query costs in addition."""
_ANCHORS_PER_HIT = 16
"""Estimated anchors to a hit, for the cost of a bounded count."""


class Batch(NamedTuple):
    """Queries in the form that the kernels take."""

    rows: I64
    """A row per clause: see `clauses.ClauseTable`."""
    starts: I64
    """The first row of each query; one more than queries."""
    derived: BlockArrays
    """Lists that are not in the index."""


def run_batch(kernels: Any, store: Store, separators: I64, batch: Batch, rules: CountRules, threads: int) -> I64:
    """Count a batch by the kernels; -1 for a query that meets damage.

    Costly queries are split between threads: each part has some of the anchors, and the parts' counts are added.
    """
    split = costs = None
    if threads > 1:
        rarest = np.minimum.reduceat(batch.rows[:, 3], batch.starts[:-1])
        costs = np.minimum(rarest, _ANCHORS_PER_HIT * rules.limit)
        split = _split_costly(batch, costs)
    parts = batch if split is None else split[0]
    counts = np.zeros(len(parts.starts) - 1, np.int64)
    arrays = (store.firsts, store.offsets, store.data)

    def count(span: tuple[int, int]) -> None:
        kernels.count_batch(arrays, parts.derived, parts.rows, parts.starts, separators, *rules, *span, counts)

    if split is None or costs is None:
        _run_in_threads(count, costs, len(counts), threads)
        return counts
    owners = split[1]
    _run_in_threads(count, costs[owners] // np.bincount(owners)[owners], len(counts), threads)
    first_parts = np.searchsorted(owners, np.arange(len(costs)))
    sums = np.minimum(np.add.reduceat(counts, first_parts), rules.limit)
    return np.where(np.minimum.reduceat(counts, first_parts) < 0, -1, sums)


def _split_costly(batch: Batch, costs: I64) -> tuple[Batch, I64] | None:
    """Return the batch with its costly queries split, and the query of each part; None if no query is costly.

    A part keeps the frequencies, so that its clauses are ordered as the whole query's are.
    """
    # A query's cost is the number of its anchors, so a costly one is split by the blocks of its rarest list. Anchors are
    # counted independently of each other, and the sum over the parts is the count of the query.
    starts = batch.starts
    part_counts = np.where(np.diff(starts) > 1, costs // _MIN_PARALLEL_COST, 1)
    if part_counts.max() < 2:
        return None
    rows: list[I64] = []
    owners: list[int] = []
    for query, count in enumerate(part_counts.tolist()):
        query_rows = batch.rows[starts[query] : starts[query + 1]]
        if count < 2:
            rows.append(query_rows)
            owners.append(query)
            continue
        anchor_row = int(query_rows[:, 3].argmin())
        start, end, tail = query_rows[anchor_row, :3].tolist()
        edges = np.linspace(start, end, min(count, end - start) + 1).astype(np.int64).tolist()
        for low, high in itertools.pairwise(edges):
            part = query_rows.copy()
            part[anchor_row, :3] = low, high, tail if high == end else BLOCK
            rows.append(part)
            owners.append(query)
    lengths = [0, *map(len, rows)]
    return Batch(np.concatenate(rows), np.cumsum(lengths), batch.derived), np.array(owners, np.int64)


def run_phrases(kernels: Any, store: Store, rows: I64, starts: I64, threads: int) -> tuple[NDArray[np.uint32], I64]:
    """Return the positions of all phrases, and how many each has, -1 for one that meets damage.

    rows: a row per word of every phrase, in order; starts: the first row of each, one more than phrases.
    """
    rarest = np.minimum.reduceat(rows[:, 3], starts[:-1])
    offsets = np.cumsum(rarest) - rarest
    positions, counts = np.empty(int(rarest.sum()), np.uint32), np.zeros(len(rarest), np.int64)
    arrays = (store.firsts, store.offsets, store.data)

    def find(span: tuple[int, int]) -> None:
        kernels.find_phrases(arrays, rows, starts, *span, offsets, positions, counts)

    _run_in_threads(find, rarest, len(rarest), threads)
    spans = zip(offsets.tolist(), np.maximum(counts, 0).tolist(), strict=True)
    return np.concatenate([positions[offset : offset + count] for offset, count in spans]), counts


def _run_in_threads(work: Callable[[tuple[int, int]], None], costs: I64 | None, size: int, threads: int) -> None:
    """Call `work` on spans of [0, size) of about equal cost, in threads where that pays."""
    if costs is None or threads == 1 or size == 1 or int(costs.sum()) < _MIN_PARALLEL_COST:
        work((0, size))
        return
    # Dynamic scheduling: several times as many spans of equal cost as threads, so that no thread waits for a slow one.
    sums = np.cumsum(costs + _QUERY_COST)
    shares = threads * _SHARES_PER_THREAD
    edges = np.searchsorted(sums, np.arange(1, shares) * (sums[-1] / shares))
    bounds = np.unique(np.concatenate([[0], edges, [size]])).tolist()
    spans = iter(list(itertools.pairwise(bounds)))

    def work_off() -> None:
        for span in spans:  # each thread takes the next one
            work(span)

    with ThreadPoolExecutor(threads - 1) as pool:
        futures = [pool.submit(work_off) for _ in range(threads - 1)]
        work_off()
    for future in futures:
        future.result()
