"""Pieces of evidence: passages with their page and, where it is known, its day.

A page's sentences are packed into windows of bounded length; ids are made of page and text alone, so that they never
reveal for which claim a page was retrieved. The day of a page is read off its address, where many sites write it
(`/2020/11/03/`). The day of an archive's copy says nothing about when the page was written, and is not used: nearly all
of AVeriTeC's copies are younger than the claims.
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
from factgym.datasets.averitec import calendar_date

MAX_PASSAGE_CHARS = 800
MIN_PASSAGE_CHARS = 100
MAX_URL_CHARS = 2_000

_ARCHIVE = re.compile(r"https?://web\.archive\.org/web/[^/]{1,40}/(?=\S)", re.I)
_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS = {form: number for number, name in enumerate(_MONTH_NAMES, 1) for form in (name, name[:3], name[:4])}
_YEAR = r"(19[5-9]\d|20\d\d)"
_MONTH = r"(0?[1-9]|1[0-2]|[a-z]{3,9})"
_DATED = re.compile(rf"/{_YEAR}[/-]{_MONTH}(?:[/-](0?[1-9]|[12]\d|3[01]))?(?![\da-z])", re.I)


@dataclass(frozen=True, slots=True)
class Evidence(Passage):
    """A passage with its page; its title is the page's host.

    url: empty where it is unknown. date: the earliest day on which the page can have been written, None if unknown.
    """

    url: str = ""
    date: dt.date | None = None


class EvidenceCorpus(Corpus):
    """A corpus of `Evidence`. counts: of the pages it was read from, by the store's own keys."""

    __slots__ = ("counts",)

    def __init__(self, passages: Iterable[Evidence], counts: Mapping[str, int] | None = None) -> None:
        super().__init__(passages)
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts or {}))

    def __reduce__(self) -> tuple[object, ...]:
        return EvidenceCorpus, (self.passages, dict(self.counts))

    def get(self, passage_id: str) -> Evidence:
        """Return the piece with this id. Raises `UnknownPassageError`."""
        return cast(Evidence, super().get(passage_id))

    def __iter__(self) -> Iterator[Evidence]:
        return cast(Iterator[Evidence], super().__iter__())


def page_evidence(url: str, texts: Iterable[str], max_chars: int, date: dt.date | None = None) -> Iterator[Evidence]:
    """Yield a page as pieces of at most `max_chars` characters, in order. date: overrides the one in the address."""
    url = clean_text(url[:MAX_URL_CHARS]).strip()
    title, page_date = host_of(url), date or url_date(url)
    for text in windows(texts, max_chars):
        yield Evidence(evidence_id(url, text), title, text, url, page_date)


def evidence_id(url: str, text: str) -> str:
    """Return 16 hex digits of the SHA-256 over address and text."""
    return hashlib.sha256(f"{url}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def original_url(url: str) -> str:
    """Return the address of the page itself where `url` is a copy in the Wayback Machine."""
    return _ARCHIVE.sub("", url, count=1) if _ARCHIVE.match(url) else url


def host_of(url: str) -> str:
    """Return the host of the page without `www.`; short text that is no address ("Metadata") as it is."""
    page = original_url(url)
    try:
        host = urlsplit(page).hostname or ""
    except ValueError:
        host = ""
    return (host or page.split("/")[0][:80]).removeprefix("www.")


def url_date(url: str) -> dt.date | None:
    """Return the day in the page's address, or the first of the month where it has only that; else None."""
    for match in _DATED.finditer(original_url(url[:MAX_URL_CHARS])):
        year, month, day = match.groups()
        number = int(month) if month.isdigit() else _MONTHS.get(month.lower(), 0)
        date = calendar_date(int(year), number, int(day or 1)) if number else None
        if date:
            return date
    return None


def windows(texts: Iterable[str], max_chars: int = MAX_PASSAGE_CHARS) -> Iterator[str]:
    """Yield the texts in order, as many as fit joined by spaces, white space folded; longer ones split between words.

    max_chars: of a window, at least `MIN_PASSAGE_CHARS`. A word that is longer still is split.
    """
    check_window(max_chars)
    window: list[str] = []
    length = 0
    for text in texts:
        for piece in _pieces(text, max_chars):
            if window and length + 1 + len(piece) > max_chars:
                yield " ".join(window)
                window, length = [], 0
            window.append(piece)
            length += len(piece) + (len(window) > 1)
    if window:
        yield " ".join(window)


def _pieces(text: str, max_chars: int) -> Iterator[str]:
    rest = " ".join(clean_text(text).split())
    while len(rest) > max_chars:
        space = rest.rfind(" ", 1, max_chars + 1)
        end = space if space > 0 else max_chars
        yield rest[:end]
        rest = rest[end:].lstrip()
    if rest:
        yield rest


def check_window(max_chars: object) -> int:
    """Return `max_chars` if it is a whole number from `MIN_PASSAGE_CHARS`; else raise ConfigError."""
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < MIN_PASSAGE_CHARS:
        raise ConfigError(f"max_chars is a whole number from {MIN_PASSAGE_CHARS}, not {max_chars!r}")
    return max_chars


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a running text; the text between two belongs to the first."""
    starts = [start for start, _ in sentences(text)][1:]
    return [text[start:end] for start, end in zip([0, *starts], [*starts, len(text)], strict=True)]
