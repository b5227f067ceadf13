"""A user's price table: both forms mean the same, and whatever is wrong is named with its file and key."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.benchmarks.costs import Price, PriceTable, cost, read_prices
from factgym.core.errors import ConfigError

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
    ("before", "after", "said"),
    [
        ("currency", "curency", r"unknown key 'curency'\. Did you mean 'currency'"),
        ('currency = "USD"', "", "'currency' is missing"),
        ('"USD"', "7", "'currency' must be a name"),
        ('"USD"', '" "', "'currency' must be a name"),
        ("models.", "modles.", r"unknown key 'modles'\. Did you mean 'models'"),
        ("output = 0.4", "outptu = 0.4", r'models\."Qwen/Qwen3-8B": unknown key \'outptu\'\. Did you mean \'output\''),
        ("output = 0.4", "", r"models\.\"Qwen/Qwen3-8B\": 'output' is missing"),
        ("= 0.05", '= "0.05"', r'models\."Qwen/Qwen3-8B"\.cached_input must be a number from 0'),
        ("input = 1", "input = true", r'models\."plain"\.input must be a number'),
        ("input = 1", "input = -1", "must be a number from 0"),
        ("input = 1", "input = nan", "must be a number from 0"),
        ("input = 1", "input = inf", "must be a number from 0"),
        ("[models.plain]\ninput = 1\noutput = 2", "[models]\nplain = 3", r'models\."plain" must hold'),
        (GOOD, 'currency = "USD"\nmodels = {}', "must name at least one model"),
        (GOOD, 'currency = "USD"', "'models' is missing"),
        ("[models.plain]", "[models.plain", "no valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = tmp_path / "prices.toml"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(ConfigError, match=said) as raised:
        read_prices(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("p.yaml", b"", "a .toml or a .json file"),
        ("p.json", b"[1]", "not list"),
        ("p.json", b'{"currency": "USD",', "no valid JSON"),
        ("p.json", b'{"currency": "\xff"}', "not UTF-8"),
        ("p.json", b"[" * 100_000, "no valid JSON"),
        ("p.json", b'{"currency": "USD", "models": {"m": {"input": NaN, "output": 1}}}', "must be a number"),
        ("p.json", b'{"currency": "USD", "models": {"m": {"input": 1' + b"0" * 400 + b', "output": 1}}}', "a number"),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        read_prices(tmp_path / name)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the price table .*none\.toml"):
        read_prices(tmp_path / "none.toml")


TOKENS = st.integers(0, 10**9)
RATES = st.integers(0, 10**6).map(lambda n: n / 1000)


@given(TOKENS, TOKENS, TOKENS, RATES, RATES, st.none() | RATES)
def test_costs_agree_with_exact_fractions(
    prompt: int, cached: int, completion: int, rate: float, out: float, again: float | None
) -> None:
    cached = min(cached, prompt)
    usage = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": completion, "reasoning_tokens": 9}
    found = cost(usage, Price(rate, out, again))
    reread = rate if again is None else again
    exact = (prompt - cached) * Fraction(rate) + cached * Fraction(reread) + completion * Fraction(out)
    assert found == pytest.approx(float(exact / 10**6), rel=1e-12, abs=1e-9)


def test_what_is_not_counted_has_no_cost() -> None:
    price = Price(1.0, 1.0)
    assert cost({}, price) is None
    assert cost({"prompt_tokens": 5}, price) is None
    assert cost({"completion_tokens": 5}, price) is None
    assert cost({"prompt_tokens": 0, "completion_tokens": 0}, price) == 0.0
