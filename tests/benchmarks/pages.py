"""Checks that every page and every terminal report passes."""

from __future__ import annotations

from html.parser import HTMLParser
from io import StringIO
from typing import Any

from rich.console import Console

HOSTILE = "<img src=x onerror=alert(1)>\u202e'\"&</h2><script>alert(1)</script>[bold]"


class Checker(HTMLParser):
    """Every tag is closed, nothing is loaded from elsewhere, nothing runs."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, beside: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.beside = beside
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href"):
                assert value is not None
                assert value.startswith(("#", "data:image/svg+xml;base64,")) or value in self.beside, value
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """All words of the page."""
        return " ".join(" ".join(self.words).split())


def checked(page: str, beside: frozenset[str] = frozenset()) -> Checker:
    """Return the parsed page after checking that it is whole and loads nothing. beside: pages that it may link to."""
    assert page.isascii()
    assert "default-src 'none'" in page
    checker = Checker(beside)
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert not checker.seen & {"script", "iframe", "object", "link", "form"}
    return checker


def printed(outcome: Any) -> str:
    """Return what an outcome prints at eighty columns; no line is longer, and there are no control characters."""
    stream = StringIO()
    console = Console(file=stream, width=80, highlight=False)
    for part in outcome.render():
        console.print(part)
    text = stream.getvalue()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert "\x1b" not in text and "\u202e" not in text
    return text
