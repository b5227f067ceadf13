"""Rows of data files, read as a stream: JSON lines, JSON arrays, one JSON object, CSV and TSV, packed or not.

Memory stays bounded by the longest row, however large the file is: a JSON array is decoded entry by entry. Every fault
is a DataError that names the file, the line or entry, and the field.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.corpora.byte_ranges import ByteRange, detect_compression, read_chunks

MAX_ROW_CHARS = 64_000_000
"""The longest line or entry; one file of SQuAD's form is one row, and its training set has 30 million characters."""

MAX_OBJECT_CHARS = 2_000_000_000
"""Of a file that is one JSON object with its rows under a key, and is therefore read whole."""

MAX_BYTES = 64_000_000_000
"""Bytes of a file, unpacked: a bound on the size that a packed file expands to."""

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
PACKED = (".gz", ".bz2", ".xz")

_SPACE = re.compile(r"\s*")

Values = dict[str, Any]
OnBytes = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One row. number: its line, or of a JSON array its entry, from 1. location: file and line or entry, for errors."""

    number: int
    location: str
    values: Values

    def error(self, problem: str) -> DataError:
        """Return an error with the location, the problem and the fix."""
        return DataError(f"{self.location}: {problem}. Fix the row or remove it.")

    def text(self, key: str, max_chars: int) -> str:
        """Return the stripped text under a key. Raises DataError where it is missing, blank, no text, or too long."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.error(f"{key!r} must be a text, and is {type_name(value)}")
        text = clean_text(value).strip()
        if not text:
            raise self.error(f"{key!r} is empty")
        if len(text) > max_chars:
            raise self.error(f"{key!r} has {len(text):,} characters; {max_chars:,} are allowed")
        return text

    def entries(self, key: str) -> list[Any]:
        """Return the list under a key, an empty one where there is none. Raises DataError for anything else."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.error(f"{key!r} must be a list, not {type_name(value)}")
        return value or []


def type_name(value: object) -> str:
    """Name the type of a value for an error: "missing" or "a list"."""
    return "missing" if value is None else f"a {type(value).__name__}"


def suffix_of(file: Path) -> str:
    """Return the lower-case suffix that names the format, packing aside: ".jsonl" for `corpus.jsonl.gz`."""
    return _unpacked_name(file).suffix.lower()


def stem_of(file: Path) -> str:
    """Return the name without suffixes: "corpus" for `corpus.jsonl.gz`."""
    return _unpacked_name(file).stem


def _unpacked_name(file: Path) -> Path:
    return file.with_suffix("") if file.suffix.lower() in PACKED else file


def read_rows(
    file: Path,
    on_bytes: OnBytes | None = None,
    *,
    suffixes: Collection[str] | None = SUFFIXES,
    entries_key: str | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file in order; blank lines are left out.

    on_bytes: called with every chunk that is read, unpacked and in order. suffixes: those that are accepted, None for
    any file name (unknown ones are read as JSON). entries_key: where a file is one JSON object with a list under this
    key, its entries are the rows. Raises DataError.
    """
    suffix = suffix_of(file)
    if suffixes is not None and suffix not in suffixes:
        formats = f"{', '.join(suffixes)} (or these with {', '.join(PACKED)})"
        raise DataError(f"{file}: the file name ends in none of {formats}. Convert or rename it.")
    text = _Text(file, on_bytes)
    if suffix in (".csv", ".tsv"):
        return _table_rows(text, "\t" if suffix == ".tsv" else ",")
    return _json_rows(text, entries_key)


def parse_object(text: str, location: str) -> Values:
    """Return the JSON object of a text. Raises DataError with the line, where it has several, and the column."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        line = f" line {error.lineno}" if "\n" in text.strip() else ""
        problem = f"not valid JSON at column {error.colno} ({error.msg})"
        raise DataError(f"{location}{line}: {problem}. Fix the line or remove it.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: not usable JSON ({str(error)[:100]}). Fix the line or remove it.") from None
    return _as_object(value, location)


def parse_line(raw: bytes, location: str) -> Row:
    """Return the row of one line of JSON lines."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(location, raw[error.start], error.start + 1) from None
    return Row(0, location, parse_object(text, location))


