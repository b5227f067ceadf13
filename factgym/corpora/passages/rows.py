"""Rows of corpus and question files, read as a stream: JSON lines, JSON arrays, one JSON object, CSV and TSV.

Packed files (gzip, bzip2, xz) are read as they are. Memory stays bounded by the longest row, however large the file is:
a JSON array is taken apart entry by entry. Every fault is a DataError that names the file and the line or entry.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.corpora.cooccurrence.byte_ranges import ByteRange, detect_compression, read_chunks

MAX_ROW_CHARS = 64_000_000
"""The longest line or entry; one file of SQuAD's form is one row, and its training set has 30 million characters."""

MAX_BYTES = 64_000_000_000
"""Bytes of a file, unpacked: a bound on what a packed file may turn into."""

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
PACKED = (".gz", ".bz2", ".xz")

_SPACE = re.compile(r"\s*")

Values = dict[str, Any]
OnBytes = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One row. number: its line, or of a JSON array its entry, from 1. place: file and line or entry, for errors."""

    number: int
    place: str
    values: Values


def suffix_of(file: Path) -> str:
    """What a file is by its name, packing aside: ".jsonl" for `corpus.jsonl.gz`."""
    return _unpacked(file).suffix.lower()


def stem_of(file: Path) -> str:
    """Its name without endings: "corpus" for `corpus.jsonl.gz`."""
    return _unpacked(file).stem


def _unpacked(file: Path) -> Path:
    return file.with_suffix("") if file.suffix.lower() in PACKED else file


def rows_of(file: Path, on_bytes: OnBytes | None = None) -> Iterator[Row]:
    """The rows of a file in order. on_bytes: called with all that is read, unpacked and in order."""
    suffix = suffix_of(file)
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise DataError(
            f"{file}: the file name ends in none of {known} (or these with {', '.join(PACKED)}). Rename it."
        )
    text = _Text(file, on_bytes)
    if suffix in (".csv", ".tsv"):
        return _table_rows(text, "\t" if suffix == ".tsv" else ",")
    return _json_rows(text)


def line_row(raw: bytes, place: str) -> Row:
    """The row of one line of JSON lines. place: of the line, for errors."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{place}: not UTF-8 (byte 0x{raw[error.start]:02x}). Save the file as UTF-8.") from None
    return Row(0, place, _object(_parse(text, place), place))


