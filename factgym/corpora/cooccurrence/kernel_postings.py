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
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

FAR = 1 << 40
BLOCK = 64
ANCHORS = 2048
"""Anchors taken together: a whole number of blocks."""
STEP = ANCHORS // BLOCK
DAMAGED = -2
"""Returned for a block that reads beyond the data."""

_CLOSE = 2
"""Blocks per point up to which the next point's block is found by a linear scan from the previous one."""
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


# A vectorised linear search, written in LLVM IR: 32 numbers are compared at a time and the comparisons counted, without
# a branch on the data. numba would compile a loop to 32 single comparisons; LLVM emits AVX-512, AVX2, NEON …

_LANES = 32
_SIZE = ir.IntType(64)
_NUMBER = ir.IntType(32)
_VECTOR = ir.VectorType(_NUMBER, _LANES)


def _emit_count_below(builder: Any, data: Any, index: Any, x: Any) -> Any:
    """Emit the count of the numbers data[index : index + _LANES] that are below x."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    numbers = builder.load(builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer()), align=4)
    single = builder.insert_element(undefined, x, ir.Constant(_NUMBER, 0))
    splat = builder.shuffle_vector(single, undefined, ir.Constant(_VECTOR, [0] * _LANES))
    bits = builder.bitcast(builder.icmp_unsigned("<", numbers, splat), ir.IntType(_LANES))
    return builder.zext(builder.ctpop(bits), _SIZE)


def _emit_advance(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """index; do { count = below; index += count; } while (count == _LANES)."""
    array, start, x = args
    data = context.make_array(signature.args[0])(context, builder, array).data
    entry = builder.block
    loop, end = builder.append_basic_block("advance"), builder.append_basic_block("end")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(_SIZE)
    index.add_incoming(start, entry)
    count = _emit_count_below(builder, data, index, x)
    next_index = builder.add(index, count)
    index.add_incoming(next_index, loop)
    builder.cbranch(builder.icmp_unsigned("==", count, ir.Constant(_SIZE, _LANES)), loop, end)
    builder.position_at_end(end)
    return next_index


def _advance(_context: Any, array: Any, _index: Any, _x: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the first index from `index` on whose number is not below x.

    array: uint32, ascending from `index` to a number that is not below x, with _LANES more readable after it; nothing
    is checked. An intrinsic takes an array without counting a reference, which costs more than the search.
    """
    return types.uint64(array, types.uint64, types.uint32), _emit_advance


advance: Callable[..., Any] = intrinsic(_advance)


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
    return _probe(arrays, row, low, high, points, n, before, after, workspace)


@inner
def _find_blocks(firsts: Any, low: int, high: int, start: int, end: int, points: Ints, n: int, out: Ints) -> None:
    """Write the last block of [low, high] whose first position is below each point, or `low`, which may be none."""
    block = low
    if high - low <= _CLOSE * n:
        for i in range(n):
            x = points[i]
            while block > low and firsts[np.uint64(block)] >= x:
                block -= 1
            while block < high and firsts[np.uint64(block + 1)] < x:
                block += 1
            out[i] = block
        return
    for i in range(n):
        block = seek(firsts, start, end, block, points[i])
        out[i] = block


@inner
def _probe(
    arrays: BlockArrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints,
    workspace: Ints,
) -> Any:  # fmt: skip
    """`neighbours` by a search for each point.

    In passes over all points (software pipelining), so that the processor waits for many blocks of memory at a time:
    first each point's block, then the place of its data, then a load that fetches it, then the search.
    """
    firsts, offsets, data = arrays
    start, end, tail = row[0], row[1], row[2]
    blocks, starts, sizes = workspace[:n], workspace[n : 2 * n], workspace[2 * n : 3 * n]
    _find_blocks(firsts, low, high, start, end, points, n, blocks)
    damaged = False
    for i in range(n):
        block = max(blocks[i], start)
        data_start, size = _data_span(offsets, data.size, block, tail if block == end - 1 else BLOCK)
        damaged = damaged or data_start == DAMAGED
        starts[i] = data_start
        sizes[i] = size
    if damaged:
        return np.int64(DAMAGED)
    touched = np.uint32(0)
    for i in range(n):
        word = np.uint64(starts[i])
        touched |= data[word] | data[word + np.uint64(sizes[i] >> 1)] | data[word + np.uint64(sizes[i])]
    for i in range(n):
        block = blocks[i]
        if block < start:
            before[i] = -FAR
            after[i] = firsts[np.uint64(start)]
            continue
        first = np.int64(firsts[np.uint64(block)])
        count = tail if block == end - 1 else BLOCK
        last, following = _search_block(data, starts[i], sizes[i], count, points[i] - first)
        before[i] = first + last
        after[i] = first + following
        if following == FAR:
            after[i] = firsts[np.uint64(block + 1)] if block + 1 < end else FAR
    # `touched` is all ones for no index; the condition keeps the loads above from being optimised away.
    return high if touched < np.uint32(0xFFFFFFFF) or high > start - 2 else high - 1


