"""The search finds known holes of the papers' rewards when they are put back."""

from __future__ import annotations

from typing import Any

import pytest

import factgym
from factgym.benchmarks.search.run import SearchResult, run_search


def search(env_id: str, **config: Any) -> SearchResult:
    return run_search(factgym.make(env_id, **config), budget=120, n=20)


@pytest.mark.parametrize(("env_id", "reward"), [("corver-qa", "reference"), ("eve-proposer", "eve")])
def test_an_old_rule_that_is_put_back_is_exploited(env_id: str, reward: str) -> None:
    """CorVer's judge pays an answer that no evidence names; EVE's sum pays parts that an honest chain does not have."""
    result = search(env_id, reward=reward)
    assert not result.passed
    assert any(finding.verdict in ("reaches", "gains") for finding in result.findings)


def test_r0_does_not_notice_statements_that_were_never_written() -> None:
    unpaid = [strategy.to_json()["entries"] for strategy in search("claimcheck-multihop", reward="r0").unpaid]
    assert "renamed" in unpaid
    result = search("claimcheck-multihop")
    assert "renamed" not in [strategy.to_json()["entries"] for strategy in result.unpaid]
