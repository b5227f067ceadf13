"""Usage of a run: tokens, requests, retries, truncated replies, seconds, and money by a price table that the user writes.

Only numbers in the records are counted. Means for an episode are over those that no fault ended, while totals hold
everything that was spent, errors included. Turns of one run may name different models; each has its own price.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from factgym.benchmarks.records import has_fault, has_verdict, items, members, number, numbers, text_of, texts_of
from factgym.benchmarks.statistics.intervals import POSITIVE, Estimate, Series
from factgym.core.config import Settings, build_checked
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.paths import read_text

PER = 1_000_000
"""Prices are for this many tokens."""

Rate = Annotated[float, Field(ge=0, le=1e12)]


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens. cached_input: None when cached prompt tokens cost as much as others."""

    input: Rate
    output: Rate
    cached_input: Rate | None = None


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the model's name, in one currency."""

    currency: str
    models: Mapping[str, Price]


def cost(usage: Mapping[str, Any], price: Price) -> float | None:
    """Return the cost of the tokens of `usage`; None when it lacks the prompt or the completion tokens.

    Cached tokens are a part of the prompt tokens, reasoning tokens a part of the completion tokens.
    """
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if prompt is None or completion is None:
        return None
    # Cached tokens are part of the prompt: they are priced apart and never twice.
    cached = min(usage.get("cached_tokens") or 0, prompt)
    reread = price.input if price.cached_input is None else price.cached_input
    return math.fsum(((prompt - cached) * price.input, cached * reread, completion * price.output)) / PER


class _PriceFile(Settings):
    currency: str = ""
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)


def read_prices(path: str | Path) -> PriceTable:
    """Read a table from a `.toml` or a `.json` file. Raises ConfigError that names the file and the key.

        currency = "USD"

        [models."Qwen/Qwen3-8B"]      # the name by which the server calls the model
        input = 0.1                   # for a million prompt tokens
        output = 0.4                  # for a million completion tokens, reasoning included
        cached_input = 0.05           # for a million prompt tokens from a cache; without it they cost as much as others

    A model that the table does not name has no price.
    """
    path = Path(path)
    reader = {".toml": tomllib.loads, ".json": json.loads}.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path}: a price table is a .toml or a .json file")
    text = read_text(path, setting="price table")
    try:
        data = reader(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: no valid {path.suffix[1:].upper()} ({error})") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: an object with 'currency' and 'models' is needed, not {type(data).__name__}")
    table = _PriceFile.build(str(path), data)
    if not table.currency.strip() or not table.models:
        raise ConfigError(f"{path}: 'currency' must be a name such as \"USD\", and 'models' name at least one model")
    for name, key in ((name, key) for name, rates in table.models.items() for key in rates):
        if key not in Price.__slots__:  # Named before a missing key: it may be the same one, misspelt.
            hint = did_you_mean(key, Price.__slots__)
            raise ConfigError(f'{path}: models."{name}": there is no setting {key!r}.{hint}')
    prices = {name: build_checked(Price, f'{path}: models."{name}"', rates) for name, rates in table.models.items()}
    return PriceTable(table.currency.strip(), prices)


TOKEN_KINDS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
"""Cached tokens are a part of the prompt's, reasoning tokens a part of the completion's."""

