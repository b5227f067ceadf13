"""Records of a corpus file as documents: one reader for each form, over the lines or pages of a stretch of the file.

A reader yields `(id, text)`, or a `BadRecordError` that says what is wrong with a record and where; the source decides
whether that ends the reading. Pages of a Wikipedia dump are parsed one at a time, cut out of the file by their tags: no
document type declaration is ever parsed, so no entity can be declared, let alone expanded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.parsers import expat

from factgym.corpora.cooccurrence.source_bytes import CHUNK, Stretch, chunks_of, lines_of, pages_of

MAX_RECORD_BYTES = 64 << 20
"""The longest line or page; the longest article of the English Wikipedia has 2 MB."""

SPLITTABLE = {
    "jsonl": ("",),
    "text": ("",),
    "wikiextractor": (),
    "mediawiki": ("", "bzip2"),
}
"""Ways of packing in which a file of the form can be read in stretches."""

_TEXT_KEYS = ("text", "contents")
_DOC = re.compile(r"<doc\b([^>]*)>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Options:
    """How records become documents."""

    text_key: str | None = None
    unit: Literal["file", "paragraph", "line"] = "file"


class BadRecordError(Exception):
    """A record that is no document; the text says where and why. Yielded by the readers, never raised."""


Document = tuple[str, str]
Reader = Callable[[Path, str, Stretch, Options], Iterator[Document | BadRecordError]]


def read_json_lines(file: Path, name: str, stretch: Stretch, options: Options) -> Iterator[Document | BadRecordError]:
    """One document a line: an object with a text, and perhaps an id."""
    base = _Base(file, stretch)
    for number, line in enumerate(lines_of(file, name, stretch, MAX_RECORD_BYTES), start=1):
        if not line.strip():
            continue
        found = _json_document(line, options.text_key)
        if isinstance(found, str):
            yield BadRecordError(f"{name} line {base.line(number)}: {found}")
            continue
        id_, text = found
        yield id_ or _name(name, stretch, number), text


class _Base:
    """The number of a line in its file, found when it is asked for."""

    def __init__(self, file: Path, stretch: Stretch) -> None:
        self._file, self._stretch, self._before = file, stretch, 0 if stretch.whole else -1

    def line(self, number: int) -> int:
        if self._before < 0:
            self._before = sum(1 for _ in lines_of(self._file, "", Stretch(0, self._stretch.begin, ""), 1 << 62))
        return self._before + number


def _name(name: str, stretch: Stretch, number: int) -> str:
    return f"{name}:{number}" if stretch.whole else f"{name}@{stretch.begin}:{number}"


def _json_document(line: bytes, key: str | None) -> tuple[str, str] | str:
    """The id (or "") and the text of a line, or what is wrong with it."""
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
    key = key or next((one for one in _TEXT_KEYS if one in value), _TEXT_KEYS[0])
    text = value.get(key)
    if not isinstance(text, str):
        found = ", ".join(sorted(map(str, value))[:8]) or "no keys"
        return f"no text under {key!r} (found: {found[:200]})"
    id_ = value.get("id")
    return (str(id_) if isinstance(id_, str | int) and not isinstance(id_, bool) else ""), text


def read_text(file: Path, name: str, stretch: Stretch, options: Options) -> Iterator[Document | BadRecordError]:
    """A document is the whole file, a paragraph between blank lines, or a line."""
    if options.unit == "file":
        yield _whole_file(file, name, stretch)
        return
    base = _Base(file, stretch)
    begun, size = 0, 0
    held: list[str] = []
    for number, line in enumerate(lines_of(file, name, stretch, MAX_RECORD_BYTES), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            yield BadRecordError(f"{name} line {base.line(number)}: not UTF-8 at byte {error.start + 1} of the line")
            continue
        if text and options.unit == "line":
            yield _name(name, stretch, number), text
            continue
        begun = begun if held else number
        if text:
            held.append(text)
            size += len(text)
        if held and (not text or size > MAX_RECORD_BYTES):
            yield _name(name, stretch, begun), "\n".join(held)
            held, size = [], 0
    if held:
        yield _name(name, stretch, begun), "\n".join(held)


def _whole_file(file: Path, name: str, stretch: Stretch) -> Document | BadRecordError:
    content = bytearray()
    for chunk, _ in chunks_of(file, stretch):
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


def read_wikiextractor(
    file: Path, name: str, stretch: Stretch, options: Options
) -> Iterator[Document | BadRecordError]:
    """WikiExtractor's output: JSON lines, or articles between `<doc id="…" …>` and `</doc>`."""
    json_lines = _first_line(file, name, stretch).startswith((b"{", b"\xef\xbb\xbf{"))
    records = read_json_lines(file, name, stretch, options) if json_lines else _tagged(file, name, stretch)
    yield from (one for one in records if _has_text(one))


