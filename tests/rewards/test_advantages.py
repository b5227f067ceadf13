"""Group-relative advantages against the published formula, brute force, and numbers worked out by hand."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import group_advantages, hop_advantages, stepwise_advantages

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
    scored = [reward for reward in group if not math.isnan(reward)]
    if len(set(scored)) < 2:
        return [0.0] * len(group)
    mean = statistics.fmean(scored)
    std = (statistics.stdev if ddof else statistics.pstdev)(scored)
    return [0.0 if math.isnan(reward) else (reward - mean) / (std + eps if scale else 1.0) for reward in group]


@given(REWARDS, st.sampled_from([0, 1]), st.booleans(), st.sampled_from([1e-4, 1e-6, 1.0]))
def test_agrees_with_brute_force(rewards, ddof, scale, eps):
    advantages = group_advantages(rewards, eps=eps, ddof=ddof, scale=scale)
    assert advantages.shape == rewards.shape
    expected = [brute(list(group), eps, ddof, scale) for group in rewards.tolist()]
    # A deviation at the limit of what floats hold divides rounding errors: the tolerance is on the rewards' scale.
    np.testing.assert_allclose(advantages, expected, atol=1e-6, rtol=1e-6)


@given(REWARDS)
def test_no_advantage_exceeds_its_bound_and_groups_sum_to_zero(rewards):
    """|A| < (G − 1) / √G with the unbiased deviation: 2.4749 for G = 8, the ±2.47 of Table 18's first row."""
    advantages = group_advantages(rewards)
    counts = (~np.isnan(rewards)).sum(axis=1)
    bound = (counts - 1).clip(0) / np.sqrt(np.maximum(counts, 1))
    assert (np.abs(advantages) <= bound[:, None] + 1e-9).all()
    np.testing.assert_allclose(advantages.sum(axis=1), 0.0, atol=1e-6)


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
    advantages = group_advantages([[1.0, math.nan, 0.0, 0.0, 0.0], [math.nan, 0.7, math.nan, math.nan, math.nan]])
    np.testing.assert_allclose(advantages[0, [0, 2, 3, 4]], group_advantages([1.0, 0.0, 0.0, 0.0]))
    assert advantages[0, 1] == 0.0
    np.testing.assert_array_equal(advantages[1], np.zeros(5))
    np.testing.assert_array_equal(group_advantages([math.nan, math.nan]), [0.0, 0.0])


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
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
def test_invalid_batches_are_refused(rewards, options, message):
    with pytest.raises(ConfigError, match=message):
        group_advantages(rewards, **options)


def test_the_input_is_not_changed():
    rewards = np.array([[1.0, math.nan, 0.0]])
    group_advantages(rewards)
    np.testing.assert_array_equal(rewards, [[1.0, math.nan, 0.0]])


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


@given(BATCHES, st.sampled_from([0, 1]), st.booleans(), st.sampled_from([1e-6, 1e-4, 1.0]))
def test_hop_advantages_agree_with_brute_force(batch, ddof, scale, eps):
    rewards, hops = [r for r, _ in batch], [h for _, h in batch]
    advantages = hop_advantages(rewards, hops, eps=eps, ddof=ddof, scale=scale)
    assert advantages == pytest.approx(brute_hops(rewards, hops, eps, ddof, scale), rel=1e-6, abs=1e-6)


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


# Stepwise advantages: the formula by hand and by torch, padding, faults, invalid input


def by_hand(returns: list[list[float]], eps: float) -> list[list[float]]:
    """One group of completions with their own lengths, none of them a fault."""
    means = [math.fsum(completion) / len(completion) for completion in returns]
    mean, std = math.fsum(means) / len(means), statistics.stdev(means)
    return [[(value - mean) / (std + eps) for value in completion] for completion in returns]


def padded(rows: list[list[float]], fill: float) -> tuple[np.ndarray, np.ndarray]:
    width = max(map(len, rows))
    values = np.array([row + [fill] * (width - len(row)) for row in rows])
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return values, mask


token_return = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3))
token_groups = st.lists(st.lists(token_return, min_size=1, max_size=9), min_size=2, max_size=6)


@given(token_groups, st.sampled_from([0.0, 99.0, float("nan"), float("inf")]))
def test_stepwise_formula(rows: list[list[float]], fill: float) -> None:
    values, mask = padded(rows, fill)
    advantages = stepwise_advantages(values, mask)
    expected, _ = padded(by_hand(rows, 1e-4), 0.0)
    np.testing.assert_allclose(advantages, expected, rtol=1e-9, atol=1e-7)