@inner
def _merge(
    arrays: BlockArrays, row: Ints, low: int, high: int, points: Ints, n: int, before: Ints, after: Ints,
    workspace: Ints,
) -> Any:  # fmt: skip
    """`neighbours` of ascending points by a merge with blocks [low, high], decoded into the workspace.

    Four quarters of the points in parallel: each search begins where the previous one ended, so a single sequence would
    be one chain of dependent loads. `total` bounds every index, whatever a damaged block contains.
    """
    # Invariant: positions[0] is 0, below every point, and positions[total:] are above every point; so each search stops
    # without a check for the end, and positions[i - 1] < point <= positions[i] holds for the index that it returns.
    positions = workspace.view(np.uint32)
    total = np.uint64(_decode_range(arrays, row, low, high, positions))
    if total == 0:
        return np.int64(DAMAGED)
    part = np.uint64(n >> 2)
    second, third, fourth, end = part, 2 * part, 3 * part, 4 * part
    a = b = c = d = _ONE
    if part > 0:
        b = _rank(positions, total, np.uint32(points[second]))
        c = _rank(positions, total, np.uint32(points[third]))
        d = _rank(positions, total, np.uint32(points[fourth]))
    for i in range(part):
        a = min(advance(positions, a, np.uint32(points[i])), total)
        b = min(advance(positions, b, np.uint32(points[second + i])), total)
        c = min(advance(positions, c, np.uint32(points[third + i])), total)
        d = min(advance(positions, d, np.uint32(points[fourth + i])), total)
        before[i], after[i] = positions[a - _ONE], positions[a]
        before[second + i], after[second + i] = positions[b - _ONE], positions[b]
        before[third + i], after[third + i] = positions[c - _ONE], positions[c]
        before[fourth + i], after[fourth + i] = positions[d - _ONE], positions[d]
    for i in range(end, np.uint64(n)):
        d = min(advance(positions, d, np.uint32(points[i])), total)
        before[i], after[i] = positions[d - _ONE], positions[d]
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
    for i in range(_LANES):
        out[index + 1 + i] = _NO_POSITION
    return index


@inner
def _rank(positions: NDArray[np.uint32], total: Any, x: Any) -> Any:
    """Return the first index from 1 on, `total` at most, whose number is not below x, by branchless binary search."""
    low, size_left = np.uint64(0), total
    while size_left > _ONE:
        half = size_left >> _ONE
        low += half * np.uint64(positions[low + half] < x)
        size_left -= half
    return low + _ONE


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


@inner
def intersect_by_search(arrays: BlockArrays, row: Ints, low: int, high: int, points: Ints, n: int) -> int:
    """Keep those of ascending points that blocks [low, high] contain; return their number, or DAMAGED.

    A linear scan to each point's block, then a branchless binary search inside it.
    """
    firsts, offsets, data = arrays
    start, end, tail = row[0], row[1], row[2]
    matches, block = 0, max(low, start)
    for i in range(n):
        x = points[i]
        while block < high and firsts[np.uint64(block + 1)] <= x:
            block += 1
        is_last = block == end - 1
        data_start, size = _data_span(offsets, data.size, block, tail if is_last else BLOCK)
        if data_start == DAMAGED:
            return DAMAGED
        goal = x - np.int64(firsts[np.uint64(block)])
        source, index = np.uint64(data_start), np.uint64(0)
        if is_last and tail < BLOCK:
            size_left = np.uint64(tail)
            while size_left > _ONE:
                half = size_left >> _ONE
                index += half * np.uint64(data[source + index + half - _ONE] <= goal)
                size_left -= half
            value = np.int64(data[source + index - _ONE]) if index > 0 else np.int64(0)
        else:
            width, half = np.uint64(size >> 1), np.uint64(BLOCK // 2)
            mask = (_ONE << width) - _ONE
            while half:
                index += half * np.uint64(_unpack_one(data, source, width, mask, index + half) <= goal)
                half >>= _ONE
            value = _unpack_one(data, source, width, mask, index)
        points[np.uint64(matches)] = x
        matches += value == goal
    return matches