def _first_line(file: Path, name: str, stretch: Stretch) -> bytes:
    lines = lines_of(file, name, stretch, MAX_RECORD_BYTES)
    return next((line.strip() for line in lines if line.strip()), b"")


def _has_text(found: Document | BadRecordError) -> bool:
    """A redirect is an article without text there."""
    return isinstance(found, BadRecordError) or bool(found[1].strip())


def _tagged(file: Path, name: str, stretch: Stretch) -> Iterator[Document | BadRecordError]:
    id_, begun = "", 0
    held: list[str] = []
    for number, raw in enumerate(lines_of(file, name, stretch, MAX_RECORD_BYTES), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            yield BadRecordError(f"{name} line {number}: not UTF-8 at byte {error.start + 1} of the line")
            continue
        opening = _DOC.match(line)
        if opening and not begun:
            id_, begun, held = dict(_ATTRIBUTE.findall(opening[1])).get("id", ""), number, []
        elif line.strip() == "</doc>" and begun:
            yield id_ or f"{name}:{begun}", "\n".join(held)
            begun = 0
        elif begun and not opening:
            held.append(line)
        elif line.strip():
            yield BadRecordError(f"{name} line {number}: an article begins with <doc …> and ends with </doc>")
            begun = 0
    if begun:
        yield BadRecordError(f"{name} line {begun}: this article has no </doc>; the file is cut off")


def read_mediawiki(file: Path, name: str, stretch: Stretch, options: Options) -> Iterator[Document | BadRecordError]:
    """The articles of a Wikipedia dump (namespace 0, no redirects), their wikitext made plain."""
    from factgym.corpora.cooccurrence.wikitext import plain_text

    for raw in pages_of(file, name, stretch, MAX_RECORD_BYTES):
        page = _Page(raw)
        if page.problem:
            yield BadRecordError(f"{name}: the page {page.fields.get('title', '')[:80]!r} {page.problem}")
        elif page.fields.get("ns", "0").strip() == "0" and not page.redirect:
            yield page.fields.get("id", "").strip() or page.fields.get("title", ""), plain_text(page.fields["text"])


class _Page:
    """One `<page>`: the text of its fields (the first of a name: a revision's id comes after the page's)."""

    _FIELDS = ("title", "ns", "id", "text")

    def __init__(self, raw: bytes) -> None:
        self.fields: dict[str, str] = {}
        self.redirect, self.problem = False, ""
        self._pieces: list[str] | None = None
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.buffer_size = CHUNK
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._data
        try:
            parser.Parse(raw, True)
        except expat.ExpatError as error:
            self.problem = f"is not well-formed XML ({expat.errors.messages[error.code]})"
        if not self.problem and "text" not in self.fields:
            self.problem = "has no text"

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.redirect |= tag == "redirect"
        self._pieces = [] if tag in self._FIELDS and tag not in self.fields else None

    def _data(self, data: str) -> None:
        if self._pieces is not None:
            self._pieces.append(data)

    def _end(self, tag: str) -> None:
        if self._pieces is not None and tag in self._FIELDS:
            self.fields[tag] = "".join(self._pieces)
        self._pieces = None


READERS: dict[str, Reader] = {
    "jsonl": read_json_lines,
    "text": read_text,
    "wikiextractor": read_wikiextractor,
    "mediawiki": read_mediawiki,
}
