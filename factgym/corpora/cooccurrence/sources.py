"""Corpora as streams of documents: JSON lines, text, WikiExtractor's output and Wikipedia's XML dumps.

    source = Source("wiki/")         # a file or a folder; formats follow from names and first bytes
    for id, text in source: ...

A source has a stable order (files by path, documents in file order), a fingerprint (so that an interrupted build can
check that the corpus is unchanged), and parts that other processes can read on their own: whole files, or byte ranges
of a large one. Memory is bounded by the largest document. Files compressed with gzip, bzip2 or xz are read as they are.
No broken record is dropped silently: it is a DataError that names file and line, or with `skip_bad` it is counted and
its message kept.

Pages of a Wikipedia dump are parsed one at a time, cut out of the file by their tags: no document type declaration is
ever parsed, so no entity can be declared, let alone expanded.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TypeVar, get_args
from xml.etree import ElementTree
from xml.parsers import expat

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import kind_of
from factgym.corpora.byte_ranges import (
    ByteRange,
    detect_compression,
    read_bytes,
    read_chunks,
    read_lines,
    read_pages,
    visible_files,
)
from factgym.corpora.wikitext import strip_wikitext

Form = Literal["jsonl", "text", "wikiextractor", "mediawiki"]
Unit = Literal["file", "paragraph", "line"]

MAX_RECORD_BYTES = 64 << 20
"""The longest line or page; the longest article of the English Wikipedia has 2 MB."""

PART_BYTES = 64 << 20
"""Default maximum of a byte range, in bytes on the disk."""

_MIN_PART_BYTES = 4 << 20
_MIN_PARTS = 16
"""Small corpora are cut into so many ranges, to occupy every worker."""
_HASHED_BYTES = 1 << 16
_MAX_MESSAGES = 20

_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")
_SUFFIXES: dict[str, Form] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".txt", ".text", ".md"), "text"),
    ".xml": "mediawiki",
}
_SPLITTABLE: dict[Form, tuple[str, ...]] = {
    "jsonl": ("",),
    "text": ("",),
    "wikiextractor": (),
    "mediawiki": ("", "bzip2"),
}
"""Compressions with which a file of the form can be read in byte ranges."""
_EXTRACTED_NAME = re.compile(r"wiki_\d+")
_DUMP_NAME = re.compile(r"(.*)pages-(articles|meta-current)(-multistream)?(\d*)\.xml(-p\d+p\d+)?")
_EXPECTED = (
    "Give JSON lines (.jsonl), text (.txt), WikiExtractor's output (wiki_00 …) or a Wikipedia dump "
    "(…pages-articles….xml), plain or compressed (.gz, .bz2, .xz)."
)
_TEXT_KEYS = ("text", "contents")
_DOC_TAG = re.compile(r"<doc\b([^>]*)>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's share: the documents of `file` that begin in a range of its bytes."""

    number: int
    file: str
    form: Form
    range: ByteRange


