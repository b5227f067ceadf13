"""BM25 over the postings of a corpus on disk, compiled with numba.

Imported only through `cooccurrence.engine.LazyModule`, in the background. Compiled for fixed types and cached on disk.
Postings of a term: the positions of its passages, ascending, and the score of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

_PASSAGES = types.Array(types.int32, 1, "C", readonly=True)
_VALUES = types.Array(types.float64, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 1, "C")
_SCORES = types.Array(types.float64, 1, "C")

_BELOW = 1 - 1e-9
"""Sums of the same scores in another order differ by less than this factor."""


def _compiled(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    decorator: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(signature, nogil=True, cache=True)
    return decorator


@_compiled(types.int64(_SCORES, types.float64))
def _insert(best: NDArray[np.float64], score: float) -> int:
    """Insert a score into the descending `best` after equal ones; return its rank, `len(best)` where it has none."""
    rank = len(best)
    if score > best[rank - 1]:
        rank -= 1
        while rank > 0 and score > best[rank - 1]:
            best[rank] = best[rank - 1]
            rank -= 1
        best[rank] = score
    return rank


@_compiled(types.void(_SCORES, types.int64, _PASSAGES, _VALUES, _SCORES))
def _add(
    buffer: NDArray[np.float64],
    first: int,
    passages: NDArray[np.int32],
    values: NDArray[np.float64],
    best: NDArray[np.float64],
) -> None:
    """Add a term's scores to the sums of its passages; `best` receives the largest of these."""
    best[:] = 0.0
    for i in range(len(passages)):
        position = passages[i] - first
        score = buffer[position] + values[i]
        buffer[position] = score
        if score > best[-1]:
            _insert(best, score)


@_compiled(types.int64(_SCORES, types.int64, _PASSAGES, types.float64, _INTEGERS, _SCORES, types.int64))
def _collect(
    buffer: NDArray[np.float64],
    first: int,
    passages: NDArray[np.int32],
    least: float,
    positions: NDArray[np.int64],
    sums: NDArray[np.float64],
    count: int,
) -> int:
    """Append a term's passages whose sum is at least `least` after the first `count`; return how many there are then.

    A sum is set to 0 when it is met, so that a passage is not taken twice, and the buffer is clean for the next query
    without a pass over all of it.
    """
    for i in range(len(passages)):
        position = passages[i] - first
        score = buffer[position]
        if score > 0.0:
            buffer[position] = 0.0
            if score >= least:
                positions[count], sums[count] = position + first, score
                count += 1
    return count


@_compiled(types.int64(_INTEGERS, _SCORES, types.int64, types.float64))
def _prune(positions: NDArray[np.int64], sums: NDArray[np.float64], count: int, least: float) -> int:
    """Keep those of the first `count` passages whose sum is at least `least`, in order; return their number."""
    reachable = 0
    for i in range(count):
        if sums[i] >= least:
            positions[reachable], sums[reachable] = positions[i], sums[i]
            reachable += 1
    return reachable


@_compiled(types.float64(_SCORES, types.int64, _SCORES))
def _kth(sums: NDArray[np.float64], count: int, best: NDArray[np.float64]) -> float:
    """Return the `len(best)`-th largest of the first `count` sums, 0 for fewer."""
    best[:] = 0.0
    for i in range(count):
        if sums[i] > best[-1]:
            _insert(best, sums[i])
    return float(best[-1])


@_compiled(types.void(_INTEGERS, types.int64, _PASSAGES, _VALUES, _SCORES))
def _look_up(
    positions: NDArray[np.int64],
    count: int,
    passages: NDArray[np.int32],
    values: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add a term's scores to the sums of the first `count` positions, ascending, that hold it.

    Galloping search (Bentley and Yao, 1976): steps double from the posting before, then bisection.
    """
    low, stop = 0, len(passages)
    for i in range(count):
        position = positions[i]
        step = 1
        high = low
        while high < stop and passages[high] < position:
            low = high + 1
            high += step
            step <<= 1
        high = min(high, stop)
        while low < high:
            middle = (low + high) >> 1
            if passages[middle] < position:
                low = middle + 1
            else:
                high = middle
        if low == stop:
            break
        if passages[low] == position:
            sums[i] += values[low]


@_compiled(
    types.void(
        *(_SCORES, _INTEGERS, _SCORES, types.int64, _PASSAGES, _VALUES),
        *(_INTEGERS, _INTEGERS, _SCORES, _SCORES, _INTEGERS),
    )
)
def search(
    buffer: NDArray[np.float64],
    positions: NDArray[np.int64],
    sums: NDArray[np.float64],
    first: int,
    passages: NDArray[np.int32],
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    bounds: NDArray[np.float64],
    best: NDArray[np.float64],
    hits: NDArray[np.int64],
) -> None:
    """Write the `len(best)` highest scores, descending, and their positions: MaxScore, term at a time.

    buffer: zeros for the positions from `first` on; zeros again at the end. positions, sums: scratch of the same length, of
    which a query touches what it needs; a new one for each query would stay with the allocator, once a thread. starts, stops: of each term's postings, in the
    query's order. bounds: the largest score of each. hits: zeros; scores are 0 where there are fewer.

    Terms are added from the largest bound to the smallest, until those that are left cannot lift a passage without any of
    the others to the k-th best sum so far (Turtle and Flood, 1995). They are looked up only for passages that may still
    reach it. Sums of another order differ in the last bits, so those that remain are added up in the query's order.
    """
    terms, order = len(starts), np.argsort(-bounds)
    # remaining[j]: the most that the terms from the j-th on add to a passage.
    remaining = np.zeros(terms + 1)
    for j in range(terms - 1, -1, -1):
        remaining[j] = remaining[j + 1] + bounds[order[j]]
    least, added, count = 0.0, 0, 0
    while added < terms and remaining[added] >= least:
        start, stop = starts[order[added]], stops[order[added]]
        _add(buffer, first, passages[start:stop], values[start:stop], best)
        least = max(least, best[-1] * _BELOW)
        added += 1

    for term in order[:added]:
        reachable = least - remaining[added]
        count = _collect(buffer, first, passages[starts[term] : stops[term]], reachable, positions, sums, count)
    ascending = np.argsort(positions[:count])
    positions, sums = positions[:count][ascending], sums[:count][ascending]
    for j in range(added, terms + 1):
        least = max(least, _kth(sums, count, best) * _BELOW)
        count = _prune(positions, sums, count, least - remaining[j])
        if j < terms:
            start, stop = starts[order[j]], stops[order[j]]
            _look_up(positions, count, passages[start:stop], values[start:stop], sums)

    sums[:count] = 0.0
    for term in range(terms):
        _look_up(positions, count, passages[starts[term] : stops[term]], values[starts[term] : stops[term]], sums)
    best[:] = 0.0
    for i in range(count):
        rank = _insert(best, sums[i])
        if rank < len(best):
            hits[rank + 1 :] = hits[rank:-1].copy()
            hits[rank] = positions[i]
