"""Tables as lines of text, one for each row: `Header: cell; Header: cell`.

A grid is a list of rows of cells. Which cells are headers is what the markup says. Where it says nothing, the first row is
the header if a column has digits in all rows but this one (in files of values, CSV and XLSX: if it has none and no gap);
else a table of two columns is read as keys with their values, and a wider one as its cells.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, count, groupby, product
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from factgym.core.errors import DataError

MAX_CELLS = 200_000
"""Cells of a sheet or file that are read."""

_MAX_COLUMNS = 1000
_MIN_CHARS = 1_000_000
"""Characters of a table's lines, with eight times those of its cells, from which on nothing is repeated."""

_MAX_PART_BYTES = 100_000_000
_VALUE = re.compile(r"\d")
_YEAR = re.compile(r"\b(?:1[89]|20)\d\d\b|\b[QHWFK]\d\b|\b\d(?:st|nd|rd|th)\b", re.I)
"""Digits of periods and ordinals, which names of columns have as well."""
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_OFFICE = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_QUOTED = re.compile(r"\"([^\"]*)\"|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]|\\.|_.|\*.")


class Cell(NamedTuple):
    """A cell. header: the markup says that it names others. origin: equal for all fields that one spanning cell fills."""

    text: str
    header: bool = False
    origin: int = 0


def form_grid(rows: Sequence[Sequence[tuple[Cell, int, int]]]) -> list[list[Cell]]:
    """Return the grid of rows of `(cell, columns, rows)` (HTML standard, section 4.9.12.1).

    All spans together fill at most four fields for each cell, and 1,000; further ones count as one.
    """
    empty = Cell("")
    grid: list[list[Cell]] = [[] for _ in rows]
    spans_left = _MAX_COLUMNS + 4 * sum(map(len, rows))
    origins = count(1)
    for number, row in enumerate(rows):
        column = 0
        for cell, columns, height in row:
            height = min(height, len(rows) - number)
            if columns * height - 1 > spans_left:
                columns, height = min(columns, 2), 1
            spans_left -= columns * height - 1
            while column < len(grid[number]) and grid[number][column] is not empty:
                column += 1
            origin = next(origins)
            for line in grid[number : number + height]:
                line.extend([empty] * (column + columns - len(line)))
                line[column : column + columns] = [cell._replace(origin=origin)] * columns
            column += columns
    return grid


def row_lines(grid: Sequence[Sequence[Cell]], is_data: bool = False) -> list[str]:
    """Return the lines of a table. No word is lost: a cell that spans rows is in the line of each of them, and columns
    without a value are named in a line of their own.

    is_data: a file of values, whose first row names the columns unless it cannot.
    """
    rows = [list(row) for row in grid if any(cell.text for cell in row)]
    used = sorted({column for row in rows for column, cell in enumerate(row) if cell.text})
    rows = [[row[column] for column in used if column < len(row)] for row in rows]
    lines = []
    # Rows of one cell above the others are the table's title.
    width = len(used)
    while len(rows) > 1 and width > 1 and _is_title(rows[0], width):
        lines.append(_distinct(rows.pop(0))[0])
    marked = _header_rows(rows, width)
    if not marked and len(rows) > 1 and not any(row[0].header for row in rows) and _are_names(rows, width, is_data):
        marked = 1
    if not marked and width > 2 and all(_is_keyed(row, width) for row in rows):
        # The headers are in the first column.
        return lines + [_line(column, [row[0].text for row in rows]) for column in [*zip(*rows, strict=True)][1:]]
    names, filled = _names(rows[:marked], width), set[int]()
    origins = {cell.origin or -number: len(cell.text) for number, cell in enumerate(chain(*rows), start=1)}
    chars_left, seen = _MIN_CHARS + 8 * sum(origins.values()), {0}
    for number, row in enumerate(rows[marked:], start=marked + 1):
        if width > 1 and _spans(row, width):
            lines.append(row[0].text)
        elif marked and _header_rows(rows[number - 1 : number + 1], width) and not any(_has_value(c.text) for c in row):
            lines += _unfilled(names, filled)
            names, filled = _names([row], width), set[int]()
        elif chars_left > 0:
            lines.append(_line(row, names))
            filled.update(column for column, cell in enumerate(row) if cell.text)
        else:  # neither names nor spanning cells are repeated any more
            lines.append(_line([cell if cell.origin not in seen or not cell.origin else Cell("") for cell in row], ()))
        seen.update(cell.origin for cell in row)
        chars_left -= len(lines[-1]) if lines else 0
    return lines + _unfilled(names, filled)


