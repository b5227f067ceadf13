"""The counting rules compiled with numba: the same counts as the NumPy engine, some twenty times as fast.

Imported only by `engine`, in the background, as importing numba takes a second and compiling several. Functions are
compiled for fixed types and cached on disk by numba: beside this file, or in the user's cache directory if that cannot
be written. The kernels release the interpreter's lock, so threads count at the same time.

A list is blocks [start, end) of `firsts`, `offsets` and `data` (see `postings`); `tail` is the number of positions in
its last one. A row describes it: start, end, tail, frequency, 1 for a derived list. Anchors are taken some thousands at
a time, fewer where counting may stop early; against each further list they are merged or searched (`kernel_postings`).
A block that reads beyond the data, as in a damaged file, makes the count -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.kernel_postings import (
    ANCHORS,
    BLOCK,
    DAMAGED,
    FAR,
    STEP,
    WORKSPACE,
    BlockArrays,
    Ints,
    decode,
    decode_anchors,
    inner,
    intersect_by_search,
    neighbours,
    seek,
)

_ARRAYS = types.UniTuple(types.Array(types.uint32, 1, "C", readonly=True), 3)
_ROWS = types.Array(types.int64, 2, "C")
_NUMBERS = types.Array(types.int64, 1, "C")
_POSITIONS = types.Array(types.uint32, 1, "C")


@inner
def _first_step(limit: int) -> int:
    """Return the blocks of anchors to begin with where counting may stop at `limit`; each further step doubles."""
    return min(STEP, 1 + limit // BLOCK)


@inner
def _grow_spans(starts: Ints, ends: Ints, n: int, before: Ints, after: Ints, window: int) -> int:
    """Grow the spans by one clause and keep those that it reaches; return their number."""
    survivors = 0
    for i in range(n):
        start, end = starts[i], ends[i]
        if after[i] >= end:
            near_left = start - before[i] <= window
            near_right = after[i] - end <= window
            if not (near_left or near_right):
                continue
            if near_left:
                start = before[i]
            if near_right:
                end = after[i]
        starts[survivors] = start
        ends[survivors] = end
        survivors += 1
    return survivors


@inner
def _add_distances(
    anchors: Ints,
    starts: Ints,
    ends: Ints,
    distances: Any,
    clauses: int,
    n: int,
    before: Ints,
    after: Ints,
    window: int,
) -> int:
    """Note a clause's distance on either side inside the document; keep and count the anchors within the window."""
    survivors = 0
    for i in range(n):
        x = anchors[i]
        to_right = after[i] - x if after[i] < ends[i] else FAR
        to_left = x - before[i] if before[i] > starts[i] else FAR
        if after[i] == x:
            to_left = 0
        if min(to_left, to_right) > window:
            continue
        for c in range(2 * clauses):
            distances[c, survivors] = distances[c, i]
        distances[2 * clauses, survivors] = to_left
        distances[2 * clauses + 1, survivors] = to_right
        anchors[survivors], starts[survivors], ends[survivors] = x, starts[i], ends[i]
        survivors += 1
    return survivors


@inner
def _window_exists(distances: Any, clauses: int, i: int, window: int) -> bool:
    """Return whether the nearest occurrences fit into one window; see the function of this name in `engine`."""
    # A smallest window begins at the anchor (-1) or at a clause's nearest occurrence on the left.
    for chosen in range(-1, clauses):
        left_reach = np.int64(0) if chosen < 0 else distances[2 * chosen, i]
        right_reach = np.int64(0)
        for c in range(clauses):
            if distances[2 * c, i] > left_reach:
                right_reach = max(right_reach, distances[2 * c + 1, i])
        if left_reach + right_reach <= window:
            return True
    return False


@inner
def _sort_by_frequency(rows: Any, order: Ints) -> None:
    """Write the numbers of the rows by frequency, equal ones in order (insertion sort)."""
    for c in range(rows.shape[0]):
        rank = c
        while rank > 0 and rows[order[rank - 1], 3] > rows[c, 3]:
            order[rank] = order[rank - 1]
            rank -= 1
        order[rank] = c


