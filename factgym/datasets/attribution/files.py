"""Rows of JSON lines, JSON arrays and CSV files, read a line at a time within bounds, with the line of each row.

Every fault is a DataError that names the file and the line: text that is no UTF-8, a line or file beyond the bounds,
broken JSON, a CSV row with too many fields.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from factgym.core.errors import DataError

Row = dict[str, Any]

MAX_LINE_BYTES = 8_000_000
"""Of one line; of a JSON array, which is read whole, eight times as many."""

SUFFIXES = (".jsonl", ".json", ".ndjson", ".csv")

OnBytes = Callable[[bytes], None]


def rows_of(file: Path, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    """(line, row) of a file, by its suffix; blank lines are passed over.

    on_bytes: called with every byte that is read, in order. The line of a row is the one on which it begins, of a JSON
    array the number of the entry.
    """
    try:
        with file.open("rb") as stream:
            yield from (
                _csv_rows(file, stream, on_bytes) if file.suffix == ".csv" else _json_rows(file, stream, on_bytes)
            )
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None


def _lines(file: Path, stream: BinaryIO, on_bytes: OnBytes) -> Iterator[tuple[int, str]]:
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(f"{file} line {number}: longer than {MAX_LINE_BYTES:,} bytes. Split or shorten it.")
        on_bytes(raw)
        yield number, _decoded(file, number, raw)


def _decoded(file: Path, number: int, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte 0x{raw[error.start]:02x} at column {error.start + 1})"
        raise DataError(f"{file} line {number}: {problem}. Save the file as UTF-8.") from None
    return text.removeprefix("\ufeff") if number == 1 else text


def _json_rows(file: Path, stream: BinaryIO, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    head = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    stream.seek(0)
    if head.startswith(b"["):
        yield from _array_rows(file, stream, on_bytes)
        return
    for number, line in _lines(file, stream, on_bytes):
        if line.strip():
            yield number, _object(_parse(line, f"{file} line {number}"), f"{file} line {number}")


def _array_rows(file: Path, stream: BinaryIO, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    raw = stream.read(8 * MAX_LINE_BYTES + 1)
    if len(raw) > 8 * MAX_LINE_BYTES:
        raise DataError(f"{file}: a JSON array of more than {8 * MAX_LINE_BYTES:,} bytes. Write it as JSON lines.")
    on_bytes(raw)
    for number, value in enumerate(_parse(_decoded(file, 1, raw), str(file)), start=1):
        yield number, _object(value, f"{file} entry {number}")


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DataError(f"{place}: not valid JSON at {where} ({error.msg}). Fix it or remove it.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not usable JSON ({str(error)[:100]}). Fix it or remove it.") from None


def _object(value: Any, place: str) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{place}: a JSON object is expected, not a {type(value).__name__}. Fix it or remove it.")
    return value


def _csv_rows(file: Path, stream: BinaryIO, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    reader = csv.reader(line for _, line in _lines(file, stream, on_bytes))
    names: list[str] | None = None
    first = 1
    try:
        for fields in reader:
            if names is None:
                names = [name.strip() for name in fields]
            elif len(fields) > len(names):
                raise DataError(f"{file} line {first}: {len(fields)} fields under {len(names)} column names.")
            elif fields:
                yield first, dict(zip(names, fields, strict=False))
            first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{file} line {first}: not readable as CSV ({error}). Fix the row, or use JSON lines."
        ) from None