def _unfilled(names: Sequence[str], filled: set[int]) -> list[str]:
    """Return a line with the names of columns that have no value in any row, if there are such."""
    unfilled = [name for column, name in enumerate(names) if name and column not in filled]
    return ["; ".join(unfilled)] if unfilled else []


def _spans(row: Sequence[Cell], width: int) -> bool:
    """Whether one cell is as wide as the table: a title between rows."""
    return len(row) == width and row[0].origin > 0 and row[0].origin == row[-1].origin


def _is_title(row: Sequence[Cell], width: int) -> bool:
    is_alone = len(_distinct(row)) == 1 and bool(row[0].text) and not any(cell.header for cell in row)
    return _spans(row, width) or is_alone


def _distinct(row: Sequence[Cell]) -> list[str]:
    """Return the texts of a row, those of a spanning cell once."""
    return [text for (_, text), _ in groupby((cell.origin, cell.text) for cell in row) if text]


def _header_rows(rows: Sequence[Sequence[Cell]], width: int) -> int:
    """Return how many rows at the top, but the last, the markup calls headers throughout."""
    marked = 0
    while (
        marked < len(rows) - 1
        and all(cell.header for cell in rows[marked] if cell.text)
        and not (width > 1 and _spans(rows[marked], width))
    ):
        marked += 1
    return marked


def _is_keyed(row: Sequence[Cell], width: int) -> bool:
    """Whether a row is a header with a value for each of the other columns."""
    return len(row) == width and row[0].header and not any(cell.header or not cell.text for cell in row[1:])


def _names(rows: Sequence[Sequence[Cell]], width: int) -> list[str]:
    """Return the names of the columns, empty where there are none."""
    columns = ([row[column].text for row in rows if column < len(row)] for column in range(width))
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _are_names(rows: Sequence[Sequence[Cell]], width: int, is_data: bool) -> bool:
    """Whether the first row, of which the markup says nothing, names the columns."""
    first = [cell.text for cell in rows[0]]
    if len(first) < width or not all(first[1:]) or len(set(first)) < width or any(map(_has_value, first)):
        return False
    if is_data:
        return bool(first[0])
    body = [[row[column].text if column < len(row) else "" for row in rows[1:]] for column in range(width)]
    return width > 2 and any(all(map(_VALUE.search, column)) for column in body)


def _has_value(text: str) -> bool:
    return _VALUE.search(_YEAR.sub("", text)) is not None


def _line(row: Sequence[Cell], names: Sequence[str]) -> str:
    if not any(names):
        return _keyed_line(row)
    parts = []
    # A cell that spans columns is under all of their names.
    for _, group in groupby(enumerate(row), lambda entry: entry[1].origin or -entry[0]):
        columns = [*group]
        own = dict.fromkeys(names[column] for column, _ in columns if column < len(names) and names[column])
        name, text = ", ".join(own), columns[0][1].text
        if text:
            parts.append(f"{name}: {text}" if name and name != text else text)
    return "; ".join(parts)


def _keyed_line(row: Sequence[Cell]) -> str:
    """Return a row without names of columns: each header, or the first of two cells, with the values behind it."""
    texts = _distinct(row)
    if len(row) == 2 and len(texts) == 2:
        return f"{texts[0].removesuffix(':')}: {texts[1]}"
    headers = {cell.text for cell in row if cell.header}
    line = ""
    for previous, text in zip(["", *texts], texts, strict=False):
        line += text if not line else f": {text}" if previous in headers and text not in headers else f"; {text}"
    return line


