"""Rows of data files, read as a stream: JSON lines, JSON arrays, one JSON object, CSV and TSV, packed or not;
Parquet and Arrow.

Memory stays bounded by the longest row, however large the file is: a JSON array is decoded entry by entry. Every fault
is a DataError that names the file, the line or entry, and the field.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError, MissingExtraError
from factgym.core.strict_json import clean_text
from factgym.corpora.byte_ranges import ByteRange, detect_compression, read_chunks

MAX_ROW_CHARS = 64_000_000
"""The longest line or entry; one file of SQuAD's form is one row, and its training set has 30 million characters."""

MAX_OBJECT_CHARS = 2_000_000_000
"""Of a file that is one JSON object with its rows under a key, and is therefore read whole."""

MAX_BYTES = 64_000_000_000
"""Bytes of a file, unpacked: a bound on the size that a packed file expands to."""

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
COLUMNAR = (".parquet", ".arrow")
"""Tables that pyarrow reads (extra `export`); `datasets` saves ".arrow"."""

PACKED = (".gz", ".bz2", ".xz")

_BATCH_ROWS = 1_000
"""Rows of a table that are decoded at a time."""

_SPACE = re.compile(r"\s*")

Values = dict[str, Any]
OnBytes = Callable[[bytes], None]
OnBad = Callable[[DataError], None]
"""Takes the error of a row that is left out."""
_Part = tuple[str, int | None, Callable[[], Iterable[Any]]]
"""Name of a part of a table for errors, its rows where they are known, and a function that reads its record batches."""