@dataclass(slots=True)
class BadRecords:
    """Number of skipped records, with the first messages."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        """Count a record."""
        self.count += 1
        if len(self.messages) < _MAX_MESSAGES:
            self.messages.append(message)


class Article(NamedTuple):
    """An article of a Wikipedia dump."""

    id: str
    title: str
    wikitext: str


class BadRecordError(Exception):
    """Place and fault of a record that is no document. Yielded by the readers, which never raise it."""


class Source:
    """Documents of a file or folder, as (id, text); can be pickled and iterated any number of times.

    path: a file or a folder. form: of the files, None to detect it. text_key: the field of JSON lines with the text;
    None takes "text" or else "contents". unit: document boundaries of plain text. skip_bad: skip broken records and
    count them in `bad`. part_bytes: size of the byte ranges of a large file.
    Raises ConfigError for a path without such files and for a wrong setting.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        form: Form | None = None,
        text_key: str | None = None,
        unit: Unit = "file",
        skip_bad: bool = False,
        part_bytes: int | None = None,
    ) -> None:
        for name, value, choices in (("form", form, get_args(Form)), ("unit", unit, get_args(Unit))):
            if value is not None and value not in choices:
                hint = did_you_mean(value, choices)
                raise ConfigError(f"unknown {name} {value!r}: use {', '.join(choices)}.{hint}")
        if part_bytes is not None and part_bytes < 1:
            raise ConfigError(f"part_bytes is {part_bytes}; it must be at least 1")
        self.path = Path(path)
        self.text_key, self.unit = text_key, unit
        self.skip_bad, self.bad = skip_bad, BadRecords()
        self._root, files, self.ignored = _choose_files(self.path, form)
        if not files:
            raise ConfigError(f"{self.path}: no file that can be read. {_EXPECTED}")
        self._sizes: Mapping[str, int] = {file: (self._root / file).stat().st_size for file in files}
        step = part_bytes or min(PART_BYTES, max(_MIN_PART_BYTES, self.bytes // _MIN_PARTS))
        self.parts = tuple(self._split(form, step))

    def _split(self, form: Form | None, step: int) -> Iterator[Part]:
        """Cut files into byte ranges where their form and compression permit reading from the middle."""
        number = 0
        for file, size in self._sizes.items():
            file_form = form or _form_by_name(file) or "text"
            compression = detect_compression(self._root / file)
            is_unsplit = compression not in _SPLITTABLE[file_form]
            is_unsplit = is_unsplit or (file_form == "text" and self.unit != "line")
            file_step = max(size, 1) if is_unsplit else step
            for start in range(0, max(size, 1), file_step):
                yield Part(number, file, file_form, ByteRange(start, min(start + file_step, size), compression))
                number += 1

    @property
    def bytes(self) -> int:
        """Bytes of the files on the disk."""
        return sum(self._sizes.values())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for part in self.parts:
            yield from self.read(part)

    def read(self, part: Part, bad: BadRecords | None = None) -> Iterator[tuple[str, str]]:
        """Yield the documents of a part in order. bad: counts skipped records, `self.bad` by default.

        Raises DataError for a broken record (without `skip_bad`), and always for a file that cannot be read to its end.
        """
        records = _READERS[part.form](_FileRange(self._root / part.file, part.file, part.range), self)
        bad = self.bad if bad is None else bad
        return _usable(records, bad.add if self.skip_bad else None)

    def articles(self, on_bad: Callable[[str], None] | None = None) -> Iterator[Article]:
        """Yield the articles of a Wikipedia dump in order. on_bad: takes the faults of broken pages; else DataError."""
        for part in self.parts:
            yield from _usable(_read_articles(_FileRange(self._root / part.file, part.file, part.range)), on_bad)

    @property
    def files(self) -> list[Path]:
        """The files that are read, in order."""
        return [self._root / file for file in self._sizes]

    def fingerprint(self) -> str:
        """Return SHA-256 in hex over names, sizes, first and last 64 KiB of the files, and how they are read."""
        parts = [[part.form, part.range.start] for part in self.parts]
        settings = [self.text_key, self.unit, self.skip_bad, parts]
        digest = hashlib.sha256(json.dumps(["factgym source", 1, settings]).encode())
        for file, size in self._sizes.items():
            path = self._root / file
            ends = read_bytes(path, 0, _HASHED_BYTES)
            ends += read_bytes(path, max(0, size - _HASHED_BYTES), _HASHED_BYTES)
            digest.update(f"{file}\0{size}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(ends).digest())
        return digest.hexdigest()


def _usable(records: Iterator[T | BadRecordError], on_bad: Callable[[str], None] | None) -> Iterator[T]:
    """Yield records without the broken ones. Raises DataError for these where `on_bad` does not take them."""
    for record in records:
        if not isinstance(record, BadRecordError):
            yield record
        elif on_bad is not None:
            on_bad(str(record))
        else:
            raise DataError(f"{record}. Fix it, or leave such records out (skip_bad, --skip-bad).")


def _choose_files(path: Path, form: Form | None) -> tuple[Path, list[str], tuple[str, ...]]:
    """Return a folder, its files to read, and its ignored files.

    A named file is read whatever its name. A folder with a Wikipedia dump is that dump, one with WikiExtractor's files
    is those, else every file with a known suffix is read; with a form given, the files with its names, and all if there
    are none. Raises ConfigError for a missing path and for a folder with the same dump twice.
    """
    kind = kind_of(path)
    if kind == "file":
        return path.parent, [path.name], ()
    if kind is None:
        raise ConfigError(f"{path}: no such file or folder")
    names = sorted(name for name in visible_files(path) if (path / name).is_file())
    forms = {name: _form_by_name(name) for name in names}
    dumps = list(filter(is_dump_name, names))
    if form:
        chosen = [name for name in names if forms[name] == form] or names
        chosen = dumps if form == "mediawiki" and dumps else chosen
    else:
        extracted = [name for name in names if forms[name] == "wikiextractor"]
        chosen = dumps or extracted or [name for name in names if forms[name]]
    # A dump is distributed whole, as numbered pieces, and each of them as multistream too.
    matches = [match for name in chosen if (match := _DUMP_NAME.fullmatch(_stem(name)))]
    if len({(*match.group(1, 2, 3), bool(match[4])) for match in matches}) > 1:
        raise ConfigError(
            f"{path} holds a dump more than once ({', '.join(dumps[:4])}): name the file, or a folder with one of them"
        )
    return path, chosen, tuple(sorted(set(names).difference(chosen)))


def is_dump_name(name: str) -> bool:
    """Return whether a file's name is that of a Wikipedia dump with articles, packed or not."""
    return _DUMP_NAME.fullmatch(_stem(name)) is not None


def _stem(name: str) -> str:
    """Return the file's name without folder and compression suffix."""
    last = PurePosixPath(name).name
    return last.removesuffix(next((suffix for suffix in _COMPRESSED_SUFFIXES if last.endswith(suffix)), ""))


def _form_by_name(name: str) -> Form | None:
    stem = _stem(name)
    if is_dump_name(name):
        return "mediawiki"
    if _EXTRACTED_NAME.fullmatch(stem):
        return "wikiextractor"
    return _SUFFIXES.get(PurePosixPath(stem).suffix.lower())


# Readers: one for each form.

Document = tuple[str, str]
Records = Iterator[Document | BadRecordError]


class _FileRange:
    """Part of a file: its decoded lines with their numbers in the range, from 1, and ids and faults of its records."""

    def __init__(self, file: Path, name: str, byte_range: ByteRange) -> None:
        self.file, self.name, self.range = file, name, byte_range
        self._lines_before = 0 if byte_range.at_start else -1

    def __iter__(self) -> Iterator[tuple[int, str | BadRecordError]]:
        for number, line in enumerate(read_lines(self.file, self.name, self.range, MAX_RECORD_BYTES), start=1):
            try:
                yield number, line.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                yield number, self.fault(number, f"not UTF-8 at byte {error.start + 1} of the line")

    def default_id(self, number: int) -> str:
        return f"{self.name}:{number}" if self.range.at_start else f"{self.name}@{self.range.start}:{number}"

    def fault(self, number: int, problem: str) -> BadRecordError:
        """Return a fault with the line's number in the file; the lines before the range are counted once."""
        if self._lines_before < 0:
            self._lines_before = sum(1 for _ in read_lines(self.file, "", ByteRange(0, self.range.start, ""), 1 << 62))
        return BadRecordError(f"{self.name} line {self._lines_before + number}: {problem}")


def _read_json_lines(lines: _FileRange, source: Source) -> Records:
    """Read one document a line: an object with a text, and perhaps an id."""
    for number, line in lines:
        if isinstance(line, BadRecordError):
            yield line
        elif line.strip(string.whitespace):
            try:
                document_id, text = _parse_json(line, source.text_key)
            except BadRecordError as fault:
                yield lines.fault(number, str(fault))
            else:
                yield document_id or lines.default_id(number), text


def _parse_json(line: str, text_key: str | None) -> Document:
    """Return the id (or "") and the text of a line. Raises BadRecordError."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadRecordError(f"not valid JSON at column {error.colno} ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise BadRecordError(f"not usable JSON ({str(error)[:100]})") from None
    if not isinstance(value, dict):
        raise BadRecordError(f"a JSON object is expected, not a {type(value).__name__}")
    key = text_key or next((key for key in _TEXT_KEYS if key in value), _TEXT_KEYS[0])
    text, document_id = value.get(key), value.get("id")
    if not isinstance(text, str):
        keys = ", ".join(sorted(map(str, value))[:8]) or "no keys"
        raise BadRecordError(f"no text under {key!r} (found: {keys[:200]})")
    has_id = isinstance(document_id, str | int) and not isinstance(document_id, bool)
    return (str(document_id) if has_id else ""), text


def _read_text(lines: _FileRange, source: Source) -> Records:
    """Read documents of a whole file, of a paragraph between blank lines, or of a line."""
    if source.unit == "file":
        yield _read_whole_file(lines)
        return
    first_line, size = 0, 0
    paragraph: list[str] = []
    for number, line in lines:
        if isinstance(line, BadRecordError):
            yield line
            continue
        if (text := line.strip()) and source.unit == "line":
            yield lines.default_id(number), text
            continue
        first_line = first_line if paragraph else number
        if text:
            paragraph.append(text)
            size += len(text)
        if paragraph and (not text or size > MAX_RECORD_BYTES):
            yield lines.default_id(first_line), "\n".join(paragraph)
            paragraph, size = [], 0
    if paragraph:
        yield lines.default_id(first_line), "\n".join(paragraph)


def _read_whole_file(file: _FileRange) -> Document | BadRecordError:
    content = bytearray()
    for chunk, _ in read_chunks(file.file, file.range):
        content += chunk
        if len(content) > MAX_RECORD_BYTES:
            limit = f"{MAX_RECORD_BYTES:,}"
            return BadRecordError(
                f"{file.name}: more than {limit} bytes are too long for one document; read it by paragraph (unit, --unit)"
            )
    try:
        return file.name, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return BadRecordError(f"{file.name}: not UTF-8 at byte {error.start + 1}")


def _read_wikiextractor(lines: _FileRange, source: Source) -> Records:
    """Read WikiExtractor's output: JSON lines, or articles between `<doc id="…" …>` and `</doc>`."""
    first = next((line for _, line in lines if isinstance(line, BadRecordError) or line.strip()), "")
    is_json = isinstance(first, str) and first.lstrip().startswith("{")
    for record in _read_json_lines(lines, source) if is_json else _read_doc_tags(lines):
        if isinstance(record, BadRecordError) or record[1].strip():  # a redirect is an article without text
            yield record


def _read_doc_tags(lines: _FileRange) -> Records:
    """Yield WikiExtractor's articles, `<doc id=…>` to `</doc>`; a line outside of them and an article without end are faults."""
    document_id, first_line = "", 0
    article: list[str] = []
    for number, line in lines:
        if isinstance(line, BadRecordError):
            yield line
            continue
        tag = _DOC_TAG.match(line)
        if tag and not first_line:
            document_id, first_line, article = dict(_ATTRIBUTE.findall(tag[1])).get("id", ""), number, []
        elif line.strip() == "</doc>" and first_line:
            yield document_id or lines.default_id(first_line), "\n".join(article)
            first_line = 0
        elif first_line and not tag:
            article.append(line)
        elif line.strip():
            yield lines.fault(number, "an article begins with <doc …> and ends with </doc>")
            first_line = 0
    if first_line:
        yield lines.fault(first_line, "this article has no </doc>; the file is cut off")


def _read_mediawiki(dump: _FileRange, source: Source) -> Records:
    for record in _read_articles(dump):
        yield record if isinstance(record, BadRecordError) else (record.id, strip_wikitext(record.wikitext))


def _read_articles(dump: _FileRange) -> Iterator[Article | BadRecordError]:
    """Read the articles of a Wikipedia dump (namespace 0, no redirects)."""
    for page in read_pages(dump.file, dump.name, dump.range, MAX_RECORD_BYTES):
        fields, fault = _parse_page(page)
        if fault:
            yield BadRecordError(f"{dump.name}: the page {fields.get('title', '')[:80]!r} {fault}")
        elif fields.get("ns", "0").strip() == "0" and "redirect" not in fields:
            title = fields.get("title", "")
            yield Article(fields.get("id", "").strip() or title, title, fields["text"])


def _parse_page(page: bytes) -> tuple[dict[str, str], str]:
    """Return the texts of a `<page>` by their tags, and the fault that makes it unusable, or "".

    Of several elements of a tag the first counts: a revision's id comes after the page's.
    """
    fields: dict[str, str] = {}
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(page)):
            fields.setdefault(element.tag, element.text or "")
    except ElementTree.ParseError as error:
        return fields, f"is not well-formed XML ({expat.errors.messages[error.code]})"
    return fields, "" if "text" in fields else "has no text"


_READERS: dict[Form, Callable[[_FileRange, Source], Records]] = {
    "jsonl": _read_json_lines,
    "text": _read_text,
    "wikiextractor": _read_wikiextractor,
    "mediawiki": _read_mediawiki,
}
