"""Appendix B against simulation and exact sums: φ_n and its maximiser, the value's mean and variance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.rewards.eve import (
    EveRules,
    best_success_rate,
    brevity,
    count_tokens,
    difficulty,
    evidence_value,
    log_prob_value,
    phi,
)

ROLLOUTS = st.integers(2, 12)
CHANCES = st.floats(0, 1)


@settings(max_examples=200, deadline=None)
@given(ROLLOUTS, CHANCES)
def test_phi_is_the_mean_of_the_difficulty(n: int, p: float) -> None:
    exact = math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) * difficulty(k, n) for k in range(n + 1))
    assert phi(p, n) == pytest.approx(exact, abs=1e-12)
    assert 0 <= phi(p, n) <= 1


def test_phi_is_what_sampled_rollouts_earn() -> None:
    rng = np.random.default_rng(8)
    for n, p in ((2, 0.5), (5, 0.331), (5, 0.9), (8, 0.1)):
        earned = [difficulty(int(k), n) for k in rng.binomial(n, p, size=40_000)]
        error = np.std(earned) / math.sqrt(len(earned))
        assert abs(np.mean(earned) - phi(p, n)) < 5 * error


@pytest.mark.parametrize("n", range(2, 30))
def test_the_maximiser_is_the_maximum(n: int) -> None:
    grid = np.linspace(0, 1, 20_001)
    values = [phi(float(p), n) for p in grid]
    best = best_success_rate(n)
    assert abs(grid[int(np.argmax(values))] - best) <= 1 / 20_000
    assert phi(best, n) >= max(values) - 1e-15
    rising, falling = np.diff(values)[grid[1:] < best], np.diff(values)[grid[:-1] > best]
    assert (rising > 0).all()
    assert (falling < 0).all()


def test_numbers_worked_out_by_hand() -> None:
    assert best_success_rate(2) == pytest.approx(0.5)
    assert best_success_rate(5) == pytest.approx(1 - 5**-0.25)
    assert [difficulty(k, 5) for k in range(6)] == [0, 1, 0.75, 0.5, 0.25, 0]
    assert [difficulty(k, 2) for k in range(3)] == [0, 1, 0]
    assert phi(0, 5) == phi(1, 5) == 0


@pytest.mark.parametrize("m", [1, 2, 5, 20])
@pytest.mark.parametrize(("with_evidence", "without"), [(0.5, 0.5), (0.9, 0.2), (0.1, 0.6), (1.0, 0.0)])
def test_the_value_is_unbiased_and_of_bounded_variance(m: int, with_evidence: float, without: float) -> None:
    rng = np.random.default_rng(m)
    trials = 6_000
    plus, minus = rng.random((trials, m)) < with_evidence, rng.random((trials, m)) < without
    found = np.array([evidence_value(list(a), list(b)) for a, b in zip(plus, minus, strict=True)])
    variance = (with_evidence * (1 - with_evidence) + without * (1 - without)) / m
    assert abs(found.mean() - (with_evidence - without)) <= 5 * math.sqrt(variance / trials) + 1e-12
    assert found.var() == pytest.approx(variance, rel=0.12, abs=1e-12)
    assert variance <= 1 / (2 * m)
    assert (np.abs(found) <= 1).all()


def test_the_worst_case_reaches_the_bound() -> None:
    halves = [(a, b) for a in (False, True) for b in (False, True)]
    values = [evidence_value([a], [b]) for a, b in halves]
    assert np.var(values) == pytest.approx(1 / 2)


def test_sides_may_differ_in_number() -> None:
    assert evidence_value([True, True, False], [True, False]) == pytest.approx(2 / 3 - 1 / 2)
    for plus, minus in (([], [True]), ([True], [])):
        with pytest.raises(ConfigError, match="at least one answer"):
            evidence_value(plus, minus)


LOGS = st.lists(st.floats(-20, 0), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(LOGS, LOGS)
def test_log_probabilities_give_the_difference_of_probabilities(plus: list[float], minus: list[float]) -> None:
    product = math.prod(map(math.exp, plus)) - math.prod(map(math.exp, minus))
    assert log_prob_value(plus, minus) == pytest.approx(product, abs=1e-12)
    means = math.exp(np.mean(plus)) - math.exp(np.mean(minus))
    assert log_prob_value(plus, minus, per_token=True) == pytest.approx(means, abs=1e-12)
    assert -1 <= log_prob_value(plus, minus) <= 1


def test_sampling_agrees_with_log_probabilities() -> None:
    """Answers sampled token by token from a model are right as often as the log-probabilities say."""
    rng = np.random.default_rng(3)
    with_evidence, without = np.array([0.9, 0.8]), np.array([0.3, 0.5])
    draws = 40_000
    plus = (rng.random((draws, 2)) < with_evidence).all(axis=1)
    minus = (rng.random((draws, 2)) < without).all(axis=1)
    exact = log_prob_value(np.log(with_evidence).tolist(), np.log(without).tolist())
    assert abs(evidence_value(plus.tolist(), minus.tolist()) - exact) < 0.02


def test_log_probabilities_are_checked() -> None:
    assert log_prob_value([-math.inf], [0.0]) == -1.0
    for bad in ([], [0.1], [math.nan]):
        with pytest.raises(ConfigError, match="log-prob"):
            log_prob_value(bad, [0.0])


def test_brevity_falls_to_zero_at_the_limit() -> None:
    assert brevity("") == 1.0
    assert brevity("x " * 64) == 0.75
    assert brevity("x " * 256) == brevity("x " * 900) == 0.0
    assert brevity("abcd", EveRules(max_evidence_tokens=8), count=len) == 0.5
    assert count_tokens("Mr. O'Neil's 3,000 cafés…") == 12


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 1), (0, 0)])
def test_impossible_counts_are_refused(k: int, n: int) -> None:
    with pytest.raises(ConfigError):
        difficulty(k, n)


@pytest.mark.parametrize(
    "settings_",
    [
        {"n": 1},
        {"m": 0},
        {"lambda_v": -0.1},
        {"lambda_b": math.nan},
        {"n": 2.5},
        {"hop_weights": ()},
        {"hop_weights": (0.0, 0.0)},
        {"max_evidence_share": 1.5},
        {"short_answer_words": 11},
    ],
)
def test_rules_out_of_range_are_refused(settings_: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="EveRules"):
        EveRules(**settings_)  # type: ignore[arg-type]


def test_hops_are_asked_for_four_to_three_to_two_to_one() -> None:
    assert EveRules().hop_pmf == pytest.approx((0.4, 0.3, 0.2, 0.1))