@inner
def _count_chained(
    index: BlockArrays, derived: BlockArrays, rows: Any, separators: Ints, window: int, limit: int, workspace: Any,
    order: Ints, hints: Ints,
) -> Any:  # fmt: skip
    """Count a query under "infini-gram", to `limit` or more; `workspace` has rows of ANCHORS numbers."""
    # Anchors of the rarest list are taken some blocks at a time, and thinned out list by list in order of frequency.
    # Invariant: starts[:n], ends[:n] are the spans of the anchors that all lists so far have reached. hints[c] is the
    # block of list c where the last search ended, near which the next one begins.
    starts, ends, before, after = workspace[0], workspace[1], workspace[2], workspace[3]
    decoded = workspace[4:].reshape(-1)
    rarest, total = rows[order[0]], np.int64(0)
    first, step = rarest[0], _first_step(limit)
    while first < rarest[1] and total < limit:
        n = decode_anchors(derived if rarest[4] else index, rarest, first, step, starts)
        first, step = first + step, min(2 * step, STEP)
        for i in range(n):
            ends[i] = starts[i]
        for d in range(1, rows.shape[0]):
            if n > 0:
                c = order[d]
                row = rows[c]
                hints[c] = neighbours(derived if row[4] else index, row, hints[c], starts, n, before, after, decoded)
                n = DAMAGED if hints[c] == DAMAGED else _grow_spans(starts, ends, n, before, after, window)
        if n > 0:
            hints[-1] = neighbours(index, separators, hints[-1], starts, n, before, after, decoded)
            n = DAMAGED if hints[-1] == DAMAGED else n
        if n == DAMAGED:
            return np.int64(-1)
        for i in range(n):
            total += after[i] >= ends[i]
    return total


@inner
def _count_windowed(
    index: BlockArrays, derived: BlockArrays, rows: Any, separators: Ints, window: int, limit: int, workspace: Any,
    order: Ints, hints: Ints,
) -> Any:  # fmt: skip
    """Count a query under "window", to `limit` or more."""
    # As `_count_chained`, but an anchor stays where it is: rows 2 c and 2 c + 1 of `distances` have the distances to the
    # c-th list's nearest occurrences on the left and on the right.
    clauses = rows.shape[0] - 1
    anchors, starts, ends = workspace[0], workspace[1], workspace[2]
    before, after = workspace[3], workspace[4]
    distances, decoded = workspace[5 : 5 + 2 * clauses], workspace[5 + 2 * clauses :].reshape(-1)
    rarest, total = rows[order[0]], np.int64(0)
    first, step = rarest[0], _first_step(limit)
    while first < rarest[1] and total < limit:
        n = decode_anchors(derived if rarest[4] else index, rarest, first, step, anchors)
        first, step = first + step, min(2 * step, STEP)
        if n > 0:
            hints[-1] = neighbours(index, separators, hints[-1], anchors, n, starts, ends, decoded)
            n = DAMAGED if hints[-1] == DAMAGED else n
        for d in range(1, clauses + 1):
            if n > 0:
                c = order[d]
                row = rows[c]
                hints[c] = neighbours(derived if row[4] else index, row, hints[c], anchors, n, before, after, decoded)
                survivors = _add_distances(anchors, starts, ends, distances, d - 1, n, before, after, window)
                n = DAMAGED if hints[c] == DAMAGED else survivors
        if n == DAMAGED:
            return np.int64(-1)
        for i in range(n):
            total += _window_exists(distances, clauses, i, window)
    return total


def _count_batch(
    index: BlockArrays, derived: BlockArrays, rows: Any, starts: Ints, separators: Ints, window: int, chained: bool,
    limit: int, first: int, last: int, counts: Ints,
) -> None:  # fmt: skip
    """Write the counts of queries [first, last), none above `limit`; -1 where the file is damaged.

    index: the index's arrays; derived: those of lists that are not in it. rows: a row per clause of every query.
    starts: each query's first row, one more than queries. separators: a row.
    """
    longest = 1
    for q in range(first, last):
        longest = max(longest, starts[q + 1] - starts[q])
    workspace = np.empty((5 + (0 if chained else 2 * longest) + WORKSPACE, ANCHORS), np.int64)
    order = np.empty(longest, np.int64)
    for q in range(first, last):
        query = rows[starts[q] : starts[q + 1]]
        _sort_by_frequency(query, order)
        rarest = query[order[0]]
        hints = np.append(query[:, 0], separators[0]) - 1
        if rarest[3] == 0:
            counts[q] = 0
        elif query.shape[0] == 1:
            counts[q] = (rarest[1] - rarest[0] - 1) * BLOCK + rarest[2]
        elif chained:
            counts[q] = _count_chained(index, derived, query, separators, window, limit, workspace, order, hints)
        else:
            counts[q] = _count_windowed(index, derived, query, separators, window, limit, workspace, order, hints)
        counts[q] = min(counts[q], limit)


