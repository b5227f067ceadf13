"""The final table of `factgym eval`: a run's summary at eighty columns, in a terminal and in a CI log alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from factgym.benchmarks.costs import TOKEN_KINDS, UNNAMED, Money, UsageSummary
from factgym.benchmarks.formats import (
    ABSENT,
    amount,
    count,
    decimal,
    duration,
    interval,
    label,
    percent,
    printable,
    whole,
    whole_interval,
)
from factgym.benchmarks.metrics import GroupSummary, RunSummary
from factgym.benchmarks.statistics.classification import NO_VERDICT
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import Meter, add, number_columns, plain_table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
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


MAX_TOOLS = 6
MAX_CAUSES = 8
_SHOWN, _NOTE = 60, 500
_MAX_NAME = 20
_SHORT = {"supported": "supp", "partially_supported": "part", "unsupported": "unsu", "contradicted": "cont"}


def render_summary(summary: RunSummary, notes: Iterable[str] = ()) -> Group:
    """The whole result: heading, reward and components, surfaces, labels, play, groups, and what it took.

    notes: sentences for people. Print the result with a rich Console.
    """
    from rich.console import Group

    parts: list[RenderableType] = [_heading(summary, notes)]
    if summary.scored:
        parts.append(_scores(summary))
        if summary.surfaces:
            parts.append(_surfaces(summary))
        if summary.confusion is not None:
            parts.append(_labels(summary))
        parts.append(_play(summary))
    if summary.groups is not None:
        parts.append(render_groups(summary.groups))
    if summary.usage is not None:
        parts += render_usage(summary.usage)
    return Group(*parts)


def _heading(summary: RunSummary, notes: Iterable[str]) -> RenderableType:
    from rich.text import Text

    version = f" v{summary.version}" if summary.version is not None else ""
    text = Text.assemble((printable(summary.env, _SHOWN) + version, "bold"), ("  agent ", "dim"))
    text.append(printable(summary.agent, _SHOWN), "bold")
    if summary.splits:
        text.append("  split ", "dim")
        text.append(printable(", ".join(summary.splits), _SHOWN))
    text.append(f"\n{count(summary.scored, 'episode')} scored")
    if summary.groups is not None:
        text.append(f", of {count(summary.tasks, 'task')}; all intervals are over tasks")
    if summary.unscored:
        text.append(f", {summary.unscored:,} not scored", "yellow")
    if summary.errors:
        text.append(f"\n{fault_sentence(summary)}", "yellow")
    for note in notes:
        text.append(f"\n{printable(note, _NOTE)}", "yellow")
    text.append("\n")
    return text


def fault_sentence(summary: RunSummary) -> str:
    """What was left out because the infrastructure failed, by cause, with the first message."""
    causes = ", ".join(f"{n:,} {printable(cause, 40)}" for cause, n in list(summary.causes.items())[:MAX_CAUSES])
    more = len(summary.causes) - MAX_CAUSES
    causes += f", {count(more, 'other cause')}" if more > 0 else ""
    first = f"; first: {printable(summary.fault, 200)}" if summary.fault else ""
    return f"{count(summary.errors, 'infrastructure error')} left out of all scores: {causes}{first}"


def _scores(summary: RunSummary) -> Table:
    from rich.text import Text

    shown = {name: printable(label(name), _MAX_NAME) for name in summary.components}
    width = 16 - max(0, max(map(len, shown.values()), default=0) - 12)
    table = plain_table("")
    table.add_column("score", no_wrap=True, min_width=12)
    number_columns(table, "mean", "95 % interval", "weight", "gate", "earned")
    table.add_column("", no_wrap=True)
    reward = summary.reward
    add(
        table,
        Text("reward", "bold"),
        Text(decimal(reward.value), "bold"),
        interval(reward),
        "",
        "",
        decimal(reward.value),
        Meter(reward.value, width, style="bold cyan"),
        end_section=True,
    )
    for name, part in summary.components.items():
        add(table, shown[name], *_score_cells(summary, name, part), Meter(part.value, width))
    return table


def _score_cells(summary: RunSummary, name: str, part: Estimate) -> list[str]:
    weight, gate = summary.weights.get(name), summary.gates.get(name)
    return [
        decimal(part.value),
        interval(part),
        decimal(weight, 2) if weight is not None else "",
        f"×{decimal(gate.value, 2)}" if gate is not None else "",
        decimal(summary.earned.get(name)) if weight is not None else "",
    ]


def _surfaces(summary: RunSummary) -> Table:
    table = plain_table("\nWhich skill moved: five surfaces")
    table.add_column("surface", no_wrap=True, min_width=12)
    table.add_column("measure", no_wrap=True)
    number_columns(table, "value", "95 % interval")
    table.add_column("", no_wrap=True)
    for surface in summary.surfaces:
        for i, measure in enumerate(surface.measures):
            found = measure.estimate
            better = "↓" if measure.lower_is_better else ""
            add(
                table,
                surface.name if i == 0 else "",
                f"{measure.label} {better}".strip(),
                decimal(found.value),
                interval(found),
                Meter(found.value, style="red" if measure.lower_is_better else "cyan"),
            )
    return table


def _labels(summary: RunSummary) -> Table:
    from rich.text import Text

    assert summary.confusion is not None
    golds, said, counts = summary.confusion.golds, summary.confusion.predictions, summary.confusion.counts
    table = plain_table("\nLabels: recall, and what was submitted instead")
    table.add_column("gold", no_wrap=True)
    number_columns(table, "recall", "95 % interval")
    number_columns(table, *(_short(one) for one in said))
    for gold, row in zip(golds, counts, strict=True):
        cells = [Text(f"{n:,}" if n else "·", _cell_style(n, gold == one)) for one, n in zip(said, row, strict=True)]
        found = summary.recall[gold]
        add(table, printable(label(gold), 22), decimal(found.value), interval(found), *cells)
    table.add_section()
    add(table, "macro recall", decimal(summary.macro_recall.value), interval(summary.macro_recall))
    add(table, "accuracy", decimal(summary.accuracy.value), interval(summary.accuracy))
    return table


def _short(name: str) -> str:
    return ABSENT if name == NO_VERDICT else _SHORT.get(name, printable(name, 20)[:4])


def _cell_style(n: int, right: bool) -> str:
    if not n:
        return "dim"
    return "green" if right else "red"


def _play(summary: RunSummary) -> Table:
    table = plain_table("\nHow it was played")
    table.show_header = False
    table.add_column(style="dim", no_wrap=True, min_width=12)
    table.add_column()
    add(table, "turns", f"{decimal(summary.turns.value, 2)} {interval(summary.turns, 2)} per episode")
    add(table, "malformed", f"{percent(summary.malformed.value)} of all actions")
    add(table, "ended by", _counts({label(name): n for name, n in summary.stops.items()}))
    shown = {one.name: one.calls for one in summary.tools[:MAX_TOOLS]}
    refused = {one.name: one.errors for one in summary.tools}
    add(table, "tool calls", _counts(shown, refused) or "none")
    if len(summary.tools) > MAX_TOOLS:
        add(table, "", f"and {count(len(summary.tools) - MAX_TOOLS, 'other tool')}")
    return table


def _counts(counts: Mapping[str, int], refused: Mapping[str, int] | None = None) -> str:
    def one(name: str, n: int) -> str:
        failed = (refused or {}).get(name, 0)
        return f"{printable(name, 40)} {n:,}" + (f" ({failed:,} refused)" if failed else "")

    return ", ".join(one(name, n) for name, n in counts.items())
