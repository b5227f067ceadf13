"""Tokens, requests, seconds and money of a run against numbers worked out by hand and against a plain recount."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import fake_runs
import numpy as np
import pytest

from factgym.benchmarks.costs import UNNAMED, Price, PriceTable, UsageSummary, model_of
from factgym.benchmarks.metrics import summarise

Json = dict[str, Any]
TABLE = PriceTable("USD", {"small": Price(0.1, 0.4, 0.05), "large": Price(2.5, 10.0)})


def _turn(prompt: int, completion: int, model: str | None = "small", **more: Any) -> Json:
    said = {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}, "finish_reason": "stop"}
    said |= {"model": model} if model else {}
    return {"message": 2, "calls": [], "observation": "", "error": None, "completion": said | more}


def _episode(task: str, turns: list[Json], verdict: str | None = "supported", **more: Any) -> Json:
    spent = [turn["completion"].get("usage", {}) for turn in turns if turn["completion"]]
    usage = {kind: sum(one.get(kind, 0) for one in spent) for kind in ("prompt_tokens", "completion_tokens")}
    reward = fake_runs.report(0.5, metrics={"gold_verdict": "supported", "verdict": verdict})
    base = {"env": "e", "agent": "a", "stop": "submitted", "error": None, "reward": reward, "task": task}
    return {**base, "turns": turns, "usage": usage | {"requests": len(turns)}, **more}


FAULT = {"error": {"cause": "timeout", "message": "no answer"}, "stop": "error", "reward": None}


def _usage(*episodes: Json, prices: PriceTable | None = TABLE, model: str | None = None) -> UsageSummary:
    found = summarise(episodes, prices, model=model).usage
    assert found is not None
    return found


def test_tokens_by_hand() -> None:
    found = _usage(
        _episode("a", [_turn(100, 10), _turn(200, 30)]),
        _episode("b", [_turn(60, 20)], None, stop="turn_limit"),
        _episode("c", [_turn(1000, 500)], **FAULT),
    )
    assert {kind: one.total for kind, one in found.tokens.items()} == {"prompt_tokens": 1360, "completion_tokens": 560}
    assert found.tokens["prompt_tokens"].per_episode.value == 180
    assert found.tokens["completion_tokens"].per_episode.value == 30
    assert (found.total, found.verdicts, found.per_verdict) == (1920, 1, 1920)
    assert found.requests == 4
    assert "reasoning_tokens" not in found.tokens, "no record names them"


def test_money_by_hand() -> None:
    """Exact fractions; the fault is paid for like the rest, and its cost falls on the verdicts of the others."""
    cached = _turn(1000, 100)
    cached["completion"]["usage"]["cached_tokens"] = 600
    found = _usage(
        _episode("a", [cached, _turn(300, 70, "large")]),
        _episode("b", [_turn(50, 5)]),
        _episode("c", [_turn(20_000, 0)], **FAULT),
    ).money
    per = Fraction(1, 10**6)
    a = per * (400 * Fraction("0.1") + 600 * Fraction("0.05") + 100 * Fraction("0.4"))
    a += per * (300 * Fraction("2.5") + 70 * 10)
    b = per * (50 * Fraction("0.1") + 5 * Fraction("0.4"))
    c = per * 20_000 * Fraction("0.1")
    assert found is not None and found.per_episode is not None
    assert found.total == pytest.approx(float(a + b + c), abs=1e-9)
    assert found.per_episode.value == pytest.approx(float((a + b) / 2), abs=1e-9)
    assert found.per_verdict == pytest.approx(float((a + b + c) / 2), abs=1e-9)
    assert (found.currency, found.unpriced, found.unmetered) == ("USD", {}, 0)


def test_a_turn_that_names_no_model_is_the_agents() -> None:
    turns = [_turn(100, 10, None)]
    found = _usage(_episode("a", turns), model="large").money
    assert found is not None and found.total == pytest.approx(100 * 2.5e-6 + 10 * 1e-5, abs=1e-12)
    unnamed = _usage(_episode("a", turns)).money
    assert unnamed is not None
    assert (unnamed.total, unnamed.per_episode, unnamed.unpriced) == (0.0, None, {UNNAMED: 110})


def test_a_model_without_a_price_leaves_only_a_partial_sum() -> None:
    found = _usage(_episode("a", [_turn(100, 0), _turn(7, 3, "unheard-of")])).money
    assert found is not None
    assert found.total == pytest.approx(1e-5)
    assert (found.per_episode, found.per_verdict) == (None, None)
    assert found.unpriced == {"unheard-of": 10}


def test_what_no_turn_accounts_for_is_paid_as_well() -> None:
    """A reply whose turn was never finished is in the episode's usage only."""
    usage = {"prompt_tokens": 300, "completion_tokens": 40, "requests": 2}
    found = _usage(_episode("a", [_turn(100, 10, "large")], usage=usage), model="small").money
    assert found is not None and found.total == pytest.approx(300 * 2.5e-6 + 40 * 1e-5, abs=1e-12)


