"""An evaluation as data: sections of tables, charts and notes, which `terminal` and `page` draw alike.

Strings are plain text, foreign text included: the renderer escapes them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, get_args

from factgym.benchmarks.formats import ABSENT, decimal, fill, interval, value_at, write
from factgym.benchmarks.statistics.intervals import Estimate

Kind = Literal["computed", "data", "theirs"]
KINDS: Mapping[Kind, str] = MappingProxyType(
    {
        "computed": "computed from the definitions",
        "data": "counted in the files at hand",
        "theirs": "their trained models beside our scripts: not a reproduction",
    }
)
"""Where the numbers of a paper's table come from, in words."""
assert tuple(KINDS) == get_args(Kind)


@dataclass(frozen=True, slots=True)
class Bar:
    """A share in [0, 1] as a bar. width: cells on a terminal; a page adds the interval as a whisker."""

    estimate: Estimate
    lower_is_better: bool = False
    width: int = 16


@dataclass(frozen=True, slots=True)
class Styled:
    """Text in a style of a terminal, such as "dim" or "bold red"; a page prints all of them bold."""

    text: str
    style: str = "bold"


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page to another page beside it; its text alone on a terminal. address: relative, and ours."""

    text: str
    address: str


Cell = str | Styled | Bar | Link


@dataclass(frozen=True, slots=True)
class Column:
    """One column. limit: characters of a cell on a terminal. page_only: left out on a terminal, where it does not fit."""

    name: str
    left_aligned: bool = False
    page_only: bool = False
    limit: int = 400
    min_width: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line. agrees: whether ours is theirs to the digits that a paper prints; None where they cannot be compared."""

    cells: tuple[Cell, ...]
    agrees: bool | None = None
    ends_group: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table; the first column holds names.

    source, kind: of a paper's table, such as "Table 14", and where our numbers in it come from. wrap: long cells take
    several lines on a terminal. header: whether a terminal prints the names of the columns. Raises ValueError for a row
    that does not fit the columns.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    source: str = ""
    kind: Kind | None = None
    wrap: bool = False
    header: bool = True

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"{self.source or self.title}: {len(row.cells)} cells for {len(self.columns)} columns: {row.cells}"
                )

    @property
    def marked(self) -> bool:
        """Whether any row says if ours agrees with theirs."""
        return any(row.agrees is not None for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data; only for tables of text."""
        return {
            "source": self.source,
            "title": self.title,
            "kind": self.kind,
            "columns": [column.name for column in self.columns],
            "rows": [{"cells": list(row.cells), "agrees": row.agrees} for row in self.rows],
            "notes": list(self.notes),
        }


def make_table(
    title: str,
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[Cell] | Row],
    *,
    name_limit: int = 40,
    min_width: int = 0,
    header: bool = True,
) -> Table:
    """Return a table whose first column holds names: left-aligned, `name_limit` characters wide at most on a terminal."""
    heads = [
        column
        if isinstance(column, Column)
        else Column(column, left_aligned=True, limit=name_limit, min_width=min_width)
        if i == 0
        else Column(column)
        for i, column in enumerate(columns)
    ]
    lines = [row if isinstance(row, Row) else Row(tuple(row)) for row in rows]
    return Table(title, tuple(heads), tuple(lines), header=header)


def estimate_table(title: str, head: str, estimates: Mapping[str, Estimate], min_width: int) -> Table:
    """Return estimates by name, with their intervals and bars."""
    rows = [(name, decimal(value.value), interval(value), Bar(value)) for name, value in estimates.items()]
    return make_table(title, (head, "value", "95 % interval", ""), rows, min_width=min_width)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a page. draw: returns it as SVG text; raises MissingExtraError without the chart library."""

    title: str
    draw: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for people. fine: small print, such as a legend, and no warning."""

    text: str
    fine: bool = False


Part = Table | Chart | Note | Link


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under one heading. page_only: not on a terminal. folded: opened on demand on a page."""

    title: str
    parts: tuple[Part, ...]
    about: str = ""
    page_only: bool = False
    folded: bool = False
    in_navigation: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A whole evaluation. notes come last on a terminal and first on a page; tables are those of the paper."""

    title: str
    sections: tuple[Section, ...]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


@cache
def paper_facts(paper: str, table: str) -> Mapping[str, Any]:
    """Return the numbers that a paper prints under a key of `facts/PAPER.toml`, such as "table14"; read-only.

    Raises KeyError for an unknown key.
    """
    file = resources.files("factgym.benchmarks").joinpath("facts", f"{paper}.toml")
    return MappingProxyType(tomllib.loads(file.read_text("utf-8"))[table])


def layout_table(
    paper: str,
    key: str,
    rows: Iterable[Any] = (),
    *,
    columns: Sequence[str] = (),
    notes: Iterable[str] = (),
    **values: object,
) -> Table:
    """Return the table that `tables.KEY` in `facts/PAPER.toml` describes: the paper's numbers with ours, or ours alone.

    The layout has a title, heads, notes, and templates for the cells of a line (`make_cells`). `theirs` is filled from each
    line of the facts that the layout's `rows` names, and `ours` from each item of the argument `rows` that is not a Row.
    columns, notes: added after those of the layout. values: fill the layout's title and notes.

    In a layout, `source` marks a table of the paper, `words` makes all cells text, `page_only` is the number of last columns
    that a terminal leaves out, and `limit` and `width` are the most and the fewest characters of the first column. A line of
    the paper that is too short ends in dashes.
    """
    layout = paper_facts(paper, "tables")[key]
    names, printed = (*layout["columns"], *columns), "source" in layout
    first_page_only = len(names) - layout.get("page_only", 0)
    heads = [Column(name, layout.get("words", False), page_only=i >= first_page_only) for i, name in enumerate(names)]
    limit = layout.get("limit", 400 if printed else 40)
    heads[0] = Column(names[0], left_aligned=True, limit=limit, min_width=layout.get("width", 0))
    theirs = paper_facts(paper, layout["rows"])["rows"] if "theirs" in layout else ()
    lines = [make_cells(layout["theirs"], row) for row in theirs]
    ours = (row if isinstance(row, Row) else Row(make_cells(layout["ours"], row)) for row in rows)
    return Table(
        fill(layout["title"], values),
        tuple(heads),
        (*(Row((*line, *[ABSENT] * (len(names) - len(line)))) for line in lines), *ours),
        (*(fill(note, values) for note in layout.get("notes", ())), *notes),
        layout.get("source", ""),
        layout.get("kind"),
        wrap=printed,
    )


def make_cells(templates: Iterable[str], source: Any) -> tuple[Cell, ...]:
    """Return cells of templates (`fill`): `**bold**`, `{path:bar}` for a bar, `{path*:form}` for a cell of each of several."""
    cells: list[Cell] = []
    for template in templates:
        path, _, form = template.strip("{}").partition(":")
        if path.endswith("*"):
            cells += [write(value, form) for value in value_at(source, path[:-1])]
        elif form == "bar":
            cells.append(Bar(value_at(source, path)))
        elif template.startswith("**"):
            cells.append(Styled(fill(template.strip("*"), source)))
        else:
            cells.append(fill(template, source))
    return tuple(cells)


def agrees(computed: float, printed: float, places: int) -> bool:
    """Return whether a number is the printed one: within half a unit of its last digit, ties included."""
    return abs(computed - printed) <= 0.5 * 10.0**-places + 1e-9


def notes_by_name(notes: Iterable[tuple[str, Iterable[str]]], total: int | None = None) -> list[str]:
    """Return each note once, preceded by the names it is about; without names where it is about `total` of them."""
    names: dict[str, list[str]] = {}
    for name, lines in notes:
        for note in lines:
            names.setdefault(note, []).append(name)
    return [note if len(group) == total else f"{', '.join(group)}: {note}" for note, group in names.items()]
