"""Tokens, requests, seconds and money of a run against numbers worked out by hand and against a plain recount."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import fake_runs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.benchmarks.costs import UNNAMED, Price, PriceTable, UsageSummary, cost, model_of, read_prices
from factgym.benchmarks.metrics import summarise
from factgym.core.errors import ConfigError

Json = dict[str, Any]
TABLE = PriceTable("USD", {"small": Price(0.1, 0.4, 0.05), "large": Price(2.5, 10.0)})


def _turn(prompt: int, completion: int, model: str | None = "small", **more: Any) -> Json:
    completion_data = {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}, "finish_reason": "stop"}
    completion_data |= {"model": model} if model else {}
    return {"message": 2, "calls": [], "observation": "", "error": None, "completion": completion_data | more}


def _episode(task: str, turns: list[Json], verdict: str | None = "supported", **more: Any) -> Json:
    spent = [turn["completion"].get("usage", {}) for turn in turns if turn["completion"]]
    usage = {kind: sum(item.get(kind, 0) for item in spent) for kind in ("prompt_tokens", "completion_tokens")}
    reward = fake_runs.report(0.5, metrics={"gold_verdict": "supported", "verdict": verdict})
    base = {"env": "e", "agent": "a", "stop": "submitted", "error": None, "reward": reward, "task": task}
    return {**base, "turns": turns, "usage": usage | {"requests": len(turns)}, **more}


FAULT = {"error": {"cause": "timeout", "message": "no answer"}, "stop": "error", "reward": None}


def _usage(*episodes: Json, prices: PriceTable | None = TABLE, model: str | None = None) -> UsageSummary:
    result = summarise(episodes, prices, model=model).usage
    assert result is not None
    return result


def test_tokens_by_hand() -> None:
    result = _usage(
        _episode("a", [_turn(100, 10), _turn(200, 30)]),
        _episode("b", [_turn(60, 20)], None, stop="turn_limit"),
        _episode("c", [_turn(1000, 500)], **FAULT),
    )
    assert {kind: item.total for kind, item in result.tokens.items()} == {
        "prompt_tokens": 1360,
        "completion_tokens": 560,
    }
    assert result.tokens["prompt_tokens"].per_episode.value == 180
    assert result.tokens["completion_tokens"].per_episode.value == 30
    assert (result.total, result.verdicts, result.per_verdict) == (1920, 1, 1920)
    assert result.requests == 4
    assert "reasoning_tokens" not in result.tokens, "no record names them"


def test_money_by_hand() -> None:
    """Exact fractions; the fault is paid for like the rest, and its cost falls on the verdicts of the others."""
    cached = _turn(1000, 100)
    cached["completion"]["usage"]["cached_tokens"] = 600
    result = _usage(
        _episode("a", [cached, _turn(300, 70, "large")]),
        _episode("b", [_turn(50, 5)]),
        _episode("c", [_turn(20_000, 0)], **FAULT),
    ).money
    per = Fraction(1, 10**6)
    a = per * (400 * Fraction("0.1") + 600 * Fraction("0.05") + 100 * Fraction("0.4"))
    a += per * (300 * Fraction("2.5") + 70 * 10)
    b = per * (50 * Fraction("0.1") + 5 * Fraction("0.4"))
    c = per * 20_000 * Fraction("0.1")
    assert result is not None and result.per_episode is not None
    assert result.total == pytest.approx(float(a + b + c), abs=1e-9)
    assert result.per_episode.value == pytest.approx(float((a + b) / 2), abs=1e-9)
    assert result.per_verdict == pytest.approx(float((a + b + c) / 2), abs=1e-9)
    assert (result.currency, result.unpriced, result.unmetered) == ("USD", {}, 0)


def test_a_turn_that_names_no_model_is_the_agents() -> None:
    turns = [_turn(100, 10, None)]
    result = _usage(_episode("a", turns), model="large").money
    assert result is not None and result.total == pytest.approx(100 * 2.5e-6 + 10 * 1e-5, abs=1e-12)
    unnamed = _usage(_episode("a", turns)).money
    assert unnamed is not None
    assert (unnamed.total, unnamed.per_episode, unnamed.unpriced) == (0.0, None, {UNNAMED: 110})


def test_a_model_without_a_price_leaves_only_a_partial_sum() -> None:
    result = _usage(_episode("a", [_turn(100, 0), _turn(7, 3, "unheard-of")])).money
    assert result is not None
    assert result.total == pytest.approx(1e-5)
    assert (result.per_episode, result.per_verdict) == (None, None)
    assert result.unpriced == {"unheard-of": 10}


def test_tokens_beyond_those_of_the_turns_are_paid() -> None:
    """A reply whose turn was never finished is in the episode's usage only."""
    usage = {"prompt_tokens": 300, "completion_tokens": 40, "requests": 2}
    result = _usage(_episode("a", [_turn(100, 10, "large")], usage=usage), model="small").money
    assert result is not None and result.total == pytest.approx(300 * 2.5e-6 + 40 * 1e-5, abs=1e-12)