def test_an_episode_without_counts_is_said_and_not_guessed() -> None:
    silent = {**_episode("b", [{**_turn(0, 0), "completion": {}}]), "usage": {"requests": 3}}
    found = _usage(_episode("a", [_turn(100, 10)]), silent)
    assert found.tokens["prompt_tokens"].per_episode.n == 1
    assert found.requests == 4
    assert found.money is not None
    assert (found.money.unmetered, found.money.per_episode) == (1, None)
    alone = _usage(silent)
    assert (alone.total, alone.per_verdict, alone.tokens, alone.requests) == (None, None, {}, 3)


def test_a_fault_before_the_first_reply_hides_no_cost() -> None:
    found = _usage(_episode("a", [_turn(100, 10)]), {**_episode("b", [], **FAULT), "usage": None}).money
    assert found is not None and found.per_episode is not None
    assert (found.unmetered, found.per_episode.value) == (0, pytest.approx(1.4e-5))


def test_the_manifest_names_the_model() -> None:
    assert model_of({"agent_details": {"model": "m"}}) == "m"
    assert model_of({"agent_details": {"kind": "user", "describe": {"model": "m"}}}) == "m"
    for other in ({}, {"agent_details": None}, {"agent_details": {"model": 3}}, {"agent_details": {"model": ""}}):
        assert model_of(other) is None


def test_retries_and_truncated_replies_are_counted() -> None:
    retries = [{"cause": "rate_limit", "waited": 1.5}, {"cause": "timeout", "waited": 4.0}]
    found = _usage(
        _episode("a", [_turn(1, 1, retries=retries), _turn(1, 1, finish_reason="length"), _turn(1, 1)]),
        _episode("b", [_turn(1, 1, finish_reason="tool_calls", retries=retries[:1])]),
        _episode("c", [_turn(1, 1, finish_reason=None)]),
    )
    assert (found.retries, found.waited) == ({"rate_limit": 2, "timeout": 1}, 7.0)
    assert found.truncated.value == pytest.approx(1 / 4), "one of the four replies whose end is known"


def test_seconds_are_means_over_turns() -> None:
    turns = [{**_turn(1, 1), "seconds": {"model": s, "tool": s / 10}} for s in (1.0, 2.0, 6.0)]
    found = _usage(_episode("a", turns[:2]), _episode("b", turns[2:]), _episode("c", [_turn(1, 1)]))
    assert {kind: one.value for kind, one in found.seconds.items()} == {
        "model": pytest.approx(3.0),
        "tool": pytest.approx(0.3),
    }


def test_a_scripted_agent_took_nothing() -> None:
    silent = {"completion": None, "message": 2, "calls": [], "error": None}
    assert summarise([{**_episode("a", []), "turns": [silent], "usage": None}], TABLE).usage is None


@pytest.mark.parametrize("odd", [None, 7, "x", [], [1], {"prompt_tokens": "7", "completion_tokens": True}, {"a": 1}])
def test_odd_shapes_are_unknown_not_a_crash(odd: Any) -> None:
    turn = {"message": 2, "calls": [], "error": None, "completion": odd, "seconds": odd}
    asked = {"message": 2, "calls": [], "error": None, "completion": {"usage": odd, "retries": odd, "model": odd}}
    found = summarise([{**_episode("a", []), "turns": [turn, asked], "usage": odd}], TABLE).usage
    assert found is None or (found.total is None and found.tokens == {})


def test_a_larger_run_agrees_with_a_plain_recount() -> None:
    episodes = [one for i in range(40) for one in fake_runs.group(i, 4)]
    found = _usage(*episodes)
    played = [one for one in episodes if one["error"] is None]
    assert len(played) < len(episodes)
    for kind, tokens in found.tokens.items():
        assert tokens.total == sum(one["usage"][kind] for one in episodes)
        assert tokens.per_episode.value == pytest.approx(np.mean([one["usage"][kind] for one in played]))
        assert tokens.per_episode.n == len({one["task"] for one in played})
    assert found.requests == sum(one["usage"]["requests"] for one in episodes)
    replies = [turn["completion"] for one in episodes for turn in one["turns"]]
    assert found.truncated.value == pytest.approx(np.mean([one["finish_reason"] == "length" for one in replies]))
    assert sum(found.retries.values()) == sum(len(one["retries"]) for one in replies)
    assert found.verdicts == sum(one["reward"]["metrics"]["verdict"] is not None for one in played)