count_batch: Callable[..., None] = numba.njit(
    types.void(
        *(_ARRAYS, _ARRAYS, _ROWS, _NUMBERS, _NUMBERS, types.int64, types.boolean),
        *(types.int64, types.int64, types.int64, _NUMBERS),
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)(_count_batch)


# Phrases

_FILTER_BITS = 1 << 17
"""Of the filter in `_intersect`, which fits into the processor's first cache."""
_FILTERED = 1
"""Positions per point up to which a list is filtered."""
_MERGED, _SCANNED = 16, 128
"""Positions per point between which a list is scanned from block to block."""
_ONE, _WORD_SHIFT, _BIT_MASK = np.uint64(1), np.uint64(6), np.uint64(63)


@inner
def _intersect_long(
    arrays: BlockArrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints,
    workspace: Ints,
) -> Any:  # fmt: skip
    """`_intersect` with a list that is longer than the points."""
    if _MERGED * n < (high - low) * BLOCK <= _SCANNED * n:
        return intersect_by_search(arrays, row, low, high, points, n), high
    matches, high = 0, neighbours(arrays, row, low, points, n, before, after, workspace)
    for i in range(n):
        points[matches] = points[i]
        matches += after[i] == points[i]
    return np.int64(DAMAGED) if high == DAMAGED else np.int64(matches), high


@inner
def _intersect(
    arrays: BlockArrays, row: Ints, hint: int, points: Ints, n: int, before: Ints, after: Ints, workspace: Ints,
    bits: NDArray[np.uint64],
) -> Any:  # fmt: skip
    """Keep those of ascending points that the list contains; return their number, or DAMAGED, and the next hint.

    A merge would spend most of its time on mispredicted branches. Instead the points' lowest bits are set in a bitmap,
    as in a Bloom filter with one hash (Ding and König, "Fast set intersection in memory", 2011), which rejects all but
    a few positions of the list; the remaining ones are merged.
    """
    firsts, offsets, data = arrays
    start, end, tail = row[0], row[1], row[2]
    low = max(seek(firsts, start, end, hint, points[0]), start)
    high = seek(firsts, start, end, low, points[n - 1] + 1)
    matches, next_point = 0, 0
    mask = np.uint64(_FILTER_BITS - 1)
    if (high - low) * BLOCK > _FILTERED * n:
        return _intersect_long(arrays, row, low, high, points, n, before, after, workspace)
    bits[:] = 0
    for i in range(n):
        key = np.uint64(points[i]) & mask
        bits[key >> _WORD_SHIFT] |= _ONE << (key & _BIT_MASK)
    for block in range(low, high + 1):
        count = tail if block == end - 1 else BLOCK
        if not decode(firsts, offsets, data, block, count, workspace, 0):
            return np.int64(DAMAGED), high
        for i in range(np.uint64(count)):
            key = np.uint64(workspace[i]) & mask
            if (bits[key >> _WORD_SHIFT] >> (key & _BIT_MASK)) & _ONE:
                while next_point < n and points[next_point] < workspace[i]:
                    next_point += 1
                if next_point < n and points[next_point] == workspace[i]:
                    points[matches] = points[next_point]
                    matches += 1
                    next_point += 1
    return np.int64(matches), high


def _find_phrases(
    index: BlockArrays, rows: Any, starts: Ints, first: int, last: int, offsets: Ints, positions: NDArray[np.uint32],
    counts: Ints,
) -> None:  # fmt: skip
    """Write the positions of phrases [first, last), where their words are adjacent, to positions[offsets[p]:].

    rows: a row per word of every phrase, in its order; starts: each phrase's first row. counts: positions of each, or
    -1 where the file is damaged. The rarest word's positions are intersected with those of the other words, shifted.
    """
    workspace, bits = np.empty((3 + WORKSPACE, ANCHORS), np.int64), np.empty(_FILTER_BITS >> 6, np.uint64)
    points, before, after, decoded = workspace[0], workspace[1], workspace[2], workspace[3:].reshape(-1)
    for p in range(first, last):
        phrase = rows[starts[p] : starts[p + 1]]
        order, hints = np.empty(phrase.shape[0], np.int64), phrase[:, 0] - 1
        _sort_by_frequency(phrase, order)
        total, row = 0, phrase[order[0]]
        for block in range(row[0], row[1], STEP):
            shift, n = order[0], decode_anchors(index, row, block, STEP, points)
            for d in range(1, phrase.shape[0]):
                if n > 0:
                    c = order[d]
                    for i in range(n):
                        points[i] += c - shift
                    shift = c
                    n, hints[c] = _intersect(index, phrase[c], hints[c], points, n, before, after, decoded, bits)
            if n == DAMAGED:
                total = -1
                break
            for i in range(n):
                positions[offsets[p] + total + i] = points[i] - shift
            total += n
        counts[p] = total


find_phrases: Callable[..., None] = numba.njit(
    types.void(*(_ARRAYS, _ROWS, _NUMBERS, types.int64, types.int64, _NUMBERS, _POSITIONS, _NUMBERS)),
    nogil=True,
    cache=True,
    error_model="numpy",
)(_find_phrases)