def test_an_episode_without_counts_is_reported_and_not_guessed() -> None:
    silent = {**_episode("b", [{**_turn(0, 0), "completion": {}}]), "usage": {"requests": 3}}
    result = _usage(_episode("a", [_turn(100, 10)]), silent)
    assert result.tokens["prompt_tokens"].per_episode.n == 1
    assert result.requests == 4
    assert result.money is not None
    assert (result.money.unmetered, result.money.per_episode) == (1, None)
    alone = _usage(silent)
    assert (alone.total, alone.per_verdict, alone.tokens, alone.requests) == (None, None, {}, 3)


def test_a_fault_before_the_first_reply_hides_no_cost() -> None:
    result = _usage(_episode("a", [_turn(100, 10)]), {**_episode("b", [], **FAULT), "usage": None}).money
    assert result is not None and result.per_episode is not None
    assert (result.unmetered, result.per_episode.value) == (0, pytest.approx(1.4e-5))


def test_the_manifest_names_the_model() -> None:
    assert model_of({"agent_details": {"model": "m"}}) == "m"
    assert model_of({"agent_details": {"kind": "user", "describe": {"model": "m"}}}) == "m"
    for second in ({}, {"agent_details": None}, {"agent_details": {"model": 3}}, {"agent_details": {"model": ""}}):
        assert model_of(second) is None


def test_retries_and_truncated_replies_are_counted() -> None:
    retries = [{"cause": "rate_limit", "waited": 1.5}, {"cause": "timeout", "waited": 4.0}]
    result = _usage(
        _episode("a", [_turn(1, 1, retries=retries), _turn(1, 1, finish_reason="length"), _turn(1, 1)]),
        _episode("b", [_turn(1, 1, finish_reason="tool_calls", retries=retries[:1])]),
        _episode("c", [_turn(1, 1, finish_reason=None)]),
    )
    assert (result.retries, result.waited) == ({"rate_limit": 2, "timeout": 1}, 7.0)
    assert result.truncated.value == pytest.approx(1 / 4), "one of the four replies whose end is known"


def test_seconds_are_means_over_turns() -> None:
    turns = [{**_turn(1, 1), "seconds": {"model": s, "tool": s / 10}} for s in (1.0, 2.0, 6.0)]
    result = _usage(_episode("a", turns[:2]), _episode("b", turns[2:]), _episode("c", [_turn(1, 1)]))
    assert {kind: item.value for kind, item in result.seconds.items()} == {
        "model": pytest.approx(3.0),
        "tool": pytest.approx(0.3),
    }


def test_a_scripted_agent_took_nothing() -> None:
    silent = {"completion": None, "message": 2, "calls": [], "error": None}
    assert summarise([{**_episode("a", []), "turns": [silent], "usage": None}], TABLE).usage is None


@pytest.mark.parametrize("odd", [None, 7, "x", [], [1], {"prompt_tokens": "7", "completion_tokens": True}, {"a": 1}])
def test_odd_shapes_are_unknown_not_a_crash(odd: Any) -> None:
    turn = {"message": 2, "calls": [], "error": None, "completion": odd, "seconds": odd}
    requested = {"message": 2, "calls": [], "error": None, "completion": {"usage": odd, "retries": odd, "model": odd}}
    result = summarise([{**_episode("a", []), "turns": [turn, requested], "usage": odd}], TABLE).usage
    assert result is None or (result.total is None and result.tokens == {})


def test_a_larger_run_agrees_with_a_plain_recount() -> None:
    episodes = [episode for i in range(40) for episode in fake_runs.group(i, 4)]
    result = _usage(*episodes)
    played = [episode for episode in episodes if episode["error"] is None]
    assert len(played) < len(episodes)
    for kind, tokens in result.tokens.items():
        assert tokens.total == sum(episode["usage"][kind] for episode in episodes)
        assert tokens.per_episode.value == pytest.approx(np.mean([item["usage"][kind] for item in played]))
        assert tokens.per_episode.n == len({item["task"] for item in played})
    assert result.requests == sum(episode["usage"]["requests"] for episode in episodes)
    replies = [turn["completion"] for episode in episodes for turn in episode["turns"]]
    assert result.truncated.value == pytest.approx(np.mean([reply["finish_reason"] == "length" for reply in replies]))
    assert sum(result.retries.values()) == sum(len(reply["retries"]) for reply in replies)
    assert result.verdicts == sum(item["reward"]["metrics"]["verdict"] is not None for item in played)


