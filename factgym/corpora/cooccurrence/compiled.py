"""The counting rules compiled with numba: the same counts as `plain`, some twenty times as fast.

Imported only by `engine`, in the background, as importing numba takes a second and compiling takes several. Functions
are compiled for fixed types and cached on disk by numba: beside this file, or in the user's cache directory where that
cannot be written. The kernels hold no lock of the interpreter, so threads count at the same time.

A list is blocks [begin, end) of `firsts`, `offsets` and `data` (see `blocks`); `tail` is the positions in its last one.
Anchors are taken some thousands at a time, fewer where counting may stop early. Against each further list they are
either merged (its blocks in between are decoded, when they hold few positions per anchor) or each one gallops to its
block and searches inside it. A block that reads beyond the data, as in a damaged file, makes the count -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.compiled_lists import (
    ANCHORS,
    BLOCK,
    DAMAGED,
    FAR,
    ROOM,
    STEP,
    Arrays,
    Ints,
    anchors,
    decode,
    held,
    inner,
    neighbours,
    seek,
)

ARRAYS = types.UniTuple(types.Array(types.uint32, 1, "C", readonly=True), 3)
ROWS = types.Array(types.int64, 2, "C")
NUMBERS = types.Array(types.int64, 1, "C")


@inner
def _first_step(most: int) -> int:
    """Blocks of anchors to begin with where counting may stop at `most`; from there on each step doubles."""
    return min(STEP, 1 + most // BLOCK)


@inner
def _chain(left: Ints, right: Ints, n: int, before: Ints, after: Ints, window: int) -> int:
    """Grow the spans by one clause and keep those that it reaches; how many."""
    kept = 0
    for i in range(n):
        begin, end = left[i], right[i]
        if after[i] >= end:
            near_left = begin - before[i] <= window
            near_right = after[i] - end <= window
            if not (near_left or near_right):
                continue
            if near_left:
                begin = before[i]
            if near_right:
                end = after[i]
        left[kept] = begin
        right[kept] = end
        kept += 1
    return kept


@inner
def _reach(
    points: Ints, begins: Ints, ends: Ints, reaches: Any, clauses: int, n: int, before: Ints, after: Ints, window: int
) -> int:
    """Note how far a clause is to either side inside the document, and keep the anchors that it can reach."""
    kept = 0
    for i in range(n):
        x = points[i]
        to_right = after[i] - x if after[i] < ends[i] else FAR
        to_left = x - before[i] if before[i] > begins[i] else FAR
        if after[i] == x:
            to_left = 0
        if min(to_left, to_right) > window:
            continue
        for c in range(2 * clauses):
            reaches[c, kept] = reaches[c, i]
        reaches[2 * clauses, kept] = to_left
        reaches[2 * clauses + 1, kept] = to_right
        points[kept], begins[kept], ends[kept] = x, begins[i], ends[i]
        kept += 1
    return kept


@inner
def _fits(reaches: Any, clauses: int, i: int, window: int) -> bool:
    """Whether some reach to the left, with what it leaves to the right, spans no more than the window."""
    for chosen in range(-1, clauses):
        reach = np.int64(0) if chosen < 0 else reaches[2 * chosen, i]
        need = np.int64(0)
        for c in range(clauses):
            if reaches[2 * c, i] > reach:
                need = max(need, reaches[2 * c + 1, i])
        if reach + need <= window:
            return True
    return False


@inner
def _sort(rows: Any, order: Ints) -> None:
    """The numbers of the rows by frequency, equal ones in order."""
    for c in range(rows.shape[0]):
        at = c
        while at > 0 and rows[order[at - 1], 3] > rows[c, 3]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = c


@inner
def _count_chained(
    main: Arrays, made: Arrays, rows: Any, separators: Ints, window: int, most: int, room: Any, order: Ints,
    hints: Ints,
) -> Any:  # fmt: skip
    """One query under "infini-gram", to `most` or more; `room` is for numbers, a row of ANCHORS for each purpose."""
    left, right, before, after, decoded = room[0], room[1], room[2], room[3], room[4:].reshape(-1)
    rarest, total = rows[order[0]], np.int64(0)
    first, step = rarest[0], _first_step(most)
    while first < rarest[1] and total < most:
        n = anchors(made if rarest[4] else main, rarest, first, step, left)
        first, step = first + step, min(2 * step, STEP)
        for i in range(n):
            right[i] = left[i]
        for d in range(1, rows.shape[0]):
            if n > 0:
                c = order[d]
                row = rows[c]
                hints[c] = neighbours(made if row[4] else main, row, hints[c], left, n, before, after, decoded)
                n = DAMAGED if hints[c] == DAMAGED else _chain(left, right, n, before, after, window)
        if n > 0:
            hints[-1] = neighbours(main, separators, hints[-1], left, n, before, after, decoded)
            n = DAMAGED if hints[-1] == DAMAGED else n
        if n == DAMAGED:
            return np.int64(-1)
        for i in range(n):
            total += after[i] >= right[i]
    return total


@inner
def _count_windowed(
    main: Arrays, made: Arrays, rows: Any, separators: Ints, window: int, most: int, room: Any, order: Ints,
    hints: Ints,
) -> Any:  # fmt: skip
    """One query under "window", to `most` or more."""
    clauses = rows.shape[0] - 1
    points, begins, ends, before, after = room[0], room[1], room[2], room[3], room[4]
    reaches, decoded = room[5 : 5 + 2 * clauses], room[5 + 2 * clauses :].reshape(-1)
    rarest, total = rows[order[0]], np.int64(0)
    first, step = rarest[0], _first_step(most)
    while first < rarest[1] and total < most:
        n = anchors(made if rarest[4] else main, rarest, first, step, points)
        first, step = first + step, min(2 * step, STEP)
        if n > 0:
            hints[-1] = neighbours(main, separators, hints[-1], points, n, begins, ends, decoded)
            n = DAMAGED if hints[-1] == DAMAGED else n
        for d in range(1, clauses + 1):
            if n > 0:
                c = order[d]
                row = rows[c]
                hints[c] = neighbours(made if row[4] else main, row, hints[c], points, n, before, after, decoded)
                kept = _reach(points, begins, ends, reaches, d - 1, n, before, after, window)
                n = DAMAGED if hints[c] == DAMAGED else kept
        if n == DAMAGED:
            return np.int64(-1)
        for i in range(n):
            total += _fits(reaches, clauses, i, window)
    return total


def _count_batch(
    main: Arrays, made: Arrays, lists: Any, starts: Ints, separators: Ints, window: int, chained: bool, most: int,
    lo: int, hi: int, out: Ints,
) -> None:  # fmt: skip
    """Counts of queries [lo, hi) into `out`, none above `most`; -1 where the file is damaged.

    main: the index's arrays; made: those of lists that are not in it. lists: a row per clause of every query, (begin,
    end, tail, frequency, 1 for a made one); starts: each query's first row, one more than queries. separators: a row.
    """
    longest = 1
    for q in range(lo, hi):
        longest = max(longest, starts[q + 1] - starts[q])
    room = np.empty((5 + (0 if chained else 2 * longest) + ROOM, ANCHORS), np.int64)
    order = np.empty(longest, np.int64)
    for q in range(lo, hi):
        rows = lists[starts[q] : starts[q + 1]]
        _sort(rows, order)
        rarest = rows[order[0]]
        hints = np.append(rows[:, 0], separators[0]) - 1
        if rarest[3] == 0:
            out[q] = 0
        elif rows.shape[0] == 1:
            out[q] = (rarest[1] - rarest[0] - 1) * BLOCK + rarest[2]
        elif chained:
            out[q] = _count_chained(main, made, rows, separators, window, most, room, order, hints)
        else:
            out[q] = _count_windowed(main, made, rows, separators, window, most, room, order, hints)
        out[q] = min(out[q], most)


count_batch: Callable[..., None] = numba.njit(
    types.void(
        *(ARRAYS, ARRAYS, ROWS, NUMBERS, NUMBERS, types.int64, types.boolean),
        *(types.int64, types.int64, types.int64, NUMBERS),
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)(_count_batch)


BITS = 1 << 17
"""Of the filter of `_meet`, which fits the processor's first cache."""
MET = 1
"""Positions per point up to which `_meet` filters a list."""
MERGED, SPREAD = 16, 128
"""Positions per point between which it goes from block to block."""