def text_lines(text: str, name: str) -> list[str]:
    """Return the lines of a CSV or TSV file with any of the usual separators."""
    first, newline, remainder = text.partition("\n")
    declared = re.fullmatch(r"sep=(.)", first.strip('\r\ufeff"'))
    if declared and newline:
        delimiter, text = declared[1], remainder
    else:
        delimiter = "\t" if name.lower().endswith(".tsv") else _delimiter(text)
    csv.field_size_limit(MAX_CELLS * 10)
    grid: list[list[Cell]] = []
    cells = 0
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True):
            cells += len(row)
            if cells > MAX_CELLS:
                raise DataError(f"more than {MAX_CELLS:,} cells")
            grid.append([Cell(" ".join(field.split())) for field in row])
    except csv.Error as error:
        raise DataError(f"not readable as a table ({error})") from None
    return row_lines(grid, is_data=True)


def _delimiter(text: str) -> str:
    """Return the separator that gives most of the first records one and the same number of fields, above one."""
    sample = text[:20_000].splitlines(keepends=True)[:100]

    def fitness(delimiter: str) -> tuple[int, int]:
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:
            return (0, 0)
        return max(((widths.count(width), width) for width in set(widths) if width > 1), default=(0, 0))

    return max(",;\t|", key=fitness)


def read_sheets(file: Path) -> list[tuple[str, list[str]]]:
    """Return the name and the lines of each sheet of an XLSX workbook (ECMA-376, part 1, section 18)."""
    with zipfile.ZipFile(file) as archive:
        if (size := sum(entry.file_size for entry in archive.infolist())) > _MAX_PART_BYTES:
            raise DataError(f"{size:,} bytes unpacked, over the limit of {_MAX_PART_BYTES:,}")
        shared = ["".join(_texts(entry)) for entry in _parse(archive, "xl/sharedStrings.xml").iter("si")]
        formats = _number_formats(_parse(archive, "xl/styles.xml"))
        parts = {
            relation.get("Id"): relation.get("Target", "")
            for relation in _parse(archive, "xl/_rels/workbook.xml.rels").iter("Relationship")
        }
        workbook = _parse(archive, "xl/workbook.xml")
        is_of_1904 = any(entry.get("date1904") in ("1", "true") for entry in workbook.iter("workbookPr"))
        epoch = datetime(1904, 1, 1) if is_of_1904 else datetime(1899, 12, 30)
        sheets = []
        for number, sheet in enumerate(workbook.iter("sheet"), start=1):
            target = parts.get(sheet.get(f"{_OFFICE}id"), f"worksheets/sheet{number}.xml")
            part = _parse(archive, target[1:] if target.startswith("/") else f"xl/{target}")
            cells = [_sheet_cells(row, shared, formats, epoch) for row in part.iter("row")]
            sheets.append((" ".join(sheet.get("name", "").split()), row_lines(_merged(cells, part), is_data=True)))
    return sheets


