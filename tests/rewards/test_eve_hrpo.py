"""Hop-grouped advantages beside a brute-force twin of equation 5."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import group_advantages, hop_advantages

BATCHES = st.lists(
    st.tuples(st.floats(-1, 2, width=32) | st.sampled_from([0.0, 0.5, math.nan]), st.integers(1, 4)),
    min_size=1,
    max_size=24,
)


def brute(rewards: list[float], hops: list[int], eps: float, ddof: int, scale: bool) -> list[float]:
    """Equation 5 with the standard library, one proposal at a time."""
    found = []
    for reward, hop in zip(rewards, hops, strict=True):
        group = [r for r, h in zip(rewards, hops, strict=True) if h == hop and not math.isnan(r)]
        if math.isnan(reward) or len(set(group)) < 2:
            found.append(0.0)
            continue
        deviation = (statistics.stdev if ddof else statistics.pstdev)(group)
        found.append((reward - statistics.fmean(group)) / ((deviation + eps) if scale else 1.0))
    return found


@settings(max_examples=300, deadline=None)
@given(BATCHES, st.sampled_from([0, 1]), st.booleans(), st.sampled_from([1e-6, 1e-4, 1.0]))
def test_agrees_with_brute_force(batch, ddof, scale, eps):
    rewards, hops = [r for r, _ in batch], [h for _, h in batch]
    found = hop_advantages(rewards, hops, eps=eps, ddof=ddof, scale=scale)
    assert found == pytest.approx(brute(rewards, hops, eps, ddof, scale), rel=1e-6, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(BATCHES, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_groups_are_centred(batch, rng):
    order = list(range(len(batch)))
    rng.shuffle(order)
    rewards, hops = np.array([r for r, _ in batch]), np.array([h for _, h in batch])
    found = hop_advantages(rewards, hops)
    assert hop_advantages(rewards[order], hops[order]) == pytest.approx(found[order], rel=1e-6, abs=1e-6)
    for hop in set(hops.tolist()):
        assert found[hops == hop].sum() == pytest.approx(0.0, abs=1e-3)


def test_one_hop_count_is_one_group():
    rewards = [1.2, 0.5, 0.5, 1.9, math.nan]
    assert hop_advantages(rewards, [2] * 5, eps=1e-4) == pytest.approx(group_advantages(rewards))


def test_a_hard_hop_is_not_held_against_its_proposals():
    """The same spread at another level gives the same advantages: the reason to group by hops at all."""
    found = hop_advantages([1.6, 1.2, 0.6, 0.2], [1, 1, 4, 4])
    assert found[:2] == pytest.approx(found[2:])
    assert hop_advantages([1.6, 1.2, 0.6, 0.2], [1, 1, 1, 1])[1] > 0 > found[1]


def test_alone_or_alike_is_worth_nothing():
    assert hop_advantages([1.7, 0.3, 0.3], [1, 2, 2]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("rewards", "hops"),
    [
        ([1.0, 2.0], [1]),
        ([[1.0]], [[1]]),
        ([1.0], [1.5]),
        ([1.0], ["1"]),
        ([math.inf], [1]),
        ([], []),
        ([1.0], [[1], [2, 3]]),
    ],
)
def test_other_shapes_are_refused(rewards, hops):
    with pytest.raises(ConfigError):
        hop_advantages(rewards, hops)
