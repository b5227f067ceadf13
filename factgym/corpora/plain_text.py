"""Plain text to blocks: paragraphs re-flowed, page furniture dropped, headings and clause numbers recognised.

Text files come in two shapes: lines broken at a fixed width, and one paragraph per line (as contracts extracted from
filings are, where column gaps and lost line breaks show as runs of spaces, and page footers split sentences).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

_GAP = re.compile(r"[ \t\u00a0]{5,}")
_PAGE_NUMBER = re.compile(r"\W{0,4}(?:page )?(?:\d{1,4}|[ivxl]{1,6}|[A-Z]-\d{1,3})(?: (?:of|/) \d{1,4})?\W{0,4}$", re.I)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_DIGITS = re.compile(r"\d+")
_LIST_MARK = re.compile(r"(?:[-*•·–]|\(?[a-z]{1,4}\)|\(?\d{1,3}(?:\.\d{1,3})*[.)]?)$", re.I)
_ITEM_START = re.compile(r"(?:[-*•·–] |\(?(?:[a-z]|[ivx]{1,5}|\d{1,3})[.)] |\d{1,3}(?:\.\d{1,3})+\.? )", re.I)
_BULLET = re.compile(r"[-*•·–] +")
_NUMBERED = re.compile(r"(?:(?:ARTICLE|Article|SECTION|Section|EXHIBIT|Exhibit|SCHEDULE|Schedule|Part|PART) )?"
                       r"(?:\d{1,2}(?:\.\d{1,3})*|[IVX]{1,6}|[A-Z])[.):]? (?=\S)")  # fmt: skip
_CLAUSE = re.compile(r"(?:(?<=[.;:)”\"])|(?<=[A-Z]{4})) (?=\d{1,2}\.\d{1,2}(?:\.\d{1,2})?\.? [A-Z“\"(])")
_SENTENCE_END = (".", "!", "?", ":", ";", '."', ".”", ".)", "?)", "!)")
_NOT_IN_HEADING = re.compile(
    r"[\d(_:]|\b(?:Street|Avenue|Suite|Road|Inc|LLC|Ltd|Corp|Box|WHEREAS|BETWEEN)\b|^(?:AND|BY|OR)\b"
)
_MAX_HEADING_CHARS = 80
_FURNITURE_REPEATS = 3
_DIVISION = re.compile(r"(?:section|article|exhibit|schedule|chapter|part|appendix|annex|step|question)\b|\W*\d", re.I)
_WRAP_WIDTHS = range(45, 131)


@dataclass(frozen=True, slots=True)
class Block:
    """The paragraphs under one heading. `path` are the headings from the outermost to the nearest one."""

    path: tuple[str, ...]
    paragraphs: tuple[str, ...]


class BlockBuilder:
    """Collects headings and paragraphs in order as blocks.

    Attributes:
        title: Of the document: as given, else its first heading of level 1.
        is_complete: Whether a heading that no passage shows in its title, as nothing is below it, becomes a paragraph.
        blocks: Those that are complete.
        lines: Headings and paragraphs as text.
    """

    def __init__(self, title: str = "", *, is_complete: bool = True) -> None:
        self.title = title
        self._is_complete = is_complete
        self.blocks: list[Block] = []
        self.lines: list[str] = []
        self._path: list[tuple[int, str]] = []
        self._shown: set[str] = set()  # headings in the title of a passage
        self._paragraphs: list[str] = []

    def heading(self, level: int, text: str) -> None:
        """Begin a section."""
        self.close(level)
        self._path.append((level, text))
        self.lines.append(text)
        if level == 1 and not self.title:
            self.title = text

    def paragraphs(self, texts: Iterable[str]) -> None:
        """Add paragraphs, list items or rows of a table to the section."""
        before = len(self._paragraphs)
        self._paragraphs.extend(texts)
        self.lines += self._paragraphs[before:]

    def close(self, level: int = 1) -> None:
        """End the block under the current heading, and the sections down to a level."""
        self._close_block()
        while self._path and self._path[-1][0] >= level:
            _, name = self._path.pop()
            if self._is_complete and name and name not in self._shown:
                self._paragraphs.append(name)
                self._close_block()

    def _close_block(self) -> None:
        if self._paragraphs:
            names = [name for _, name in self._path if name]
            self._shown.update(names[-2:], [self.title])
            self.blocks.append(Block(tuple(names), tuple(self._paragraphs)))
        self._paragraphs = []


def _without_furniture(lines: list[str]) -> list[str]:
    """Blank page headers and footers: page numbers, and short lines that repeat, numbers aside."""
    # A line's shape is the line with every number as 0, so that "Page 3 of 9" and "Page 4 of 9" are one.
    shapes = (_DIGITS.sub("0", line.strip()) for line in lines if not _DIVISION.match(line.strip()))
    counts = Counter(shape for shape in shapes if 0 < len(shape) <= _MAX_HEADING_CHARS and not shape.endswith("."))
    furniture = {shape for shape, count in counts.items() if count >= _FURNITURE_REPEATS}
    return [
        "" if _PAGE_NUMBER.match(line.strip()) or _DIGITS.sub("0", line.strip()) in furniture else line
        for line in lines
    ]


def _join(lines: list[str]) -> str:
    """Join lines to one paragraph; a word broken at its hyphen is one word again, with the hyphen."""
    parts = [lines[0]]
    for line, following in pairwise(lines):
        is_broken = line.endswith("-") and line[-2:-1].isalpha() and following[:1].islower()
        parts.append(following if is_broken else f" {following}")
    return "".join(parts)


def _reflow(lines: list[str]) -> list[str]:
    """Join lines broken at a fixed width; a blank line, a list mark or a short complete line ends a paragraph."""
    # `joining`: whether the previous line may continue, as it was neither blank, nor complete and short, nor a heading.
    width = max((len(line) for line in lines), default=0)
    paragraphs: list[list[str]] = []
    joining = False
    for line in lines:
        text = line.strip()
        if text and joining and not _ITEM_START.match(text):
            paragraphs[-1].append(text)
        elif text:
            paragraphs.append([text])
        short = text.endswith(_SENTENCE_END) and len(line) < 0.7 * width
        joining = bool(text) and not short and not heading_of(text)
    return [_join(paragraph) for paragraph in paragraphs]


def heading_of(text: str) -> str:
    """Return the heading that a paragraph is, without its number, or an empty string."""
    if len(text) > _MAX_HEADING_CHARS or text.endswith((".", ";", ",", "?", "!")) or _BULLET.match(text):
        return ""
    number = _NUMBERED.match(text)
    name = (text[number.end() :] if number else text).strip(" .:-–—")
    words = [word for word in name.split() if word[0].isalpha()]
    if not words or len(words) > 10 or "/s/" in text or _NOT_IN_HEADING.search(name):
        return ""
    titled = sum(word[0].isupper() for word in words) * 2 >= len(words)
    shouted = text.isupper() and len(name) > 5
    return title_case(name) if titled and (number or shouted) else ""


def plain_paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a plain text, white space folded, list items marked `- ` or by their own number."""
    lines = _without_furniture(text.replace("\f", "\n").expandtabs(8).split("\n"))
    # Lines are broken at a fixed width where most of them are near one length and none is far beyond it.
    lengths = sorted(len(line.rstrip()) for line in lines if line.strip())
    is_wrapped = len(lengths) >= 4 and lengths[len(lengths) * 3 // 4] in _WRAP_WIDTHS
    if is_wrapped and lengths[-1 - len(lengths) // 50] <= _WRAP_WIDTHS[-1]:
        parts = _reflow(lines)
    else:
        parts = _split_at_gaps(lines)
    paragraphs: list[list[str]] = []
    for part in parts:
        # A sentence that a page break cut in two goes on in lower case.
        previous = paragraphs[-1][-1] if paragraphs else ""
        is_open = len(previous) > _MAX_HEADING_CHARS and not previous.endswith(_SENTENCE_END)
        if is_open and part[0].islower() and not _ITEM_START.match(part):
            paragraphs[-1].append(part)
        else:
            paragraphs.append([part])
    folded = (" ".join(_join(paragraph).split()) for paragraph in paragraphs)
    return [_BULLET.sub("- ", clause, count=1) for part in folded for clause in _CLAUSE.split(part) if clause]


def _split_at_gaps(lines: list[str]) -> list[str]:
    """Split lines at runs of spaces, where columns and lost line breaks were; a list mark stays with its text."""
    parts: list[str] = []
    for line in lines:
        has_mark = False
        for part in filter(None, _GAP.split(line.strip())):
            if has_mark:
                parts[-1] = f"{parts[-1]} {part}"
            else:
                parts.append(part)
            has_mark = bool(_LIST_MARK.match(parts[-1]))
    return parts


def read_plain(text: str) -> tuple[str, list[Block]]:
    """Return a title (the first paragraph where it looks like one, else empty) and the blocks of a plain text."""
    sections: list[tuple[tuple[str, ...], list[str]]] = [((), [])]
    paragraphs = plain_paragraphs(text)
    for paragraph in paragraphs:
        if name := heading_of(paragraph):
            sections.append(((name,), []))
        else:
            sections[-1][1].append(paragraph)
    return title_line(paragraphs), [Block(path, tuple(texts)) for path, texts in sections if texts]


def title_line(paragraphs: list[str]) -> str:
    """Return the first paragraph as a title where it is a short line without a full stop, else an empty string."""
    first = paragraphs[0] if paragraphs else ""
    words = len(first.split())
    is_short = 0 < len(first) <= _MAX_HEADING_CHARS and 1 < words <= 12 and not first.endswith((".", ",", ";", ":"))
    return title_case(first) if is_short and not any(char.isdigit() for char in first) else ""


def title_case(name: str) -> str:
    """Return a name in capitals with only its first letters capital; others as they are."""
    return _WORD.sub(lambda word: word[0].capitalize(), name) if name.isupper() and len(name) > 6 else name
