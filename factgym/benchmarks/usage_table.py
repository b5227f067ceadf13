"""The part of the result that says what a run took, and the part about its groups of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from factgym.benchmarks.formats import (
    amount,
    count,
    decimal,
    duration,
    interval,
    percent,
    printable,
    whole,
    whole_interval,
)
from factgym.benchmarks.groups import GroupSummary
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import Meter, add, number_columns, plain_table
from factgym.benchmarks.usage import TOKEN_KINDS, UNNAMED, Money, UsageSummary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_TOKEN_WORDS = {
    "prompt_tokens": "prompt",
    "cached_tokens": "  of these cached",
    "completion_tokens": "completion",
    "reasoning_tokens": "  of these reasoning",
}
_SECOND_WORDS = {"model": "model", "tool": "tools", "environment": "environment"}
_MODELS = 3


def render_usage(usage: UsageSummary) -> Iterator[RenderableType]:
    """Tokens by kind, then requests, time and money; nothing that is not known."""
    title = "\nWhat it took"
    if usage.tokens:
        yield _tokens(usage, title)
        title = ""
    yield _effort(usage, title)


def _tokens(usage: UsageSummary, title: str) -> Table:
    table = plain_table(title)
    table.add_column("tokens", no_wrap=True, min_width=12)
    number_columns(table, "per episode", "95 % interval", "all episodes")
    for kind in TOKEN_KINDS:
        if (found := usage.tokens.get(kind)) is not None:
            mean = found.per_episode
            add(table, _TOKEN_WORDS[kind], whole(mean.value), whole_interval(mean), whole(found.total))
    return table


def _effort(usage: UsageSummary, title: str) -> Table:
    table = plain_table(title)
    table.show_header = False
    table.add_column(style="dim", no_wrap=True, min_width=12)
    table.add_column()
    for name, value in effort(usage):
        add(table, name, value)
    return table


def effort(usage: UsageSummary) -> Iterator[tuple[str, str]]:
    """What a run took besides tokens by kind, as pairs of a name and its words; nothing that is not known."""
    if usage.per_verdict is not None:
        yield "tokens per verdict", f"{whole(usage.per_verdict)} (all tokens over {count(usage.verdicts, 'verdict')})"
    if usage.requests is not None:
        yield "requests", f"{usage.requests:,}"
    if usage.retries:
        causes = ", ".join(f"{n:,} {printable(cause, 40)}" for cause, n in usage.retries.items())
        yield "retries", f"{causes}; waited {duration(usage.waited)}"
    if usage.truncated.value is not None:
        reach = f"[{percent(usage.truncated.low)}, {percent(usage.truncated.high)}]" if usage.truncated.n > 1 else ""
        yield "truncated replies", f"{percent(usage.truncated.value)} {reach}".strip()
    if usage.seconds:
        parts = (f"{_SECOND_WORDS[kind]} {duration(one.value)}" for kind, one in usage.seconds.items())
        yield "time per turn", ", ".join(parts)
    if usage.money is not None:
        yield from _cost(usage.money)


def _cost(money: Money) -> Iterator[tuple[str, str]]:
    name, each = printable(money.currency, 12), money.per_episode
    if each is not None or money.total:
        yield "cost", f"{name} {amount(money.total)}" + ("" if each else " for the tokens that have a price")
    if each is not None and each.value is not None:
        reach = f" [{amount(each.low)}, {amount(each.high)}]" if each.low is not None else ""
        yield "cost per episode", f"{name} {amount(each.value)}{reach}"
    if money.per_verdict is not None:
        yield "cost per verdict", f"{name} {amount(money.per_verdict)}"
    yield from (("no price", line) for line in unpriced(money))


def unpriced(money: Money) -> Iterator[str]:
    """A sentence for each model without a price, and for episodes whose tokens are not known."""
    shown = list(money.unpriced.items())
    for model, tokens in shown[:_MODELS]:
        named = f"'{printable(model, 60)}'" if model != UNNAMED else "a model that is not named"
        yield f"{count(tokens, 'token')} of {named}: not in the price table"
    if len(shown) > _MODELS:
        yield f"{count(len(shown) - _MODELS, 'other model')} not in the price table"
    if money.unmetered:
        yield f"{count(money.unmetered, 'episode')} without token counts"


def render_groups(groups: GroupSummary) -> Table:
    """The measures of the groups, each over groups."""
    table = plain_table(f"\nGroups: {sizes(groups)}")
    table.add_column("measure", no_wrap=True)
    number_columns(table, "value", "95 % interval")
    table.add_column("", no_wrap=True)
    for name, found, bad in measures(groups):
        words = f"{name} ↓" if bad else name
        add(table, words, decimal(found.value), interval(found), Meter(found.value, style="red" if bad else "cyan"))
    return table


def sizes(groups: GroupSummary) -> str:
    """`60 tasks with 8 samples each`, or with how many at least and at most."""
    if groups.smallest == groups.largest:
        return f"{count(groups.n, 'task')} with {groups.largest} samples each"
    return f"{count(groups.n, 'task')} with {groups.smallest} to {groups.largest} scored samples"


def measures(groups: GroupSummary) -> Iterator[tuple[str, Estimate, bool]]:
    """Name, value, and whether lower is better, for what is known of the groups."""
    yield "all rewards equal", groups.collapsed, True
    yield "spread within (std)", groups.spread, False
    yield "best of the group", groups.best, False
    yield "worst of the group", groups.worst, False
    if groups.majority.value is not None:
        yield "majority verdict right", groups.majority, False
    tasks = max((one.n for one in groups.right_within.values()), default=0)
    for k, found in groups.right_within.items():
        yield (
            f"right within {count(k, 'try', 'tries')}" + (f" ({count(found.n, 'task')})" if found.n < tasks else ""),
            found,
            False,
        )
