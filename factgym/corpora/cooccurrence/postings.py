"""Codec of posting lists: sorted positions in bit-packed blocks of 64, each readable without decoding the others.

The codec is frame of reference (Goldstein et al., "Compressing Relations and Indexes", 1998; compared with its relatives
in Lemire and Boytsov, "Decoding billions of integers per second through vectorization", 2015). A list of n positions is
cut into blocks of `BLOCK`. For each block the index keeps its first position (`firsts`) and the start of its data
(`offsets`, in 32-bit words of `data`). The data of a full block are 64 differences from its first position, each of w
bits, least significant bit first: 2 w words, so w follows from the next block's offset. The last block of a list, when
it is not full, stores its differences but the first as 32-bit words.

Differences from the block's first position rather than from the previous position cost some 4 bits a posting more, and
permit a binary search inside the block: a query reads two or three words of a block instead of decoding it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Positions of a full block."""

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]

BlockArrays: TypeAlias = tuple[U32, U32, U32]
"""firsts, offsets, data: the form in which the kernels take lists."""

_LANES = np.arange(BLOCK, dtype=np.int64)
_PACK_ROWS = 1 << 14
"""Blocks that are packed together, to bound memory."""


class Blocks(NamedTuple):
    """Encoded lists, one after the other."""

    firsts: U32
    sizes: U32
    """Words of data of each block."""
    data: U32


class PostingList(NamedTuple):
    """Positions of a word: views into the index's arrays."""

    frequency: int
    firsts: U32
    offsets: NDArray[np.integer]
    """Start of each block's data, and the end of the last one's: one more than there are blocks."""
    data: U32


def block_counts(frequencies: I64) -> I64:
    """Return the number of blocks of lists of these lengths."""
    return (frequencies + (BLOCK - 1)) // BLOCK