class _Text:
    """The decoded text of a file, once through."""

    def __init__(self, file: Path, on_bytes: OnBytes | None) -> None:
        self.file = file
        self._on_bytes = on_bytes or (lambda _: None)
        self._pieces = self._decoded()

    def head(self) -> str:
        """Its first character that is no white space, which stays to be read; "" when there is none."""
        for piece in self._pieces:
            if piece.strip():
                self._pieces = chain((piece,), self._pieces)
                return piece.lstrip()[0]
        return ""

    def pieces(self) -> Iterator[str]:
        """What is left, in pieces."""
        return self._pieces

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number, from 1, and text of the lines."""
        rest, number = "", 0
        for piece in self._pieces:
            *whole, rest = (rest + piece).split("\n")
            for line in whole:
                number += 1
                yield number, line + "\n"
            if len(rest) > MAX_ROW_CHARS:
                raise DataError(f"{self.file} line {number + 1}: longer than {MAX_ROW_CHARS:,} characters. Split it.")
        if rest:
            yield number + 1, rest

    def _decoded(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        read = lines = 0
        for chunk in self._chunks():
            read += len(chunk)
            if read > MAX_BYTES:
                raise DataError(f"{self.file}: more than {MAX_BYTES:,} bytes unpacked. Split the file.")
            self._on_bytes(chunk)
            piece = self._decode(decoder, chunk, lines)
            lines += piece.count("\n")
            yield piece
        yield self._decode(decoder, b"", lines)

    def _decode(self, decoder: codecs.IncrementalDecoder, chunk: bytes, lines: int) -> str:
        try:
            return decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            what = f"not UTF-8 (byte 0x{error.object[error.start]:02x})"
            raise DataError(f"{self.file} line {line}: {what}. Save the file as UTF-8.") from None

    def _chunks(self) -> Iterator[bytes]:
        try:
            whole = ByteRange(0, self.file.stat().st_size, detect_compression(self.file))
        except OSError as error:
            raise DataError(f"{self.file}: cannot be read ({error.strerror}).") from None
        return (chunk for chunk, _ in read_chunks(self.file, whole))


def _json_rows(text: _Text) -> Iterator[Row]:
    if text.head() == "[":
        yield from _Array(text).rows()
        return
    begun = False
    lines = ((number, line) for number, line in text.lines() if line.strip())
    for number, line in lines:
        place = f"{text.file} line {number}"
        if begun or not line.lstrip().startswith("{") or _is_whole(line):
            begun = True
            yield Row(number, place, _object(_parse(line, place), place))
        else:
            yield _one_object(text.file, number, line, lines)


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _one_object(file: Path, number: int, first: str, rest: Iterator[tuple[int, str]]) -> Row:
    """A file that is one JSON object over several lines. A broken first line of JSON lines is reported as such."""
    place = f"{file} line {number}"
    parts, size = [first], len(first)
    for _, line in rest:
        parts.append(line)
        size += len(line)
        if size > MAX_ROW_CHARS:
            _parse(first, place)
    try:
        value = json.loads("".join(parts))
    except (ValueError, RecursionError):
        value = _parse(first, place)
    return Row(1, place, _object(value, place))


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{place}: not valid JSON at column {error.colno} ({error.msg}). Fix it or remove it."
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not usable JSON ({str(error)[:100]}). Fix it or remove it.") from None


def _object(value: Any, place: str) -> Values:
    if not isinstance(value, dict):
        raise DataError(f"{place}: a JSON object is expected, not a {type(value).__name__}. Fix it or remove it.")
    return value


class _Array:
    """The entries of a JSON array, of which no more is held than the entry at hand needs."""

    _decode = json.JSONDecoder().raw_decode

    def __init__(self, text: _Text) -> None:
        self._file, self._pieces = text.file, text.pieces()
        self._held, self._at, self._line, self._ended = "", 0, 1, False

    def rows(self) -> Iterator[Row]:
        """Its entries; what follows the array must be white space."""
        self._next("[", "the array")
        number = 0
        closed = self._peek() == "]" and self._next("]", "the array") == "]"
        while not closed:
            number += 1
            yield self._row(number)
            closed = self._next(",]", f"entry {number}") == "]"
        if self._peek():
            raise DataError(f"{self._file} line {self._line}: text after the end of the JSON array. Remove it.")

    def _row(self, number: int) -> Row:
        found = self._peek()
        place = f"{self._file} line {self._line} (entry {number})"
        if found != "{":
            raise DataError(f"{place}: a JSON object is expected, not {found!r}. Fix it or remove it.")
        while True:
            try:
                value, end = self._decode(self._held, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._held) - self._at > MAX_ROW_CHARS:
                    line = self._line + self._held.count("\n", self._at, error.pos)
                    raise DataError(f"{place}: not valid JSON ({error.msg} on line {line}). Fix it.") from None
                self._more()
            except (ValueError, RecursionError) as error:
                raise DataError(f"{place}: not usable JSON ({str(error)[:100]}). Fix it or remove it.") from None
            else:
                self._line += self._held.count("\n", self._at, end)
                self._at = end
                return Row(number, place, value)

    def _peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        while True:
            blank = _SPACE.match(self._held, self._at)
            end = blank.end() if blank else self._at
            self._line += self._held.count("\n", self._at, end)
            self._at = end
            if end < len(self._held) or self._ended:
                return self._held[end : end + 1]
            self._more()

    def _next(self, expected: str, after: str) -> str:
        found = self._peek()
        if not found or found not in expected:
            shown = repr(found) if found else "the end of the file"
            wanted = " or ".join(expected)
            raise DataError(f"{self._file} line {self._line}: {wanted} is expected after {after}, not {shown}.")
        self._at += 1
        return found

    def _more(self) -> None:
        """Read on until what is held has doubled, so that a long entry is not tried too often."""
        parts = [self._held[self._at :]]
        wanted = max(2 * len(parts[0]), 1)
        size = len(parts[0])
        for piece in self._pieces:
            parts.append(piece)
            size += len(piece)
            if size >= wanted:
                break
        else:
            self._ended = True
        self._held, self._at = "".join(parts), 0


def _table_rows(text: _Text, delimiter: str) -> Iterator[Row]:
    reader = csv.reader((line for _, line in text.lines()), delimiter=delimiter)
    names: list[str] | None = None
    first = 1
    try:
        for fields in reader:
            place = f"{text.file} line {first}"
            if names is None:
                names = [name.strip() for name in fields]
            elif len(fields) > len(names):
                raise DataError(f"{place}: {len(fields)} fields under {len(names)} column names. Fix the row.")
            elif fields:
                yield Row(first, place, dict(zip(names, fields, strict=False)))
            first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{text.file} line {first}: not readable as a table ({error}). Use JSON lines.") from None
