"""The counting rules in NumPy: the base install's engine, and the twin of the compiled one.

A query's clauses come as posting lists. `count_chained` is the semantics "infini-gram", `count_windowed` is "window";
the package's docstring defines both. Anchors are taken `chunk` at a time, so memory does not grow with the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.blocks import BLOCK, PostingList, decode

I64 = NDArray[np.int64]

FAR = 1 << 40
"""Beyond every position: where nothing stands."""

CHUNK = 1 << 13
"""Anchors taken together by default."""

ANCHOR_BYTES = 6144
"""Working memory per anchor at worst, when each one needs a block of its own."""


NO_LIMIT = 1 << 50
"""More than any count."""

_FIRST = 512
"""Anchors to begin with where counting may stop early: fewer cost as much."""


def chunks(postings: PostingList, size: int, first: int = NO_LIMIT) -> Iterator[I64]:
    """The list's positions, about `size` at a time; fewer to begin with, from `first` on twice as many each time."""
    most = max(1, size // BLOCK)
    lo, step = 0, max(1, min(size, first) // BLOCK)
    while lo < len(postings.firsts):
        yield decode(postings, np.arange(lo, min(lo + step, len(postings.firsts)))).astype(np.int64)
        lo, step = lo + step, min(2 * step, most)


def neighbours(postings: PostingList, points: I64) -> tuple[I64, I64]:
    """For each point the last position before it and the first at or after it; -FAR and FAR where there is none."""
    firsts = postings.firsts
    block = np.searchsorted(firsts, points.astype(np.uint32), "left") - 1
    inside = block >= 0
    chosen = np.unique(block[inside])
    flat = decode(postings, chosen).astype(np.int64)
    at = np.searchsorted(flat, points, "left")
    before = np.where(inside, np.append(flat, -FAR)[at - 1], -FAR)
    last = len(firsts) - 1
    following = np.where(block < last, firsts[np.minimum(block + 1, last)].astype(np.int64), FAR)
    after = np.minimum(np.append(flat, FAR)[at], following)
    return before, after


def contains(postings: PostingList, points: I64) -> NDArray[np.bool_]:
    """Whether the list holds each point."""
    found: NDArray[np.bool_] = neighbours(postings, points)[1] == points
    return found


def count_chained(
    lists: Sequence[PostingList], separators: PostingList, window: int, chunk: int = CHUNK, most: int = NO_LIMIT
) -> int:
    """Count under "infini-gram", no further than `most`; `lists` by rising frequency."""
    if len(lists) == 1:
        return min(lists[0].frequency, most)
    anchors = chunks(lists[0], chunk, max(most, _FIRST))
    return _up_to(most, (_chain(points, lists[1:], separators, window) for points in anchors))


def _up_to(most: int, counts: Iterable[int]) -> int:
    """The sum, of which no more is asked for than it takes to reach `most`."""
    total = 0
    for count in counts:
        total += count
        if total >= most:
            return most
    return total


def _chain(points: I64, lists: Sequence[PostingList], separators: PostingList, window: int) -> int:
    left = right = points
    for postings in lists:
        before, after = neighbours(postings, left)
        inside = after < right
        last = np.where(inside, left, before)
        # An occurrence inside the span hides what follows it only while the span is grown to neither side.
        take_left = inside | (left - last <= window)
        take_right = inside | (after - right <= window)
        kept = take_left | take_right
        new_left = np.where(take_left, last, left)
        new_right = np.where(take_right & ~inside, np.maximum(after, right), right)
        left, right = new_left[kept], new_right[kept]
        if not len(left):
            return 0
    _, separator = neighbours(separators, left)
    return int(np.count_nonzero(separator >= right))


def count_windowed(
    lists: Sequence[PostingList], separators: PostingList, window: int, chunk: int = CHUNK, most: int = NO_LIMIT
) -> int:
    """Count under "window", no further than `most`; `lists` by rising frequency, each without repeated positions."""
    if len(lists) == 1:
        return min(lists[0].frequency, most)
    anchors = chunks(lists[0], chunk, max(most, _FIRST))
    return _up_to(most, (_windowed(points, lists[1:], separators, window) for points in anchors))


def _windowed(points: I64, lists: Sequence[PostingList], separators: PostingList, window: int) -> int:
    begin, end = neighbours(separators, points)
    lefts: list[I64] = []
    rights: list[I64] = []
    for postings in lists:
        before, after = neighbours(postings, points)
        before = np.where(after == points, points, before)
        left = np.where(before > begin, points - before, FAR)
        right = np.where(after < end, after - points, FAR)
        kept = np.minimum(left, right) <= window
        points, begin, end = points[kept], begin[kept], end[kept]
        if not len(points):
            return 0
        lefts = [*(each[kept] for each in lefts), left[kept]]
        rights = [*(each[kept] for each in rights), right[kept]]
    return int(np.count_nonzero(_fits(lefts, rights, window)))


def _fits(lefts: Sequence[I64], rights: Sequence[I64], window: int) -> NDArray[np.bool_]:
    """Whether some reach to the left, with what it leaves to the right, spans no more than the window."""
    fits = np.zeros(len(lefts[0]), np.bool_)
    for reach in (np.zeros_like(lefts[0]), *lefts):
        need = np.zeros_like(reach)
        for left, right in zip(lefts, rights, strict=True):
            np.maximum(need, np.where(left > reach, right, 0), out=need)
        fits |= reach + need <= window
    return fits
