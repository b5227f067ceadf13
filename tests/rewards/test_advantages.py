"""Group-relative advantages against the published formula, brute force, and numbers worked out by hand."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import collapse, group_advantages, hop_advantages

FIGURE_6 = [1.13, 0.95, 0.71, 0.63, 0.42, 0.28, 0.15, 0.00]
"""Eight rollouts under the process reward, and the same under the binary one (two right)."""
FIGURE_6_BINARY = [1, 1, 0, 0, 0, 0, 0, 0]

REWARDS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 9)),
    elements=st.floats(-2, 2, width=32) | st.sampled_from([0.0, 0.1, 1.0, math.nan]),
)


def brute(group: list[float], eps: float, ddof: int, scale: bool) -> list[float]:
    """Equation 2 with the standard library, member by member."""
    scored = [one for one in group if not math.isnan(one)]
    if len(set(scored)) < 2:
        return [0.0] * len(group)
    mean = statistics.fmean(scored)
    std = (statistics.stdev if ddof else statistics.pstdev)(scored)
    return [0.0 if math.isnan(one) else (one - mean) / (std + eps if scale else 1.0) for one in group]


@settings(max_examples=300, deadline=None)
@given(REWARDS, st.sampled_from([0, 1]), st.booleans(), st.sampled_from([1e-4, 1e-6, 1.0]))
def test_agrees_with_brute_force(rewards, ddof, scale, eps):
    found = group_advantages(rewards, eps=eps, ddof=ddof, scale=scale)
    assert found.shape == rewards.shape
    expected = [brute(list(group), eps, ddof, scale) for group in rewards.tolist()]
    # A deviation at the limit of what floats hold divides rounding errors: the tolerance is on the rewards' scale.
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-6)


@settings(max_examples=200, deadline=None)
@given(REWARDS)
def test_no_advantage_exceeds_its_bound_and_groups_sum_to_zero(rewards):
    """|A| < (G − 1) / √G with the unbiased deviation: 2.4749 for G = 8, the ±2.47 of Table 18's first row."""
    found = group_advantages(rewards)
    counts = (~np.isnan(rewards)).sum(axis=1)
    bound = (counts - 1).clip(0) / np.sqrt(np.maximum(counts, 1))
    assert (np.abs(found) <= bound[:, None] + 1e-9).all()
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-6)


def test_trl_formula_by_hand():
    """TRL: (r − mean) / (std + 1e-4), std unbiased. For 1, 0, 0, 0: mean .25, std sqrt(.75 / 3) = .5."""
    np.testing.assert_allclose(
        group_advantages([1.0, 0.0, 0.0, 0.0]), [0.75 / 0.5001, *[-0.25 / 0.5001] * 3], rtol=1e-12
    )
    # The population's deviation is sqrt(.75 / 4); without the deviation the differences remain (Dr. GRPO).
    np.testing.assert_allclose(
        group_advantages([1.0, 0.0, 0.0, 0.0], ddof=0, eps=0.0)[0], 0.75 / math.sqrt(0.1875), rtol=1e-12
    )
    np.testing.assert_array_equal(group_advantages([1.0, 0.0, 0.0, 0.0], scale=False), [0.75, -0.25, -0.25, -0.25])


def test_groups_do_not_mix():
    both = group_advantages([FIGURE_6, FIGURE_6_BINARY])
    np.testing.assert_array_equal(both[0], group_advantages(FIGURE_6))
    np.testing.assert_array_equal(both[1], group_advantages(FIGURE_6_BINARY))


def test_figure_6():
    """Process: mean .53375, about ±1.6 as said. Binary: +1.62 and −.54 by equation 2, where the paper says ±.04."""
    process, binary = group_advantages(FIGURE_6), group_advantages(FIGURE_6_BINARY)
    assert statistics.fmean(FIGURE_6) == pytest.approx(0.53375)
    assert process.max() == pytest.approx((1.13 - 0.53375) / (statistics.stdev(FIGURE_6) + 1e-4))
    assert process.max() == pytest.approx(1.51, abs=0.05)
    assert binary.max() == pytest.approx(0.75 / (math.sqrt(1.5 / 7) + 1e-4))
    assert binary.max() == pytest.approx(1.62, abs=0.005)
    assert binary.min() == pytest.approx(-0.54, abs=0.005)


def test_one_success_in_eight_has_the_largest_advantage_that_there_is():
    assert group_advantages([1, *[0] * 7], eps=0.0)[0] == pytest.approx(7 / math.sqrt(8))


def test_equal_rewards_have_no_advantage_at_all():
    """0.1 + 0.2 is not 0.3: the mean of equal rewards may differ from them by rounding, and eps may be 0."""
    for group in ([0.1] * 7, [1 / 3] * 8, [0.0] * 4, [1e300] * 3):
        for eps in (1e-4, 0.0):
            np.testing.assert_array_equal(group_advantages(group, eps=eps), np.zeros(len(group)))


def test_members_without_a_score_are_left_out():
    found = group_advantages([[1.0, math.nan, 0.0, 0.0, 0.0], [math.nan, 0.7, math.nan, math.nan, math.nan]])
    np.testing.assert_allclose(found[0, [0, 2, 3, 4]], group_advantages([1.0, 0.0, 0.0, 0.0]))
    assert found[0, 1] == 0.0
    np.testing.assert_array_equal(found[1], np.zeros(5))
    np.testing.assert_array_equal(group_advantages([math.nan, math.nan]), [0.0, 0.0])


