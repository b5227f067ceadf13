"""How the scripted proposer reads: a page as facts (what one sentence says of a name), and facts chained along names.

It knows no language beyond names, dates and numbers (`factgym.generators.multihop.entities`). A sentence says something of
the page's title, whether it names it or not, and of every name that stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from factgym.core.messages import Message
from factgym.corpora.sentences import sentences
from factgym.corpora.text import terms
from factgym.envs.eve.protocols import read_shown
from factgym.generators.multihop.entities import entities

_TASK = re.compile(
    r'\A<document id="(?P<id>[^"]*)" title="(?P<title>[^"]*)">\n(?P<text>.*)\n</document>\n\nHops: (?P<hops>\d+)'
    r"(?:\nKind of question: (?P<kind>.*))?\Z",
    re.DOTALL,
)
_CUT = re.compile(r"… \[cut: \d+ more tokens\]\Z")
_LEAST_WORDS, _MOST_WORDS = 5, 60
_ANSWER_WORDS = 5


@dataclass(frozen=True, slots=True)
class Page:
    """A document or a search result."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """What the proposer is asked for."""

    page: Page
    hops: int
    kind: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that names `object`. link: the name by which the page was reached, its title on the source document.

    place: of the object within the sentence.
    """

    page: Page
    sentence: str
    link: str
    object: str
    kind: str
    place: tuple[int, int]


Chain = tuple[Fact, ...]
"""Facts of different pages; the object of each is the link of the next."""


def read_given(messages: Sequence[Message]) -> Given | None:
    """The task that a prompt holds, None for a foreign prompt."""
    head = next((one["content"] or "" for one in messages if one["role"] == "user"), "")
    match = _TASK.match(head)
    if match is None:
        return None
    page = Page(match["id"], match["title"], _CUT.sub("", match["text"]))
    return Given(page, int(match["hops"]), match["kind"] or "")


def read_results(messages: Sequence[Message]) -> list[Page]:
    """The search results so far, each page once, the longest cut of it."""
    found: dict[str, Page] = {}
    for id_, title, text in read_shown(messages).results:
        if id_ not in found or len(found[id_].text) < len(text):
            found[id_] = Page(id_, title, text)
    return list(found.values())


def facts_of(page: Page, link: str) -> list[Fact]:
    """What the page's sentences say of a name: of its title whatever they say, of another name where they name it."""
    titled = _same(link, page.title)
    return [
        Fact(page, text, link, text[start:end], kind, (start, end))
        for text, named in _sentences(page)
        if titled or _mentions(text, link)
        for start, end, kind in named
        if _is_object(text[start:end], link, page.title)
    ]


def next_links(fact: Fact, pages: Sequence[Page], seen: Sequence[Page]) -> Iterator[Fact]:
    """What other pages say of a fact's object, pages about it first."""
    known = {page.id for page in seen}
    fresh = [page for page in pages if page.id not in known]
    for page in sorted(fresh, key=lambda one: not _same(fact.object, one.title)):
        yield from facts_of(page, fact.object)


@lru_cache(maxsize=1024)
def _sentences(page: Page) -> tuple[tuple[str, tuple[tuple[int, int, str], ...]], ...]:
    """Sentences of a usable length, each with what it names."""
    named = entities(page.text, page.title)
    found = []
    for start, end in sentences(page.text):
        text = page.text[start:end]
        inside = tuple((a - start, b - start, kind) for a, b, kind in named if start <= a and b <= end)
        if _LEAST_WORDS <= len(text.split()) <= _MOST_WORDS and "\n" not in text:
            found.append((text, inside))
    return tuple(found)


def _is_object(text: str, link: str, title: str) -> bool:
    """Whether a thing may be asked for, or gone on from: short, and not what the sentence is about."""
    words = frozenset(terms(text))
    if not words or len(text.split()) > _ANSWER_WORDS:
        return False
    return words.isdisjoint(terms(link)) and words.isdisjoint(terms(title))


def _same(name: str, title: str) -> bool:
    """Whether a title is about a name, a bracket behind it aside."""
    return name.casefold() == title.partition(" (")[0].casefold()


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