_JSON_TOKEN = re.compile(r'"(?:[^"\\\n]++|\\.)*+"|["\[\]{},]')
_ENTRY_BREAK = re.compile(r"\}\s*,\s*\{")
_MAX_INDENT = 200
_UNDECODED = re.compile(r"[\udc80-\udcff]")
"""Bytes that are not UTF-8, as the error handler "surrogateescape" decodes them."""


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
    on_bad: OnBad | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file in order; blank lines are left out.

    on_bytes: called with every chunk that is read, unpacked and in order. suffixes: those that are accepted, None for
    any file name (unknown ones are read as JSON). entries_key: where a file is one JSON object with a list under this
    key, its entries are the rows. on_bad: takes the error of a broken line, which is left out. Raises DataError, also with
    `on_bad` for a file that cannot be read beyond its fault.
    """
    suffix = suffix_of(file)
    if suffixes is not None and suffix not in suffixes:
        formats = f"{', '.join(suffixes)} (or these with {', '.join(PACKED)})"
        raise DataError(f"{file}: the file name ends in none of {formats}. Convert or rename it.")
    if suffix in COLUMNAR:
        return (Row(number, f"{file} row {number}", values) for number, values in _read_table(file, suffix, on_bad))
    chunks = _decoded_chunks(file, on_bytes, "strict" if on_bad is None else "surrogateescape")
    if suffix in (".csv", ".tsv"):
        return _table_rows(file, chunks, "\t" if suffix == ".tsv" else ",", on_bad)
    return _json_rows(file, chunks, entries_key, on_bad)


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


def _decoded_chunks(file: Path, on_bytes: OnBytes | None, errors: str) -> Iterator[str]:
    """Yield the text of a file, chunk by chunk."""
    compression = detect_compression(file)
    file_range = ByteRange(0, file.stat().st_size, compression)
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors)
    # For errors: the offset of the next chunk, and number and offset of the line that it continues.
    offset, line, line_start = 0, 1, 0
    for raw, _ in chain(read_chunks(file, file_range), ((b"", True),)):
        if offset + len(raw) > MAX_BYTES:
            raise DataError(f"{file}: more than {MAX_BYTES:,} bytes unpacked. Split the file.")
        if raw and on_bytes is not None:
            on_bytes(raw)
        if not offset and raw.startswith(codecs.BOM_UTF8):
            line_start = len(codecs.BOM_UTF8)  # the mark is no column
        try:
            text = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            # The decoder holds back incomplete characters, so the faulty byte may lie before this chunk.
            position = error.start - (len(error.object) - len(raw))
            before = raw[: max(position, 0)]
            newline, newlines = before.rfind(b"\n"), before.count(b"\n")
            column = position - newline if newlines else offset + position - line_start + 1
            raise _not_utf8(f"{file} line {line + newlines}", error.object[error.start], column) from None
        if (newline := raw.rfind(b"\n")) >= 0:
            line, line_start = line + raw.count(b"\n"), offset + newline + 1
        offset += len(raw)
        yield text


def _numbered_lines(file: Path, chunks: Iterable[str], max_chars: int) -> Iterator[tuple[int, str]]:
    """Yield number, from 1, and text of every line."""
    number, size = 1, 0
    parts: list[str] = []
    for chunk in chunks:
        *complete, incomplete = chunk.split("\n")
        for line in complete:
            parts.append(line)
            yield number, "".join(parts) + "\n"
            parts, size, number = [], 0, number + 1
        parts.append(incomplete)
        size += len(incomplete)
        if size > max_chars:
            raise DataError(f"{file} line {number}: longer than {max_chars:,} characters. Split it.")
    if size:
        yield number, "".join(parts)


def _json_rows(file: Path, chunks: Iterator[str], entries_key: str | None, on_bad: OnBad | None) -> Iterator[Row]:
    """Yield the rows of a JSON array, of JSON lines, or of one object whose `entries_key` holds them.

    The first object decides between the last two. A whole file is parsed at once only where it is one object.
    """
    head = next(filter(str.strip, chunks), "")
    chunks = chain((head,), chunks)
    if head.lstrip().startswith("["):
        yield from _JsonArray(file, chunks, on_bad).rows()
        return
    if on_bad is not None and not entries_key:
        yield from _lenient_json_rows(file, chunks, on_bad)
        return
    limit = MAX_OBJECT_CHARS if entries_key and suffix_of(file) == ".json" else MAX_ROW_CHARS
    lines = ((number, line) for number, line in _numbered_lines(file, chunks, limit) if line.strip())
    number, line = next(lines, (0, ""))
    if not line:
        return
    location = f"{file} line {number}"
    values, is_whole_file = _first_object(file, number, line, lines, limit)
    number = 1 if is_whole_file else number
    entries = values.get(entries_key) if entries_key else None
    if not isinstance(entries, list):
        yield Row(number, location, values)
        for number, line in lines:
            location = f"{file} line {number}"
            yield Row(number, location, parse_object(line, location))
        return
    if (extra := next(lines, None)) is not None:
        raise DataError(f"{file} line {extra[0]}: text after the end of the JSON object. Remove it.")
    for number, entry in enumerate(entries, start=1):
        location = f"{file} entry {number}"
        yield Row(number, location, _as_object(entry, location))


def _lenient_json_rows(file: Path, chunks: Iterator[str], on_bad: OnBad) -> Iterator[Row]:
    """Yield the rows of JSON lines without the broken ones; a file that is one object over several lines is one row."""
    lines = ((number, line) for number, line in _numbered_lines(file, chunks, MAX_ROW_CHARS) if line.strip())
    is_first = True
    for number, line in lines:
        location = f"{file} line {number}"
        try:
            if mark := _UNDECODED.search(line):
                raise _not_utf8(location, ord(mark[0]) - 0xDC00, mark.start() + 1)
            if is_first and line.rstrip().endswith(("{", "[", ",")):
                values, is_whole = _first_object(file, number, line, lines, MAX_ROW_CHARS)
                yield Row(1 if is_whole else number, location, values)
            else:
                yield Row(number, location, parse_object(line, location))
        except DataError as error:
            on_bad(error)
        is_first = False


def _first_object(
    file: Path, number: int, line: str, following: Iterator[tuple[int, str]], limit: int
) -> tuple[Values, bool]:
    """Return the object on the first line, or the one that the whole file is, and whether it is that."""
    try:
        return parse_object(line, f"{file} line {number}"), False
    except DataError as fault:
        if not line.lstrip().startswith("{"):
            raise
        parts, size = [line], len(line)
        for _, next_line in following:
            parts.append(next_line)
            size += len(next_line)
            if size > limit:
                message = f"{file}: one JSON object of more than {limit:,} characters. Write JSON lines."
                raise DataError(message) from None
        try:
            return parse_object("\n" * (number - 1) + "".join(parts), str(file)), True
        except DataError as whole_fault:
            # A broken line of JSON lines, or an object over several lines that is broken. Only the latter leaves a
            # bracket or a comma open at the end of its first line, which decides the subject of the error.
            raise (whole_fault if line.rstrip().endswith(("{", "[", ",")) else fault) from None


class _JsonArray:
    """The entries of a JSON array, decoded as they are read; no more text is held than the current entry needs."""

    # Invariant: `_buffer[_position:]` is the text that is read but not yet decoded, and it begins on line `_line`.

    _decode = json.JSONDecoder().raw_decode

    def __init__(self, file: Path, chunks: Iterator[str], on_bad: OnBad | None) -> None:
        self._file, self._chunks, self._on_bad = file, chunks, on_bad
        self._buffer, self._position, self._line, self._at_end = "", 0, 1, False
        self._line_head = ""  # the end of the current line before the position, which may have left the buffer

    def rows(self) -> Iterator[Row]:
        """Yield its entries; only white space may follow the array."""
        mark = self._take("[", "the array")
        if self._peek() == "]":
            mark = self._take("]", "the array")
        number = 0
        while mark != "]":
            number += 1
            try:
                yield self._entry(number)
            except DataError as error:
                if not self._skip(error):
                    return
            mark = self._take(",]", f"entry {number}")
        if self._peek():
            raise DataError(f"{self._file} line {self._line}: text after the end of the JSON array. Remove it.")

    def _entry(self, number: int) -> Row:
        """Return the next object of a JSON array, reading on until the decoder has a whole value.

        Memory is bounded by MAX_ROW_CHARS: an error in a shorter rest may only mean that the value goes on.
        """
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
                if self._on_bad and (mark := _UNDECODED.search(self._buffer, self._position, end)):
                    column = mark.start() - self._buffer.rfind("\n", 0, mark.start())
                    raise _not_utf8(location, ord(mark[0]) - 0xDC00, column)
                self._advance(end)
                return Row(number, location, value)

    def _skip(self, error: DataError) -> bool:
        """Report a broken entry and move to its end; False where the file ends in it.

        Raises `error` without `on_bad`, and where no end can be told.
        """
        if self._on_bad is None:
            raise error
        while not self._at_end and len(self._buffer) - self._position <= MAX_ROW_CHARS:
            self._read_more()
        end = self._entry_end()
        if end is None:
            raise DataError(f"{error} The entries after it cannot be told apart: write JSON lines.")
        self._on_bad(error)
        self._advance(end)
        return bool(self._peek())

    def _entry_end(self) -> int | None:
        """Return where the entry at the position ends: at the comma or bracket after it, or at the end of the file."""
        # Brackets outside strings are matched. Where they do not match, or a string holds a line break or "}, {", a quotation
        # mark or bracket is missing, and the entry ends before the next line that begins as its own does.
        depth: list[str] = []
        for token in _JSON_TOKEN.finditer(self._buffer, self._position):
            text = token[0]
            if text in "{[":
                depth.append("}" if text == "{" else "]")
            elif text == "," or (text in "}]" and not depth):
                if not depth:
                    return token.start() if text != "}" else self._next_line_entry()
            elif text in "}]":
                if depth.pop() != text:
                    return self._next_line_entry()
            elif len(text) == 1 or _ENTRY_BREAK.search(text):  # an open quotation mark
                return self._next_line_entry()
        return self._next_line_entry()

    def _next_line_entry(self) -> int | None:
        if self._line_head.strip():
            return None  # the entry does not begin its line
        following = re.compile(rf",[^\S\n]*\r?\n{self._line_head}(?=\{{)").search(self._buffer, self._position)
        if following is not None:
            return following.start()
        if not self._at_end:
            return None
        closing = self._buffer.rstrip()
        return len(closing) - 1 if closing.endswith("]") and len(closing) - 1 > self._position else len(self._buffer)

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
        self._advance(self._position + 1)
        return char

    def _advance(self, end: int) -> None:
        self._line += self._buffer.count("\n", self._position, end)
        newline = self._buffer.rfind("\n", self._position, end)
        head = self._buffer[max(newline + 1, self._position, end - _MAX_INDENT) : end]
        self._line_head = head if newline >= 0 else (self._line_head + head)[-_MAX_INDENT:]
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


def _table_rows(file: Path, chunks: Iterator[str], delimiter: str, on_bad: OnBad | None) -> Iterator[Row]:
    """Yield the rows of a table with a header, as JSON-like objects; a bad row raises or goes to `on_bad`."""
    names: list[str] | None = None
    for number, fields in _records(file, chunks, delimiter, on_bad):
        location = f"{file} line {number}"
        if names is None:
            names = [name.strip() for name in fields]
        elif error := _table_fault(fields, len(names), location):
            if on_bad is None:
                raise error
            on_bad(error)
        elif fields:
            yield Row(number, location, dict(zip(names, fields, strict=False)))


def _records(
    file: Path, chunks: Iterator[str], delimiter: str, on_bad: OnBad | None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of each record.

    A record that cannot be parsed, often because a quotation mark is never closed, is left out with its first line, and
    reading goes on with its second. The first record names the columns, and is never left out.
    """
    # csv reads no line beyond a record, so a record with which the lines end is one with an open quotation mark.
    waiting: deque[tuple[int, str]] = deque()  # lines of a faulty record, to be read again
    taken: list[tuple[int, str]] = []
    source = _numbered_lines(file, chunks, MAX_ROW_CHARS)
    at_end = False

    def lines() -> Iterator[str]:
        nonlocal at_end
        while line := waiting.popleft() if waiting else next(source, None):
            taken.append(line)
            yield line[1]
        at_end = True

    reader = csv.reader(lines(), delimiter=delimiter)
    is_first = True
    while True:
        taken.clear()
        try:
            fields = next(reader, None)
            problem = "a quotation mark is not closed" if at_end else ""
        except csv.Error as error:
            fields, problem = [], str(error)
        if fields is None:
            return
        number = taken[0][0]
        if not problem:
            yield number, fields
            is_first = False
            continue
        fault = DataError(f"{file} line {number}: not readable as a table ({problem}). Fix it or use JSON lines.")
        if on_bad is None or is_first:
            raise fault
        on_bad(fault)
        waiting.extendleft(reversed(taken[1:]))
        reader, at_end = csv.reader(lines(), delimiter=delimiter), False


