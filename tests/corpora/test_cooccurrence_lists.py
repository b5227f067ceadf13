"""The compiled search in posting lists, against NumPy's `searchsorted` over the same positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from factgym.corpora.cooccurrence import postings as codec

pytest.importorskip("numba", reason="needs the extra 'counting': pip install -e '.[counting]'")

from factgym.corpora.cooccurrence.kernel_postings import ANCHORS, BLOCK, DENSE, FAR, WORKSPACE, neighbours

I64 = NDArray[np.int64]


def encoded(lists: list[I64]) -> tuple[tuple[NDArray[np.uint32], ...], I64]:
    """Lists as the kernels take them: firsts, offsets and data, and a row for each."""
    frequencies = np.array(list(map(len, lists)), np.int64)
    made = codec.encode(np.concatenate(lists).astype(np.uint32), frequencies)
    offsets = np.append(0, np.cumsum(made.sizes)).astype(np.uint32)
    counts = codec.block_counts(frequencies)
    ends = np.cumsum(counts)
    rows = np.stack([ends - counts, ends, frequencies - (counts - 1) * BLOCK, frequencies, 0 * counts], axis=1)
    arrays = (made.firsts, offsets, np.append(made.data, np.uint32(0)))
    for array in arrays:
        array.setflags(write=False)
    return arrays, rows.astype(np.int64)


def expected(positions: I64, points: I64) -> tuple[I64, I64]:
    at = np.searchsorted(positions, points, "left")
    return np.append(positions, -FAR)[at - 1], np.append(positions, FAR)[at]


def check(positions: I64, points: I64, beside: I64, hint: int = -1) -> None:
    arrays, rows = encoded([beside, positions, beside])
    row = rows[1]
    before, after = np.empty(ANCHORS, np.int64), np.empty(ANCHORS, np.int64)
    room = np.empty(WORKSPACE * ANCHORS, np.int64)
    n = len(points)
    given_points = np.zeros(ANCHORS, np.int64)
    given_points[:n] = points
    block = neighbours(
        arrays, row, max(row[0] - 1, min(row[0] + hint, row[1] - 1)), given_points, n, before, after, room
    )
    assert row[0] - 1 <= block < row[1]
    left, right = expected(positions, points)
    np.testing.assert_array_equal(before[:n], left)
    np.testing.assert_array_equal(after[:n], right)


def drawn(rng: np.random.Generator, count: int, low: int, high: int) -> I64:
    return np.unique(rng.integers(low, high, count))


@given(
    seed=st.integers(0, 2**32),
    positions=st.integers(1, 6000),
    points=st.integers(1, ANCHORS),
    spread=st.sampled_from([200, 10_000, 400_000, 2**32 - 2**16]),
    share=st.sampled_from([0.01, 0.3, 1.0]),
    rising=st.booleans(),
    hint=st.integers(-1, 200),
)
@settings(max_examples=300, deadline=None)
def test_neighbours_are_those_of_searchsorted(
    seed: int, positions: int, points: int, spread: int, share: float, rising: bool, hint: int
) -> None:
    """Dense lists, sparse ones and those between, points that rise or not, repeat, or all stand before or after."""
    rng = np.random.default_rng(seed)
    held = drawn(rng, positions, 1, spread)
    begin = int(rng.integers(1, spread))
    asked = rng.integers(begin, max(begin + 1, begin + int((spread - begin) * share)), points)
    check(held, np.sort(asked) if rising else asked, drawn(rng, 200, 0, spread), hint)


@pytest.mark.parametrize("ratio", [0.1, 1, DENSE - 1, DENSE + 1, 100])
@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 127, ANCHORS])
def test_neighbours_at_the_edges_of_each_way_to_search(ratio: float, points: int) -> None:
    """Every position itself and those beside it, from the first to the last; the list fills its last block or does not."""
    rng = np.random.default_rng(points)
    for count in (max(1, int(points * ratio)), BLOCK, 4 * BLOCK, 4 * BLOCK + 1):
        held = np.cumsum(rng.integers(1, 9, count))
        near = np.unique(np.concatenate([held - 1, held, held + 1, held[-1:] + 5000]))
        asked = np.sort(rng.choice(near[near > 0], points))
        check(held, asked, held)
    check(np.array([7]), np.full(points, 7), np.array([7]))
    check(np.array([7]), np.full(points, 8), np.array([7]))
