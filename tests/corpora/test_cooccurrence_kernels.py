"""The compiled search in posting lists against NumPy's `searchsorted` over the same positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.postings import block_counts, encode

pytest.importorskip("numba", reason="needs the extra 'counting': pip install -e '.[counting]'")

from factgym.corpora.cooccurrence.kernel_postings import ANCHORS, BLOCK, DENSE, FAR, WORKSPACE, neighbours

I64 = NDArray[np.int64]


def encoded(lists: list[I64]) -> tuple[tuple[NDArray[np.uint32], ...], I64]:
    """Lists as the kernels take them: firsts, offsets and data, and a row for each."""
    frequencies = np.array(list(map(len, lists)), np.int64)
    blocks = encode(np.concatenate(lists).astype(np.uint32), frequencies)
    offsets = np.append(0, np.cumsum(blocks.sizes)).astype(np.uint32)
    counts = block_counts(frequencies)
    ends = np.cumsum(counts)
    rows = np.stack([ends - counts, ends, frequencies - (counts - 1) * BLOCK, frequencies, 0 * counts], axis=1)
    arrays = (blocks.firsts, offsets, np.append(blocks.data, np.uint32(0)))
    for array in arrays:
        array.setflags(write=False)
    return arrays, rows.astype(np.int64)


def expected(positions: I64, points: I64) -> tuple[I64, I64]:
    index = np.searchsorted(positions, points, "left")
    return np.append(positions, -FAR)[index - 1], np.append(positions, FAR)[index]


def check(positions: I64, points: I64, adjacent: I64, hint: int = -1) -> None:
    arrays, rows = encoded([adjacent, positions, adjacent])
    row = rows[1]
    before, after = np.empty(ANCHORS, np.int64), np.empty(ANCHORS, np.int64)
    workspace = np.empty(WORKSPACE * ANCHORS, np.int64)
    n = len(points)
    given_points = np.zeros(ANCHORS, np.int64)
    given_points[:n] = points
    block = neighbours(
        arrays, row, max(row[0] - 1, min(row[0] + hint, row[1] - 1)), given_points, n, before, after, workspace
    )
    assert row[0] - 1 <= block < row[1]
    previous, following = expected(positions, points)
    np.testing.assert_array_equal(before[:n], previous)
    np.testing.assert_array_equal(after[:n], following)


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
def test_neighbours_are_those_of_searchsorted(
    seed: int, positions: int, points: int, spread: int, share: float, rising: bool, hint: int
) -> None:
    """Dense lists, sparse ones and those between, points that rise or not, repeat, or all lie before or after."""
    rng = np.random.default_rng(seed)
    listed = drawn(rng, positions, 1, spread)
    start = int(rng.integers(1, spread))
    queries = rng.integers(start, max(start + 1, start + int((spread - start) * share)), points)
    check(listed, np.sort(queries) if rising else queries, drawn(rng, 200, 0, spread), hint)


@pytest.mark.parametrize("ratio", [0.1, 1, DENSE - 1, DENSE + 1, 100])
@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 127, ANCHORS])
def test_neighbours_at_the_edges_of_each_way_to_search(ratio: float, points: int) -> None:
    """Every position itself and its neighbours, from the first to the last; the list fills its last block or does not."""
    rng = np.random.default_rng(points)
    for count in (max(1, int(points * ratio)), BLOCK, 4 * BLOCK, 4 * BLOCK + 1):
        listed = np.cumsum(rng.integers(1, 9, count))
        near = np.unique(np.concatenate([listed - 1, listed, listed + 1, listed[-1:] + 5000]))
        queries = np.sort(rng.choice(near[near > 0], points))
        check(listed, queries, listed)
    check(np.array([7]), np.full(points, 7), np.array([7]))
    check(np.array([7]), np.full(points, 8), np.array([7]))
