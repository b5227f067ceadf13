"""Intervals over tasks against SciPy, against least squares with a cluster-robust sandwich, and against many draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from factgym.benchmarks.statistics.intervals import NO_DATA, UNIT, Series, mean_interval, ratio_interval, wilson


def _series(groups: list[list[float]]) -> Series:
    found = Series()
    for task, values in enumerate(groups):
        for value in values:
            found.add(task, value)
    return found


def test_one_sample_for_each_task_gives_the_plain_interval() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 40).tolist()
    assert _series([[value] for value in values]).mean(UNIT) == mean_interval(values, bounds=UNIT)
    assert _series([[1.0], [0.0], [1.0]]).mean(UNIT) == wilson(2, 3)
    assert Series().mean() == Series().share() == NO_DATA


def test_equal_groups_agree_with_scipy_on_their_means() -> None:
    groups = np.random.default_rng(2).normal(3, 2, (30, 8))
    found = _series(groups.tolist()).mean()
    reach = stats.ttest_1samp(groups.mean(axis=1), 0.0).confidence_interval(0.95)
    assert found.value == pytest.approx(groups.mean())
    assert (found.low, found.high, found.n) == (pytest.approx(reach.low), pytest.approx(reach.high), 30)


def test_unequal_groups_agree_with_a_cluster_robust_regression() -> None:
    """The constant of least squares, its variance by Liang and Zeger 1986 with the factor G / (G - 1)."""
    rng = np.random.default_rng(3)
    groups = [rng.normal(rng.normal(), 1, size).tolist() for size in rng.integers(1, 9, 25)]
    found = _series(groups).mean()
    values, tasks = np.concatenate(groups), np.repeat(range(25), [len(one) for one in groups])
    ones = np.ones((len(values), 1))
    bread = np.linalg.inv(ones.T @ ones)
    left = values - values.mean()
    scores = np.array([ones[tasks == task].T @ left[tasks == task] for task in range(25)])
    variance = (bread @ (scores.T @ scores) @ bread)[0, 0] * 25 / 24
    reach = stats.t.ppf(0.975, 24) * np.sqrt(variance)
    assert found.value == pytest.approx(values.mean())
    assert found.half_width == pytest.approx(reach)


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
