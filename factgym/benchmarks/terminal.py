"""Tables and reports for a terminal of eighty columns and a CI log alike; strings are plain text, never markup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from factgym.benchmarks.formats import printable
from factgym.benchmarks.report import KINDS, Bar, Link, Note, Report, Section, Styled, Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group, RenderableType
    from rich.measure import Measurement
    from rich.segment import Segment

NOTE_CHARS = 600


@dataclass(frozen=True, slots=True)
class Meter:
    """`value` of [0, 1] as a bar of `width` cells, in ASCII where needed; cut to the range, None draws nothing."""

    value: float | None
    width: int = 16
    style: str = "cyan"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Draw the bar."""
        from rich.segment import Segment

        if self.value is None:
            return
        filled, empty = ("#", ".") if options.ascii_only else ("━", "─")
        cells = round(min(1.0, max(0.0, self.value)) * self.width)
        yield Segment(filled * cells, console.get_style(self.style))
        yield Segment(empty * (self.width - cells), console.get_style("dim"))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the fixed width."""
        from rich.measure import Measurement

        return Measurement(self.width, self.width)


def render_table(table: Table) -> Group:
    """Return one table with its notes; ✓ where our number is the paper's to the digits printed, ✗ where it is not."""
    from rich import box
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    parts: list[RenderableType] = []
    if table.kind is not None:
        heading = Text.assemble((f"\n{table.source}", "bold"), f"  {table.title}", (f"\n{KINDS[table.kind]}", "dim"))
        parts.append(heading)
    grid = RichTable(
        title=Text(f"\n{table.title}", style="bold") if table.kind is None and table.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="dim",
        show_edge=False,
        show_header=table.header,
    )
    indices = [i for i, column in enumerate(table.columns) if not column.page_only]
    for i in indices:
        column = table.columns[i]
        grid.add_column(
            printable(column.name, 40),
            justify="left" if column.left_aligned else "right",
            no_wrap=not table.wrap,
            min_width=column.min_width or None,
        )
    if table.marked:
        grid.add_column("", no_wrap=True)
    marks = {None: Text(""), True: Text("✓", "green"), False: Text("✗", "red")}
    for row in table.rows:
        cells: list[RenderableType] = []
        for i in indices:
            cell, limit = row.cells[i], table.columns[i].limit
            if isinstance(cell, Bar):
                cells.append(Meter(cell.estimate.value, cell.width, style="red" if cell.lower_is_better else "cyan"))
            elif isinstance(cell, Styled):
                cells.append(Text(_padded(cell.text, limit), cell.style))
            else:
                cells.append(Text(_padded(cell.text if isinstance(cell, Link) else cell, limit)))
        grid.add_row(*cells, *([marks[row.agrees]] if table.marked else []), end_section=row.ends_group)
    notes = [Padding(Text(printable(note, NOTE_CHARS), "dim"), (0, 0, 0, 2)) for note in table.notes]
    return Group(*parts, grid, *notes)


def _padded(text: str, limit: int) -> str:
    """Return printable text that keeps the spaces around it: an indented name, an aligned mark."""
    visible = printable(text, limit)
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return f"{' ' * min(before, 4)}{visible}{' ' * min(after, 4)}" if visible else visible


def render_section(section: Section) -> Iterator[RenderableType]:
    """Yield the tables and notes of a section; charts are for pages."""
    from rich.text import Text

    for part in section.parts:
        if isinstance(part, Table):
            yield render_table(part)
        elif isinstance(part, Note):
            yield Text(printable(part.text, NOTE_CHARS), "dim" if part.fine else "yellow")


def render_report(report: Report) -> Iterator[RenderableType]:
    """Yield everything for a terminal, in reading order: sections, the paper's tables, notes."""
    from rich.text import Text

    for section in report.sections:
        if not section.page_only:
            yield from render_section(section)
    yield from (render_table(table) for table in report.tables)
    yield from (Text(f"\n{printable(note, NOTE_CHARS)}", "yellow") for note in report.notes)