SECOND_KINDS = ("model", "tool", "environment")
FIRST_TOKEN = "first token"
_FIRST_TOKEN_NOTE = "first_token_seconds"
_MAX_NOTES = 8
UNNAMED = ""
"""The model of tokens that no record and no manifest ascribes to a model."""


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens of one kind: the mean over episodes that no fault ended, and the sum over all."""

    per_episode: Estimate
    total: int


@dataclass(frozen=True, slots=True)
class Money:
    """Cost of a run, in `currency`.

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
    """Usage of a run; values that the records lack are empty or None.

    tokens: kind -> tokens, for the kinds that the records name. total: prompt and completion tokens of all episodes,
    errors included; per_verdict: the same over `verdicts`, the episodes with a submitted verdict, None without any.
    requests: to the model, with those made again. retries: cause -> requests that failed and were made again; waited:
    seconds between them. tool_modes: how a model was offered tools where it was probed -> replies; adapted: change of
    requests that the server asked for -> replies; outcomes: reason why a reply is no ordinary one (a content filter, a
    refusal, nothing but reasoning) -> replies. truncated: share of replies that were cut off (finish reason "length"), over turns. seconds:
    per turn, of the model (and to its first token, where replies are streams), the tools and the environment. money: None without a price table.
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
    tool_modes: Mapping[str, int] = field(default_factory=dict)
    adapted: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class UsageTally:
    """Collects the usage of episodes. model: the agent's, for turns that do not name theirs."""

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
    tool_modes: Counter[str] = field(default_factory=Counter)
    adapted: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, task: int, episode: Mapping[str, Any]) -> None:
        """Add an episode of the task with this number."""
        finished = not has_fault(episode)
        turns = [members(turn) for turn in items(episode.get("turns"))]
        usage = members(episode.get("usage"))
        metered = {"prompt_tokens", "completion_tokens"} <= _tokens(usage).keys()
        self.verdicts += has_verdict(episode)
        self.metered += metered
        self.unmetered += bool(turns) and not metered
        for kind, tokens in _tokens(usage).items():
            self.totals[kind] += tokens
            series = self.tokens.setdefault(kind, Series())
            if finished:
                series.add(task, tokens)
        if self.prices is not None and metered:
            paid = 0.0
            for model, spent in _spent(usage, turns, self.model):
                self.by_model.setdefault(model, Counter()).update(spent)
                price = self.prices.models.get(model)
                paid += (cost(spent, price) or 0.0) if price else 0.0
            if finished:
                self.costs.add(task, paid)
        self._add_replies(task, [members(turn.get("completion")) for turn in turns])
        for kind in SECOND_KINDS:
            seconds = [numbers(turn.get("seconds")).get(kind) for turn in turns]
            values = [value for value in seconds if value is not None]
            if values:
                self.seconds.setdefault(kind, Series()).add(task, sum(values), len(values))
        if (requests := number(usage.get("requests"))) is not None:
            self.requests = (self.requests or 0) + round(requests)

    def _add_replies(self, task: int, replies: list[Mapping[str, Any]]) -> None:
        """Count truncated replies, retries with their waiting time, and what was noted of each reply."""
        reasons = [reply["finish_reason"] for reply in replies if reply.get("finish_reason")]
        self.truncated.add(task, reasons.count("length"), len(reasons))
        for retry in (members(retry) for reply in replies for retry in items(reply.get("retries"))):
            self.retries[str(retry.get("cause"))] += 1
            self.waited += number(retry.get("waited")) or 0.0
        notes = [members(reply.get("notes")) for reply in replies]
        if first := [value for note in notes if (value := number(note.get(_FIRST_TOKEN_NOTE))) is not None]:
            self.seconds.setdefault(FIRST_TOKEN, Series()).add(task, sum(first), len(first))
        self.tool_modes.update(mode for note in notes if (mode := text_of(note.get("tools"))))
        self.outcomes.update(outcome for note in notes if (outcome := text_of(note.get("outcome"))))
        self.adapted.update(text for note in notes for text in texts_of(note.get("adapted")))

    def summary(self) -> UsageSummary | None:
        """Return the usage of all episodes, or None when no record has any."""
        if not (self.tokens or self.seconds or len(self.truncated) or self.requests or self.retries):
            return None
        total = self.totals["prompt_tokens"] + self.totals["completion_tokens"] if self.metered else None
        return UsageSummary(
            tokens={kind: TokenUse(series.mean(POSITIVE), self.totals[kind]) for kind, series in self.tokens.items()},
            total=total,
            verdicts=self.verdicts,
            per_verdict=total / self.verdicts if total is not None and self.verdicts else None,
            requests=self.requests,
            retries=dict(self.retries.most_common()),
            waited=self.waited,
            truncated=self.truncated.share(),
            seconds={kind: series.mean(POSITIVE) for kind, series in self.seconds.items()},
            money=self._money(),
            tool_modes=dict(self.tool_modes.most_common(_MAX_NOTES)),
            adapted=dict(self.adapted.most_common(_MAX_NOTES)),
            outcomes=dict(self.outcomes.most_common(_MAX_NOTES)),
        )

    def _money(self) -> Money | None:
        """Return what all models cost; means only where every model has a price and every reply its tokens."""
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
        complete = not unpriced and not self.unmetered
        return Money(
            currency=self.prices.currency,
            total=total,
            per_episode=self.costs.mean(POSITIVE) if complete else None,
            per_verdict=total / self.verdicts if complete and self.verdicts else None,
            unpriced=dict(sorted(unpriced.items(), key=lambda item: (-item[1], item[0]))),
            unmetered=self.unmetered,
        )


def model_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the agent's model as a run's manifest names it, or as a user's own class describes it there, or None."""
    details = members(manifest.get("agent_details"))
    return text_of(details.get("model") or members(details.get("describe")).get("model")) or None


def _tokens(usage: Any) -> dict[str, int]:
    """Return the tokens of each kind that a record names."""
    counts = numbers(usage)
    return {kind: round(counts[kind]) for kind in TOKEN_KINDS if kind in counts}


def _spent(
    usage: Mapping[str, Any], turns: list[Mapping[str, Any]], default: str | None
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the tokens of an episode by model.

    Tokens beyond those of its turns (a request whose turn was never finished) count for the model of the turns when there
    is only one, else for the default.
    """
    unaccounted = Counter(_tokens(usage))
    names = set()
    for completion in (members(turn.get("completion")) for turn in turns):
        name = str(completion.get("model") or default or UNNAMED)
        spent = dict.fromkeys(TOKEN_KINDS, 0) | _tokens(completion.get("usage"))
        if completion:
            names.add(name)
        if any(spent.values()):
            unaccounted.subtract(spent)
            yield name, spent
    if unaccounted["prompt_tokens"] > 0 or unaccounted["completion_tokens"] > 0:
        model = names.pop() if len(names) == 1 else default or UNNAMED
        yield model, {kind: max(0, unaccounted[kind]) for kind in TOKEN_KINDS}