@pytest.mark.parametrize(
    ("rewards", "options", "said"),
    [
        ([], {}, "shape"),
        (1.0, {}, "shape"),
        (np.zeros((2, 2, 2)), {}, "shape"),
        ([[1, 2], [3]], {}, "numbers"),
        (["x", "y"], {}, "numbers"),
        ([1.0, math.inf], {}, "finite"),
        ([1.0, 0.0], {"ddof": 2}, "ddof"),
        ([1.0, 0.0], {"eps": -1.0}, "eps"),
        ([1.0, 0.0], {"eps": math.nan}, "eps"),
    ],
)
def test_what_is_no_batch_of_groups_is_refused(rewards, options, said):
    with pytest.raises(ConfigError, match=said):
        group_advantages(rewards, **options)


def test_the_input_is_not_changed():
    rewards = np.array([[1.0, math.nan, 0.0]])
    group_advantages(rewards)
    np.testing.assert_array_equal(rewards, [[1.0, math.nan, 0.0]])


def test_collapse_by_hand():
    """Two equal groups of four, one mixed, one with a single score, which cannot be compared."""
    rewards = [[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, math.nan], [0.5, math.nan, math.nan, math.nan]]
    found = collapse(rewards)
    assert (found.groups, found.unscored) == (3, 4)
    assert found.reward == pytest.approx(5.5 / 12)
    assert found.zero_variance == pytest.approx(2 / 3)
    std = statistics.stdev([1, 0, 0])
    assert (found.std_min, found.std_max) == (0.0, pytest.approx(std))
    assert found.std_mean == pytest.approx(std / 3)
    high, low = (2 / 3) / (std + 1e-4), (-1 / 3) / (std + 1e-4)
    assert (found.advantage_min, found.advantage_max) == (pytest.approx(low), pytest.approx(high))
    assert (found.low_mean, found.high_mean) == (pytest.approx(low / 3), pytest.approx(high / 3))
    assert found.small == pytest.approx(8 / 11)
    assert list(found.to_dict())[:3] == ["groups", "unscored", "reward"]


@settings(max_examples=100, deadline=None)
@given(REWARDS)
def test_collapse_is_made_of_the_advantages(rewards):
    scored = ~np.isnan(rewards)
    usable = scored.sum(axis=1) >= 2
    if not usable.any():
        with pytest.raises(ConfigError, match="two scored"):
            collapse(rewards)
        return
    found, advantages = collapse(rewards), group_advantages(rewards)
    inside = advantages[scored & usable[:, None]]
    assert (found.advantage_min, found.advantage_max) == (inside.min(), inside.max())
    assert found.small == pytest.approx((np.abs(inside) < 0.05).mean())
    equal = [len({one for one in group if one == one}) == 1 for group in rewards[usable].tolist()]
    assert found.zero_variance == pytest.approx(sum(equal) / len(equal))
    assert found.low_mean <= 0.0 <= found.high_mean
    assert found.std_min <= found.std_mean <= found.std_max + 1e-12


# Hop-grouped advantages: EVE, equation 5.

BATCHES = st.lists(
    st.tuples(st.floats(-1, 2, width=32) | st.sampled_from([0.0, 0.5, math.nan]), st.integers(1, 4)),
    min_size=1,
    max_size=24,
)


def brute_hops(rewards: list[float], hops: list[int], eps: float, ddof: int, scale: bool) -> list[float]:
    """Equation 5 with the standard library, one proposal at a time."""
    advantages = []
    for reward, hop in zip(rewards, hops, strict=True):
        group = [r for r, h in zip(rewards, hops, strict=True) if h == hop and not math.isnan(r)]
        if math.isnan(reward) or len(set(group)) < 2:
            advantages.append(0.0)
            continue
        deviation = (statistics.stdev if ddof else statistics.pstdev)(group)
        advantages.append((reward - statistics.fmean(group)) / ((deviation + eps) if scale else 1.0))
    return advantages


@settings(max_examples=300, deadline=None)
@given(BATCHES, st.sampled_from([0, 1]), st.booleans(), st.sampled_from([1e-6, 1e-4, 1.0]))
def test_hop_advantages_agree_with_brute_force(batch, ddof, scale, eps):
    rewards, hops = [r for r, _ in batch], [h for _, h in batch]
    advantages = hop_advantages(rewards, hops, eps=eps, ddof=ddof, scale=scale)
    assert advantages == pytest.approx(brute_hops(rewards, hops, eps, ddof, scale), rel=1e-6, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(BATCHES, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_hop_groups_are_centred(batch, rng):
    order = list(range(len(batch)))
    rng.shuffle(order)
    rewards, hops = np.array([r for r, _ in batch]), np.array([h for _, h in batch])
    advantages = hop_advantages(rewards, hops)
    assert hop_advantages(rewards[order], hops[order]) == pytest.approx(advantages[order], rel=1e-6, abs=1e-6)
    for hop in set(hops.tolist()):
        assert advantages[hops == hop].sum() == pytest.approx(0.0, abs=1e-3)


def test_a_single_hop_count_is_a_single_group():
    rewards = [1.2, 0.5, 0.5, 1.9, math.nan]
    assert hop_advantages(rewards, [2] * 5, eps=1e-4) == pytest.approx(group_advantages(rewards))


def test_a_hard_hop_is_no_disadvantage():
    """The same spread at another level gives the same advantages: the reason to group by hops at all."""
    advantages = hop_advantages([1.6, 1.2, 0.6, 0.2], [1, 1, 4, 4])
    assert advantages[:2] == pytest.approx(advantages[2:])
    assert hop_advantages([1.6, 1.2, 0.6, 0.2], [1, 1, 1, 1])[1] > 0 > advantages[1]


def test_a_single_or_an_equal_reward_has_no_advantage():
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
def test_hop_advantages_refuse_other_shapes(rewards, hops):
    with pytest.raises(ConfigError):
        hop_advantages(rewards, hops)
