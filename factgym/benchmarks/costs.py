"""What a run took: tokens, requests, retries, truncated replies, seconds, and money by a price table that the user writes.

    currency = "USD"

    [models."Qwen/Qwen3-8B"]      # the name by which the server calls the model
    input = 0.1                   # for a million prompt tokens
    output = 0.4                  # for a million completion tokens, reasoning included
    cached_input = 0.05           # for a million prompt tokens from a cache; without it they cost as much as others

The same in JSON. Prices are the user's, never ours: a model that the table does not name has no price. Only numbers in the
records are counted; a scripted agent has no tokens. Means for an episode are over those that no fault ended, while totals
hold everything that was spent, errors included. Turns of one run may name different models; each has its own price.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.benchmarks.records import has_fault, has_verdict, items, members, number
from factgym.benchmarks.statistics.intervals import POSITIVE, Estimate, Series
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


TOKEN_KINDS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
"""Cached tokens are a part of the prompt's, reasoning tokens a part of the completion's."""

SECOND_KINDS = ("model", "tool", "environment")
UNNAMED = ""
"""Stands for the model of tokens that no record and no manifest ascribes to one."""


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens of one kind: the mean over episodes that no fault ended, and the sum over all."""

    per_episode: Estimate
    total: int


@dataclass(frozen=True, slots=True)
class Money:
    """What the run cost, in `currency`.

    total: of the tokens that have a price. per_episode (over episodes that no fault ended) and per_verdict: None when
    some tokens have no price, because they would be too low. unpriced: model -> its tokens that the price table does
    not cover, `UNNAMED` for those of no known model. unmetered: episodes with turns whose tokens are not known.
    """

    currency: str
    total: float
    per_episode: Estimate | None
    per_verdict: float | None
    unpriced: Mapping[str, int]
    unmetered: int


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """What the run took; what is not known is empty or None.

    tokens: kind -> tokens, for the kinds that the records name. total: prompt and completion tokens of all episodes,
    errors included; per_verdict: the same over `verdicts`, the episodes with a submitted verdict, None without any.
    requests: to the model, with those made again. retries: cause -> requests that failed and were made again; waited:
    seconds between them. truncated: share of replies that were cut off (finish reason "length"), over turns. seconds:
    per turn, of the model, the tools and the environment. money: None without a price table.
    """

    tokens: Mapping[str, TokenUse]
    total: int | None
    verdicts: int
    per_verdict: float | None
    requests: int | None
    retries: Mapping[str, int]
    waited: float
    truncated: Estimate
    seconds: Mapping[str, Estimate]
    money: Money | None


