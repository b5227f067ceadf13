"""The rounds as a table at eighty columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from factgym.benchmarks.formats import ABSENT, printable
from factgym.benchmarks.terminal import add, number_columns, plain_table
from factgym.training.seva.rounds import Cell, Round, Rounds

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_PER_TABLE = 4
"""Benchmarks side by side."""
_NAME_CHARS = 10
_NOTE_CHARS = 600


def short_name(benchmark: str) -> str:
    """A benchmark's name for a column or a line."""
    return printable(benchmark.removeprefix("generated-"), _NAME_CHARS)


def render_rounds(rounds: Rounds) -> Group:
    """Macro-F1 in percent and the change against the seed in points, by round and benchmark; then what it amounts to.

    Print it with a rich Console.
    """
    from rich.console import Group
    from rich.text import Text

    names = list(rounds.benchmarks)
    parts: list[RenderableType] = []
    for start in range(0, len(names), _PER_TABLE):
        chosen = names[start : start + _PER_TABLE]
        parts.append(_table(rounds, chosen, last=start + _PER_TABLE >= len(names), first=not start))
    legend = "Change against the seed in points; * where its paired 95 % BCa interval leaves out 0."
    parts.append(Text(legend, style="dim"))
    if len(rounds.rows) > 1:
        parts += [Text(""), _probes(rounds)]
    parts += [
        Text(printable(note, _NOTE_CHARS), style="yellow" if "NOT judged" in note else "") for note in rounds.notes
    ]
    return Group(*parts)


def _table(rounds: Rounds, names: Sequence[str], *, last: bool, first: bool) -> Table:
    table = plain_table("Macro-F1 by round and benchmark" if first else "")
    table.add_column("round", no_wrap=True)
    number_columns(table, *(short_name(name) for name in names), *(["average"] if last else []))
    seed = rounds.rows[0]
    for place, row in enumerate(rounds.rows):
        ends = place + 1 == len(rounds.rows) or rounds.rows[place + 1].arm != row.arm
        cells = [_cell(row.cells[name]) for name in names]
        if last:
            cells.append(_average(row, seed))
        add(table, row.name, *cells, end_section=ends)
    return table


def _cell(cell: Cell) -> str:
    if cell.change is None:
        return f"{100 * cell.f1:.1f}"
    return f"{100 * cell.f1:.1f} {_points(cell.change.value)}{'*' if cell.sign else ' '}"


def _average(row: Round, seed: Round) -> str:
    change = "" if row is seed else f" {_points(row.average - seed.average)}"
    return f"{100 * row.average:.1f}{change}"


def _points(change: float | None) -> str:
    return ABSENT if change is None else f"{round(100 * change, 1) + 0.0:+.1f}"


def _probes(rounds: Rounds) -> Table:
    table = plain_table("Probes, and what the changes amount to")
    table.add_column("round", no_wrap=True)
    number_columns(table, "asked", "made", "kept", "taught", "spread")
    table.add_column("beyond chance")
    for place, row in enumerate(rounds.rows):
        ends = place + 1 == len(rounds.rows) or rounds.rows[place + 1].arm != row.arm
        if row.arm:
            counts = [f"{n:,}" for n in (row.asked, row.made, row.kept)]
            taught = f"{row.lines:,}" if row.lines else ABSENT
            add(table, row.name, *counts, taught, f"{100 * row.spread:.1f}", _amounts(row), end_section=ends)
    return table


def _amounts(row: Round) -> str:
    """`specialist: + halueval, - truthfulqa`."""
    said = [
        f"{mark} {', '.join(names)}"
        for mark, sign in (("+", 1), ("-", -1))
        if (names := [short_name(name) for name, cell in row.cells.items() if cell.sign == sign])
    ]
    return f"{row.shape}: {'; '.join(said)}" if said else row.shape