def _as_object(value: Any, location: str) -> Values:
    if not isinstance(value, dict):
        raise DataError(
            f"{location}: a JSON object is expected, not a {type(value).__name__}. Fix the line or remove it."
        )
    return value


def _not_utf8(location: str, byte: int, column: int) -> DataError:
    return DataError(f"{location}: not UTF-8 (byte 0x{byte:02x} at column {column}). Save the file as UTF-8.")


class _Text:
    """The decoded text of a file, once through."""

    def __init__(self, file: Path, on_bytes: OnBytes | None) -> None:
        self.file = file
        self._on_bytes = on_bytes or (lambda _: None)
        self.chunks = self._decoded()

    def first_char(self) -> str:
        """Return the first character that is no white space, without consuming it; "" when there is none."""
        for chunk in self.chunks:
            if chunk.strip():
                self.chunks = chain((chunk,), self.chunks)
                return chunk.lstrip()[0]
        return ""

    def lines(self, max_chars: int) -> Iterator[tuple[int, str]]:
        """Yield number, from 1, and text of every line."""
        number, size = 1, 0
        parts: list[str] = []
        for chunk in self.chunks:
            *complete, incomplete = chunk.split("\n")
            for line in complete:
                parts.append(line)
                yield number, "".join(parts) + "\n"
                parts, size, number = [], 0, number + 1
            parts.append(incomplete)
            size += len(incomplete)
            if size > max_chars:
                raise DataError(f"{self.file} line {number}: longer than {max_chars:,} characters. Split it.")
        if size:
            yield number, "".join(parts)

    def _decoded(self) -> Iterator[str]:
        """Decode chunk by chunk; `line` and `column` (in bytes) say where the next chunk begins, for errors."""
        try:
            file_range = ByteRange(0, self.file.stat().st_size, detect_compression(self.file))
        except OSError as error:
            raise DataError(f"{self.file}: cannot be read ({error.strerror}).") from None
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        size, line, column = 0, 1, 0
        for raw, _ in chain(read_chunks(self.file, file_range), ((b"", True),)):
            size += len(raw)
            if size > MAX_BYTES:
                raise DataError(f"{self.file}: more than {MAX_BYTES:,} bytes unpacked. Split the file.")
            if raw:
                self._on_bytes(raw)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                before = error.object[: error.start]
                newlines = before.count(b"\n")
                column = len(before) - before.rfind(b"\n") if newlines else column + len(before) + 1
                location = f"{self.file} line {line + newlines}"
                raise _not_utf8(location, error.object[error.start], column) from None
            line += text.count("\n")
            tail = len(text.rpartition("\n")[2].encode())
            column = tail if "\n" in text else column + tail
            yield text


