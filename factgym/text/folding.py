"""Folding of a text for verbatim quote checks, with offsets that lead back to the text.

A quote counts when it occurs verbatim in a passage after Unicode NFKC and white-space folding, nothing looser
(ClaimCheck's quote reward), so `fold` is the one definition of "verbatim" in the package; a reward that forgives a
keyboard's quotation marks and hyphens applies `plain_marks` to both texts first. Deliberately absent: case folding, other
punctuation folding and edit distance. Everything here is linear in the text, also where the text is hostile.

`visible` is another form: a text as a person reads it. Marks of citations (`[1]`, `¹`, `【3†a】`, `[^2]`), list numbers,
Markdown's marks of emphasis, links and headings, and characters that show nothing (soft hyphens, zero-width spaces) are
left out; full-width letters and digits are folded. No words and no order change.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, groupby, pairwise, repeat

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Characters that show nothing."""
LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010]\n[ \t]*(?=[a-z])")
"""A hyphen with which a word is broken at the end of a line."""

_PLAIN_MARKS = (
    *((mark, "'") for mark in "‘’‚‛′"),
    *((mark, '"') for mark in "“”„‟″"),
    *((mark, "-") for mark in "‐‑‒–—―−"),
)
_MARK_RUN = re.compile(r"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){32,}")
"""Long runs of possible combining marks (the two half-width sound marks become such)."""

_UNSEEN = re.compile(f"{INVISIBLE.pattern}|{LINE_END_HYPHEN.pattern}")
"""What a reader does not see: soft hyphens and the like, and hyphens at the ends of lines."""
_SAFE_LENGTH = 1024
_NOT_SPACE = re.compile(r"\S+")


def fold(text: str) -> str:
    """Return NFKC with every run of white space as one space and none at the ends; idempotent."""
    return " ".join((text if text.isascii() else nfkc(text)).split())


def fold_with_offsets(text: str) -> tuple[str, list[int]]:
    """Return `fold(text)` and, for each of its characters, the offset in `text` of its source, plus an end offset.

    The list has one entry more than the folded text: the end of the last character that counts. Characters that
    normalise together (a letter and its accent, a ligature) share the offset of the first.
    """
    normalised, sources = _normalised(text)
    offsets: list[int] = []
    end = 0
    for word in _NOT_SPACE.finditer(normalised):
        if offsets:
            offsets.append(sources[end])
        end = word.end()
        offsets += sources[word.start() : end]
    while 0 < end < len(normalised) and sources[end] == sources[end - 1]:
        end += 1
    offsets.append(sources[end] if offsets else 0)
    return " ".join(normalised.split()), offsets


def plain_marks(text: str) -> str:
    """Return the text with curly quotation marks and apostrophes, hyphens and dashes as a keyboard has them; of the same length."""
    if not text.isascii():
        for mark, plain in _PLAIN_MARKS:  # a tenth of the time of `translate`
            text = text.replace(mark, plain)
    return text


@lru_cache(maxsize=16)
def _folded_quote(quote: str) -> tuple[str, str]:
    """Return a quote folded, and so without what is not seen; cached as it is looked for in one passage after another."""
    return fold(quote), fold(_UNSEEN.sub("", quote))


@lru_cache(maxsize=4096)
def _fold_source(text: str) -> str:
    """Return `fold` of a text that is quoted, the text itself where they are equal; cached as texts are quoted often."""
    folded = fold(text)
    return text if folded == text else folded


