"""Readers of corpus files: documents from the lines or pages of a byte range, one reader for each form.

A reader yields `(id, text)`, or a `BadRecordError` with the place and fault of a record; the source decides whether to
raise it. Pages of a Wikipedia dump are parsed one at a time, cut out of the file by their tags: no document type
declaration is ever parsed, so no entity can be declared, let alone expanded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

from factgym.core.errors import MissingExtraError
from factgym.corpora.cooccurrence.byte_ranges import CHUNK, ByteRange, read_chunks, read_lines, read_pages

Unit = Literal["file", "paragraph", "line"]

MAX_RECORD_BYTES = 64 << 20
"""The longest line or page; the longest article of the English Wikipedia has 2 MB."""

SPLITTABLE = {
    "jsonl": ("",),
    "text": ("",),
    "wikiextractor": (),
    "mediawiki": ("", "bzip2"),
}
"""Compressions with which a file of the form can be read in byte ranges."""

_TEXT_KEYS = ("text", "contents")
_DOC_TAG = re.compile(r"<doc\b([^>]*)>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Mapping from records to documents."""

    text_key: str | None = None
    unit: Unit = "file"


class BadRecordError(Exception):
    """Place and fault of a record that is no document. Yielded by the readers, never raised."""


Document = tuple[str, str]
Records = Iterator[Document | BadRecordError]
Reader = Callable[[Path, str, ByteRange, ReadOptions], Records]


class _LineNumbers:
    """Line numbers in the file, of lines numbered from 1 in a byte range; counts the lines before it when needed."""

    def __init__(self, file: Path, byte_range: ByteRange) -> None:
        self._file, self._range = file, byte_range
        self._before = 0 if byte_range.at_start else None

    def absolute(self, number: int) -> int:
        if self._before is None:
            before = ByteRange(0, self._range.start, "")
            self._before = sum(1 for _ in read_lines(self._file, "", before, 1 << 62))
        return self._before + number


def _default_id(name: str, byte_range: ByteRange, number: int) -> str:
    return f"{name}:{number}" if byte_range.at_start else f"{name}@{byte_range.start}:{number}"


def read_json_lines(file: Path, name: str, byte_range: ByteRange, options: ReadOptions) -> Records:
    """Read one document a line: an object with a text, and perhaps an id."""
    numbers = _LineNumbers(file, byte_range)
    for number, line in enumerate(read_lines(file, name, byte_range, MAX_RECORD_BYTES), start=1):
        if not line.strip():
            continue
        record = _parse_json(line, options.text_key)
        if isinstance(record, str):
            yield BadRecordError(f"{name} line {numbers.absolute(number)}: {record}")
        else:
            document_id, text = record
            yield document_id or _default_id(name, byte_range, number), text


def _parse_json(line: bytes, text_key: str | None) -> Document | str:
    """Return the id (or "") and the text of a line, or its fault."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start + 1} of the line"
    except json.JSONDecodeError as error:
        return f"not valid JSON at column {error.colno} ({error.msg})"
    except (ValueError, RecursionError) as error:
        return f"not usable JSON ({str(error)[:100]})"
    if not isinstance(value, dict):
        return f"a JSON object is expected, not a {type(value).__name__}"
    key = text_key or next((key for key in _TEXT_KEYS if key in value), _TEXT_KEYS[0])
    text = value.get(key)
    if not isinstance(text, str):
        keys = ", ".join(sorted(map(str, value))[:8]) or "no keys"
        return f"no text under {key!r} (found: {keys[:200]})"
    document_id = value.get("id")
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
        page = _PageParser(raw)
        if page.fault:
            yield BadRecordError(f"{name}: the page {page.fields.get('title', '')[:80]!r} {page.fault}")
        elif page.fields.get("ns", "0").strip() == "0" and not page.is_redirect:
            document_id = page.fields.get("id", "").strip() or page.fields.get("title", "")
            yield document_id, strip_wikitext(page.fields["text"])


class _PageParser:
    """Parses one `<page>`: the text of its fields (the first of a name: a revision's id comes after the page's)."""

    _FIELDS = ("title", "ns", "id", "text")

    def __init__(self, raw: bytes) -> None:
        self.fields: dict[str, str] = {}
        self.is_redirect, self.fault = False, ""
        self._pieces: list[str] | None = None
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.buffer_size = CHUNK
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._data
        try:
            parser.Parse(raw, True)
        except expat.ExpatError as error:
            self.fault = f"is not well-formed XML ({expat.errors.messages[error.code]})"
        if not self.fault and "text" not in self.fields:
            self.fault = "has no text"

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.is_redirect |= tag == "redirect"
        self._pieces = [] if tag in self._FIELDS and tag not in self.fields else None

    def _data(self, data: str) -> None:
        if self._pieces is not None:
            self._pieces.append(data)

    def _end(self, tag: str) -> None:
        if self._pieces is not None and tag in self._FIELDS:
            self.fields[tag] = "".join(self._pieces)
        self._pieces = None


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
    text = "".join(_node_texts(_wikitext_parser().parse(wikitext).nodes))
    return _BLANK_LINES.sub("\n\n", _EMPTY_PARENTHESES.sub("", text)).strip()


@cache
def _wikitext_parser() -> Any:
    try:
        return import_module("mwparserfromhell")
    except ImportError:
        raise MissingExtraError("a Wikipedia dump in MediaWiki's own form", "wikipedia") from None


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
