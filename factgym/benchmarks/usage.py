"""What a run took: tokens, requests, retries, truncated replies, seconds, and money where prices are known.

Only what the records say is counted; a scripted agent has no tokens, and then there is nothing to show. Means for an
episode are over those that no fault ended, while totals hold everything that was spent, errors included. Turns of the
same run may name different models; each is paid at its own price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.benchmarks.prices import PriceTable, cost
from factgym.benchmarks.records import has_fault, has_verdict, items, members, number
from factgym.benchmarks.statistics.intervals import POSITIVE, Estimate, Series

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
