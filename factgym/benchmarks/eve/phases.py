"""The two phases of an EVE evolution and its data set as tables at eighty columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from factgym.benchmarks.formats import count, decimal, printable
from factgym.benchmarks.plain import add, number_columns, plain_table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_NOTE_CHARS = 600

PROPOSER = ("episodes", "reward", "format", "difficulty", "V", "valid", "placed", "solved", "flat")
SOLVER = ("episodes", "reward", "EM", "F1", "evidence F1", "verbatim", "searches", "flat")
LEGEND = (
    "V: gain in accuracy by the evidence, over the valid. placed: evidence verbatim in the text. solved: searching "
    "answers that were right. flat: share without an advantage."
)


def render_phases(summary: Mapping[str, Any]) -> Group:
    """What `summary_of` found, for a rich Console."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        _table("Phase A: the proposer", PROPOSER, [proposer_cells(one) for one in summary["proposer"]]),
        Text(LEGEND, style="dim"),
    ]
    if summary["data"] is not None:
        parts += [Text(""), Text("Data set", style="bold"), *(Text(line) for line in data_lines(summary["data"]))]
    if summary["solver"]:
        cells = [solver_cells(one) for one in summary["solver"]]
        parts += [Text(""), _table("Phase B: the solver", SOLVER, cells)]
    parts += [Text(printable(note, _NOTE_CHARS), style="yellow") for note in summary["caveats"]]
    return Group(*parts)


def data_lines(data: Mapping[str, Any]) -> list[str]:
    """The data set in sentences."""
    hops = ", ".join(f"{n:,} of {count(int(name), 'hop')}" for name, n in data["hops"].items())
    lines = [
        f"{count(data['rows'], 'row')} of {count(data['episodes'], 'rollout')} from "
        f"{count(data['prompts'], 'held-out passage')}; mean V {decimal(data['V'])}",
        f"{hops}; {count(data['documents'], 'passage')} used" if data["rows"] else "",
        *(f"{n:,} dropped: {reason}" for reason, n in data["dropped"].items()),
    ]
    return [line for line in lines if line]


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = plain_table(title)
    number_columns(table, "", *names)
    for number, cells in enumerate(rows, 1):
        add(table, str(number), *cells)
    return table


def proposer_cells(one: Mapping[str, Any]) -> list[str]:
    """The cells under `PROPOSER` of one iteration."""
    parts = one["components"]
    values = (one["reward"], parts.get("format"), parts.get("difficulty"), one["V"])
    shares = (one["valid"], one["placed"], one["solved"], one["flat"])
    return [f"{one['episodes']:,}", *(decimal(value) for value in values), *(decimal(value, 2) for value in shares)]


def solver_cells(one: Mapping[str, Any]) -> list[str]:
    """The cells under `SOLVER` of one iteration."""
    values = (one["reward"], one["em"], one["f1"], one["evidence_f1"])
    shares = (one["verbatim"], one["searches"], one["flat"])
    return [f"{one['episodes']:,}", *(decimal(value) for value in values), *(decimal(value, 2) for value in shares)]
