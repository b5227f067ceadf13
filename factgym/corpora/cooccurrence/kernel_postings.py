"""Posting lists for the compiled kernels: decoding blocks, and the neighbours of points in a list.

`kernels` compiles these functions into its own; its docstring defines a list. numba checks only the file of a cached
function for changes: whoever changes this file must change `kernels` too.

The neighbours of many points come from one of two classical list intersections (Demaine, López-Ortiz and Munro,
"Adaptive set intersections, unions, and differences", 2000; Culpepper and Moffat, "Efficient set intersection for
inverted indexing", 2010): a linear merge where the list has few positions per point, else a galloping search per point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

FAR = 1 << 40
BLOCK = 64
ANCHORS = 2048
"""Anchors taken together: a whole number of blocks."""
STEP = ANCHORS // BLOCK
DAMAGED = -2
"""Returned for a block that reads beyond the data."""

DENSE = 24
"""Positions per anchor up to which a list is merged rather than searched."""
WORKSPACE = DENSE // 2 + 1
"""Rows of ANCHORS numbers of 64 bits that `neighbours` needs to work in."""
_NO_POSITION = np.uint32(0xFFFFFFFF)
"""Above every position."""
_ONE, _FIVE, _LOW_BITS = np.uint64(1), np.uint64(5), np.uint64(31)

Ints: TypeAlias = NDArray[np.int64]
BlockArrays: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""firsts, offsets, data."""


def inner(function: F) -> F:
    """Compile a function that kernels call."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def inline(function: F) -> F:
    """Inline a function that is called per anchor: passing an array costs a count of its references."""
    compiled: F = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return compiled


@inline
def seek(firsts: Any, start: int, end: int, hint: int, x: int) -> int:
    """Return the last block in [start, end) whose first position is below x, or start - 1.

    Galloping (exponential) search from `hint` in either direction, then binary search (Bentley and Yao, 1976).
    """
    step = 1
    if hint >= start and firsts[hint] >= x:
        high = hint
        low = hint - 1
        while low >= start and firsts[low] >= x:
            high = low
            step *= 2
            low = high - step
        low = max(low, start - 1)
    else:
        low = max(hint, start - 1)
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
def _data_span(offsets: Any, words: int, block: int, count: int) -> tuple[Any, Any]:
    """Return start and size of the data of a block of `count` positions; DAMAGED as the start of an invalid one."""
    start = np.int64(offsets[np.uint64(block)])
    size = np.int64(offsets[np.uint64(block + 1)]) - start
    invalid = size < 0 or size > BLOCK or start + size >= words or (count < BLOCK and size != count - 1)
    return np.int64(DAMAGED) if invalid else start, size


@inline
def decode(firsts: Any, offsets: Any, data: Any, block: int, count: int, out: Any, target: int) -> bool:
    """Write a block's `count` positions to out[target:]; return whether the block lies inside the data."""
    start, size = _data_span(offsets, data.size, block, count)
    if start == DAMAGED:
        return False
    first, source, index = np.int64(firsts[block]), np.uint64(start), np.uint64(target)
    out[index] = first
    if count < BLOCK:
        for i in range(np.uint64(count - 1)):
            out[index + _ONE + i] = first + data[source + i]
        return True
    width, bit = np.uint64(size >> 1), np.uint64(0)
    mask = (_ONE << width) - _ONE
    for i in range(np.uint64(BLOCK)):
        word = source + (bit >> _FIVE)
        pair = np.uint64(data[word]) | (np.uint64(data[word + _ONE]) << np.uint64(32))
        out[index + i] = first + np.int64((pair >> (bit & _LOW_BITS)) & mask)
        bit += width
    return True


@inline
def _unpack_one(data: Any, source: Any, width: Any, mask: Any, i: Any) -> Any:
    """Return number `i` of those of `width` bits that begin at a word."""
    bit = i * width
    word = source + (bit >> _FIVE)
    pair = np.uint64(data[word]) | (np.uint64(data[word + _ONE]) << np.uint64(32))
    return np.int64((pair >> (bit & _LOW_BITS)) & mask)


