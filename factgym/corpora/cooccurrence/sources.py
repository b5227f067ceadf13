"""Corpora as streams of documents: JSON lines, text, WikiExtractor's output and Wikipedia's XML dumps.

    source = open_source("wiki/")          # a file or a folder; formats follow from names and first bytes
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
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args
from xml.parsers import expat

from factgym.core.errors import ConfigError, DataError, MissingExtraError, did_you_mean
from factgym.corpora.byte_ranges import (
    CHUNK,
    ByteRange,
    detect_compression,
    read_bytes,
    read_chunks,
    read_lines,
    read_pages,
    visible_files,
)

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
_PAGE_FIELDS = ("title", "ns", "id", "text")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Mapping from records to documents."""

    text_key: str | None = None
    unit: Unit = "file"


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
        self.options = ReadOptions(text_key, unit)
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
            is_unsplit = is_unsplit or (file_form == "text" and self.options.unit != "line")
            file_step = max(size, 1) if is_unsplit else step
            for start in range(0, max(size, 1), file_step):
                byte_range = ByteRange(start, min(start + file_step, size), compression)
                yield Part(number, file, file_form, byte_range)
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
        bad = self.bad if bad is None else bad
        for record in READERS[part.form](self._root / part.file, part.file, part.range, self.options):
            if not isinstance(record, BadRecordError):
                yield record
            elif self.skip_bad:
                bad.add(str(record))
            else:
                raise DataError(f"{record}. Fix it, or leave such records out (skip_bad, --skip-bad).")

    def fingerprint(self) -> str:
        """Return SHA-256 in hex over names, sizes, first and last 64 KiB of the files, and how they are read."""
        parts = [[part.form, part.range.start] for part in self.parts]
        settings = [self.options.text_key, self.options.unit, self.skip_bad, parts]
        digest = hashlib.sha256(json.dumps(["factgym source", 1, settings]).encode())
        for file, size in self._sizes.items():
            path = self._root / file
            ends = read_bytes(path, 0, _HASHED_BYTES)
            ends += read_bytes(path, max(0, size - _HASHED_BYTES), _HASHED_BYTES)
            digest.update(f"{file}\0{size}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(ends).digest())
        return digest.hexdigest()


def open_source(path: str | Path, **options: object) -> Source:
    """Open a file or folder; options as for `Source`."""
    return Source(path, **options)  # type: ignore[arg-type]  # Source checks them


def _choose_files(path: Path, form: Form | None) -> tuple[Path, list[str], tuple[str, ...]]:
    """Return a folder, its files to read, and its ignored files.

    A named file is read whatever its name. A folder with a Wikipedia dump is that dump, one with WikiExtractor's files
    is those, else every file with a known suffix is read; with a form given, the files with its names, and all if there
    are none. Raises ConfigError for a missing path and for a folder with the same dump twice.
    """
    if path.is_file():
        return path.parent, [path.name], ()
    if not path.is_dir():
        raise ConfigError(f"{path}: no such file or folder")
    names = sorted(name for name in visible_files(path) if (path / name).is_file())
    forms = {name: _form_by_name(name) for name in names}
    dumps = [name for name in names if _DUMP_NAME.fullmatch(_stem(name))]
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


def _stem(name: str) -> str:
    """Return the file's name without folder and compression suffix."""
    last = PurePosixPath(name).name
    return last.removesuffix(next((suffix for suffix in _COMPRESSED_SUFFIXES if last.endswith(suffix)), ""))


def _form_by_name(name: str) -> Form | None:
    stem = _stem(name)
    if _DUMP_NAME.fullmatch(stem):
        return "mediawiki"
    if _EXTRACTED_NAME.fullmatch(stem):
        return "wikiextractor"
    return _SUFFIXES.get(PurePosixPath(stem).suffix.lower())


# Readers: one for each form.

Document = tuple[str, str]
Records = Iterator[Document | BadRecordError]
Reader = Callable[[Path, str, ByteRange, ReadOptions], Records]
"""From file, name for errors and ids, range and options to documents and bad records."""


class _LineNumbers:
    """Line numbers in the file, of lines numbered from 1 in a byte range; counts the lines before it when needed."""

    def __init__(self, file: Path, byte_range: ByteRange) -> None:
        self._file, self._before = file, ByteRange(0, byte_range.start, "")
        self._offset = 0 if byte_range.at_start else -1

    def absolute(self, number: int) -> int:
        if self._offset < 0:
            self._offset = sum(1 for _ in read_lines(self._file, "", self._before, 1 << 62))
        return self._offset + number


def _default_id(name: str, byte_range: ByteRange, number: int) -> str:
    return f"{name}:{number}" if byte_range.at_start else f"{name}@{byte_range.start}:{number}"


def read_json_lines(file: Path, name: str, byte_range: ByteRange, options: ReadOptions) -> Records:
    """Read one document a line: an object with a text, and perhaps an id."""
    numbers = _LineNumbers(file, byte_range)
    for number, line in enumerate(read_lines(file, name, byte_range, MAX_RECORD_BYTES), start=1):
        if not line.strip():
            continue
        try:
            document_id, text = _parse_json(line, options.text_key)
        except BadRecordError as fault:
            yield BadRecordError(f"{name} line {numbers.absolute(number)}: {fault}")
        else:
            yield document_id or _default_id(name, byte_range, number), text


def _parse_json(line: bytes, text_key: str | None) -> Document:
    """Return the id (or "") and the text of a line. Raises BadRecordError."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadRecordError(f"not UTF-8 at byte {error.start + 1} of the line") from None
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


def read_text(file: Path, name: str, byte_range: ByteRange, options: ReadOptions) -> Records:
    """Read documents of a whole file, of a paragraph between blank lines, or of a line."""
    if options.unit == "file":
        yield _read_whole_file(file, name, byte_range)
        return
    numbers = _LineNumbers(file, byte_range)
    first_line, size = 0, 0
    lines: list[str] = []
    for number, raw in enumerate(read_lines(file, name, byte_range, MAX_RECORD_BYTES), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            line_number = numbers.absolute(number)
            yield BadRecordError(f"{name} line {line_number}: not UTF-8 at byte {error.start + 1} of the line")
            continue
        if line and options.unit == "line":
            yield _default_id(name, byte_range, number), line
            continue
        first_line = first_line if lines else number
        if line:
            lines.append(line)
            size += len(line)
        if lines and (not line or size > MAX_RECORD_BYTES):
            yield _default_id(name, byte_range, first_line), "\n".join(lines)
            lines, size = [], 0
    if lines:
        yield _default_id(name, byte_range, first_line), "\n".join(lines)


def _read_whole_file(file: Path, name: str, byte_range: ByteRange) -> Document | BadRecordError:
    content = bytearray()
    for chunk, _ in read_chunks(file, byte_range):
        content += chunk
        if len(content) > MAX_RECORD_BYTES:
            limit = f"{MAX_RECORD_BYTES:,}"
            return BadRecordError(
                f"{name}: more than {limit} bytes are too long for one document; read it by paragraph (unit, --unit)"
            )
    try:
        return name, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return BadRecordError(f"{name}: not UTF-8 at byte {error.start + 1}")


def read_wikiextractor(file: Path, name: str, byte_range: ByteRange, options: ReadOptions) -> Records:
    """Read WikiExtractor's output: JSON lines, or articles between `<doc id="…" …>` and `</doc>`."""
    lines = read_lines(file, name, byte_range, MAX_RECORD_BYTES)
    first_line = next((line.strip() for line in lines if line.strip()), b"")
    if first_line.startswith((b"{", b"\xef\xbb\xbf{")):
        records = read_json_lines(file, name, byte_range, options)
    else:
        records = _read_doc_tags(file, name, byte_range)
    for record in records:
        if isinstance(record, BadRecordError) or record[1].strip():  # a redirect is an article without text
            yield record


def _read_doc_tags(file: Path, name: str, byte_range: ByteRange) -> Records:
    document_id, first_line = "", 0
    lines: list[str] = []
    for number, raw in enumerate(read_lines(file, name, byte_range, MAX_RECORD_BYTES), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            yield BadRecordError(f"{name} line {number}: not UTF-8 at byte {error.start + 1} of the line")
            continue
        tag = _DOC_TAG.match(line)
        if tag and not first_line:
            document_id, first_line, lines = dict(_ATTRIBUTE.findall(tag[1])).get("id", ""), number, []
        elif line.strip() == "</doc>" and first_line:
            yield document_id or f"{name}:{first_line}", "\n".join(lines)
            first_line = 0
        elif first_line and not tag:
            lines.append(line)
        elif line.strip():
            yield BadRecordError(f"{name} line {number}: an article begins with <doc …> and ends with </doc>")
            first_line = 0
    if first_line:
        yield BadRecordError(f"{name} line {first_line}: this article has no </doc>; the file is cut off")


def read_mediawiki(file: Path, name: str, byte_range: ByteRange, options: ReadOptions) -> Records:
    """Read the articles of a Wikipedia dump (namespace 0, no redirects) as plain text."""
    for raw in read_pages(file, name, byte_range, MAX_RECORD_BYTES):
        page = _parse_page(raw)
        if page.fault:
            yield BadRecordError(f"{name}: the page {page.fields.get('title', '')[:80]!r} {page.fault}")
        elif page.fields.get("ns", "0").strip() == "0" and not page.is_redirect:
            document_id = page.fields.get("id", "").strip() or page.fields.get("title", "")
            yield document_id, strip_wikitext(page.fields["text"])


@dataclass(slots=True)
class _Page:
    """Fields of a `<page>` (the first of a name: a revision's id comes after the page's), or why it is unusable."""

    fields: dict[str, str]
    is_redirect: bool = False
    fault: str = ""


def _parse_page(raw: bytes) -> _Page:
    page = _Page({})
    parts: list[str] | None = None
    parser = expat.ParserCreate("UTF-8")
    parser.buffer_text, parser.buffer_size = True, CHUNK

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal parts
        page.is_redirect |= tag == "redirect"
        parts = [] if tag in _PAGE_FIELDS and tag not in page.fields else None

    def add(text: str) -> None:
        if parts is not None:
            parts.append(text)

    def end(tag: str) -> None:
        nonlocal parts
        if parts is not None:
            page.fields[tag] = "".join(parts)
        parts = None

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, add
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        page.fault = f"is not well-formed XML ({expat.errors.messages[error.code]})"
    if not page.fault and "text" not in page.fields:
        page.fault = "has no text"
    return page


# Wikitext. Templates, tables, references, mathematics, comments and files are dropped; of links and formatting the text
# remains. The facts of infoboxes and tables are thereby lost to the counts, as they are in WikiExtractor's output.

_TEXTLESS_TAGS = (
    "ref references table gallery math chem score timeline syntaxhighlight source imagemap graph style templatestyles "
    "mapframe hiero inputbox categorytree"
)
_TEXTLESS = frozenset(_TEXTLESS_TAGS.split())
_NAMESPACE_LINK = re.compile(r"\s*:?\s*(?:File|Image|Media|Category)\s*:", re.I)
_LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?:\S")
_BLANK_LINES = re.compile(r"\n{3,}")
_EMPTY_PARENTHESES = re.compile(r"\(\s*[,;]?\s*\)")


def strip_wikitext(wikitext: str) -> str:
    """Return the prose of a page, by `mwparserfromhell`. Raises MissingExtraError without it (extra "wikipedia")."""
    try:
        parser = import_module("mwparserfromhell")
    except ImportError:
        raise MissingExtraError("a Wikipedia dump in MediaWiki's own form", "wikipedia") from None
    text = "".join(_node_texts(parser.parse(wikitext).nodes))
    return _BLANK_LINES.sub("\n\n", _EMPTY_PARENTHESES.sub("", text)).strip()


def _node_texts(nodes: Any) -> Iterator[str]:
    """Yield the text of nodes; nodes of a kind without text are skipped."""
    for node in nodes:
        kind = type(node).__name__
        if kind == "Text":
            yield str(node.value)
        elif kind == "Wikilink":
            yield from _link_texts(node)
        elif kind == "Tag":
            yield from _tag_texts(node)
        elif kind == "Heading":
            yield from ("\n", *_node_texts(node.title.nodes), "\n")
        elif kind == "HTMLEntity":
            try:
                yield str(node.normalize())
            except (ValueError, OverflowError):  # a number that is no character
                yield " "
        elif kind == "ExternalLink" and node.title is not None:
            yield from _node_texts(node.title.nodes)


def _link_texts(node: Any) -> Iterator[str]:
    title = str(node.title)
    if not _NAMESPACE_LINK.match(title) and (node.text is not None or not _LANGUAGE_LINK.match(title)):
        yield from _node_texts((node.title if node.text is None else node.text).nodes)


def _tag_texts(node: Any) -> Iterator[str]:
    tag = str(node.tag).strip().lower()
    if tag == "br":
        yield "\n"
    elif tag not in _TEXTLESS and node.contents is not None:
        yield from _node_texts(node.contents.nodes)


READERS: dict[str, Reader] = {
    "jsonl": read_json_lines,
    "text": read_text,
    "wikiextractor": read_wikiextractor,
    "mediawiki": read_mediawiki,
}