def prefix_sums(counts: NDArray[Any]) -> I64:
    """Return the starts of groups of these sizes, and the end of the last: one longer."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def encode(positions: U32, frequencies: I64) -> Blocks:
    """Encode consecutive lists in `positions`, each strictly ascending; `frequencies` are their lengths."""
    # All lists at once: each block's list, its number there, and the range of `positions` that it encodes.
    counts = block_counts(frequencies)
    list_of_block = np.repeat(np.arange(len(counts)), counts)
    block_in_list = np.arange(len(list_of_block), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = (np.cumsum(frequencies) - frequencies)[list_of_block] + block_in_list * BLOCK
    lengths = np.minimum(frequencies[list_of_block] - block_in_list * BLOCK, BLOCK)
    firsts = positions[starts]
    full = lengths == BLOCK
    spans = positions[starts + lengths - 1] - firsts
    widths = np.frexp(spans.astype(np.float64))[1].astype(np.int64)  # the exponent is the number of bits
    sizes = np.where(full, 2 * widths, lengths - 1)
    ends = np.cumsum(sizes)
    data = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint32)
    offsets = ends - sizes
    for width in np.unique(widths[full]):
        chosen = np.flatnonzero(full & (widths == width))
        _pack(positions, starts[chosen], firsts[chosen], int(width), data, offsets[chosen])
    # The 32-bit differences of the blocks that are not full.
    counts = lengths[~full] - 1
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    source = np.repeat(starts[~full] + 1, counts) + within
    data[np.repeat(offsets[~full], counts) + within] = positions[source] - np.repeat(firsts[~full], counts)
    return Blocks(firsts, sizes.astype(np.uint32), data)


def encode_unpacked(positions: U32, frequencies: I64) -> Blocks:
    """`encode` with 32 bits for each difference: larger, and made in a fraction of the time. No list is empty."""
    counts = block_counts(frequencies)
    # The layout of a width of 32 bits, which needs no packing: 64 words for a full block, with its first difference
    # (0); a block that is not full leaves that out, as in `encode`.
    ends = np.cumsum(counts)
    lengths = np.full(int(ends[-1]) if len(ends) else 0, BLOCK)
    lengths[ends - 1] = frequencies - (counts - 1) * BLOCK
    starts = np.cumsum(lengths) - lengths
    firsts = positions[starts]
    full = lengths == BLOCK
    data = np.delete(positions - np.repeat(firsts, lengths), starts[~full])
    return Blocks(firsts, np.where(full, BLOCK, lengths - 1).astype(np.uint32), data)


def encode_list(positions: U32) -> PostingList:
    """Encode one list, which may be empty."""
    blocks = encode(positions, np.array([len(positions)], np.int64))
    offsets = prefix_sums(blocks.sizes.astype(np.int64)).astype(np.uint32)
    # The kernels read one word beyond a block's data.
    return PostingList(len(positions), blocks.firsts, offsets, np.append(blocks.data, np.uint32(0)))


def _pack(positions: U32, starts: I64, firsts: U32, width: int, data: U32, offsets: I64) -> None:
    """Bit-pack full blocks of one width into `data`."""
    if width == 0:
        return
    # Number i begins at bit i * width, in word bits[i] >> 5, and may reach into the next word.
    bits = _LANES * width
    words, shifts = bits >> 5, (bits & 31).astype(np.uint64)
    for row in range(0, len(starts), _PACK_ROWS):
        rows = starts[row : row + _PACK_ROWS]
        values = (positions[rows[:, None] + _LANES] - firsts[row : row + _PACK_ROWS, None]).astype(np.uint64) << shifts
        packed = np.zeros((len(rows), 2 * width + 1), np.uint64)
        low, high = values & np.uint64(0xFFFFFFFF), values >> np.uint64(32)
        for lane in range(BLOCK):
            packed[:, words[lane]] |= low[:, lane]
            packed[:, words[lane] + 1] |= high[:, lane]
        data[offsets[row : row + _PACK_ROWS, None] + np.arange(2 * width)] = packed[:, : 2 * width]


def decode(postings: PostingList, blocks: I64 | None = None) -> U32:
    """Return the positions of these blocks (ascending numbers; all by default), one after the other.

    Raises `IndexError` where a block's data cannot lie at their offset, as in a damaged file.
    """
    count = len(postings.firsts)
    tail = postings.frequency % BLOCK
    chosen = np.arange(count) if blocks is None else blocks
    has_tail = bool(tail and len(chosen) and chosen[-1] == count - 1)
    full = chosen[:-1] if has_tail else chosen
    starts, ends = postings.offsets[chosen].astype(np.int64), postings.offsets[chosen + 1].astype(np.int64)
    sizes = ends - starts
    invalid = bool(np.any((sizes < 0) | (sizes > BLOCK) | (ends > len(postings.data))))
    if invalid or (has_tail and int(sizes[-1]) != tail - 1):
        raise IndexError("a block lies outside the data")
    positions = np.empty(len(full) * BLOCK + (tail if has_tail else 0), np.uint32)
    if len(full):
        _unpack(postings, full, positions[: len(full) * BLOCK].reshape(-1, BLOCK))
    if has_tail:
        first, start = postings.firsts[-1], int(postings.offsets[count - 1])
        positions[-tail] = first
        positions[len(positions) - tail + 1 :] = postings.data[start : start + tail - 1] + first
    return positions


def _unpack(postings: PostingList, blocks: I64, out: U32) -> None:
    """Decode full blocks into the rows of `out`, those of one width together."""
    starts = postings.offsets[blocks].astype(np.int64)
    widths = (postings.offsets[blocks + 1].astype(np.int64) - starts) >> 1
    firsts = postings.firsts[blocks]
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        if width == 0:
            out[rows] = firsts[rows, None]
            continue
        words = postings.data[starts[rows, None] + np.arange(2 * int(width))].astype(np.uint64)
        pairs = words.copy()
        pairs[:, :-1] |= words[:, 1:] << np.uint64(32)
        bits = _LANES * int(width)
        values = pairs[:, bits >> 5] >> (bits & 31).astype(np.uint64)
        mask = np.uint64((1 << int(width)) - 1)
        out[rows] = (values & mask).astype(np.uint32) + firsts[rows, None]
