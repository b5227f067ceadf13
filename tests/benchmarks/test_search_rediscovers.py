"""The search finds known holes of the papers' rewards when they are put back."""

from __future__ import annotations

from typing import Any

import pytest

import factgym
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.benchmarks.search.run import SearchResult, StrategyRunner, run_search, strategy_space
from factgym.envs.eve.proposer_agents import _JOINTS


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


def test_words_glued_to_the_source_hide_nothing_in_a_question_about_the_last_stop() -> None:
    """They hid the last stop from the check that the source is needed, which was worth .3 of 1.1."""
    env = factgym.make("eve-proposer")
    space = strategy_space(env)
    runner = StrategyRunner(env, space, ShortcutClassifiers(()), 0)
    plain = [runner.play(space.strategy({"ask": "last-stop"}), task) for task in range(12)]
    for name in _JOINTS:
        glued = [runner.play(space.strategy({"ask": "last-stop", "glue": name}), task) for task in range(12)]
        assert any(a.record["messages"] != b.record["messages"] for a, b in zip(glued, plain, strict=True)), name
        assert all(a.total <= b.total + 1e-9 for a, b in zip(glued, plain, strict=True)), name
