"""Documents and how they are cut into passages: the step that every reader of real text shares.

A reader turns a file into blocks (a heading path and the paragraphs under it); here blocks become passages of a
bounded length, cut between paragraphs, else between sentences, else between words. A passage keeps one paragraph,
list item (`- …`, `1. …`) or table row per line. Sentence-level evidence is what ClaimCheck quotes ("Building The
Benchmark"), so a passage never cuts a sentence that fits in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from factgym.corpora.corpus import Passage
from factgym.corpora.sentences import sentences

_SLUG = re.compile(r"[^a-z0-9]+")
_LOST_TEXT = "[…]"
SLUG_CHARS = 48
"""Longest document id, in characters, before a suffix that keeps it unique."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document. `id` is unique in its folder; a passage's id is `<document id>#<number from 1>`."""

    id: str
    title: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The paragraphs under one heading. `path` are the headings from the outermost to the nearest one."""

    path: tuple[str, ...]
    paragraphs: tuple[str, ...]


def lost_text() -> str:
    """The mark left where a reader had to drop text out of a sentence (a template variable, say)."""
    return _LOST_TEXT


def slug(text: str) -> str:
    """Lower-case ASCII words joined by hyphens, cut at a word: `"Refund Policy – HEY"` -> `"refund-policy-hey"`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower().replace("'", "")
    whole = _SLUG.sub("-", plain).strip("-")
    if len(whole) <= SLUG_CHARS:
        return whole or "document"
    return whole[: SLUG_CHARS + 1].rpartition("-")[0] or whole[:SLUG_CHARS]


class Ids:
    """Hands out ids that are unique without regard to case: the second `x` becomes `x-2`."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def take(self, wanted: str) -> str:
        """`wanted`, or `wanted-2`, `wanted-3` … where it is taken."""
        number, name = 1, wanted
        while name.lower() in self._used:
            number += 1
            name = f"{wanted}-{number}"
        self._used.add(name.lower())
        return name


def cut(paragraph: str, limit: int) -> Iterator[str]:
    """`paragraph` in pieces of at most `limit` characters: whole sentences while they fit, else words, else letters."""
    if len(paragraph) <= limit:
        yield paragraph
        return
    start = end = 0
    for last in [*(stop for _, stop in sentences(paragraph)), len(paragraph)]:
        if last - start > limit and end > start:
            if paragraph[start:end].strip():
                yield paragraph[start:end].strip()
            start = end
        while last - start > limit:
            space = paragraph.rfind(" ", start + 1, start + limit + 1)
            stop = space if space > start else start + limit
            if paragraph[start:stop].strip():
                yield paragraph[start:stop].strip()
            start = stop
        end = last
    if paragraph[start:].strip():
        yield paragraph[start:].strip()


def pack(paragraphs: Iterable[str], limit: int) -> Iterator[str]:
    """Joins paragraphs by line breaks into texts of at most `limit` characters."""
    lines: list[str] = []
    length = 0
    for paragraph in paragraphs:
        for piece in cut(paragraph, limit):
            if lines and length + 1 + len(piece) > limit:
                yield "\n".join(lines)
                lines, length = [], 0
            length += len(piece) + bool(lines)
            lines.append(piece)
    if lines:
        yield "\n".join(lines)


def passage_title(title: str, path: Sequence[str]) -> str:
    """`"Refund Policy › Annual plans"`: the document and the last two headings that differ from its title."""
    below = [part for part in path if part.casefold() != title.casefold()]
    return " › ".join([title, *below[-2:]])


def make_document(id_: str, title: str, blocks: Iterable[Block], max_passage_chars: int) -> Document:
    """Cuts blocks into passages; a document without text has none."""
    passages: list[Passage] = []
    for block in blocks:
        for text in pack(block.paragraphs, max_passage_chars):
            name = passage_title(title, block.path)
            passages.append(Passage(f"{id_}#{len(passages) + 1}", name, text))
    return Document(id_, title, tuple(passages))