def find_quote(quote: str, text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """Return the first occurrence of `quote` in `text[start:end]` as a character range of `text`.

    None without one, or for a blank quote. Both sides are folded. The range covers whole original characters, so
    `fold(quote) in fold(text[first:last])`.
    """
    at = text.find(quote, start, end)
    # A part of a folded text is folded too (normal forms are closed under substrings) but for a space at its ends.
    if at >= 0 and _fold_source(text) == text and quote and quote[0] != " " != quote[-1]:
        return at, at + len(quote)
    part = text[start:end]
    folded, visible_quote = _folded_quote(quote)
    located = find_folded(folded, part)
    if located is None and (visible_quote != folded or _UNSEEN.search(part)):
        unseen = {position for match in _UNSEEN.finditer(part) for position in range(*match.span())}
        seen = [position for position in range(len(part)) if position not in unseen]
        span = find_folded(visible_quote, "".join(part[position] for position in seen))
        located = span and (seen[span[0]], seen[span[1] - 1] + 1)
    return located and (start + located[0], start + located[1])


def find_folded(folded_quote: str, text: str) -> tuple[int, int] | None:
    """Return `find_quote` of a quote that is folded already."""
    folded = _fold_source(text)
    at = folded.find(folded_quote) if folded_quote else -1
    if at < 0:
        return None
    last = at + len(folded_quote)
    if folded == text:
        return at, last
    # Characters that normalise together share an offset: the range ends before the next one that differs.
    offsets = fold_with_offsets(text)[1]
    final = offsets[last - 1]
    while offsets[last] == final:
        last += 1
    return offsets[at], offsets[last]


def nfkc(text: str) -> str:
    """Return NFKC in linear time: the standard library sorts a run of combining marks in quadratic time."""
    if len(text) > _SAFE_LENGTH and not text.isascii():
        text = _MARK_RUN.sub(_sort_marks, text)
    return unicodedata.normalize("NFKC", text)


def _sort_marks(run: re.Match[str]) -> str:
    """Decompose a run into canonical order, which every normal form treats as the run itself."""
    decomposed = {char: unicodedata.normalize("NFKD", char) for char in set(run[0])}
    marks = "".join([decomposed[char] for char in run[0]])
    parts: list[str] = []
    for is_mark, group in groupby(marks, key=lambda char: unicodedata.combining(char) > 0):
        chars = list(group)
        parts += sorted(chars, key=unicodedata.combining) if is_mark else chars
    return "".join(parts)


def _normalised(text: str, unchanged: str = "") -> tuple[str, Sequence[int]]:
    """Return NFKC, but for the characters of `unchanged`, with the offset in `text` of each character's source and an end offset.

    It is normalised in units: shortest spans that normalise independently of their neighbours. All characters of a unit have the
    offset of its first.
    """
    joined = {char for char in set(text) if char >= "\x80" and not _starts_unit(char)}
    if not joined and unicodedata.is_normalized("NFKC", text):
        return text, range(len(text) + 1)
    starts: Sequence[int] = range(len(text))
    units: Sequence[str] = text
    if joined:
        starts = [start for start, char in enumerate(text) if not start or char not in joined]
        units = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    forms = {unit: unit if unit in unchanged else nfkc(unit) for unit in set(units)}
    pieces = [forms[unit] for unit in units]
    sources = chain.from_iterable(map(repeat, starts, map(len, pieces)))
    return "".join(pieces), [*sources, len(text)]


@lru_cache(maxsize=4096)
def _starts_unit(char: str) -> bool:
    """Whether normalisation can never join `char` to the character before it.

    Only marks and the vowels and finals of conjoining Hangul compose backwards; Kirat Rai vowels do from Unicode 16.
    """
    first = unicodedata.normalize("NFKD", char)[0]
    if "\u1160" <= first <= "\u11ff" or "\U00016d60" <= first <= "\U00016d6f":
        return False
    return unicodedata.combining(first) == 0 and not unicodedata.category(first).startswith("M")


# The visible statement

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
    if unicodedata.is_normalized("NFKC", text[start:end]):
        pieces.append(text[start:end])
        offsets += range(start, end)
        return
    piece, sources = _normalised(text[start:end], "²³¹")
    pieces.append(piece)
    offsets += [start + source for source in sources[:-1]]


def source_range(offsets: tuple[int, ...], start: int, end: int) -> tuple[int, int]:
    """Return the characters of a text from which those of its visible form come."""
    return offsets[start], (offsets[end - 1] + 1 if end > start else offsets[start])
