"""The visible statement: a text as a person reads it, and where each of its characters comes from.

Marks of citations (`[1]`, `¹`, `【3†a】`, `[^2]`), list numbers, Markdown's marks of emphasis, links and headings, and
characters that show nothing (soft hyphens, zero-width spaces) are left out; full-width letters and digits are folded
(NFKC). Nothing else changes: no words, no order.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Characters that show nothing."""
LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010]\n[ \t]*(?=[a-z])")
"""A hyphen with which a word is broken at the end of a line."""

_CITED = r"\^?\d{1,4}(?:\s?[,;–-]\s?\^?\d{1,4})*|[A-Z]{1,3}\d{1,4}(?:, ?[A-Z]{1,3}\d{1,4})*|\^[\w-]{1,20}|citation needed|source(?: \d{1,3})?|note \d{1,3}|ref\.? ?\d{1,3}"
_LEFT_OUT = re.compile(
    rf"(?P<citation> ?(?:\[(?:{_CITED})\](?!\()|【[^】\n]{{1,40}}】|<sup>[^<]{{0,20}}</sup>))"
    r"|(?P<raised>(?:(?<=[^\W\d_][^\W\d_][^\W\d_])|(?<=[.,;:!?)”\"’\]]))[¹²³⁰⁴-⁹](?:[¹²³⁰⁴-⁹,]*[¹²³⁰⁴-⁹])?)"
    r"|(?P<link>\]\([^()\s]{1,2000}(?: \"[^\"\n]{0,200}\")?\))|(?P<opening>!?\[(?=[^\[\]\n]{1,400}\]\([^()\s]{1,2000}))"
    r"|(?P<emphasis>\*\*\*|\*\*|__(?=\S)|(?<=\S)__|~~|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])|(?<!\w)_(?=[^\s_])|(?<=[^\s_])_(?!\w)|`+)"
    rf"|(?P<hyphen>{LINE_END_HYPHEN.pattern})|(?P<invisible>{INVISIBLE.pattern})",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"\s*(?:(?:>|#{1,6}|[-*+•‣◦▪●]|\(?\d{1,3}(?:\.\d{1,3}){0,3}[.)]|\(?[a-z][.)]|\[[ xX]\])\s+|\[\^?\d{1,3}\]:?\s*)*"
)


@lru_cache(maxsize=4096)
def visible(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the visible text and, for each of its characters, the offset in `text` of its source, with an end offset.

    The list has one entry more than the visible text.
    """
    start = _OPENING.match(text)
    position = start.end() if start else 0
    pieces: list[str] = []
    offsets: list[int] = []
    for match in _LEFT_OUT.finditer(text, position):
        _keep(text, position, match.start(), pieces, offsets)
        position = match.end()
    _keep(text, position, len(text), pieces, offsets)
    offsets.append(offsets[-1] + 1 if offsets else position)
    return "".join(pieces), tuple(offsets)


def _keep(text: str, start: int, end: int, pieces: list[str], offsets: list[int]) -> None:
    if text[start:end].isascii():
        pieces.append(text[start:end])
        offsets += range(start, end)
        return
    for position in range(start, end):
        folded = unicodedata.normalize("NFKC", text[position]) if text[position] not in "²³¹" else text[position]
        pieces.append(folded)
        offsets += [position] * len(folded)


def source_range(offsets: tuple[int, ...], start: int, end: int) -> tuple[int, int]:
    """Return the characters of a text from which those of its visible form come."""
    return offsets[start], (offsets[end - 1] + 1 if end > start else offsets[start])
