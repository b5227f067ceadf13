"""Stepwise advantages: the formula by hand and by torch, padding, faults, and what is refused."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import group_advantages, stepwise_advantages


def by_hand(returns: list[list[float]], eps: float) -> list[list[float]]:
    """One group of completions with their own lengths, none of them a fault."""
    means = [math.fsum(one) / len(one) for one in returns]
    mean, std = math.fsum(means) / len(means), statistics.stdev(means)
    return [[(value - mean) / (std + eps) for value in one] for one in returns]


def padded(rows: list[list[float]], fill: float) -> tuple[np.ndarray, np.ndarray]:
    width = max(map(len, rows))
    values = np.array([one + [fill] * (width - len(one)) for one in rows])
    mask = np.array([[1] * len(one) + [0] * (width - len(one)) for one in rows])
    return values, mask


value = st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3))
groups = st.lists(st.lists(value, min_size=1, max_size=9), min_size=2, max_size=6)


@settings(max_examples=300, deadline=None)
@given(groups, st.sampled_from([0.0, 99.0, float("nan"), float("inf")]))
def test_the_formula(rows: list[list[float]], fill: float) -> None:
    values, mask = padded(rows, fill)
    found = stepwise_advantages(values, mask)
    wanted, _ = padded(by_hand(rows, 1e-4), 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-7)


@settings(max_examples=100, deadline=None)
@given(groups)
def test_torch_computes_the_same(rows: list[list[float]]) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'local'")
    values, mask = padded(rows, 0.0)
    returns, kept = torch.tensor(values), torch.tensor(mask, dtype=torch.float64)
    means = (returns * kept).sum(-1) / kept.sum(-1).clamp(min=1)
    wanted = (returns - means.mean()) / (means.std() + 1e-4) * kept
    np.testing.assert_allclose(stepwise_advantages(values, mask), wanted.numpy(), rtol=1e-9, atol=1e-7)


def test_equal_returns_within_completions_give_the_group_s_advantages() -> None:
    rewards = np.array([[3.0, 1.0, -1.0, 0.5], [1.0, 2.0, 2.0, -3.0]])
    returns = np.repeat(rewards[:, :, None], 5, axis=2)
    found = stepwise_advantages(returns, np.ones_like(returns))
    np.testing.assert_allclose(found, np.repeat(group_advantages(rewards)[:, :, None], 5, axis=2))


def test_groups_do_not_see_each_other() -> None:
    rng = np.random.default_rng(0)
    returns, mask = rng.normal(size=(3, 4, 6)), rng.random((3, 4, 6)) < 0.7
    together = stepwise_advantages(returns, mask)
    for i in range(3):
        np.testing.assert_allclose(together[i], stepwise_advantages(returns[i], mask[i]))


def test_a_fault_is_left_out_and_has_no_advantages() -> None:
    rows = [[1.0, 2.0], [float("nan")] * 2, [0.0, 0.0, 3.0]]
    values, mask = padded(rows, 0.0)
    found = stepwise_advantages(values, mask)
    assert not found[1].any()
    wanted, _ = padded(by_hand([rows[0], rows[2]], 1e-4), 0.0)
    np.testing.assert_allclose(found[[0, 2]], wanted)


def test_a_completion_without_tokens_is_left_out() -> None:
    values, mask = np.array([[1.0], [3.0], [7.0]]), np.array([[1], [1], [0]])
    np.testing.assert_allclose(stepwise_advantages(values, mask)[:2], stepwise_advantages(values[:2], mask[:2]))


def test_one_scored_completion_teaches_nothing() -> None:
    values = np.array([[1.0, 2.0], [float("nan")] * 2])
    assert not stepwise_advantages(values, np.ones((2, 2))).any()


def test_equal_means_follow_the_formula_or_give_nothing() -> None:
    values = np.array([[0.1, -0.1], [-0.1, 0.1]])
    mask = np.ones((2, 2))
    np.testing.assert_allclose(stepwise_advantages(values, mask), values / 1e-4)
    assert not stepwise_advantages(values, mask, equal="zero").any()
    assert not stepwise_advantages([[0.1] * 3, [0.1, 0.1, 0.0]], [[1, 1, 1], [1, 1, 0]], equal="zero").any()


def test_options() -> None:
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
def test_what_does_not_fit_is_refused(returns: object, mask: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stepwise_advantages(returns, mask, **options)  # type: ignore[arg-type]