@dataclass(slots=True)
class UsageTally:
    """Collects what episodes took. model: the agent's, for turns that do not name theirs."""

    prices: PriceTable | None = None
    model: str | None = None
    metered: int = 0
    unmetered: int = 0
    verdicts: int = 0
    requests: int | None = None
    retries: Counter[str] = field(default_factory=Counter)
    waited: float = 0.0
    totals: Counter[str] = field(default_factory=Counter)
    by_model: dict[str, Counter[str]] = field(default_factory=dict)
    tokens: dict[str, Series] = field(default_factory=dict)
    truncated: Series = field(default_factory=Series)
    seconds: dict[str, Series] = field(default_factory=dict)
    costs: Series = field(default_factory=Series)

    def add(self, task: int, episode: Mapping[str, Any]) -> None:
        """Add an episode of the task with this number."""
        self.verdicts += has_verdict(episode)
        turns = [members(turn) for turn in items(episode.get("turns"))]
        usage = members(episode.get("usage"))
        self.metered += _is_metered(usage)
        self.unmetered += bool(turns) and not _is_metered(usage)
        self._add_tokens(task, usage, finished=not has_fault(episode))
        self._add_models(task, usage, turns, finished=not has_fault(episode))
        self._add_replies(task, [members(turn.get("completion")) for turn in turns])
        self._add_seconds(task, turns)
        if (requests := number(usage.get("requests"))) is not None:
            self.requests = (self.requests or 0) + round(requests)

    def _add_tokens(self, task: int, usage: Mapping[str, Any], finished: bool) -> None:
        for kind in TOKEN_KINDS:
            if (tokens := _tokens(usage, kind)) is not None:
                self.totals[kind] += tokens
                series = self.tokens.setdefault(kind, Series())
                if finished:
                    series.add(task, tokens)

    def _add_models(self, task: int, usage: Mapping[str, Any], turns: list[Mapping[str, Any]], finished: bool) -> None:
        if self.prices is None or not _is_metered(usage):
            return
        paid = 0.0
        for model, spent in _spent(usage, turns, self.model):
            self.by_model.setdefault(model, Counter()).update(spent)
            price = self.prices.models.get(model)
            paid += (cost(spent, price) or 0.0) if price else 0.0
        if finished:
            self.costs.add(task, paid)

    def _add_replies(self, task: int, replies: list[Mapping[str, Any]]) -> None:
        reasons = [reply["finish_reason"] for reply in replies if reply.get("finish_reason")]
        self.truncated.add(task, reasons.count("length"), len(reasons))
        for retry in (members(one) for reply in replies for one in items(reply.get("retries"))):
            self.retries[str(retry.get("cause"))] += 1
            self.waited += number(retry.get("waited")) or 0.0

    def _add_seconds(self, task: int, turns: list[Mapping[str, Any]]) -> None:
        for kind in SECOND_KINDS:
            known = [number(members(turn.get("seconds")).get(kind)) for turn in turns]
            values = [one for one in known if one is not None]
            if values:
                self.seconds.setdefault(kind, Series()).add(task, sum(values), len(values))

    def summary(self) -> UsageSummary | None:
        """What the episodes took, or None when no record says anything about it."""
        if not (self.tokens or self.seconds or len(self.truncated) or self.requests or self.retries):
            return None
        total = self.totals["prompt_tokens"] + self.totals["completion_tokens"] if self.metered else None
        return UsageSummary(
            tokens={kind: TokenUse(one.mean(POSITIVE), self.totals[kind]) for kind, one in self.tokens.items()},
            total=total,
            verdicts=self.verdicts,
            per_verdict=total / self.verdicts if total is not None and self.verdicts else None,
            requests=self.requests,
            retries=dict(self.retries.most_common()),
            waited=self.waited,
            truncated=self.truncated.share(),
            seconds={kind: one.mean(POSITIVE) for kind, one in self.seconds.items()},
            money=self._money(),
        )

    def _money(self) -> Money | None:
        if self.prices is None:
            return None
        total = 0.0
        unpriced = {}
        for model, spent in self.by_model.items():
            price = self.prices.models.get(model)
            if price is None:
                unpriced[model] = spent["prompt_tokens"] + spent["completion_tokens"]
            else:
                total += cost(spent, price) or 0.0
        whole = not unpriced and not self.unmetered
        return Money(
            currency=self.prices.currency,
            total=total,
            per_episode=self.costs.mean(POSITIVE) if whole else None,
            per_verdict=total / self.verdicts if whole and self.verdicts else None,
            unpriced=dict(sorted(unpriced.items(), key=lambda one: (-one[1], one[0]))),
            unmetered=self.unmetered,
        )


def model_of(manifest: Mapping[str, Any]) -> str | None:
    """The agent's model as the manifest of a run names it, or as a user's own class describes it there, or None."""
    details = members(manifest.get("agent_details"))
    found = details.get("model") or members(details.get("describe")).get("model")
    return found if isinstance(found, str) and found else None


def _tokens(usage: Mapping[str, Any], kind: str) -> int | None:
    found = number(usage.get(kind))
    return None if found is None else round(found)


def _is_metered(usage: Mapping[str, Any]) -> bool:
    return _tokens(usage, "prompt_tokens") is not None and _tokens(usage, "completion_tokens") is not None


def _spent(
    usage: Mapping[str, Any], turns: list[Mapping[str, Any]], default: str | None
) -> Iterator[tuple[str, dict[str, int]]]:
    """What an episode spent, by model.

    What its turns do not account for (a request whose turn was never finished) was spent by the model of the turns
    when there is only one, else by the default.
    """
    left = {kind: _tokens(usage, kind) or 0 for kind in TOKEN_KINDS}
    names = set()
    for completion in (members(turn.get("completion")) for turn in turns):
        name = str(completion.get("model") or default or UNNAMED)
        spent = {kind: _tokens(members(completion.get("usage")), kind) or 0 for kind in TOKEN_KINDS}
        if completion:
            names.add(name)
        if any(spent.values()):
            left = {kind: left[kind] - spent[kind] for kind in TOKEN_KINDS}
            yield name, spent
    rest = {kind: max(0, tokens) for kind, tokens in left.items()}
    if rest["prompt_tokens"] or rest["completion_tokens"]:
        yield (names.pop() if len(names) == 1 else default or UNNAMED), rest
