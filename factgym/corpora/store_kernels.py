"""Kernels of BM25 over the postings of a corpus on disk, compiled with numba.

Imported only through `cooccurrence.engine.LazyModule`, in the background. Compiled for fixed types and cached on disk.
Postings of a term: the positions of its passages, ascending, and the score of each.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

_PASSAGES = types.Array(types.int32, 1, "C", readonly=True)
_VALUES = types.Array(types.float64, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C")
_SCORES = types.Array(types.float64, 1, "C")


def _add(
    scores: NDArray[np.float64],
    passages: NDArray[np.int32],
    values: NDArray[np.float64],
    first: int,
    best: NDArray[np.float64],
) -> None:
    """Add the scores of a term's postings; `best`: receives the largest sums of these passages, descending."""
    last = len(best) - 1
    for i in range(len(passages)):
        position = passages[i] - first
        score = scores[position] + values[i]
        scores[position] = score
        if score > best[last]:
            rank = last
            while rank > 0 and score > best[rank - 1]:
                best[rank] = best[rank - 1]
                rank -= 1
            best[rank] = score


def _collect(
    scores: NDArray[np.float64],
    passages: NDArray[np.int32],
    first: int,
    least: float,
    positions: NDArray[np.int64],
    sums: NDArray[np.float64],
    count: int,
) -> int:
    """Append the passages of a term whose sum is at least `least`, after the first `count`; return their new number.

    A sum is set to 0 when it is met, so that a passage is not appended twice, and `scores` is clean for the next query
    without a pass over all of it.
    """
    for i in range(len(passages)):
        position = passages[i] - first
        score = scores[position]
        if score > 0.0:
            scores[position] = 0.0
            if score >= least:
                positions[count], sums[count] = position, score
                count += 1
    return count


def _look_up(
    positions: NDArray[np.int64],
    passages: NDArray[np.int32],
    values: NDArray[np.float64],
    first: int,
    sums: NDArray[np.float64],
) -> None:
    """Add a term's score to the sums of those of the ascending `positions` that hold it.

    Galloping search (Bentley and Yao, 1976): steps double from the posting before, then bisection.
    """
    low, size = 0, len(passages)
    for i in range(len(positions)):
        position = positions[i] + first
        step = 1
        high = low
        while high < size and passages[high] < position:
            low = high + 1
            high += step
            step <<= 1
        high = min(high, size)
        while low < high:
            middle = (low + high) >> 1
            if passages[middle] < position:
                low = middle + 1
            else:
                high = middle
        if low == size:
            break
        if passages[low] == position:
            sums[i] += values[low]


def _compile(signature: object, function: Callable[..., object]) -> Callable[..., int]:
    compiled: Callable[..., int] = numba.njit(signature, nogil=True, cache=True)(function)
    return compiled


add = _compile(types.void(_SCORES, _PASSAGES, _VALUES, types.int64, _SCORES), _add)
collect = _compile(
    types.int64(_SCORES, _PASSAGES, types.int64, types.float64, _INTEGERS, _SCORES, types.int64), _collect
)
look_up = _compile(types.void(_INTEGERS, _PASSAGES, _VALUES, types.int64, _SCORES), _look_up)