def _parse(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    """Return the root of a part without the namespaces of its tags; an empty one where the part is missing."""
    if name not in archive.namelist():
        return ElementTree.Element("missing")
    data = archive.read(name)
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise DataError("its XML declares entities")
    root = ElementTree.fromstring(data)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _texts(entry: ElementTree.Element) -> Iterator[str]:
    """Yield the text of a string, without its phonetic runs."""
    for child in entry:
        if child.tag == "t":
            yield child.text or ""
        elif child.tag == "r":
            yield from _texts(child)


def _number_formats(styles: ElementTree.Element) -> list[str]:
    """Return the code of the number format of each style of cells; `d` of the dates that are built in."""
    codes = {entry.get("numFmtId", ""): entry.get("formatCode", "") for entry in styles.iter("numFmt")}
    codes |= {"9": "0%", "10": "0.00%"} | {str(number): "d" for number in _DATE_FORMATS}
    return [codes.get(entry.get("numFmtId", ""), "") for group in styles.iter("cellXfs") for entry in group]


def _sheet_cells(
    row: ElementTree.Element, shared: Sequence[str], formats: Sequence[str], epoch: datetime
) -> dict[tuple[int, int], str]:
    """Return the texts of a row by `(row, column)`, as a person sees them."""
    cells: dict[tuple[int, int], str] = {}
    line = int(row.get("r", "0"))
    for cell in row.iter("c"):
        reference = _REFERENCE.fullmatch(cell.get("r", ""))
        column = _column(reference[1]) if reference else len(cells)
        if len(cells) > MAX_CELLS or column > _MAX_COLUMNS:
            raise DataError(f"more than {MAX_CELLS:,} cells, or {_MAX_COLUMNS:,} columns")
        value, kind = cell.findtext("v", ""), cell.get("t", "n")
        if kind == "s":
            text = shared[int(value)]
        elif kind == "inlineStr":
            text = "".join(part for entry in cell.iter("is") for part in _texts(entry))
        elif kind == "b":
            text = "TRUE" if value == "1" else "FALSE"
        elif kind == "n" and value:
            style = int(cell.get("s", "0"))
            text = _number_text(float(value), formats[style] if style < len(formats) else "", epoch)
        else:
            text = value
        cells[line, column] = " ".join(text.split())
    return cells


def _number_text(value: float, code: str, epoch: datetime) -> str:
    """Return a number in its format: dates as ISO 8601, percentages, and a currency before or behind it."""
    code = code.partition(";")[0]
    bare = _QUOTED.sub("", code).lower()
    if re.search(r"[ymdhs]", bare) and 0 <= value < 2_958_466:
        moment = epoch + timedelta(seconds=round(value * 86_400))
        if value < 1:
            return f"{moment:%H:%M}"
        return f"{moment:%Y-%m-%d}" if value == int(value) else f"{moment:%Y-%m-%d %H:%M}"
    is_percent = "%" in bare
    text = f"{value * 100 if is_percent else value:.15g}" + "%" * is_percent
    digits = re.search(r"[0#?]", code)
    before, after = (code[: digits.start()], code[digits.start() :]) if digits else ("", "")
    signs = [
        "".join(f"{m[1] or ''}{m[2] or ''}" for m in _QUOTED.finditer(part)) or "".join(re.findall(r"[$€£¥]", part))
        for part in (before, after)
    ]
    return f"{signs[0]}{text}{' ' if signs[1].strip() else ''}{signs[1].strip()}"


def _merged(rows: Sequence[dict[tuple[int, int], str]], sheet: ElementTree.Element) -> list[list[Cell]]:
    """Return the grid of a sheet, its merged cells filled with their first one's text."""
    merged: dict[tuple[int, int], int] = {}
    for origin, entry in enumerate(sheet.iter("mergeCell"), start=1):
        corners = [_REFERENCE.fullmatch(corner) for corner in entry.get("ref", "").split(":")]
        if len(corners) == 2 and corners[0] and corners[1]:
            first, last = ((int(corner[2]), _column(corner[1])) for corner in corners if corner)
            fields = (last[0] - first[0] + 1) * (last[1] - first[1] + 1)
            if 0 < fields <= MAX_CELLS - len(merged):
                lines, columns = range(first[0], last[0] + 1), range(first[1], last[1] + 1)
                merged |= dict.fromkeys(product(lines, columns), origin)
    texts: dict[int, str] = {}
    grid = []
    if sum(map(len, rows)) > MAX_CELLS:
        raise DataError(f"more than {MAX_CELLS:,} cells")
    for row in filter(None, rows):
        line = next(iter(row))[0]
        for key, text in row.items():
            if key in merged:
                texts.setdefault(merged[key], text)
        width = max(column for _, column in row) + 1
        keys = [(line, column) for column in range(width)]
        grid.append(
            [Cell(texts.get(merged.get(key, 0)) or row.get(key, ""), origin=merged.get(key, 0)) for key in keys]
        )
    return grid


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number - 1
