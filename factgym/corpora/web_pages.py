"""Passages of web pages: their ids, hosts, and the windows that a page's sentences are packed into."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from factgym.core.errors import ConfigError
from factgym.core.strict_json import clean_text

MAX_PASSAGE_CHARS = 800
MIN_PASSAGE_CHARS = 100
MAX_URL_CHARS = 2_000

_ARCHIVE = re.compile(r"https?://web\.archive\.org/web/[^/]{1,40}/(?=\S)", re.I)


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


def windows(texts: Iterable[str], max_chars: int = MAX_PASSAGE_CHARS) -> Iterator[str]:
    """Yield the texts in order, as many as fit joined by spaces, white space folded; longer ones split between words.

    max_chars: of a window, at least `MIN_PASSAGE_CHARS`. A word that is longer still is split.
    """
    check_window(max_chars)
    # Next-fit packing in the order of the texts; a longer text is first split at the last space that fits.
    window = ""
    for text in texts:
        remaining = " ".join(clean_text(text).split())
        while remaining:
            space = remaining.rfind(" ", 1, max_chars + 1) if len(remaining) > max_chars else len(remaining)
            part = remaining[: space if space > 0 else max_chars]
            remaining = remaining[len(part) :].lstrip()
            if window and len(window) + 1 + len(part) > max_chars:
                yield window
                window = ""
            window = f"{window} {part}" if window else part
    if window:
        yield window


def check_window(max_chars: object) -> int:
    """Return `max_chars` if it is a whole number from `MIN_PASSAGE_CHARS`; else raise ConfigError."""
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < MIN_PASSAGE_CHARS:
        raise ConfigError(f"max_chars is a whole number from {MIN_PASSAGE_CHARS}, not {max_chars!r}")
    return max_chars