def _json_rows(text: _Text, entries_key: str | None) -> Iterator[Row]:
    if text.first_char() == "[":
        yield from _JsonArray(text).rows()
        return
    limit = MAX_OBJECT_CHARS if entries_key and suffix_of(text.file) == ".json" else MAX_ROW_CHARS
    lines = ((number, line) for number, line in text.lines(limit) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    number, values = _first_object(text.file, *first, lines, limit)
    entries = None if entries_key is None else values.get(entries_key)
    if isinstance(entries, list):
        if (extra := next(lines, None)) is not None:
            raise DataError(f"{text.file} line {extra[0]}: text after the end of the JSON object. Remove it.")
        for number, entry in enumerate(entries, start=1):
            location = f"{text.file} entry {number}"
            yield Row(number, location, _as_object(entry, location))
        return
    yield Row(number, f"{text.file} line {first[0]}", values)
    for number, line in lines:
        location = f"{text.file} line {number}"
        yield Row(number, location, parse_object(line, location))


def _first_object(
    file: Path, number: int, line: str, following: Iterator[tuple[int, str]], limit: int
) -> tuple[int, Values]:
    """Return the object on the first line, or the one that the whole file is, with its number.

    A first line that does not parse may begin an object over several lines, or be a broken line of JSON lines. Which
    one it is decides the error's subject: only the former leaves a bracket or a comma open at its end.
    """
    location = f"{file} line {number}"
    try:
        return number, _as_object(json.loads(line), location)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
    parts, size = [line], len(line)
    if line.lstrip().startswith("{"):
        for _, next_line in following:
            parts.append(next_line)
            size += len(next_line)
            if size > limit:
                raise DataError(f"{file}: one JSON object of more than {limit:,} characters. Write JSON lines.")
        text = "\n" * (number - 1) + "".join(parts)
        try:
            return 1, _as_object(json.loads(text), location)
        except (ValueError, RecursionError):
            if line.rstrip().endswith(("{", "[", ",")):
                return 1, parse_object(text, str(file))
    return number, parse_object(line, location)


class _JsonArray:
    """The entries of a JSON array, decoded as they are read; no more text is held than the current entry needs."""

    _decode = json.JSONDecoder().raw_decode

    def __init__(self, text: _Text) -> None:
        self._file, self._chunks = text.file, text.chunks
        self._buffer, self._position, self._line, self._at_end = "", 0, 1, False

    def rows(self) -> Iterator[Row]:
        """Yield its entries; only white space may follow the array."""
        self._take("[", "the array")
        number = 0
        closed = self._peek() == "]" and self._take("]", "the array") == "]"
        while not closed:
            number += 1
            yield self._entry(number)
            closed = self._take(",]", f"entry {number}") == "]"
        if self._peek():
            raise DataError(f"{self._file} line {self._line}: text after the end of the JSON array. Remove it.")

    def _entry(self, number: int) -> Row:
        first = self._peek()
        location = f"{self._file} line {self._line} (entry {number})"
        if first != "{":
            raise DataError(f"{location}: a JSON object is expected, not {first!r}. Fix it or remove it.")
        while True:
            try:
                value, end = self._decode(self._buffer, self._position)
            except json.JSONDecodeError as error:
                if self._at_end or len(self._buffer) - self._position > MAX_ROW_CHARS:
                    line = self._line + self._buffer.count("\n", self._position, error.pos)
                    raise DataError(f"{location}: not valid JSON ({error.msg} on line {line}). Fix it.") from None
                self._read_more()
            except (ValueError, RecursionError) as error:
                raise DataError(f"{location}: not usable JSON ({str(error)[:100]}). Fix it or remove it.") from None
            else:
                self._advance(end)
                return Row(number, location, value)

    def _peek(self) -> str:
        """Return the next character that is no white space, "" at the end."""
        while True:
            self._advance(_SPACE.match(self._buffer, self._position).end())  # type: ignore[union-attr]  # may be empty
            if self._position < len(self._buffer) or self._at_end:
                return self._buffer[self._position : self._position + 1]
            self._read_more()

    def _take(self, expected: str, after: str) -> str:
        char = self._peek()
        if not char or char not in expected:
            actual = repr(char) if char else "the end of the file"
            raise DataError(
                f"{self._file} line {self._line}: {' or '.join(expected)} is expected after {after}, not {actual}."
            )
        self._position += 1
        return char

    def _advance(self, end: int) -> None:
        self._line += self._buffer.count("\n", self._position, end)
        self._position = end

    def _read_more(self) -> None:
        """Read until the buffer has doubled: a long entry is then decoded a logarithmic number of times."""
        parts = [self._buffer[self._position :]]
        size = len(parts[0])
        target = max(2 * size, 1)
        for chunk in self._chunks:
            parts.append(chunk)
            size += len(chunk)
            if size >= target:
                break
        else:
            self._at_end = True
        self._buffer, self._position = "".join(parts), 0


def _table_rows(text: _Text, delimiter: str) -> Iterator[Row]:
    reader = csv.reader((line for _, line in text.lines(MAX_ROW_CHARS)), delimiter=delimiter)
    names: list[str] | None = None
    first_line = 1
    try:
        for fields in reader:
            location = f"{text.file} line {first_line}"
            if names is None:
                names = [name.strip() for name in fields]
            elif len(fields) > len(names):
                raise DataError(f"{location}: {len(fields)} fields under {len(names)} column names. Fix the row.")
            elif fields:
                yield Row(first_line, location, dict(zip(names, fields, strict=False)))
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{text.file} line {first_line}: not readable as a table ({error}). Use JSON lines.") from None
