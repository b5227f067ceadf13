"""Intervals against scipy.stats, which computes them in other ways, and against their promise by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from factgym.benchmarks.statistics.intervals import (
    NO_DATA,
    POSITIVE,
    UNBOUNDED,
    UNIT,
    Estimate,
    Series,
    macro_interval,
    mean_interval,
    natural_bounds,
    paired_interval,
    ratio_interval,
    wilson,
)


@pytest.mark.parametrize("n", [1, 2, 7, 50, 500, 5000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_wilson_agrees_with_scipy(n: int, share: float, level: float) -> None:
    successes = round(n * share)
    result = wilson(successes, n, level)
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert result.value == successes / n
    assert result.low == pytest.approx(expected.low, abs=1e-12)
    assert result.high == pytest.approx(expected.high, abs=1e-12)


def test_wilson_of_a_textbook_case() -> None:
    """Newcombe (1998), Statistics in Medicine 17: 81 of 263 gives 0.2553 to 0.3662 by the score method."""
    result = wilson(81, 263)
    assert (result.low, result.high) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))


def test_wilson_without_data_and_out_of_range() -> None:
    assert wilson(0, 0) == NO_DATA
    for successes in (-1, 4):
        with pytest.raises(ValueError, match="out of 3"):
            wilson(successes, 3)


def test_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).normal(0.4, 0.2, 37).tolist()
    expected = stats.t.interval(0.95, 36, loc=np.mean(values), scale=stats.sem(values))
    result = mean_interval(values, UNBOUNDED)
    assert (result.value, result.n) == (pytest.approx(np.mean(values)), 37)
    assert (result.low, result.high) == pytest.approx(tuple(expected))


def test_mean_of_few_values() -> None:
    assert mean_interval([], UNIT) == NO_DATA
    assert mean_interval([0.3], UNIT) == Estimate(0.3, None, None, 1)
    assert mean_interval([0.3, 0.3], UNIT) == Estimate(0.3, 0.3, 0.3, 2)


def test_a_mean_of_zeros_and_ones_is_a_proportion_only_on_its_scale() -> None:
    assert mean_interval([1.0] * 9 + [0.0], UNIT) == wilson(9, 10)
    turns = mean_interval([1.0] * 9, POSITIVE)
    assert (turns.low, turns.high) == (1.0, 1.0)


def test_bounds_cut_the_interval_but_not_the_value() -> None:
    result = mean_interval([0.0, 1.0, 0.5], UNIT)
    assert result == Estimate(0.5, 0.0, 1.0, 3)


def test_the_intervals_of_two_episodes_stay_in_the_scale() -> None:
    """Both were printed with the unbounded interval of scipy: turns of -15.56, and a difference of rewards of 6.85."""
    turns = [2.0, 5.0]
    assert stats.t.interval(0.95, 1, np.mean(turns), stats.sem(turns)) == pytest.approx((-15.56, 22.56), abs=0.005)
    assert mean_interval(turns, POSITIVE).low == 0.0
    assert (mean_interval(turns, (0.0, 12.0)).low, mean_interval(turns, (0.0, 12.0)).high) == (0.0, 12.0)
    assert stats.t.interval(0.95, 1, 0.5, stats.sem([0.0, 1.0])) == pytest.approx((-5.853, 6.853), abs=5e-4)
    assert paired_interval([0.0, 0.0], [0.0, 1.0]) == Estimate(0.5, -1.0, 1.0, 2)


@given(
    st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (0.0, 12.0), (-0.3, 1.0), (-2.5, -0.5)]).flatmap(
        lambda bounds: st.tuples(
            st.just(bounds), st.lists(st.tuples(st.floats(*bounds), st.floats(*bounds)), min_size=2, max_size=12)
        )
    )
)
def test_every_mean_and_difference_stays_in_its_scale_and_agrees_with_scipy_inside(sample) -> None:
    (low, high), pairs = sample
    for values, scale in (([a for a, _ in pairs], (low, high)), ([b - a for a, b in pairs], (low - high, high - low))):
        result = (
            mean_interval(values, (low, high))
            if scale == (low, high)
            else paired_interval(*zip(*pairs, strict=True), (low, high))
        )
        assert scale[0] - 1e-12 <= result.low <= result.value + 1e-12
        assert result.value - 1e-12 <= result.high <= scale[1] + 1e-12
        if set(values) - {0.0, 1.0}:  # else Wilson's
            reach = stats.t.ppf(0.975, len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
            assert result.low == pytest.approx(max(result.value - reach, scale[0]), abs=1e-9)
            assert result.high == pytest.approx(min(result.value + reach, scale[1]), abs=1e-9)


def test_a_scale_that_nothing_declares_is_the_narrowest_that_holds_the_values() -> None:
    assert natural_bounds([0.2, 1.0]) == UNIT
    assert natural_bounds([-0.2, 1.0]) == (-1.0, 1.0)
    assert natural_bounds([0.0, 7.0]) == POSITIVE
    assert natural_bounds([-3.0, 7.0]) == UNBOUNDED
    assert natural_bounds([0.2], (-0.1, 1.2)) == (-0.1, 1.2)
    assert natural_bounds([0.2, 1.5], (-0.1, 1.2)) == POSITIVE  # a reward outside of what its environment declares


def test_a_ratio_of_equal_clusters_is_the_mean_of_their_shares() -> None:
    tops = [0.0, 2.0, 4.0, 1.0, 3.0]
    expected = mean_interval([top / 4 for top in tops], UNIT)
    result = ratio_interval(tops, [4.0] * 5)
    assert (result.value, result.low, result.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_a_ratio_of_nothing_keeps_an_upper_bound_over_episodes() -> None:
    result = ratio_interval([0.0] * 40, [6.0] * 40)
    assert (result.value, result.low, result.high) == (0.0, 0.0, wilson(0, 40).high)
    assert ratio_interval([0.0], [0.0]) == NO_DATA


def test_macro_of_equal_parts_and_of_perfect_parts() -> None:
    part = wilson(60, 100)
    result = macro_interval([part] * 4)
    assert result.value == pytest.approx(0.6)
    assert result.half_width == pytest.approx((part.half_width or 0) / 2)
    perfect = macro_interval([wilson(20, 20)] * 5)
    assert perfect.value == perfect.high == 1.0
    assert perfect.low is not None and 0.9 < perfect.low < 1.0
    assert macro_interval([NO_DATA]) == NO_DATA


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_an_interval_holds_its_value(values: list[float]) -> None:
    result = mean_interval(values, UNIT)
    assert result.value is not None and result.low is not None and result.high is not None
    assert 0 <= result.low <= result.value + 1e-12
    assert result.value - 1e-12 <= result.high <= 1


def _coverage(estimates: list[Estimate], truth: float) -> float:
    return float(
        np.mean(
            [
                estimate.low <= truth <= estimate.high
                for estimate in estimates
                if estimate.low is not None and estimate.high
            ]
        )
    )


def test_a_mean_is_covered_as_often_as_promised() -> None:
    """Rewards as they come: a lump near 1, a lump in the middle, some at 0. The seed is fixed: no chance of failing."""
    rng = np.random.default_rng(2)
    for n, least in ((20, 0.91), (100, 0.935)):
        draws = rng.choice([0.0, 0.35, 0.65, 0.97, 1.0], p=[0.07, 0.13, 0.2, 0.2, 0.4], size=(2000, n))
        truth = 0.35 * 0.13 + 0.65 * 0.2 + 0.97 * 0.2 + 0.4
        result = _coverage([mean_interval(row.tolist(), UNIT) for row in draws], truth)
        assert least <= result <= 0.97


def test_a_rate_over_turns_is_covered_although_turns_of_an_episode_are_alike() -> None:
    """Malformed turns come in bursts: the naive interval over turns would cover far less often."""
    rng = np.random.default_rng(3)
    result, naive = [], []
    for _ in range(1000):
        turns = rng.integers(2, 9, 150)
        rate = rng.beta(0.3, 1.2, 150)
        bad = rng.binomial(turns, rate)
        result.append(ratio_interval(bad.tolist(), turns.tolist()))
        naive.append(wilson(int(bad.sum()), int(turns.sum())))
    assert 0.92 <= _coverage(result, 0.2) <= 0.97
    assert _coverage(naive, 0.2) < 0.85


def test_macro_recall_is_covered() -> None:
    rng = np.random.default_rng(4)
    rates = np.array([0.95, 0.8, 0.6, 0.99, 0.7])
    draws = rng.binomial(30, rates, size=(2000, 5))
    result = [macro_interval([wilson(int(k), 30) for k in row]) for row in draws]
    assert 0.93 <= _coverage(result, float(rates.mean())) <= 0.98


# Intervals over tasks against SciPy, against least squares with a cluster-robust sandwich, and against many draws.


def _series(groups: list[list[float]]) -> Series:
    result = Series()
    for task, values in enumerate(groups):
        for value in values:
            result.add(task, value)
    return result


def test_one_sample_for_each_task_gives_the_plain_interval() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 40).tolist()
    assert _series([[value] for value in values]).mean(UNIT) == mean_interval(values, bounds=UNIT)
    assert _series([[1.0], [0.0], [1.0]]).mean(UNIT) == wilson(2, 3)
    assert Series().mean() == Series().share() == NO_DATA


def test_equal_groups_agree_with_scipy_on_their_means() -> None:
    groups = np.random.default_rng(2).normal(3, 2, (30, 8))
    result = _series(groups.tolist()).mean()
    reach = stats.ttest_1samp(groups.mean(axis=1), 0.0).confidence_interval(0.95)
    assert result.value == pytest.approx(groups.mean())
    assert (result.low, result.high, result.n) == (pytest.approx(reach.low), pytest.approx(reach.high), 30)


def test_unequal_groups_agree_with_a_cluster_robust_regression() -> None:
    """The constant of least squares, its variance by Liang and Zeger 1986 with the factor G / (G - 1)."""
    rng = np.random.default_rng(3)
    groups = [rng.normal(rng.normal(), 1, size).tolist() for size in rng.integers(1, 9, 25)]
    result = _series(groups).mean()
    values, tasks = np.concatenate(groups), np.repeat(range(25), [len(group) for group in groups])
    ones = np.ones((len(values), 1))
    bread = np.linalg.inv(ones.T @ ones)
    remaining = values - values.mean()
    scores = np.array([ones[tasks == task].T @ remaining[tasks == task] for task in range(25)])
    variance = (bread @ (scores.T @ scores) @ bread)[0, 0] * 25 / 24
    reach = stats.t.ppf(0.975, 24) * np.sqrt(variance)
    assert result.value == pytest.approx(values.mean())
    assert result.half_width == pytest.approx(reach)


def test_the_interval_covers_where_that_over_episodes_does_not() -> None:
    """Tasks differ more than their samples do, as verdicts do: eight samples are worth little more than one."""
    rng = np.random.default_rng(4)
    clustered = naive = 0
    for _ in range(400):
        chance = rng.beta(0.5, 0.5, 40)
        draws = (rng.uniform(size=(40, 8)) < chance[:, None]).astype(float)
        over_tasks = _series(draws.tolist()).mean(UNIT)
        over_episodes = mean_interval(draws.ravel().tolist(), bounds=UNIT)
        clustered += over_tasks.low <= 0.5 <= over_tasks.high
        naive += over_episodes.low <= 0.5 <= over_episodes.high
    assert 0.92 <= clustered / 400 <= 0.98
    assert naive / 400 < 0.75


def test_a_share_of_exactly_one_or_zero_keeps_an_interval() -> None:
    for groups, right in (([[1.0] * 4] * 6, 6), ([[0.0] * 3, [0.0] * 4, [0.0]], 0), ([[1.0] * 3, [1.0] * 5], 2)):
        assert _series(groups).mean(UNIT) == wilson(right, len(groups))


def test_parts_of_an_episode_are_weighed_by_their_number() -> None:
    series = Series()
    for task, value, size in ((0, 1.0, 4.0), (0, 3.0, 6.0), (1, 0.0, 5.0), (2, 7.0, 0.0), (3, 2.0, 2.0)):
        series.add(task, value, size)
    assert series.share() == ratio_interval([4.0, 0.0, 2.0], [10.0, 5.0, 2.0])
    assert series.mean().value == pytest.approx(6 / 17)
    assert (len(series), series.total) == (4, 6.0)
