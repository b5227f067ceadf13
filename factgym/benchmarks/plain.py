"""Tables without frames, for a terminal and a CI log alike; their strings are plain text, never console markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def plain_table(title: str) -> Table:
    """A table without frames, its title to the left; rows keep together at eighty columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="dim",
        show_edge=False,
    )


def number_columns(table: Table, *names: str) -> None:
    """Add right-aligned columns that never wrap."""
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)


def add(table: Table, *cells: RenderableType, end_section: bool = False) -> None:
    """Add a row whose strings are plain text, never console markup."""
    from rich.text import Text

    table.add_row(*(Text(one) if isinstance(one, str) else one for one in cells), end_section=end_section)