@inner
def _meet_far(
    arrays: Arrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """`_meet` where the list is longer: a search for each point."""
    if MERGED * n < (high - low) * BLOCK <= SPREAD * n:
        return held(arrays, row, low, high, points, n), high
    kept, high = 0, neighbours(arrays, row, low, points, n, before, after, room)
    for i in range(n):
        points[kept] = points[i]
        kept += after[i] == points[i]
    return np.int64(DAMAGED) if high == DAMAGED else np.int64(kept), high


@inner
def _meet(
    arrays: Arrays, row: Ints, hint: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints,
    bits: NDArray[np.uint64],
) -> Any:  # fmt: skip
    """Keep of rising points those that the list holds: how many, or -2, and the block to go on from.

    A merge would spend most of its time on branches that nobody can foresee. Here the points' lowest bits are marked in
    a filter, which all but a few positions of the list fail.
    """
    firsts, offsets, data = arrays
    begin, end, tail = row[0], row[1], row[2]
    low = max(seek(firsts, begin, end, hint, points[0]), begin)
    high = seek(firsts, begin, end, low, points[n - 1] + 1)
    kept, at, one, six, rest = 0, 0, np.uint64(1), np.uint64(6), np.uint64(63)
    mask = np.uint64(BITS - 1)
    if (high - low) * BLOCK > MET * n:
        return _meet_far(arrays, row, low, high, points, n, before, after, room)
    bits[:] = 0
    for i in range(n):
        place = np.uint64(points[i]) & mask
        bits[place >> six] |= one << (place & rest)
    for block in range(low, high + 1):
        count = tail if block == end - 1 else BLOCK
        if not decode(firsts, offsets, data, block, count, room, 0):
            return np.int64(DAMAGED), high
        for i in range(np.uint64(count)):
            place = np.uint64(room[i]) & mask
            if (bits[place >> six] >> (place & rest)) & one:
                while at < n and points[at] < room[i]:
                    at += 1
                if at < n and points[at] == room[i]:
                    points[kept] = points[at]
                    kept += 1
                    at += 1
    return np.int64(kept), high


def _find_phrases(
    main: Arrays, lists: Any, starts: Ints, lo: int, hi: int, places: Ints, out: NDArray[np.uint32], found: Ints
) -> None:
    """Where the words of phrases [lo, hi) stand side by side: the first one's positions to out[places[p]:].

    lists: a row per word of every phrase, in its order; starts: each phrase's first row. found: how many, or -1 where
    the file is damaged.
    """
    room, bits = np.empty((3 + ROOM, ANCHORS), np.int64), np.empty(BITS >> 6, np.uint64)
    points, before, after, decoded = room[0], room[1], room[2], room[3:].reshape(-1)
    for p in range(lo, hi):
        rows = lists[starts[p] : starts[p + 1]]
        order, hints = np.empty(rows.shape[0], np.int64), rows[:, 0] - 1
        _sort(rows, order)
        total, row = 0, rows[order[0]]
        for first in range(row[0], row[1], STEP):
            shift, n = order[0], anchors(main, row, first, STEP, points)
            for d in range(1, rows.shape[0]):
                if n > 0:
                    c = order[d]
                    for i in range(n):
                        points[i] += c - shift
                    shift = c
                    n, hints[c] = _meet(main, rows[c], hints[c], points, n, before, after, decoded, bits)
            if n == DAMAGED:
                total = -1
                break
            for i in range(n):
                out[places[p] + total + i] = points[i] - shift
            total += n
        found[p] = total


find_phrases: Callable[..., None] = numba.njit(
    types.void(
        *(ARRAYS, ROWS, NUMBERS, types.int64, types.int64, NUMBERS, types.Array(types.uint32, 1, "C"), NUMBERS)
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)(_find_phrases)
