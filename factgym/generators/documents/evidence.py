"""The passages of one example: a window of the document that is asked about, and decoys from other documents.

The window holds the gold passages at no fixed place, and the order of documents is shuffled, so that position says
nothing. A decoy never comes near a claim: one that could carry it would make the label wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from factgym.corpora.text import terms
from factgym.generators.documents.index import DocumentIndex

NEAR = 0.6
"""Share of a claim's terms found in a passage from which on the passage could be taken to carry it."""
SILENT = 0.4
"""Share of a foreign statement's terms, of which no passage of the example may hold more."""
_TRIED = 80
_COMMONPLACE = re.compile(
    r"\b(?:sever\w*|unenforceable|invalid|inoperative|entire agreement|counterparts?|waive[rsd]*|governing law|governed by"
    r"|assign\w*|irreparable|successors|headings|further acts|force majeure|notices? shall|applicable laws?)\b",
    re.I,
)
"""Clauses that almost every contract has in some wording: silence cannot be told from other words for the same."""


@dataclass(frozen=True, slots=True)
class Window:
    """Passages `first` to `last` (exclusive) of document number `document`."""

    document: int
    first: int
    last: int

    def __contains__(self, passage: int) -> bool:
        return self.first <= passage < self.last


def choose_window(index: DocumentIndex, document: int, passage: int, size: int, rng: random.Random) -> Window:
    """At most `size` neighbouring passages with `passage` at a random place among them."""
    total = len(index.documents[document].passages)
    size = min(size, total)
    first = min(max(0, passage - rng.randrange(size)), total - size)
    return Window(document, first, first + size)


def coverage(wanted: frozenset[str], found: frozenset[str]) -> float:
    """The share of `wanted` that `found` holds; 1 for an empty `wanted`."""
    return len(wanted & found) / len(wanted) if wanted else 1.0


def find_donors(index: DocumentIndex, window: Window, about: str, rng: random.Random) -> tuple[str, ...]:
    """Statements of other documents on which the whole document is silent, the nearest in topic first; at most three."""
    topic = frozenset(terms(about))
    around = [
        index.terms_of(window.document, place) for place in range(len(index.documents[window.document].passages))
    ]
    everything = frozenset[str]().union(*around)
    names = index.words_of(window.document)
    ranked = []
    for number in rng.sample(range(len(index.sources)), min(_TRIED, len(index.sources))):
        text = index.sources[number].text
        own = frozenset(terms(text))
        loud = coverage(own, everything) > SILENT and any(coverage(own, found) > SILENT for found in around)
        if loud or index.sources[number].document == window.document or _COMMONPLACE.search(text):
            continue
        foreign = sum(word[0].isupper() and word not in names for word in text.split()[1:])
        ranked.append((-len(own & topic) + 2 * min(foreign, 3), number))
    return tuple(index.sources[number].text for _, number in sorted(ranked)[:3])


def choose_decoys(
    index: DocumentIndex, window: Window, claims: Sequence[str], count: int, rng: random.Random
) -> list[tuple[int, int]]:
    """Up to `count` passages of other documents, the nearer half of a random sample, none of them near a claim."""
    wanted = [frozenset(terms(claim)) for claim in claims]
    every = frozenset[str]().union(*wanted)
    ranked = []
    for number, place in rng.sample(index.places, min(_TRIED, len(index.places))):
        if number == window.document:
            continue
        found = index.terms_of(number, place)
        if len(found) > 4 and all(coverage(claim, found) < NEAR for claim in wanted):
            ranked.append((-len(found & every), number, place))
    nearest = [(number, place) for _, number, place in sorted(ranked)[: 2 * count]]
    return sorted(rng.sample(nearest, min(count, len(nearest))))


def arrange(window: Window, decoys: Sequence[tuple[int, int]], rng: random.Random) -> list[tuple[int, int]]:
    """All passages as (document, place), the documents in random order, each document's passages in its own order."""
    groups: dict[int, list[int]] = {window.document: list(range(window.first, window.last))}
    for document, place in decoys:
        groups.setdefault(document, []).append(place)
    order = sorted(groups)
    rng.shuffle(order)
    return [(document, place) for document in order for place in groups[document]]
