"""Rows of question files with the line of each: JSON lines, JSON arrays, CSV, TSV, and TriviaQA's one object with `Data`.

Every fault is a DataError that names the file and the line. Files are read within bounds; what is read line by line may
be of any length.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from factgym.core.errors import DataError
from factgym.datasets.attribution.files import MAX_LINE_BYTES, SUFFIXES, Row, rows_of

QUESTION_SUFFIXES = (*SUFFIXES, ".tsv")

MAX_OBJECT_BYTES = 2_000_000_000
"""Of a file that is one JSON object and is therefore read whole."""

OnBytes = Callable[[bytes], None]


def question_rows(file: Path, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    """(line, row) of a file, by its suffix; an entry's number where the file is one JSON value.

    on_bytes: called with every byte that is read, in order.
    """
    if file.suffix == ".tsv":
        return _tsv_rows(file, on_bytes)
    if file.suffix == ".json" and _is_one_object(file):
        return _object_rows(file, on_bytes)
    return rows_of(file, on_bytes)


def _is_one_object(file: Path) -> bool:
    """Whether a JSON file holds an object that goes on after its first line: JSON lines hold whole ones."""
    try:
        with file.open("rb") as stream:
            head = stream.readline(MAX_LINE_BYTES).removeprefix(b"\xef\xbb\xbf").strip()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None
    if not head.startswith(b"{"):
        return False
    try:
        value = json.loads(head)
    except ValueError:
        return True
    return isinstance(value, dict) and isinstance(value.get("Data"), list)


def _object_rows(file: Path, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    if file.stat().st_size > MAX_OBJECT_BYTES:
        raise DataError(f"{file}: one JSON object of more than {MAX_OBJECT_BYTES:,} bytes. Write it as JSON lines.")
    raw = file.read_bytes()
    on_bytes(raw)
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8 at byte {error.start}. Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file} line {error.lineno}: not valid JSON at column {error.colno} ({error.msg}). Fix the file."
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: not usable JSON ({str(error)[:100]}). Fix the file.") from None
    rows = value.get("Data") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise DataError(f"{file}: one JSON object without a list 'Data'. Give JSON lines, a JSON array, CSV or TSV.")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise DataError(f"{file} entry {number}: a JSON object is expected, not a {type(row).__name__}.")
        yield number, row


def _tsv_rows(file: Path, on_bytes: OnBytes) -> Iterator[tuple[int, Row]]:
    names: list[str] | None = None
    try:
        with file.open("rb") as stream:
            reader = csv.reader(_lines(file, stream, on_bytes), delimiter="\t")
            first = 1
            for fields in reader:
                if names is None:
                    names = [name.strip() for name in fields]
                elif len(fields) > len(names):
                    raise DataError(f"{file} line {first}: {len(fields)} fields under {len(names)} column names.")
                elif fields:
                    yield first, dict(zip(names, fields, strict=False))
                first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file}: not readable as TSV ({error}). Fix the row, or use JSON lines.") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None


def _lines(file: Path, stream: Iterator[bytes], on_bytes: OnBytes) -> Iterator[str]:
    for number, raw in enumerate(stream, start=1):
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(f"{file} line {number}: longer than {MAX_LINE_BYTES:,} bytes. Split or shorten it.")
        on_bytes(raw)
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{raw[error.start]:02x} at column {error.start + 1})"
            raise DataError(f"{file} line {number}: {problem}. Save the file as UTF-8.") from None
