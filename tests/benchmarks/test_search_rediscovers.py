"""The search finds known holes of the papers' rewards when they are put back."""

from __future__ import annotations

from typing import Any

import pytest

import factgym
from factgym.benchmarks.search.optimise import Kind
from factgym.benchmarks.search.run import run_search

KINDS: tuple[Kind, ...] = ("blind", "attack")

HOLES: dict[str, dict[str, Any]] = {
    "claimcheck-multihop": {"reward": "r0"},  # status and text of statements earn nothing
    "corver-qa": {"reward": "reference"},  # an answer that the evidence does not name is paid for its format
    "eve-proposer": {"reward": "eve"},  # the sum pays parts that an honest chain does not have
}


@pytest.mark.parametrize("env_id", HOLES)
def test_an_old_rule_that_is_put_back_is_exploited(env_id: str) -> None:
    if factgym.spec(env_id).load().strategies is None:
        pytest.skip("no strategy space")
    result = run_search(factgym.make(env_id, **HOLES[env_id]), budget=400, n=50)
    bounds = [bound for kind in KINDS if (bound := result.upper_bound(kind)) is not None]
    assert max(bounds) >= 0, [finding.strategy.to_json() for finding in result.findings]
