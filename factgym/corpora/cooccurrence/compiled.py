"""The counting rules compiled with numba: the same counts as `plain`, some twenty times as fast.

Imported only by `engine`, in the background, as importing numba takes a second and compiling takes several. Functions
are compiled for fixed types and cached on disk by numba: beside this file, or in the user's cache directory where that
cannot be written. The kernels hold no lock of the interpreter, so threads count at the same time.

A list is blocks [begin, end) of `firsts`, `offsets` and `data` (see `blocks`); `tail` is the positions in its last one.
Anchors are taken some thousands at a time. Against each further list they are either merged (its blocks in between are
decoded, when they hold few positions per anchor) or each one gallops to its block and searches inside it. A block that
reads beyond the data, as in a damaged file, makes the count -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

FAR = 1 << 40
BLOCK = 64
ANCHORS = 2048
"""Anchors taken together: a whole number of blocks."""
DENSE = 16
"""Positions per anchor up to which a list is decoded rather than searched."""

Ints: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""firsts, offsets, data."""

_ARRAYS = types.UniTuple(types.Array(types.uint32, 1, "C", readonly=True), 3)
_ROWS = types.Array(types.int64, 2, "C")
_NUMBERS = types.Array(types.int64, 1, "C")

_DAMAGED = -2


def _inner(function: F) -> F:
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def _inline(function: F) -> F:
    """For what is called per anchor: passing an array to a function costs a count of its references."""
    compiled: F = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return compiled


@_inline
def _seek(firsts: Any, begin: int, end: int, hint: int, x: int) -> int:
    """The last block in [begin, end) whose first position is below x, or begin - 1; gallops from `hint`."""
    step = 1
    if hint >= begin and firsts[hint] >= x:
        high = hint
        low = hint - 1
        while low >= begin and firsts[low] >= x:
            high = low
            step *= 2
            low = high - step
        low = max(low, begin - 1)
    else:
        low = max(hint, begin - 1)
        high = low + 1
        while high < end and firsts[high] < x:
            low = high
            step *= 2
            high = low + step
        high = min(high, end)
    while high - low > 1:
        middle = (low + high) >> 1
        if firsts[middle] < x:
            low = middle
        else:
            high = middle
    return low


@_inline
def _data_of(offsets: Any, words: int, block: int, count: int) -> tuple[Any, Any]:
    """Where a block of `count` positions has its data, and how many words; -2 where that cannot be."""
    begin = np.int64(offsets[block])
    size = np.int64(offsets[block + 1]) - begin
    wrong = size < 0 or size > BLOCK or begin + size >= words or (count < BLOCK and size != count - 1)
    return np.int64(_DAMAGED) if wrong else begin, size


@_inline
def _decode(firsts: Any, offsets: Any, data: Any, block: int, count: int, out: Ints, at: int) -> bool:
    """Write a block's `count` positions to out[at:]; whether the block lies inside the data."""
    begin, size = _data_of(offsets, data.size, block, count)
    if begin == _DAMAGED:
        return False
    first, source, target = np.int64(firsts[block]), np.uint64(begin), np.uint64(at)
    out[target] = first
    if count < BLOCK:
        for i in range(np.uint64(count - 1)):
            out[target + np.uint64(1) + i] = first + data[source + i]
        return True
    width, bit = np.uint64(size >> 1), np.uint64(0)
    mask = (np.uint64(1) << width) - np.uint64(1)
    for i in range(np.uint64(BLOCK)):
        k = source + (bit >> np.uint64(5))
        pair = np.uint64(data[k]) | (np.uint64(data[k + np.uint64(1)]) << np.uint64(32))
        out[target + i] = first + np.int64((pair >> (bit & np.uint64(31))) & mask)
        bit += width
    return True


