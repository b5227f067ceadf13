"""Posting lists for compiled code: decoding blocks, and the neighbours of points in a list.

What `compiled` inlines into its kernels; that module says what a list is. numba looks at `compiled` alone to tell
whether what it has cached is stale: whoever changes this file changes that one too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.compiled_lanes import LANES, advance

F = TypeVar("F", bound=Callable[..., Any])

FAR = 1 << 40
BLOCK = 64
ANCHORS = 2048
"""Anchors taken together: a whole number of blocks."""
STEP = ANCHORS // BLOCK
CLOSE = 2
"""Blocks per point up to which the next point's block is looked for from the last one's on."""
DENSE = 24
"""Positions per anchor up to which a list is decoded rather than searched."""
ROOM = DENSE // 2 + 1
"""Rows of ANCHORS numbers of 64 bits that `neighbours` needs to work in."""
NONE = np.uint32(0xFFFFFFFF)
"""Above every position."""

Ints: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""firsts, offsets, data."""

DAMAGED = -2


def inner(function: F) -> F:
    """For a function that kernels call."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def inline(function: F) -> F:
    """For what is called per anchor: passing an array to a function costs a count of its references."""
    compiled: F = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return compiled


@inline
def seek(firsts: Any, begin: int, end: int, hint: int, x: int) -> int:
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


@inline
def _data_of(offsets: Any, words: int, block: int, count: int) -> tuple[Any, Any]:
    """Where a block of `count` positions has its data, and how many words; -2 where that cannot be."""
    begin = np.int64(offsets[np.uint64(block)])
    size = np.int64(offsets[np.uint64(block + 1)]) - begin
    wrong = size < 0 or size > BLOCK or begin + size >= words or (count < BLOCK and size != count - 1)
    return np.int64(DAMAGED) if wrong else begin, size


@inline
def decode(firsts: Any, offsets: Any, data: Any, block: int, count: int, out: Any, at: int) -> bool:
    """Write a block's `count` positions to out[at:]; whether the block lies inside the data."""
    begin, size = _data_of(offsets, data.size, block, count)
    if begin == DAMAGED:
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


@inline
def _value(data: Any, source: Any, width: Any, mask: Any, i: Any) -> Any:
    """Number `i` of those of `width` bits that begin at a word."""
    bit = i * width
    k = source + (bit >> np.uint64(5))
    pair = np.uint64(data[k]) | (np.uint64(data[k + np.uint64(1)]) << np.uint64(32))
    return np.int64((pair >> (bit & np.uint64(31))) & mask)