# A user's price table: both forms mean the same, and whatever is wrong is named with its file and key.

GOOD = """
currency = "USD"

[models."Qwen/Qwen3-8B"]
input = 0.1
output = 0.4
cached_input = 0.05

[models.plain]
input = 1
output = 2
"""


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    expected = PriceTable("USD", {"Qwen/Qwen3-8B": Price(0.1, 0.4, 0.05), "plain": Price(1.0, 2.0)})
    (tmp_path / "p.toml").write_text(GOOD)
    models = {"Qwen/Qwen3-8B": {"input": 0.1, "output": 0.4, "cached_input": 0.05}, "plain": {"input": 1, "output": 2}}
    (tmp_path / "p.json").write_text(json.dumps({"currency": "USD", "models": models}))
    assert read_prices(tmp_path / "p.toml") == read_prices(str(tmp_path / "p.json")) == expected


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("currency", "curency", r"no setting 'curency'\. Did you mean 'currency'"),
        ('currency = "USD"', "", "'currency' must be a name"),
        ('"USD"', "7", "currency should be a valid string, not 7"),
        ('"USD"', '" "', "'currency' must be a name"),
        ("models.", "modles.", r"no setting 'modles'\. Did you mean 'models'"),
        (
            "output = 0.4",
            "outptu = 0.4",
            r'models\."Qwen/Qwen3-8B": there is no setting \'outptu\'\. Did you mean \'output\'',
        ),
        ("output = 0.4", "", r"models\.\"Qwen/Qwen3-8B\": the setting 'output' is missing"),
        ("= 0.05", '= "0.05"', r'models\."Qwen/Qwen3-8B": cached_input should be a valid number'),
        ("input = 1", "input = true", r'models\."plain": input should be a valid number'),
        ("input = 1", "input = -1", "input should be at least 0"),
        ("input = 1", "input = nan", "input should be at most"),
        ("input = 1", "input = inf", "input should be at most"),
        ("[models.plain]\ninput = 1\noutput = 2", "[models]\nplain = 3", "models should be a valid dictionary, not 3"),
        (GOOD, 'currency = "USD"\nmodels = {}', "name at least one model"),
        (GOOD, 'currency = "USD"', "'models' name at least one model"),
        ("[models.plain]", "[models.plain", "no valid TOML"),
    ],
)
def test_an_invalid_price_table_is_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    path = tmp_path / "prices.toml"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(ConfigError, match=message) as raised:
        read_prices(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("p.yaml", b"", "a .toml or a .json file"),
        ("p.json", b"[1]", "not list"),
        ("p.json", b'{"currency": "USD",', "no valid JSON"),
        ("p.json", b'{"currency": "\xff"}', "not UTF-8"),
        ("p.json", b"[" * 100_000, "no valid JSON"),
        ("p.json", b'{"currency": "USD", "models": {"m": {"input": NaN, "output": 1}}}', "input should be at most"),
        (
            "p.json",
            b'{"currency": "USD", "models": {"m": {"input": 1' + b"0" * 400 + b', "output": 1}}}',
            "a valid number",
        ),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        read_prices(tmp_path / name)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        read_prices(tmp_path / "none.toml")


TOKENS = st.integers(0, 10**9)
RATES = st.integers(0, 10**6).map(lambda n: n / 1000)


@given(TOKENS, TOKENS, TOKENS, RATES, RATES, st.none() | RATES)
def test_costs_agree_with_exact_fractions(
    prompt: int, cached: int, completion: int, rate: float, out: float, again: float | None
) -> None:
    cached = min(cached, prompt)
    usage = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": completion, "reasoning_tokens": 9}
    result = cost(usage, Price(rate, out, again))
    reread = rate if again is None else again
    exact = (prompt - cached) * Fraction(rate) + cached * Fraction(reread) + completion * Fraction(out)
    assert result == pytest.approx(float(exact / 10**6), rel=1e-12, abs=1e-9)


def test_missing_counts_have_no_cost() -> None:
    price = Price(1.0, 1.0)
    assert cost({}, price) is None
    assert cost({"prompt_tokens": 5}, price) is None
    assert cost({"completion_tokens": 5}, price) is None
    assert cost({"prompt_tokens": 0, "completion_tokens": 0}, price) == 0.0