@_inline
def _search(data: Any, begin: int, size: int, count: int, goal: int) -> tuple[Any, Any]:
    """In a block, the last difference from its first position below `goal` (0 is), and the next, or FAR."""
    width = np.uint64(size >> 1)
    mask = (np.uint64(1) << width) - np.uint64(1)
    source, one = np.uint64(begin), np.uint64(1)
    low, high = np.uint64(0), np.uint64(count)
    low_value, high_value = np.int64(0), np.int64(FAR)
    while high - low > one:
        middle = (low + high) >> one
        if count < BLOCK:
            value = np.int64(data[source + middle - one])
        else:
            bit = middle * width
            k = source + (bit >> np.uint64(5))
            pair = np.uint64(data[k]) | (np.uint64(data[k + one]) << np.uint64(32))
            value = np.int64((pair >> (bit & np.uint64(31))) & mask)
        if value < goal:
            low, low_value = middle, value
        else:
            high, high_value = middle, value
    return low_value, high_value


@_inner
def _neighbours(
    arrays: Arrays, row: Ints, hint: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """For n points the last position before each and the first at or after it; the block to go on from, or -2."""
    firsts = arrays[0]
    begin, end = row[0], row[1]
    lowest, highest = points[0], points[0]
    for i in range(n):
        lowest, highest = min(lowest, points[i]), max(highest, points[i])
    low = _seek(firsts, begin, end, hint, lowest)
    high = _seek(firsts, begin, end, low, highest)
    if (high - low) * BLOCK <= DENSE * n:
        return _merge(arrays, row, low, high, points, n, before, after, room)
    return _probe(arrays, row, low, high, points, n, before, after, room)


@_inner
def _probe(
    arrays: Arrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """`_neighbours` by a search for each point.

    In steps over all points, so that the processor waits for many blocks of memory at a time and not for one after the
    other: first which block each point belongs to, then where its data are, then a touch of them, then the search.
    """
    firsts, offsets, data = arrays
    begin, end, tail = row[0], row[1], row[2]
    blocks, starts, sizes = room[:n], room[n : 2 * n], room[2 * n : 3 * n]
    block = low
    for i in range(n):
        block = _seek(firsts, begin, end, block, points[i])
        blocks[i] = block
    wrong = False
    for i in range(n):
        block = max(blocks[i], begin)
        start, size = _data_of(offsets, data.size, block, tail if block == end - 1 else BLOCK)
        wrong = wrong or start == _DAMAGED
        starts[i] = start
        sizes[i] = size
    if wrong:
        return np.int64(_DAMAGED)
    touched = np.uint32(0)
    for i in range(n):
        touched |= data[starts[i]] | data[starts[i] + (sizes[i] >> 1)] | data[starts[i] + sizes[i]]
    for i in range(n):
        block = blocks[i]
        if block < begin:
            before[i] = -FAR
            after[i] = firsts[begin]
            continue
        first = np.int64(firsts[block])
        count = tail if block == end - 1 else BLOCK
        last, following = _search(data, starts[i], sizes[i], count, points[i] - first)
        before[i] = first + last
        after[i] = first + following
        if following == FAR and block + 1 < end:
            after[i] = firsts[block + 1]
    # `touched` is all ones for no index; asking keeps the loads above from being dropped.
    return high if touched < np.uint32(0xFFFFFFFF) or high > begin - 2 else high - 1


@_inner
def _merge(
    arrays: Arrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """`_neighbours` over blocks [low, high], decoded into `room`."""
    firsts, offsets, data = arrays
    begin, end, tail = row[0], row[1], row[2]
    held = 0
    for block in range(max(low, begin), high + 1):
        count = tail if block == end - 1 else BLOCK
        if not _decode(firsts, offsets, data, block, count, room, held):
            return np.int64(_DAMAGED)
        held += count
    beyond = np.int64(firsts[high + 1]) if high + 1 < end else np.int64(FAR)
    at, one, full = np.uint64(0), np.uint64(1), np.uint64(held)
    for i in range(np.uint64(n)):
        x = points[i]
        while at > 0 and room[at - one] >= x:
            at -= one
        while at < full and room[at] < x:
            at += one
        before[i] = room[at - one] if at > 0 else -FAR
        after[i] = room[at] if at < full else beyond
    return high


@_inner
def _anchors(arrays: Arrays, row: Ints, first: int, out: Ints) -> int:
    """Decode the next anchors, from block `first` on; how many, or -2."""
    firsts, offsets, data = arrays
    n = 0
    for block in range(first, min(first + ANCHORS // BLOCK, row[1])):
        count = row[2] if block == row[1] - 1 else BLOCK
        if not _decode(firsts, offsets, data, block, count, out, n):
            return _DAMAGED
        n += count
    return n


@_inner
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


@_inner
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


@_inner
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


@_inner
def _sort(rows: Any, order: Ints) -> None:
    """The numbers of the rows by frequency, equal ones in order."""
    for c in range(rows.shape[0]):
        at = c
        while at > 0 and rows[order[at - 1], 3] > rows[c, 3]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = c


@_inner
def _count_chained(
    main: Arrays, made: Arrays, rows: Any, separators: Ints, window: int, room: Any, order: Ints, hints: Ints
) -> Any:
    """One query under "infini-gram"; `room` is for numbers, a row of ANCHORS for each purpose."""
    left, right, before, after, decoded = room[0], room[1], room[2], room[3], room[4:].reshape(-1)
    rarest, total = rows[order[0]], np.int64(0)
    for first in range(rarest[0], rarest[1], ANCHORS // BLOCK):
        n = _anchors(made if rarest[4] else main, rarest, first, left)
        for i in range(n):
            right[i] = left[i]
        for d in range(1, rows.shape[0]):
            if n > 0:
                c = order[d]
                row = rows[c]
                hints[c] = _neighbours(made if row[4] else main, row, hints[c], left, n, before, after, decoded)
                n = _DAMAGED if hints[c] == _DAMAGED else _chain(left, right, n, before, after, window)
        if n > 0:
            hints[-1] = _neighbours(main, separators, hints[-1], left, n, before, after, decoded)
            n = _DAMAGED if hints[-1] == _DAMAGED else n
        if n == _DAMAGED:
            return np.int64(-1)
        for i in range(n):
            total += after[i] >= right[i]
    return total


@_inner
def _count_windowed(
    main: Arrays, made: Arrays, rows: Any, separators: Ints, window: int, room: Any, order: Ints, hints: Ints
) -> Any:
    """One query under "window"."""
    clauses = rows.shape[0] - 1
    points, begins, ends, before, after = room[0], room[1], room[2], room[3], room[4]
    reaches, decoded = room[5 : 5 + 2 * clauses], room[5 + 2 * clauses :].reshape(-1)
    rarest, total = rows[order[0]], np.int64(0)
    for first in range(rarest[0], rarest[1], ANCHORS // BLOCK):
        n = _anchors(made if rarest[4] else main, rarest, first, points)
        if n > 0:
            hints[-1] = _neighbours(main, separators, hints[-1], points, n, begins, ends, decoded)
            n = _DAMAGED if hints[-1] == _DAMAGED else n
        for d in range(1, clauses + 1):
            if n > 0:
                c = order[d]
                row = rows[c]
                hints[c] = _neighbours(made if row[4] else main, row, hints[c], points, n, before, after, decoded)
                kept = _reach(points, begins, ends, reaches, d - 1, n, before, after, window)
                n = _DAMAGED if hints[c] == _DAMAGED else kept
        if n == _DAMAGED:
            return np.int64(-1)
        for i in range(n):
            total += _fits(reaches, clauses, i, window)
    return total


def _count_batch(
    main: Arrays, made: Arrays, lists: Any, starts: Ints, separators: Ints, window: int, chained: bool, lo: int, hi: int,
    out: Ints,
) -> None:  # fmt: skip
    """Counts of queries [lo, hi) into `out`; -1 where the file is damaged.

    main: the index's arrays; made: those of lists that are not in it. lists: a row per clause of every query, (begin,
    end, tail, frequency, 1 for a made one); starts: each query's first row, one more than queries. separators: a row.
    """
    most = 1
    for q in range(lo, hi):
        most = max(most, starts[q + 1] - starts[q])
    room = np.empty((5 + (0 if chained else 2 * most) + DENSE + 2, ANCHORS), np.int64)
    order = np.empty(most, np.int64)
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
            out[q] = _count_chained(main, made, rows, separators, window, room, order, hints)
        else:
            out[q] = _count_windowed(main, made, rows, separators, window, room, order, hints)


count_batch: Callable[..., None] = numba.njit(
    types.void(
        *(_ARRAYS, _ARRAYS, _ROWS, _NUMBERS, _NUMBERS, types.int64, types.boolean, types.int64, types.int64, _NUMBERS)
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)(_count_batch)
