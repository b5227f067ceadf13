"""The bucket table of a learning-zone filter in the layout of Table 11, and the histogram behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from factgym.agents.difficulty import Buckets, Selection
from factgym.benchmarks.bars import Meter
from factgym.benchmarks.formats import count, percent, printable
from factgym.benchmarks.plain import add, number_columns, plain_table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_AGENT = 24
_SHOWN = 5


def render_selection(selection: Selection, agent: str, env: str) -> Group:
    """The table, the histogram, and what is missing."""
    from rich.console import Group
    from rich.text import Text

    found = selection.buckets
    parts: list[RenderableType] = [_heading(selection, env), _buckets(selection, agent)]
    parts += [
        Text(f"\nQuestions by right samples; {percent(found.solved)} of all samples are right"),
        _histogram(found),
    ]
    notes = [*_missing(selection), *selection.notes]
    if notes:
        parts.append(Text("\n" + "\n".join(printable(note, 400) for note in notes), "yellow"))
    return Group(*parts)


def zone_columns(samples: int) -> tuple[str, ...]:
    """The heads of Table 11."""
    return ("n_c = 0", f"1–{samples - 1}", f"n_c = {samples}", "retained", "keep %")


def zone_cells(buckets: Buckets) -> tuple[str, ...]:
    """The cells below them."""
    counts = (buckets.never, buckets.between, buckets.always, buckets.retained)
    return (*(f"{n:,}" for n in counts), percent(buckets.share))


def _heading(selection: Selection, env: str) -> RenderableType:
    from rich.text import Text

    zone, found = selection.band, selection.buckets
    kept = f"kept: {zone.low} ≤ n_c ≤ {zone.upper}"
    anchors = f", and {count(found.anchors, 'anchor')}" if zone.anchors else ""
    said = f"{count(found.pool, 'question')} × {zone.samples} samples; {kept}{anchors}"
    return Text.assemble((printable(env, 30), "bold"), f"  {said}")


def _buckets(selection: Selection, agent: str) -> Table:
    table = plain_table("")
    table.add_column("policy", no_wrap=True, min_width=12)
    number_columns(table, *zone_columns(selection.band.samples))
    add(table, printable(agent, _AGENT), *zone_cells(selection.buckets))
    return table


def _histogram(found: Buckets) -> Table:
    table = plain_table("")
    number_columns(table, "right", "questions")
    table.add_column("", no_wrap=True)
    highest = max(found.histogram)
    for right, n in enumerate(found.histogram):
        add(table, str(right), f"{n:,}", Meter(n / highest if highest else None, width=40))
    return table


def _missing(selection: Selection) -> Iterator[str]:
    short = selection.incomplete
    if not short:
        return
    errors = sum(one.errors for one in short)
    absent = sum(selection.band.samples - one.scored - one.errors - one.unscored for one in short)
    names = ", ".join(one.task for one in short[:_SHOWN]) + (", …" if len(short) > _SHOWN else "")
    yield (
        f"{count(len(short), 'question')} without all {selection.band.samples} scored samples, in no bucket and not kept: {names}."
        f" Errors: {errors}; not played: {absent}. The same command with --resume plays them again."
    )
