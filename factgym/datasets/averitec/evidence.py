"""Pieces of evidence: passages that know their page and, where it can be told, their day.

A page's sentences are packed into windows of bounded length; ids are made of page and text alone, so that they never
say for which claim a page was found. The day of a page is read off its address, where many sites write it
(`/2020/11/03/`). When an archive took its copy says nothing about when the page was written, and is not used: nearly
all of AVeriTeC's copies are younger than the claims.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

from factgym.core.errors import ConfigError
from factgym.core.strict_json import clean_text
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.sentences import sentences
from factgym.datasets.averitec.reading import a_date

MAX_PASSAGE_CHARS = 800
MIN_PASSAGE_CHARS = 100
MAX_URL_CHARS = 2_000

_ARCHIVE = re.compile(r"https?://web\.archive\.org/web/[^/]{1,40}/(?=\S)", re.I)
_NAMES = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTHS = {written: number for number, name in enumerate(_NAMES, 1) for written in (name, name[:3], name[:4])}
_YEAR = r"(19[5-9]\d|20\d\d)"
_MONTH = r"(0?[1-9]|1[0-2]|[a-z]{3,9})"
_DATED = re.compile(rf"/{_YEAR}[/-]{_MONTH}(?:[/-](0?[1-9]|[12]\d|3[01]))?(?![\da-z])", re.I)


@dataclass(frozen=True, slots=True)
class Evidence(Passage):
    """A passage with the page that it stands on; its title is the page's host.

    url: empty where it is unknown. date: the earliest day on which the page can have been written, None if unknown.
    """

    url: str = ""
    date: dt.date | None = None


class EvidenceCorpus(Corpus):
    """A corpus of `Evidence`. counts: what was found while it was read, by the store's own keys."""

    __slots__ = ("counts",)

    def __init__(self, passages: Iterable[Evidence], counts: Mapping[str, int] | None = None) -> None:
        super().__init__(passages)
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts or {}))

    def __reduce__(self) -> tuple[object, ...]:
        return EvidenceCorpus, (self.passages, dict(self.counts))

    def get(self, passage_id: str) -> Evidence:
        """The piece of this id; raises `UnknownPassageError`."""
        return cast(Evidence, super().get(passage_id))

    def __iter__(self) -> Iterator[Evidence]:
        return cast(Iterator[Evidence], super().__iter__())


def evidence_of(url: str, texts: Iterable[str], max_chars: int, date: dt.date | None = None) -> Iterator[Evidence]:
    """A page as pieces of at most `max_chars` characters, in order. date: overrides what the address says."""
    url = clean_text(url[:MAX_URL_CHARS]).strip()
    title, written = host_of(url), date or url_date(url)
    for text in windows(texts, max_chars):
        yield Evidence(evidence_id(url, text), title, text, url, written)


def evidence_id(url: str, text: str) -> str:
    """16 hex digits of the SHA-256 over address and text."""
    return hashlib.sha256(f"{url}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def original_url(url: str) -> str:
    """The address of the page itself where `url` is a copy in the Wayback Machine."""
    return _ARCHIVE.sub("", url, count=1) if _ARCHIVE.match(url) else url


def host_of(url: str) -> str:
    """The host of the page without `www.`; short text that is no address ("Metadata") as it is."""
    page = original_url(url)
    try:
        host = urlsplit(page).hostname or ""
    except ValueError:
        host = ""
    return (host or page.split("/")[0][:80]).removeprefix("www.")


def url_date(url: str) -> dt.date | None:
    """The day in the page's address, or the first of the month where only that is there; else None."""
    for match in _DATED.finditer(original_url(url[:MAX_URL_CHARS])):
        year, month, day = match.groups()
        number = int(month) if month.isdigit() else _MONTHS.get(month.lower(), 0)
        found = a_date(int(year), number, int(day or 1)) if number else None
        if found:
            return found
    return None


def windows(texts: Iterable[str], max_chars: int = MAX_PASSAGE_CHARS) -> Iterator[str]:
    """The texts in order, as many as fit joined by spaces, white space folded; longer ones cut between words.

    max_chars: of a window, at least `MIN_PASSAGE_CHARS`. A word that is longer still is cut.
    """
    check_window(max_chars)
    held: list[str] = []
    length = 0
    for piece in _pieces(texts, max_chars):
        if held and length + 1 + len(piece) > max_chars:
            yield " ".join(held)
            held, length = [], 0
        held.append(piece)
        length += len(piece) + (len(held) > 1)
    if held:
        yield " ".join(held)


def split_sentences(text: str) -> list[str]:
    """The sentences of a running text, nothing between them lost."""
    starts = [start for start, _ in sentences(text)][1:]
    return [text[a:b] for a, b in zip([0, *starts], [*starts, len(text)], strict=True)]


def check_window(max_chars: object) -> int:
    """`max_chars` if it is a whole number from `MIN_PASSAGE_CHARS`; else ConfigError."""
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < MIN_PASSAGE_CHARS:
        raise ConfigError(f"max_chars is a whole number from {MIN_PASSAGE_CHARS}, not {max_chars!r}")
    return max_chars


def _pieces(texts: Iterable[str], max_chars: int) -> Iterator[str]:
    for text in texts:
        rest = " ".join(clean_text(text).split())
        while len(rest) > max_chars:
            cut = rest.rfind(" ", 1, max_chars + 1)
            end = cut if cut > 0 else max_chars
            yield rest[:end]
            rest = rest[end:].lstrip()
        if rest:
            yield rest
