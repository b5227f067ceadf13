"""Intervals against scipy.stats, which computes them in other ways, and against their promise by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from factgym.benchmarks.statistics.intervals import (
    NO_DATA,
    Estimate,
    macro_interval,
    mean_interval,
    ratio_interval,
    wilson,
)


@pytest.mark.parametrize("n", [1, 2, 7, 50, 500, 5000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_wilson_agrees_with_scipy(n: int, share: float, level: float) -> None:
    successes = round(n * share)
    found = wilson(successes, n, level)
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert found.value == successes / n
    assert found.low == pytest.approx(expected.low, abs=1e-12)
    assert found.high == pytest.approx(expected.high, abs=1e-12)


def test_wilson_of_a_textbook_case() -> None:
    """Newcombe (1998), Statistics in Medicine 17: 81 of 263 gives 0.2553 to 0.3662 by the score method."""
    found = wilson(81, 263)
    assert (found.low, found.high) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))


def test_wilson_without_data_and_out_of_range() -> None:
    assert wilson(0, 0) == NO_DATA
    for successes in (-1, 4):
        with pytest.raises(ValueError, match="out of 3"):
            wilson(successes, 3)


def test_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).normal(0.4, 0.2, 37).tolist()
    expected = stats.t.interval(0.95, 36, loc=np.mean(values), scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.value, found.n) == (pytest.approx(np.mean(values)), 37)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_mean_of_few_values() -> None:
    assert mean_interval([]) == NO_DATA
    assert mean_interval([0.3]) == Estimate(0.3, None, None, 1)
    assert mean_interval([0.3, 0.3]) == Estimate(0.3, 0.3, 0.3, 2)


def test_a_mean_of_zeros_and_ones_is_a_proportion_only_on_its_scale() -> None:
    assert mean_interval([1.0] * 9 + [0.0], bounds=(0.0, 1.0)) == wilson(9, 10)
    turns = mean_interval([1.0] * 9)
    assert (turns.low, turns.high) == (1.0, 1.0)


def test_bounds_cut_the_interval_but_not_the_value() -> None:
    found = mean_interval([0.0, 1.0, 0.5], bounds=(0.0, 1.0))
    assert found == Estimate(0.5, 0.0, 1.0, 3)


def test_a_ratio_of_equal_clusters_is_the_mean_of_their_shares() -> None:
    tops = [0.0, 2.0, 4.0, 1.0, 3.0]
    expected = mean_interval([top / 4 for top in tops], bounds=(0.0, 1.0))
    found = ratio_interval(tops, [4.0] * 5)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_a_ratio_of_nothing_keeps_an_upper_bound_over_episodes() -> None:
    found = ratio_interval([0.0] * 40, [6.0] * 40)
    assert (found.value, found.low, found.high) == (0.0, 0.0, wilson(0, 40).high)
    assert ratio_interval([0.0], [0.0]) == NO_DATA


def test_macro_of_equal_parts_and_of_perfect_parts() -> None:
    part = wilson(60, 100)
    found = macro_interval([part] * 4)
    assert found.value == pytest.approx(0.6)
    assert found.half_width == pytest.approx((part.half_width or 0) / 2)
    perfect = macro_interval([wilson(20, 20)] * 5)
    assert perfect.value == perfect.high == 1.0
    assert perfect.low is not None and 0.9 < perfect.low < 1.0
    assert macro_interval([NO_DATA]) == NO_DATA


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_an_interval_holds_its_value(values: list[float]) -> None:
    found = mean_interval(values, bounds=(0.0, 1.0))
    assert found.value is not None and found.low is not None and found.high is not None
    assert 0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1


def _coverage(estimates: list[Estimate], truth: float) -> float:
    return float(np.mean([one.low <= truth <= one.high for one in estimates if one.low is not None and one.high]))


def test_a_mean_is_covered_as_often_as_promised() -> None:
    """Rewards as they come: a lump near 1, a lump in the middle, some at 0. The seed is fixed: no chance of failing."""
    rng = np.random.default_rng(2)
    for n, least in ((20, 0.91), (100, 0.935)):
        draws = rng.choice([0.0, 0.35, 0.65, 0.97, 1.0], p=[0.07, 0.13, 0.2, 0.2, 0.4], size=(2000, n))
        truth = 0.35 * 0.13 + 0.65 * 0.2 + 0.97 * 0.2 + 0.4
        found = _coverage([mean_interval(row.tolist(), bounds=(0.0, 1.0)) for row in draws], truth)
        assert least <= found <= 0.97


def test_a_rate_over_turns_is_covered_although_turns_of_an_episode_are_alike() -> None:
    """Malformed turns come in bursts: the naive interval over turns would cover far less often."""
    rng = np.random.default_rng(3)
    found, naive = [], []
    for _ in range(1000):
        turns = rng.integers(2, 9, 150)
        rate = rng.beta(0.3, 1.2, 150)
        bad = rng.binomial(turns, rate)
        found.append(ratio_interval(bad.tolist(), turns.tolist()))
        naive.append(wilson(int(bad.sum()), int(turns.sum())))
    assert 0.92 <= _coverage(found, 0.2) <= 0.97
    assert _coverage(naive, 0.2) < 0.85


def test_macro_recall_is_covered() -> None:
    rng = np.random.default_rng(4)
    rates = np.array([0.95, 0.8, 0.6, 0.99, 0.7])
    draws = rng.binomial(30, rates, size=(2000, 5))
    found = [macro_interval([wilson(int(k), 30) for k in row]) for row in draws]
    assert 0.93 <= _coverage(found, float(rates.mean())) <= 0.98
