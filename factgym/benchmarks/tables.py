"""Tables of a run for a terminal: the summary of `factgym eval` and the buckets of `factgym filter`, at eighty columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from factgym.benchmarks.costs import FIRST_TOKEN, TOKEN_KINDS, UNNAMED, Money, UsageSummary
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
from factgym.benchmarks.metrics import LONGEST_PROMPTS, GroupSummary, RunSummary
from factgym.benchmarks.report import Bar, Cell, Column, Note, Part, Row, Section, Styled, Table, make_table
from factgym.benchmarks.statistics.classification import NO_VERDICT
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import render_section, render_table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from factgym.agents.difficulty import Buckets, Selection

_TOKEN_WORDS = {
    "prompt_tokens": "prompt",
    "cached_tokens": "  of these cached",
    "completion_tokens": "completion",
    "reasoning_tokens": "  of these reasoning",
}
_SECOND_WORDS = {"model": "model", "tool": "tools", "environment": "environment", FIRST_TOKEN: FIRST_TOKEN}
_MODELS = 3
_MAX_NAMES = 5
MAX_TOOLS = 6
MAX_CAUSES = 8
_NAME_CHARS, _NOTE_CHARS = 60, 500
_MAX_COMPONENT_CHARS = 20
_SHORT = {"supported": "supp", "partially_supported": "part", "unsupported": "unsu", "contradicted": "cont"}


def render_summary(summary: RunSummary, notes: Iterable[str] = ()) -> Group:
    """Return the whole result: heading, reward and components, surfaces, labels, play, groups, and costs.

    notes: sentences for people. Print the result with a rich Console.
    """
    from rich.console import Group

    tables: list[Table] = []
    if summary.scored:
        tables.append(_scores(summary))
        if summary.surfaces:
            tables.append(surface_table(summary, "Which skill moved: five surfaces"))
        if summary.confusion is not None:
            tables.append(_labels(summary))
        tables.append(_play(summary))
    if summary.groups is not None:
        rows = [
            (f"{name} ↓" if lower else name, decimal(value.value), interval(value), Bar(value, lower))
            for name, value, lower in measures(summary.groups)
        ]
        tables.append(make_table(f"Groups: {sizes(summary.groups)}", ("measure", "value", "95 % interval", ""), rows))
    if summary.usage is not None:
        tables += _usage(summary.usage)
    return Group(_heading(summary, notes), *map(render_table, tables))


def _heading(summary: RunSummary, notes: Iterable[str]) -> RenderableType:
    from rich.text import Text

    version = f" v{summary.version}" if summary.version is not None else ""
    text = Text.assemble((printable(summary.env, _NAME_CHARS) + version, "bold"), ("  agent ", "dim"))
    text.append(printable(summary.agent, _NAME_CHARS), "bold")
    if summary.splits:
        text.append("  split ", "dim")
        text.append(printable(", ".join(summary.splits), _NAME_CHARS))
    text.append(f"\n{count(summary.scored, 'episode')} scored")
    if summary.groups is not None:
        text.append(f", of {count(summary.tasks, 'task')}; all intervals are over tasks")
    if summary.unscored:
        text.append(f", {summary.unscored:,} not scored", "yellow")
    if summary.errors:
        text.append(f"\n{fault_sentence(summary)}", "yellow")
    if summary.losses is not None:
        for sentence in summary.losses.sentences():
            text.append(f"\n{printable(sentence, _NOTE_CHARS)}", "bold yellow")
    for note in notes:
        text.append(f"\n{printable(note, _NOTE_CHARS)}", "yellow")
    text.append("\n")
    return text


def fault_sentence(summary: RunSummary) -> str:
    """Return how many episodes the infrastructure failed, by cause, with the first message."""
    causes = ", ".join(f"{n:,} {printable(cause, 40)}" for cause, n in list(summary.causes.items())[:MAX_CAUSES])
    more = len(summary.causes) - MAX_CAUSES
    causes += f", {count(more, 'other cause')}" if more > 0 else ""
    first = f"; first: {printable(summary.fault, 400)}" if summary.fault else ""
    if LONGEST_PROMPTS in summary.causes:
        first += (
            "; a prompt that no longer fits is a limit of the policy: where the server says so in these words, name "
            "some of them with --agent-set overflow_pattern=… and resume"
        )
    return f"{count(summary.errors, 'infrastructure error')} left out of all scores: {causes}{first}"


def _scores(summary: RunSummary) -> Table:
    names = {name: printable(label(name), _MAX_COMPONENT_CHARS) for name in summary.components}
    width = 16 - max(0, max(map(len, names.values()), default=0) - 12)
    reward = summary.reward
    cells: tuple[Cell, ...] = (
        Styled("reward"),
        Styled(decimal(reward.value)),
        interval(reward),
        "",
        "",
        decimal(reward.value),
    )
    rows = [Row((*cells, Bar(reward, width=width)), ends_group=True)]
    for name, value in summary.components.items():
        weight, gate = summary.weights.get(name), summary.gates.get(name)
        cells = (
            names[name],
            decimal(value.value),
            interval(value),
            decimal(weight, 2) if weight is not None else "",
            f"×{decimal(gate.value, 2)}" if gate is not None else "",
            decimal(summary.earned.get(name)) if weight is not None else "",
        )
        rows.append(Row((*cells, Bar(value, width=width))))
    return make_table("", ("score", "mean", "95 % interval", "weight", "gate", "earned", ""), rows, min_width=12)


def surface_table(summary: RunSummary, title: str) -> Table:
    """Return the five surfaces with their measures."""
    rows: list[Sequence[Cell]] = []
    for surface in summary.surfaces:
        for i, measure in enumerate(surface.measures):
            value, lower = measure.estimate, measure.lower_is_better
            name = f"{measure.label} ↓" if lower else measure.label
            cells = (surface.name if i == 0 else "", name, decimal(value.value), interval(value), Bar(value, lower))
            rows.append(cells)
    columns = ("surface", Column("measure", left_aligned=True), "value", "95 % interval", "")
    return make_table(title, columns, rows, min_width=12)


def _labels(summary: RunSummary) -> Table:
    assert summary.confusion is not None
    table, rows = summary.confusion, []
    heads = [ABSENT if name == NO_VERDICT else _SHORT.get(name, printable(name, 20)[:4]) for name in table.predictions]
    for i, (gold, counts) in enumerate(zip(table.golds, table.counts, strict=True)):
        recall = summary.recall[gold]
        cells: list[Cell] = [printable(label(gold), 22), decimal(recall.value), interval(recall)]
        for name, n in zip(table.predictions, counts, strict=True):
            style = "dim" if not n else "green" if gold == name else "red"
            cells.append(Styled(f"{n:,}" if n else "·", style))
        rows.append(Row(tuple(cells), ends_group=i + 1 == len(table.golds)))
    for name, share in (("macro recall", summary.macro_recall), ("accuracy", summary.accuracy)):
        rows.append(Row((name, decimal(share.value), interval(share), *[""] * len(heads))))
    return make_table("Labels: recall and confusions", ("gold", "recall", "95 % interval", *heads), rows)


def _pairs(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    """Return names and values without a head."""
    rows = [(Styled(name, "dim"), value) for name, value in pairs]
    columns = ("", Column("", left_aligned=True, limit=_NOTE_CHARS))
    table = make_table(title, columns, rows, min_width=12, header=False)
    return replace(table, wrap=True)


def _play(summary: RunSummary) -> Table:
    calls = ", ".join(
        f"{printable(tool.name, 40)} {tool.calls:,}{f' ({tool.errors:,} refused)' if tool.errors else ''}"
        for tool in summary.tools[:MAX_TOOLS]
    )
    stops = ", ".join(f"{printable(label(name), 40)} {n:,}" for name, n in summary.stops.items())
    pairs = [
        ("turns", f"{decimal(summary.turns.value, 2)} {interval(summary.turns, 2)} per episode"),
        ("malformed", f"{percent(summary.malformed.value)} of all actions"),
        ("ended by", stops),
        ("tool calls", calls or "none"),
    ]
    if len(summary.tools) > MAX_TOOLS:
        pairs.append(("", f"and {count(len(summary.tools) - MAX_TOOLS, 'other tool')}"))
    return _pairs("How it was played", pairs)


def _usage(usage: UsageSummary) -> Iterator[Table]:
    """Yield tokens by kind, then requests, time and money; nothing that the records lack."""
    title = "Effort"
    if usage.tokens:
        rows = []
        for kind in TOKEN_KINDS:
            if (tokens := usage.tokens.get(kind)) is not None:
                mean = tokens.per_episode
                rows.append((_TOKEN_WORDS[kind], whole(mean.value), whole_interval(mean), whole(tokens.total)))
        yield make_table(title, ("tokens", "per episode", "95 % interval", "all episodes"), rows, min_width=12)
        title = ""
    yield _pairs(title, effort(usage))


def effort(usage: UsageSummary) -> Iterator[tuple[str, str]]:
    """Yield name and text of each effort besides tokens by kind: requests, time, money; unknown ones are left out."""
    if usage.per_verdict is not None:
        yield "tokens per verdict", f"{whole(usage.per_verdict)} (all tokens over {count(usage.verdicts, 'verdict')})"
    if usage.requests is not None:
        yield "requests", f"{usage.requests:,}"
    if usage.retries:
        causes = ", ".join(f"{n:,} {printable(cause, 40)}" for cause, n in usage.retries.items())
        yield "retries", f"{causes}; waited {duration(usage.waited)}"
    yield from _discoveries(usage)
    if usage.truncated.value is not None:
        reach = f"[{percent(usage.truncated.low)}, {percent(usage.truncated.high)}]" if usage.truncated.n > 1 else ""
        yield "truncated replies", f"{percent(usage.truncated.value)} {reach}".strip()
    if usage.seconds:
        parts = (f"{_SECOND_WORDS[kind]} {duration(mean.value)}" for kind, mean in usage.seconds.items())
        yield "time per turn", ", ".join(parts)
    if usage.money is not None:
        money = usage.money
        name, each = printable(money.currency, 12), money.per_episode
        if each is not None or money.total:
            yield "cost", f"{name} {amount(money.total)}" + ("" if each else " for the tokens that have a price")
        if each is not None and each.value is not None:
            reach = f" [{amount(each.low)}, {amount(each.high)}]" if each.low is not None else ""
            yield "cost per episode", f"{name} {amount(each.value)}{reach}"
        if money.per_verdict is not None:
            yield "cost per verdict", f"{name} {amount(money.per_verdict)}"
        yield from (("no price", line) for line in unpriced(money))


def _discoveries(usage: UsageSummary) -> Iterator[tuple[str, str]]:
    """Yield name and text of each ability of a server that the run discovered, and of replies that are no answer."""
    if usage.tool_modes:
        modes = ", ".join(
            f"{printable(mode, 20)} ({count(n, 'reply', 'replies')})" for mode, n in usage.tool_modes.items()
        )
        yield "tools, as probed", modes
    yield from (("adapted", printable(change, 100)) for change in usage.adapted)
    if usage.outcomes:
        yield "odd replies", ", ".join(f"{n:,} {printable(outcome, 40)}" for outcome, n in usage.outcomes.items())


def unpriced(money: Money) -> Iterator[str]:
    """Yield a sentence for each model without a price, and for episodes without token counts."""
    models = list(money.unpriced.items())
    for model, tokens in models[:_MODELS]:
        name = f"'{printable(model, 60)}'" if model != UNNAMED else "a model that is not named"
        yield f"{count(tokens, 'token')} of {name}: not in the price table"
    if len(models) > _MODELS:
        yield f"{count(len(models) - _MODELS, 'other model')} not in the price table"
    if money.unmetered:
        yield f"{count(money.unmetered, 'episode')} without token counts"


def sizes(groups: GroupSummary) -> str:
    """Return `60 tasks with 8 samples each`, or with how many at least and at most."""
    if groups.smallest == groups.largest:
        return f"{count(groups.n, 'task')} with {groups.largest} samples each"
    return f"{count(groups.n, 'task')} with {groups.smallest} to {groups.largest} scored samples"


def measures(groups: GroupSummary) -> Iterator[tuple[str, Estimate, bool]]:
    """Yield name, value, and whether lower is better, for the measures that the groups have."""
    yield "all rewards equal", groups.collapsed, True
    yield "spread within (std)", groups.spread, False
    yield "best of the group", groups.best, False
    yield "worst of the group", groups.worst, False
    if groups.majority.value is not None:
        yield "majority verdict right", groups.majority, False
    tasks = max((share.n for share in groups.right_within.values()), default=0)
    for k, share in groups.right_within.items():
        size = f" ({count(share.n, 'task')})" if share.n < tasks else ""
        yield f"right within {count(k, 'try', 'tries')}{size}", share, False


def render_selection(selection: Selection, agent: str, env: str) -> Group:
    """Return the buckets, the histogram, and the questions that lack samples."""
    from rich.console import Group

    band, buckets = selection.band, selection.buckets
    anchors = f", and {count(buckets.anchors, 'anchor')}" if band.anchors else ""
    heading = (
        f"{env}  {count(buckets.pool, 'question')} × {band.samples} samples; "
        f"kept: {band.low} ≤ n_c ≤ {band.upper}{anchors}"
    )
    missing = []
    if short := selection.incomplete:
        errors = sum(group.errors for group in short)
        absent = sum(band.samples - group.scored - group.errors - group.unscored for group in short)
        names = ", ".join(group.task for group in short[:_MAX_NAMES]) + (", …" if len(short) > _MAX_NAMES else "")
        missing.append(
            f"{count(len(short), 'question')} without all {band.samples} scored samples, in no bucket and not kept: {names}."
            f" Errors: {errors}; not played: {absent}. The same command with --resume plays them again."
        )
    highest = max(buckets.histogram)
    rows = []
    for right, n in enumerate(buckets.histogram):
        share = n / highest if highest else None
        rows.append((str(right), f"{n:,}", Bar(Estimate(share, None, None, n))))
    title = f"Questions by right samples; {percent(buckets.solved)} of all samples are right"
    parts: tuple[Part, ...] = (
        Note(heading, fine=True),
        make_table("", ("policy", *bucket_columns(band.samples)), [(agent, *bucket_cells(buckets))], name_limit=24),
        make_table(title, ("right", "questions", ""), rows),
        *(Note(note) for note in (*missing, *selection.notes)),
    )
    return Group(*render_section(Section(env, parts)))


def bucket_columns(samples: int) -> tuple[str, ...]:
    """Return the heads of Table 11."""
    return ("n_c = 0", f"1–{samples - 1}", f"n_c = {samples}", "retained", "keep %")


def bucket_cells(buckets: Buckets) -> tuple[str, ...]:
    """Return the cells below them."""
    counts = (buckets.never, buckets.between, buckets.always, buckets.retained)
    return (*(f"{n:,}" for n in counts), percent(buckets.share))
