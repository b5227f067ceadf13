"""Sorted positions in compressed blocks of 64, each readable at any index without decoding the rest.

A list of n positions is cut into blocks of `BLOCK`. Of each block the index keeps its first position (`firsts`) and
where its data begin (`offsets`, in 32-bit words of `data`). The data of a full block are 64 differences from its first
position, each of w bits, least significant bit first: 2 w words, so w is read off the next block's offset. The last
block of a list, when it is not full, holds its differences but the first as plain 32-bit words.

Differences from the block's first position, not from the previous one, cost some 4 bits a posting more and buy a
binary search inside the block: a query touches two or three words of a block instead of decoding it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Positions of a full block."""

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]

_LANES = np.arange(BLOCK, dtype=np.int64)


class Blocks(NamedTuple):
    """Encoded lists, one after the other: see the module."""

    firsts: U32
    sizes: U32
    """Words of data of each block."""
    data: U32


def block_counts(frequencies: I64) -> I64:
    """Blocks of lists of these lengths."""
    return (frequencies + (BLOCK - 1)) // BLOCK


def encode(positions: U32, frequencies: I64) -> Blocks:
    """Encode lists that stand one after the other in `positions`, each strictly rising; `frequencies` are lengths."""
    counts = block_counts(frequencies)
    list_starts = np.cumsum(frequencies) - frequencies
    of_list = np.repeat(np.arange(len(counts)), counts)
    in_list = np.arange(len(of_list), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = list_starts[of_list] + in_list * BLOCK
    lengths = np.minimum(frequencies[of_list] - in_list * BLOCK, BLOCK)
    firsts = positions[starts]
    full = lengths == BLOCK
    widths = _widths(positions[starts + lengths - 1] - firsts)
    sizes = np.where(full, 2 * widths, lengths - 1)
    ends = np.cumsum(sizes)
    data = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint32)
    at = ends - sizes
    for width in np.unique(widths[full]):
        chosen = np.flatnonzero(full & (widths == width))
        _pack(positions, starts[chosen], firsts[chosen], int(width), data, at[chosen])
    _write_tails(positions, starts[~full], firsts[~full], lengths[~full], data, at[~full])
    return Blocks(firsts, sizes.astype(np.uint32), data)


def encode_plain(positions: U32, frequencies: I64) -> Blocks:
    """As `encode`, with 32 bits for each difference: larger, and made in a fraction of the time. No list is empty."""
    counts = block_counts(frequencies)
    ends = np.cumsum(counts)
    lengths = np.full(int(ends[-1]) if len(ends) else 0, BLOCK)
    lengths[ends - 1] = frequencies - (counts - 1) * BLOCK
    starts = np.cumsum(lengths) - lengths
    firsts = positions[starts]
    full = lengths == BLOCK
    data = np.delete(positions - np.repeat(firsts, lengths), starts[~full])
    return Blocks(firsts, np.where(full, BLOCK, lengths - 1).astype(np.uint32), data)


def _widths(spans: U32) -> I64:
    """Bits that each number needs."""
    return np.frexp(spans.astype(np.float64))[1].astype(np.int64)


_PACK_ROWS = 1 << 14


def _pack(positions: U32, starts: I64, firsts: U32, width: int, data: U32, at: I64) -> None:
    """Bit-pack full blocks of one width into `data`."""
    if width == 0:
        return
    bits = _LANES * width
    words, shifts = bits >> 5, (bits & 31).astype(np.uint64)
    low_mask = np.uint64(0xFFFFFFFF)
    for lo in range(0, len(starts), _PACK_ROWS):
        rows = starts[lo : lo + _PACK_ROWS]
        values = (positions[rows[:, None] + _LANES] - firsts[lo : lo + _PACK_ROWS, None]).astype(np.uint64) << shifts
        packed = np.zeros((len(rows), 2 * width + 1), np.uint64)
        low, high = values & low_mask, values >> np.uint64(32)
        for lane in range(BLOCK):
            packed[:, words[lane]] |= low[:, lane]
            packed[:, words[lane] + 1] |= high[:, lane]
        data[at[lo : lo + _PACK_ROWS, None] + np.arange(2 * width)] = packed[:, : 2 * width]


def _write_tails(positions: U32, starts: I64, firsts: U32, lengths: I64, data: U32, at: I64) -> None:
    """Plain differences of the blocks that are not full."""
    counts = lengths - 1
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    source = np.repeat(starts + 1, counts) + within
    data[np.repeat(at, counts) + within] = positions[source] - np.repeat(firsts, counts)


class PostingList(NamedTuple):
    """One word's positions: views into the index's arrays."""

    frequency: int
    firsts: U32
    offsets: NDArray[np.integer]
    """Where each block's data begin, and where the last one's end: one more than there are blocks."""
    data: U32


def decode(postings: PostingList, blocks: I64 | None = None) -> U32:
    """Positions of the given blocks (their numbers rising; all of them by default), one after the other."""
    count = len(postings.firsts)
    tail = postings.frequency % BLOCK
    chosen = np.arange(count) if blocks is None else blocks
    has_tail = bool(tail and len(chosen) and chosen[-1] == count - 1)
    full = chosen[:-1] if has_tail else chosen
    _check_places(postings, chosen, tail if has_tail else 0)
    out = np.empty(len(full) * BLOCK + (tail if has_tail else 0), np.uint32)
    if len(full):
        _unpack(postings, full, out[: len(full) * BLOCK].reshape(-1, BLOCK))
    if has_tail:
        first, begin = postings.firsts[-1], int(postings.offsets[count - 1])
        out[-tail] = first
        out[len(out) - tail + 1 :] = postings.data[begin : begin + tail - 1] + first
    return out


def _check_places(postings: PostingList, blocks: I64, tail: int) -> None:
    """Raise `IndexError` where a block's data cannot be where they are said to be, as in a damaged file."""
    begins, ends = postings.offsets[blocks].astype(np.int64), postings.offsets[blocks + 1].astype(np.int64)
    sizes = ends - begins
    wrong = bool(np.any((sizes < 0) | (sizes > BLOCK) | (ends > len(postings.data))))
    if wrong or (tail and int(sizes[-1]) != tail - 1):
        raise IndexError("a block lies outside the data")


def _unpack(postings: PostingList, blocks: I64, out: U32) -> None:
    """Decode full blocks into the rows of `out`, those of one width together."""
    begins = postings.offsets[blocks].astype(np.int64)
    widths = (postings.offsets[blocks + 1].astype(np.int64) - begins) >> 1
    firsts = postings.firsts[blocks]
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        if width == 0:
            out[rows] = firsts[rows, None]
            continue
        words = postings.data[begins[rows, None] + np.arange(2 * int(width))].astype(np.uint64)
        pairs = words.copy()
        pairs[:, :-1] |= words[:, 1:] << np.uint64(32)
        bits = _LANES * int(width)
        values = pairs[:, bits >> 5] >> (bits & 31).astype(np.uint64)
        mask = np.uint64((1 << int(width)) - 1)
        out[rows] = (values & mask).astype(np.uint32) + firsts[rows, None]
