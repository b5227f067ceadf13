"""A table of a paper at eighty columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factgym.benchmarks.papers.table import KINDS, PaperTable
from factgym.benchmarks.plain import add, plain_table

if TYPE_CHECKING:
    from rich.console import Group


def render_paper(table: PaperTable) -> Group:
    """One table of the paper; ✓ where ours is theirs to the digits printed, ✗ where it is not."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    marked = any(row.agrees is not None for row in table.rows)
    heading = Text.assemble((f"\n{table.source}", "bold"), f"  {table.title}", (f"\n{KINDS[table.kind]}", "dim"))
    grid = plain_table("")
    grid.add_column(table.columns[0])
    wide = table.columns[0] == "strategy"
    for name in table.columns[1:]:
        grid.add_column(name, justify="left" if wide else "right")
    if marked:
        grid.add_column("", no_wrap=True)
    for row in table.rows:
        mark = {None: Text(""), True: Text("✓", "green"), False: Text("✗", "red")}[row.agrees]
        add(grid, *row.cells, *([mark] if marked else []))
    notes = [Padding(Text(note, "dim"), (0, 0, 0, 2)) for note in table.notes]
    return Group(heading, grid, *notes)
