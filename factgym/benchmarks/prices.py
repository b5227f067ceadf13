"""What tokens cost: a table of prices that the user writes, and the sums that follow from it.

    currency = "USD"

    [models."Qwen/Qwen3-8B"]      # the name by which the server calls the model
    input = 0.1                   # for a million prompt tokens
    output = 0.4                  # for a million completion tokens, reasoning included
    cached_input = 0.05           # for a million prompt tokens from a cache; without it they cost as much as others

The same in JSON. Prices are the user's, never ours: a model that the table does not name has no price.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, did_you_mean

PER = 1_000_000
"""Prices are for this many tokens."""

_MOST = 1e12
_KEYS = ("input", "output", "cached_input")
_TOP = ("currency", "models")


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens. cached_input: None when cached prompt tokens cost as much as others."""

    input: float
    output: float
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the model's name, in one currency."""

    currency: str
    models: Mapping[str, Price]


def cost(usage: Mapping[str, Any], price: Price) -> float | None:
    """What the tokens of `usage` cost; None when it lacks the prompt or the completion tokens.

    Cached tokens are a part of the prompt tokens, reasoning tokens a part of the completion tokens.
    """
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if prompt is None or completion is None:
        return None
    cached = min(usage.get("cached_tokens") or 0, prompt)
    reread = price.input if price.cached_input is None else price.cached_input
    return math.fsum(((prompt - cached) * price.input, cached * reread, completion * price.output)) / PER


def read_prices(path: str | Path) -> PriceTable:
    """Read a table from a `.toml` or a `.json` file. Raises ConfigError that names the file and the key."""
    path = Path(path)
    data = _load(path)
    _check_keys(data, _TOP, f"{path}")
    for key in _TOP:
        if key not in data:
            raise ConfigError(f"{path}: {key!r} is missing")
    currency, models = data["currency"], data["models"]
    if not isinstance(currency, str) or not currency.strip():
        raise ConfigError(f"{path}: 'currency' must be a name such as \"USD\", not {currency!r}")
    if not isinstance(models, dict) or not models:
        raise ConfigError(f"{path}: 'models' must name at least one model with its prices")
    return PriceTable(
        currency.strip(), {name: _price(one, f'{path}: models."{name}"') for name, one in models.items()}
    )


def _load(path: Path) -> dict[str, Any]:
    readers = {".toml": tomllib.loads, ".json": json.loads}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path}: a price table is a .toml or a .json file")
    try:
        data = reader(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the price table {path} ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: no valid {path.suffix[1:].upper()} ({error})") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: an object with 'currency' and 'models' is needed, not {type(data).__name__}")
    return data


def _price(found: Any, where: str) -> Price:
    if not isinstance(found, dict):
        raise ConfigError(f"{where} must hold 'input' and 'output', not {found!r}")
    _check_keys(found, _KEYS, where)
    for key in ("input", "output"):
        if key not in found:
            raise ConfigError(f"{where}: {key!r} is missing (money for a million tokens)")
    rates = {key: _rate(value, f"{where}.{key}") for key, value in found.items()}
    return Price(rates["input"], rates["output"], rates.get("cached_input"))


def _rate(value: Any, where: str) -> float:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits or not 0 <= value <= _MOST:
        raise ConfigError(f"{where} must be a number from 0 to {_MOST:g} (money for a million tokens), not {value!r}")
    return float(value)


def _check_keys(found: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in found:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}")