@inline
def _search_block(data: Any, start: int, size: int, count: int, goal: int) -> tuple[Any, Any]:
    """Return the block's last difference below `goal` (0 is), and the next, or FAR.

    A branchless binary search (Khuong and Morin, "Array layouts for comparison-based searching", 2017): branches on
    the data would be mispredicted, and without them the searches for several points overlap.
    """
    source, low = np.uint64(start), np.uint64(0)
    if count < BLOCK:
        size_left = np.uint64(count)
        while size_left > _ONE:
            half = size_left >> _ONE
            low += half * np.uint64(data[source + low + half - _ONE] < goal)
            size_left -= half
        under = np.int64(data[source + low - _ONE]) if low > 0 else np.int64(0)
        return under, np.int64(data[source + low]) if np.int64(low) + 1 < count else np.int64(FAR)
    width = np.uint64(size >> 1)
    mask = (_ONE << width) - _ONE
    half = np.uint64(BLOCK // 2)
    while half:  # six times: the compiler unrolls it
        low += half * np.uint64(_unpack_one(data, source, width, mask, low + half) < goal)
        half >>= _ONE
    under = _unpack_one(data, source, width, mask, low)
    is_last = low == np.uint64(BLOCK - 1)
    over = _unpack_one(data, source, width, mask, low + np.uint64(not is_last))
    return under, np.int64(FAR) if is_last else over


@inner
def neighbours(
    arrays: BlockArrays, row: Ints, hint: int, points: Ints, n: int, before: Ints, after: Ints, workspace: Ints
) -> Any:
    """Write for n points the last position before each and the first at or after it.

    Returns the block to continue from, or DAMAGED. workspace: at least WORKSPACE x ANCHORS numbers.
    """
    firsts = arrays[0]
    start, end = row[0], row[1]
    lowest, highest, falls = points[0], points[0], 0
    for i in range(1, n):
        falls += points[i] < points[i - 1]
        lowest, highest = min(lowest, points[i]), max(highest, points[i])
    low = seek(firsts, start, end, hint, lowest)
    high = seek(firsts, start, end, low, highest)
    if falls == 0 and (high - low) * BLOCK <= DENSE * n:
        return _merge(arrays, row, low, high, points, n, before, after, workspace)
    return _probe(arrays, row, low, points, n, before, after)


@inner
def _probe(arrays: BlockArrays, row: Ints, low: int, points: Ints, n: int, before: Ints, after: Ints) -> Any:
    """`neighbours` by a search for each point: galloping from the previous point's block, then inside the block."""
    firsts, offsets, data = arrays
    start, end, tail = row[0], row[1], row[2]
    block = low
    for i in range(n):
        x = points[i]
        block = seek(firsts, start, end, block, x)
        following = np.int64(firsts[np.uint64(block + 1)]) if block + 1 < end else np.int64(FAR)
        if block < start:
            before[i], after[i] = -FAR, following
            continue
        first = np.int64(firsts[np.uint64(block)])
        count = tail if block == end - 1 else BLOCK
        data_start, size = _data_span(offsets, data.size, block, count)
        if data_start == DAMAGED:
            return np.int64(DAMAGED)
        under, over = _search_block(data, data_start, size, count, x - first)
        before[i] = first + under
        after[i] = following if over == FAR else first + over
    return np.int64(block)


@inner
def _merge(
    arrays: BlockArrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints,
    workspace: Ints,
) -> Any:  # fmt: skip
    """`neighbours` of ascending points by a linear merge with blocks [low, high], decoded into the workspace."""
    # Invariant: positions[index - 1] < x <= positions[index]. positions[0] is 0, below every position of a word. `last`,
    # the position after the blocks, bounds x, so the scan stops whatever a damaged block contains.
    positions = workspace.view(np.uint32)
    total = np.uint64(_decode_range(arrays, row, low, high, positions))
    if total == 0:
        return np.int64(DAMAGED)
    index, last = _ONE, np.int64(positions[total])
    for i in range(n):
        x = min(points[i], last)
        while positions[index] < x:
            index += _ONE
        before[i], after[i] = positions[index - _ONE], positions[index]
    if low < row[0] or high + 1 >= row[1]:
        for i in range(n):
            before[i] = before[i] if before[i] > 0 or low >= row[0] else -FAR
            after[i] = after[i] if after[i] < np.int64(_NO_POSITION) else FAR
    return high


@inner
def _decode_range(arrays: BlockArrays, row: Ints, low: int, high: int, out: NDArray[np.uint32]) -> int:
    """Decode blocks [low, high] to out[1:], between 0 and the next position; return the index after them, 0 for damage.

    No word has the position 0: it is a separator's.
    """
    firsts, offsets, data = arrays
    start, end, tail = row[0], row[1], row[2]
    out[0], index = 0, 1
    for block in range(max(low, start), high + 1):
        count = tail if block == end - 1 else BLOCK
        if not decode(firsts, offsets, data, block, count, out, index):
            return 0
        index += count
    out[index] = firsts[high + 1] if high + 1 < end else _NO_POSITION
    return index


@inner
def decode_anchors(arrays: BlockArrays, row: Ints, first: int, step: int, out: Ints) -> int:
    """Decode up to `step` blocks of a list from block `first` on; return the number of positions, or DAMAGED."""
    firsts, offsets, data = arrays
    n = 0
    for block in range(first, min(first + step, row[1])):
        count = row[2] if block == row[1] - 1 else BLOCK
        if not decode(firsts, offsets, data, block, count, out, n):
            return DAMAGED
        n += count
    return n