@given(token_groups)
def test_stepwise_agrees_with_torch(rows: list[list[float]]) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'local'")
    values, mask = padded(rows, 0.0)
    returns, is_token = torch.tensor(values), torch.tensor(mask, dtype=torch.float64)
    means = (returns * is_token).sum(-1) / is_token.sum(-1).clamp(min=1)
    expected = (returns - means.mean()) / (means.std() + 1e-4) * is_token
    np.testing.assert_allclose(stepwise_advantages(values, mask), expected.numpy(), rtol=1e-9, atol=1e-7)


def test_stepwise_with_equal_returns_gives_group_advantages() -> None:
    rewards = np.array([[3.0, 1.0, -1.0, 0.5], [1.0, 2.0, 2.0, -3.0]])
    returns = np.repeat(rewards[:, :, None], 5, axis=2)
    advantages = stepwise_advantages(returns, np.ones_like(returns))
    np.testing.assert_allclose(advantages, np.repeat(group_advantages(rewards)[:, :, None], 5, axis=2))


def test_stepwise_groups_are_independent() -> None:
    rng = np.random.default_rng(0)
    returns, mask = rng.normal(size=(3, 4, 6)), rng.random((3, 4, 6)) < 0.7
    together = stepwise_advantages(returns, mask)
    for i in range(3):
        np.testing.assert_allclose(together[i], stepwise_advantages(returns[i], mask[i]))


def test_stepwise_leaves_faults_out() -> None:
    rows = [[1.0, 2.0], [float("nan")] * 2, [0.0, 0.0, 3.0]]
    values, mask = padded(rows, 0.0)
    advantages = stepwise_advantages(values, mask)
    assert not advantages[1].any()
    expected, _ = padded(by_hand([rows[0], rows[2]], 1e-4), 0.0)
    np.testing.assert_allclose(advantages[[0, 2]], expected)


def test_stepwise_leaves_empty_completions_out() -> None:
    values, mask = np.array([[1.0], [3.0], [7.0]]), np.array([[1], [1], [0]])
    np.testing.assert_allclose(stepwise_advantages(values, mask)[:2], stepwise_advantages(values[:2], mask[:2]))


def test_stepwise_with_one_scored_completion_is_zero() -> None:
    values = np.array([[1.0, 2.0], [float("nan")] * 2])
    assert not stepwise_advantages(values, np.ones((2, 2))).any()


def test_stepwise_equal_means_follow_the_formula_or_are_zero() -> None:
    values = np.array([[0.1, -0.1], [-0.1, 0.1]])
    mask = np.ones((2, 2))
    np.testing.assert_allclose(stepwise_advantages(values, mask), values / 1e-4)
    assert not stepwise_advantages(values, mask, equal="zero").any()
    assert not stepwise_advantages([[0.1] * 3, [0.1, 0.1, 0.0]], [[1, 1, 1], [1, 1, 0]], equal="zero").any()


def test_stepwise_options() -> None:
    values, mask = [[1.0, 3.0], [0.0, 0.0]], [[True, True], [True, False]]
    np.testing.assert_allclose(stepwise_advantages(values, mask, scale=False), [[0.0, 2.0], [-1.0, 0.0]])
    np.testing.assert_allclose(stepwise_advantages(values, mask, eps=0.0, ddof=0), [[0.0, 2.0], [-1.0, 0.0]])
    assert not stepwise_advantages([[1.0], [1.0]], [[1], [1]], eps=0.0).any()
    assert stepwise_advantages(np.zeros((2, 0)), np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize(
    ("returns", "mask", "options", "message"),
    [
        ([1.0, 2.0], [1, 1], {}, "shape"),
        ([[1.0, 2.0]], [[1]], {}, "shape"),
        ([[float("inf")]], [[1]], {}, "finite"),
        ([["x"]], [[1]], {}, "numbers"),
        ([[1.0], [2.0, 3.0]], [[1], [1]], {}, "numbers"),
        ([[1.0]], [[1]], {"ddof": 2}, "ddof"),
        ([[1.0]], [[1]], {"eps": -1.0}, "eps"),
        ([[1.0]], [[1]], {"equal": "none"}, "equal"),
    ],
)
def test_invalid_token_groups_are_refused(
    returns: object, mask: object, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        stepwise_advantages(returns, mask, **options)  # type: ignore[arg-type]
