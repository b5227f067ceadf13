"""SEVA's two propositions, checked numerically: what holds, and where the paper's own statement does not.

Proposition 1 gives the expected variance of a Bernoulli group as G/(G−1) · q(1−q) "of the unbiased estimator". The
unbiased estimator's expectation is q(1−q), which is what unbiased means; the biased one's is (G−1)/G · q(1−q). The
conclusion stands: both vanish as q goes to 0 or 1, and the expected size of an advantage with them. That each advantage
vanishes does not: the lone success of a group keeps the largest advantage that there is.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from seva_outputs import NEGATIVE, aligned, output, step

from factgym.rewards.advantages import collapse, group_advantages
from factgym.rewards.seva.output import output_of
from factgym.rewards.seva.rubrics import PROCESS
from factgym.rewards.seva.scoring import score_output

G = 8


def exact(q: float, value) -> float:
    """The expectation of `value(group)` over all 2^G groups of Bernoulli(q) rewards."""
    groups = np.array(list(product((0.0, 1.0), repeat=G)))
    wins = groups.sum(axis=1)
    return float((q**wins * (1 - q) ** (G - wins) * value(groups)).sum())


@pytest.mark.parametrize("q", [0.01, 0.1, 0.37, 0.5, 0.9])
def test_proposition_1_variance_of_a_bernoulli_group(q):
    unbiased = exact(q, lambda groups: groups.var(axis=1, ddof=1))
    assert unbiased == pytest.approx(q * (1 - q))
    assert exact(q, lambda groups: groups.var(axis=1)) == pytest.approx((G - 1) / G * q * (1 - q))
    printed = G / (G - 1) * q * (1 - q)
    assert printed > unbiased
    if q == 0.37:
        assert printed == pytest.approx(0.27, abs=0.005)  # the paper's number, as the upper bound that it calls it


def test_proposition_1_by_simulation():
    rng = np.random.default_rng(0)
    for q in (0.1, 0.37):
        rewards = (rng.random((40_000, G)) < q).astype(float)
        report = collapse(rewards)
        assert report.reward == pytest.approx(q, abs=0.005)
        assert rewards.var(axis=1, ddof=1).mean() == pytest.approx(q * (1 - q), rel=0.02)
        assert report.zero_variance == pytest.approx(q**G + (1 - q) ** G, abs=0.01)


def test_proposition_1_advantages_vanish_on_average_and_not_one_by_one():
    sizes = [exact(q, lambda groups: np.abs(group_advantages(groups)).mean(axis=1)) for q in (0.37, 0.1, 0.01, 0.001)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.01 < 0.5 < sizes[0]
    # At q = .001 a group with a success is rare; where there is one, its advantage is as large as any.
    assert group_advantages([1, *[0] * (G - 1)])[0] == pytest.approx(7 / math.sqrt(8), rel=1e-3)
    # So at the paper's q of .37 a batch of 64 groups spans more than two deviations, not ±.05.
    rewards = (np.random.default_rng(1).random((64, G)) < 0.37).astype(float)
    assert collapse(rewards).advantage_max > 2.0


def test_proposition_2_the_identity_and_the_lower_bound():
    """σ²(R) is the sum over the covariance matrix, and at least w_k² σ_k² for a component that is independent."""
    rng = np.random.default_rng(2)
    n = 200_000
    shared = rng.random(n)
    components = np.stack([rng.random(n) < 0.72, shared, np.clip(shared + 0.1, 0, 1), rng.random(n) < 0.6]).astype(
        float
    )
    weights = np.array([0.10, 0.30, 0.30, 0.15])
    total = weights @ components
    assert total.var() == pytest.approx(weights @ np.cov(components, ddof=0) @ weights)
    for k in (0, 3):
        assert total.var() >= weights[k] ** 2 * components[k].var()
        rest = weights @ components - weights[k] * components[k]
        assert abs(np.corrcoef(components[k], rest)[0, 1]) < 0.01


def test_proposition_2_pairs_that_are_not_perfectly_anti_correlated_may_still_cancel():
    """The paper's remark that only perfect anti-correlation can drive the variance to 0 is true of two components."""
    corners = np.eye(3)
    assert corners.sum(axis=1).var() == 0.0
    assert all(corners[:, k].var() > 0 for k in range(3))
    assert np.corrcoef(corners.T)[0, 1] == pytest.approx(-0.5)


def test_proposition_2_for_the_real_reward():
    """Format alone differs between outputs (28 % do not parse): the variance is at least what the format gives."""
    rng = np.random.default_rng(3)
    good = score_output(output_of(output(label="Attributable", confidence=0.5)), NEGATIVE)
    bad = score_output(None, NEGATIVE)
    value = {True: PROCESS.total(good.components, {}), False: PROCESS.total(bad.components, {})}
    parsed = rng.random((2_000, G)) >= 0.28
    rewards = np.where(parsed, value[True], value[False])
    assert rewards.var(axis=1, ddof=1).mean() >= 0.10**2 * 0.28 * 0.72
    assert collapse(rewards).zero_variance == pytest.approx(0.72**G + 0.28**G, abs=0.02)


def test_where_binary_sees_one_value_process_sees_many():
    """All wrong labels: the binary group is flat, the process group is ordered by its work."""
    group = [
        output(label="Attributable", reasoning_chain=[step("a", "supported", "12345", "1234567890")] * 3),
        output(label="Attributable", reasoning_chain=[step("a", "supported")]),
        output(label="Attributable", evidence_alignment=[aligned("", "", "match")]),
        output(label="Attributable", evidence_alignment=[], reasoning_chain=[]),
    ]
    scores = [score_output(output_of(data), NEGATIVE) for data in group]
    totals = [PROCESS.total(score.components, score.gates) for score in scores]
    assert collapse([[score.components["label"] for score in scores]]).zero_variance == 1.0
    assert collapse([totals]).zero_variance == 0.0
    advantages = group_advantages(totals)
    assert advantages[0] == advantages.max()
    assert advantages[-1] == advantages.min()
