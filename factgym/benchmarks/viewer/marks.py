"""Marked text as a list of pieces: `[text, marks]`, where marks is a string of one-letter marks, often empty.

Pieces instead of offsets: Python counts characters and a browser counts UTF-16 units.
"""

from __future__ import annotations

from collections.abc import Iterable

from factgym.corpora.text import find_quote
from factgym.tools.untrusted import neutralise

Piece = list[str]
Mark = tuple[int, int, str]


def split(text: str, marks: Iterable[Mark]) -> list[Piece]:
    """Cut `text` at the borders of the marked ranges; ranges may overlap, and what lies outside the text is cut off."""
    opened: dict[int, list[str]] = {}
    closed: dict[int, list[str]] = {}
    for start, end, mark in marks:
        start, end = max(0, start), min(len(text), end)
        if start < end:
            opened.setdefault(start, []).append(mark)
            closed.setdefault(end, []).append(mark)
    depth: dict[str, int] = {}
    pieces: list[Piece] = []
    last = 0
    for border in [*sorted({*opened, *closed}), len(text)]:
        if border > last:
            pieces.append([text[last:border], "".join(sorted(mark for mark, n in depth.items() if n))])
            last = border
        for mark in closed.get(border, ()):
            depth[mark] -= 1
        for mark in opened.get(border, ()):
            depth[mark] = depth.get(mark, 0) + 1
    return pieces


def quote_span(quote: str, text: str) -> tuple[int, int] | None:
    """The range of a quote as the reward looks for it: passages are shown to a policy neutralised."""
    return find_quote(neutralise(quote), neutralise(text)) if quote.strip() else None