@inline
def _search(data: Any, begin: int, size: int, count: int, goal: int) -> tuple[Any, Any]:
    """In a block, the last difference from its first position below `goal` (0 is), and the next, or FAR.

    Without branches that depend on the data: nobody could foresee them, and so the searches for several points overlap.
    """
    source, one, low = np.uint64(begin), np.uint64(1), np.uint64(0)
    if count < BLOCK:
        left = np.uint64(count)
        while left > one:
            half = left >> one
            low += half * np.uint64(data[source + low + half - one] < goal)
            left -= half
        under = np.int64(data[source + low - one]) if low > 0 else np.int64(0)
        return under, np.int64(data[source + low]) if np.int64(low) + 1 < count else np.int64(FAR)
    width = np.uint64(size >> 1)
    mask = (one << width) - one
    half = np.uint64(BLOCK // 2)
    while half:  # six times: the compiler unrolls it
        low += half * np.uint64(_value(data, source, width, mask, low + half) < goal)
        half >>= one
    under = _value(data, source, width, mask, low)
    full = low == np.uint64(BLOCK - 1)
    over = _value(data, source, width, mask, low + np.uint64(not full))
    return under, np.int64(FAR) if full else over


@inner
def neighbours(
    arrays: Arrays, row: Ints, hint: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """For n points the last position before each and the first at or after it; the block to go on from, or -2.

    room: at least ROOM x ANCHORS numbers to work in.
    """
    firsts = arrays[0]
    begin, end = row[0], row[1]
    lowest, highest, falls = points[0], points[0], 0
    for i in range(1, n):
        falls += points[i] < points[i - 1]
        lowest, highest = min(lowest, points[i]), max(highest, points[i])
    low = seek(firsts, begin, end, hint, lowest)
    high = seek(firsts, begin, end, low, highest)
    if falls == 0 and (high - low) * BLOCK <= DENSE * n:
        return _merge(arrays, row, low, high, points, n, before, after, room)
    return _probe(arrays, row, low, high, points, n, before, after, room)


@inner
def _blocks_of(firsts: Any, begin: int, end: int, low: int, high: int, points: Ints, n: int, out: Ints) -> None:
    """The last block of [low, high] whose first position is below each point, or `low`, which may be none."""
    block = low
    if high - low <= CLOSE * n:
        for i in range(n):
            x = points[i]
            while block > low and firsts[np.uint64(block)] >= x:
                block -= 1
            while block < high and firsts[np.uint64(block + 1)] < x:
                block += 1
            out[i] = block
        return
    for i in range(n):
        block = seek(firsts, begin, end, block, points[i])
        out[i] = block


@inner
def _probe(
    arrays: Arrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """`neighbours` by a search for each point.

    In steps over all points, so that the processor waits for many blocks of memory at a time and not for one after the
    other: first which block each point belongs to, then where its data are, then a touch of them, then the search.
    """
    firsts, offsets, data = arrays
    begin, end, tail = row[0], row[1], row[2]
    blocks, starts, sizes = room[:n], room[n : 2 * n], room[2 * n : 3 * n]
    _blocks_of(firsts, begin, end, low, high, points, n, blocks)
    wrong = False
    for i in range(n):
        block = max(blocks[i], begin)
        start, size = _data_of(offsets, data.size, block, tail if block == end - 1 else BLOCK)
        wrong = wrong or start == DAMAGED
        starts[i] = start
        sizes[i] = size
    if wrong:
        return np.int64(DAMAGED)
    touched = np.uint32(0)
    for i in range(n):
        start = np.uint64(starts[i])
        touched |= data[start] | data[start + np.uint64(sizes[i] >> 1)] | data[start + np.uint64(sizes[i])]
    for i in range(n):
        block = blocks[i]
        if block < begin:
            before[i] = -FAR
            after[i] = firsts[np.uint64(begin)]
            continue
        first = np.int64(firsts[np.uint64(block)])
        count = tail if block == end - 1 else BLOCK
        last, following = _search(data, starts[i], sizes[i], count, points[i] - first)
        before[i] = first + last
        after[i] = first + following
        if following == FAR:
            after[i] = firsts[np.uint64(block + 1)] if block + 1 < end else FAR
    # `touched` is all ones for no index; asking keeps the loads above from being dropped.
    return high if touched < np.uint32(0xFFFFFFFF) or high > begin - 2 else high - 1


@inner
def _merge(
    arrays: Arrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints, room: Ints
) -> Any:
    """`neighbours` of rising points over blocks [low, high], decoded into `room`.

    Four quarters of the points at the same time: each one's search begins where the last one's ended, so that a single
    row of them would wait for one after the other. `full` bounds what a damaged block may say.
    """
    one, flat = np.uint64(1), room.view(np.uint32)
    full = np.uint64(_flatten(arrays, row, low, high, flat))
    if full == 0:
        return np.int64(DAMAGED)
    part = np.uint64(n >> 2)
    second, third, fourth, rest = part, 2 * part, 3 * part, 4 * part
    a = b = c = d = one
    if part > 0:
        b = _rank(flat, full, np.uint32(points[second]))
        c = _rank(flat, full, np.uint32(points[third]))
        d = _rank(flat, full, np.uint32(points[fourth]))
    for i in range(part):
        a = min(advance(flat, a, np.uint32(points[i])), full)
        b = min(advance(flat, b, np.uint32(points[second + i])), full)
        c = min(advance(flat, c, np.uint32(points[third + i])), full)
        d = min(advance(flat, d, np.uint32(points[fourth + i])), full)
        before[i], after[i] = flat[a - one], flat[a]
        before[second + i], after[second + i] = flat[b - one], flat[b]
        before[third + i], after[third + i] = flat[c - one], flat[c]
        before[fourth + i], after[fourth + i] = flat[d - one], flat[d]
    for i in range(rest, np.uint64(n)):
        d = min(advance(flat, d, np.uint32(points[i])), full)
        before[i], after[i] = flat[d - one], flat[d]
    if low < row[0] or high + 1 >= row[1]:
        for i in range(n):
            before[i] = before[i] if before[i] > 0 or low >= row[0] else -FAR
            after[i] = after[i] if after[i] < np.int64(NONE) else FAR
    return high


@inner
def _flatten(arrays: Arrays, row: Ints, low: int, high: int, flat: NDArray[np.uint32]) -> int:
    """Decode blocks [low, high] to flat[1:], with 0 before them and what follows after them; the place after the last
    of them, or 0 for a damaged one.

    No word stands at 0: a separator does.
    """
    firsts, offsets, data = arrays
    begin, end, tail = row[0], row[1], row[2]
    flat[0], at = 0, 1
    for block in range(max(low, begin), high + 1):
        count = tail if block == end - 1 else BLOCK
        if not decode(firsts, offsets, data, block, count, flat, at):
            return 0
        at += count
    flat[at] = firsts[high + 1] if high + 1 < end else NONE
    for i in range(LANES):
        flat[at + 1 + i] = NONE
    return at


@inner
def _rank(flat: NDArray[np.uint32], full: Any, x: Any) -> Any:
    """The first place from 1 on, `full` at most, whose number is not below x."""
    low, one = np.uint64(0), np.uint64(1)
    left = full
    while left > one:
        half = left >> one
        low += half * np.uint64(flat[low + half] < x)
        left -= half
    return low + one


@inner
def anchors(arrays: Arrays, row: Ints, first: int, step: int, out: Ints) -> int:
    """Decode the next anchors, of `step` blocks from `first` on; how many, or -2."""
    firsts, offsets, data = arrays
    n = 0
    for block in range(first, min(first + step, row[1])):
        count = row[2] if block == row[1] - 1 else BLOCK
        if not decode(firsts, offsets, data, block, count, out, n):
            return DAMAGED
        n += count
    return n


@inner
def held(arrays: Arrays, row: Ints, low: int, high: int, points: Ints, n: int) -> int:
    """Keep of rising points those that blocks [low, high] hold, a few blocks for each at most; how many, or -2."""
    firsts, offsets, data = arrays
    begin, end, tail = row[0], row[1], row[2]
    kept, block, one = 0, max(low, begin), np.uint64(1)
    for i in range(n):
        x = points[i]
        while block < high and firsts[np.uint64(block + 1)] <= x:
            block += 1
        last = block == end - 1
        start, size = _data_of(offsets, data.size, block, tail if last else BLOCK)
        if start == DAMAGED:
            return DAMAGED
        goal = x - np.int64(firsts[np.uint64(block)])
        source, at = np.uint64(start), np.uint64(0)
        if last and tail < BLOCK:
            left = np.uint64(tail)
            while left > one:
                half = left >> one
                at += half * np.uint64(data[source + at + half - one] <= goal)
                left -= half
            found = np.int64(data[source + at - one]) if at > 0 else np.int64(0)
        else:
            width, half = np.uint64(size >> 1), np.uint64(BLOCK // 2)
            mask = (one << width) - one
            while half:
                at += half * np.uint64(_value(data, source, width, mask, at + half) <= goal)
                half >>= one
            found = _value(data, source, width, mask, at)
        points[np.uint64(kept)] = x
        kept += found == goal
    return kept