def _table_fault(fields: list[str], columns: int, location: str) -> DataError | None:
    if len(fields) > columns:
        return DataError(f"{location}: {len(fields)} fields under {columns} column names. Fix the row.")
    if mark := next(filter(None, map(_UNDECODED.search, fields)), None):
        return _not_utf8(location, ord(mark[0]) - 0xDC00, mark.start() + 1)
    return None


# Tables that pyarrow reads.


def _read_table(file: Path, suffix: str, on_bad: OnBad | None) -> Iterator[tuple[int, Values]]:
    """Yield the rows of a Parquet or Arrow file, numbered from 1, by batches.

    on_bad: takes the errors of damaged row groups and batches, whose remaining rows are left out, and of a file that
    cannot be opened; else they are raised. Raises MissingExtraError.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet  # used as pa.parquet
    except ImportError as error:
        raise MissingExtraError(f"{file.name}: reading {suffix} files", "export") from error
    # pyarrow raises its own errors, and OSError, for damage; UnicodeDecodeError for text that is not UTF-8.
    faults = (pa.ArrowException, OSError, UnicodeDecodeError)
    number = 0

    def report(name: str, error: Exception) -> None:
        problem = f"{name}cannot be read after row {number} ({str(error)[:120]})"
        fault = DataError(f"{file}: {problem}. Copy or download it again.")
        if on_bad is None:
            raise fault from None
        on_bad(fault)

    try:
        parts = _parquet_parts(pa, file) if suffix == ".parquet" else _arrow_parts(pa, file)
    except faults as error:
        report("", error)
        return
    for name, size, batches in parts:
        first = number
        try:
            for batch in batches():
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    for values in batch.slice(start, _BATCH_ROWS).to_pylist():
                        number += 1
                        yield number, values
        except faults as error:
            report(name, error)
        number = number if size is None else first + size


def _parquet_parts(pa: Any, file: Path) -> list[_Part]:
    # Checksums of pages are verified where the writer left some.
    table = pa.parquet.ParquetFile(file, page_checksum_verification=True)

    def part(group: int) -> _Part:
        rows = table.metadata.row_group(group).num_rows
        return f"row group {group + 1} ", rows, lambda: table.iter_batches(_BATCH_ROWS, row_groups=[group])

    return [part(group) for group in range(table.metadata.num_row_groups)]


def _arrow_parts(pa: Any, file: Path) -> list[_Part]:
    try:
        stream = pa.ipc.open_stream(pa.memory_map(str(file)))
    except pa.ArrowInvalid:
        table = pa.ipc.open_file(pa.memory_map(str(file)))

        def part(number: int) -> _Part:
            return f"batch {number + 1} ", None, lambda: [table.get_batch(number)]

        return [part(number) for number in range(table.num_record_batches)]
    return [("", None, lambda: stream)]
