"""What claims over a folder are drawn from: its usable sentences, and where each corruption operator applies.

Sentences are found once, when the index is built (about a quarter of a second per MB of text). Where an operator
applies is found when it is first asked for (some hundredths of a second per MB and operator) and kept.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from factgym.corpora.corpus import Passage
from factgym.corpora.readers.document import Document
from factgym.corpora.text import terms
from factgym.generators.corruption.base import Context, Corruption
from factgym.generators.corruption.candidates import find_candidates
from factgym.generators.corruption.operators import OPERATORS
from factgym.generators.corruption.parties import find_parties

OPERATORS_VERSION = 1
"""Part of every fingerprint; goes up whenever an operator, a paraphrase or the choice of sentences changes."""

DONOR_OPERATORS = ("addition", "irrelevant")


@dataclass(frozen=True, slots=True)
class Source:
    """A usable sentence: `text[start:end]` of passage number `passage` of document number `document`."""

    document: int
    passage: int
    start: int
    end: int
    text: str


class DocumentIndex:
    """Sentences of a folder, what the operators need to know about their documents, and pools per operator."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = tuple(documents)
        self.sources = tuple(_sources(self.documents))
        self._lock = threading.Lock()
        self._pools: dict[str, tuple[int, ...]] = {}
        self._contexts: dict[int, Context] = {}
        self._terms: dict[tuple[int, int], frozenset[str]] = {}
        self._words: dict[int, frozenset[str]] = {}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 in hex over every document and the version of the operators."""
        digest = hashlib.sha256(f"documents-{OPERATORS_VERSION}".encode())
        for document in self.documents:
            rows = [[passage.id, passage.title, passage.text] for passage in document.passages]
            digest.update(json.dumps([document.id, document.title, rows]).encode())
        return digest.hexdigest()

    @cached_property
    def by_document(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the usable sentences of each document."""
        found: list[list[int]] = [[] for _ in self.documents]
        for number, source in enumerate(self.sources):
            found[source.document].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Every passage as (document, place in it)."""
        return tuple(
            (number, place) for number, one in enumerate(self.documents) for place in range(len(one.passages))
        )

    def passage(self, source: Source) -> Passage:
        """The passage that a sentence stands in."""
        return self.documents[source.document].passages[source.passage]

    def terms_of(self, document: int, passage: int) -> frozenset[str]:
        """The index terms of a passage's text."""
        key = (document, passage)
        if key not in self._terms:
            self._terms[key] = frozenset(terms(self.documents[document].passages[passage].text))
        return self._terms[key]

    def words_of(self, document: int) -> frozenset[str]:
        """The words of a document as they stand in it, punctuation and all."""
        if document not in self._words:
            texts = (passage.text for passage in self.documents[document].passages)
            self._words[document] = frozenset(word for text in texts for word in text.split())
        return self._words[document]

    def context(self, source: Source, donors: tuple[str, ...] = ()) -> Context:
        """What operators may know around a sentence."""
        if source.document not in self._contexts:
            text = "\n".join(passage.text for passage in self.documents[source.document].passages)
            own = [self.sources[number].text for number in self.by_document[source.document]]
            self._contexts[source.document] = Context("", text, find_parties(own), folded=text.casefold())
        return replace(self._contexts[source.document], passage=self.passage(source).text, donors=donors)

    def corrupt(self, operator: str, number: int, round_: int = 0) -> Corruption | None:
        """The corruption of sentence `number` by `operator`; the same every time for the same `round_`."""
        source = self.sources[number]
        rng = random.Random(f"{self.fingerprint}:{operator}:{number}:{round_}")
        made = OPERATORS[operator].apply(source.text, rng, self.context(source))
        return made if made is not None and _sound(source.text, made) else None

    def applies(self, operator: str) -> bool:
        """Whether the operator applies to any sentence; stops at the first."""
        if operator in DONOR_OPERATORS or operator in self._pools:
            return bool(self.pool(operator))
        cue = OPERATORS[operator].cue
        return any(
            self.corrupt(operator, number) for number, source in enumerate(self.sources) if cue.search(source.text)
        )

    def pool(self, operator: str) -> tuple[int, ...]:
        """The sentences to which `operator` applies, in document order; computed once."""
        if operator in DONOR_OPERATORS:
            usable = len([found for found in self.by_document if found]) > 1
            return tuple(range(len(self.sources))) if usable else ()
        if operator not in self._pools:
            with self._lock:
                cue = OPERATORS[operator].cue
                near = [number for number, source in enumerate(self.sources) if cue.search(source.text)]
                self._pools[operator] = tuple(number for number in near if self.corrupt(operator, number) is not None)
        return self._pools[operator]


def _sources(documents: Sequence[Document]) -> list[Source]:
    """Every usable sentence once: a sentence repeated anywhere in the folder proves less about where it stands."""
    found: list[Source] = []
    seen: set[str] = set()
    for number, document in enumerate(documents):
        for place, passage in enumerate(document.passages):
            for candidate in find_candidates(passage.text):
                folded = candidate.text.casefold()
                if folded not in seen:
                    seen.add(folded)
                    found.append(Source(number, place, candidate.start, candidate.end, candidate.text))
    return found


def _sound(sentence: str, made: Corruption) -> bool:
    """The last check on any operator: a changed sentence whose faulty part stands in it."""
    return made.text != sentence and made.unsupported_span in made.text and bool(made.unsupported_span)
