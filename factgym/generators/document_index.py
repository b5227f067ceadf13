"""A folder of documents as the claim generator sees it: usable sentences, pools of operators, clauses to take over."""

from __future__ import annotations

import hashlib
import json
import math
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from factgym.corpora.corpus import Passage
from factgym.corpora.documents import Document
from factgym.generators.perturbations.additions import can_join
from factgym.generators.perturbations.adjuncts import CLAUSE_KINDS, find_clause
from factgym.generators.perturbations.clauses import find_sentences
from factgym.generators.perturbations.corruptions import DONOR_OPERATORS, OPERATORS, Corruption, corrupt
from factgym.generators.perturbations.entities import find_parties
from factgym.generators.perturbations.operator import Statement
from factgym.text.folding import fold
from factgym.text.words import terms

OPERATORS_VERSION = 7
"""Part of every fingerprint; goes up whenever an operator, a rewording or the choice of sentences changes."""

PARTNER_DISTANCE = 4
"""Passages between the two sentences of a joined claim."""
SIMILARITY = 0.5
"""Jaccard index of the terms of two sentences from which on they are near-duplicates."""
SPLITS = ("test", "train", "all")


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """A usable sentence: `text[start:end]` of passage number `passage` of document number `document`."""

    document: int
    passage: int
    start: int
    end: int
    text: str


@lru_cache(maxsize=8192)
def _matter(text: str) -> frozenset[str]:
    return frozenset(term for term in terms(text) if len(term) > 4)


def split_sentences(sentences: Sequence[str]) -> dict[str, str]:
    """Return the split of each sentence, "test" or "train"; near-duplicates have the same.

    A text decides by its hash, for its group of near-duplicates the first in the order of code points: no seed does, so
    that train and test of two seeds share no sentence either.
    """
    groups: dict[int, list[str]] = {}
    for sentence, group in zip(sentences, _group_near_duplicates(sentences), strict=True):
        groups.setdefault(group, []).append(sentence)
    splits = {}
    for group_sentences in groups.values():
        folded = min(fold(sentence).casefold() for sentence in group_sentences)
        split = SPLITS[hashlib.sha256(folded.encode()).digest()[0] % 2]
        splits.update(dict.fromkeys(group_sentences, split))
    return splits


def _group_near_duplicates(sentences: Sequence[str]) -> list[int]:
    """Return for each sentence the number of its group: chains of sentences whose terms have `SIMILARITY`."""
    sets = [frozenset(terms(sentence)) for sentence in sentences]
    frequency = Counter(term for terms_ in sets for term in terms_)
    parents = list(range(len(sets)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    # Set similarity join with prefix filtering (Bayardo et al., 2007): two sets of a Jaccard index of t share one of the
    # n - ceil(t n) + 1 rarest members of each. Groups by union-find.
    by_term: dict[str, list[int]] = defaultdict(list)
    for number, members in enumerate(sets):
        rarest = sorted(members, key=lambda term: (frequency[term], term))
        prefix = rarest[: len(rarest) - math.ceil(SIMILARITY * len(rarest)) + 1]
        for other in {other for term in prefix for other in by_term[term]}:
            shared = len(members & sets[other])
            if shared >= SIMILARITY * (len(members) + len(sets[other]) - shared):
                parents[root(number)] = root(other)
        for term in prefix:
            by_term[term].append(number)
    return [root(number) for number in range(len(sets))]


@dataclass(frozen=True)
class _Profile:
    """A document as the operators see it: its text, its parties and its words, punctuation included."""

    text: str
    parties: tuple[tuple[str, str], ...]
    words: frozenset[str]


class DocumentIndex:
    """Usable sentences of a folder, and for each operator the pool of sentences that it applies to.

    split: "test" or "train", which share no sentence (`split_sentences`), or "all". Sentences are found when the index is
    built (about a quarter of a second per MB of text), a pool when it is first requested (some hundredths of a second per
    MB and operator).
    """

    def __init__(self, documents: Sequence[Document], split: str = "all") -> None:
        self.documents = tuple(documents)
        # A repeated sentence counts once: in two documents, its position would be no evidence.
        sources: dict[str, SourceSentence] = {}
        for number, document in enumerate(self.documents):
            for position, passage in enumerate(document.passages):
                for sentence in find_sentences(passage.text):
                    source = SourceSentence(number, position, sentence.start, sentence.end, sentence.text)
                    sources.setdefault(sentence.text.casefold(), source)
        if split != "all":
            splits = split_sentences(list(sources))
            sources = {text: source for text, source in sources.items() if splits[text] == split}
        self.sources = tuple(sources.values())
        self._lock = threading.Lock()
        self._pools: dict[str, dict[int, str]] = {}
        self._profiles: dict[int, _Profile] = {}
        self._terms: dict[tuple[int, int], frozenset[str]] = {}

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
        """Numbers of the usable sentences of each document."""
        numbers: list[list[int]] = [[] for _ in self.documents]
        for number, source in enumerate(self.sources):
            numbers[source.document].append(number)
        return tuple(map(tuple, numbers))

    @cached_property
    def passages(self) -> tuple[tuple[int, int], ...]:
        """Every passage as (document, number in it)."""
        lengths = [len(document.passages) for document in self.documents]
        return tuple((document, passage) for document, length in enumerate(lengths) for passage in range(length))

    def passage_of(self, source: SourceSentence) -> Passage:
        """Return the passage of a sentence."""
        return self.documents[source.document].passages[source.passage]

    def terms_of(self, document: int, passage: int) -> frozenset[str]:
        """Return the index terms of a passage's text; computed once."""
        key = (document, passage)
        if key not in self._terms:
            self._terms[key] = frozenset(terms(self.documents[document].passages[passage].text))
        return self._terms[key]

    def profile(self, document: int) -> _Profile:
        """Return the document's text, parties and words; computed once."""
        if document not in self._profiles:
            text = "\n".join(passage.text for passage in self.documents[document].passages)
            parties = find_parties([self.sources[number].text for number in self.by_document[document]])
            self._profiles[document] = _Profile(text, parties, frozenset(text.split()))
        return self._profiles[document]

    def statement(self, number: int, rng: random.Random, donors: tuple[str, ...] = ()) -> Statement:
        """Return sentence `number` with everything that operators may use."""
        source = self.sources[number]
        profile = self.profile(source.document)
        return Statement(
            source.text,
            profile.text,
            rng,
            parties=profile.parties,
            donors=donors,
            partner=lambda: "" if (partner := self.partner(number)) is None else self.sources[partner].text,
            clauses=partial(self.clauses, source),
        )

    def partner(self, number: int) -> int | None:
        """Return a sentence of a passage near by, on the same matter, that `additions.JOINED` can join to this one.

        Of another passage, since the sentences of one may give each other's reasons without a word that says so.
        """
        source = self.sources[number]
        words = _matter(source.text)
        fitting = []
        for other in self.by_document[source.document]:
            text = self.sources[other].text
            shared = words & _matter(text)
            near = 0 < abs(self.sources[other].passage - source.passage) <= PARTNER_DISTANCE
            if near and can_join(text) and 0 < len(shared) < SIMILARITY * len(words | _matter(text)):
                fitting.append((-len(shared), other))
        return min(fitting, default=(0, None))[1]

    @cached_property
    def _clauses(self) -> dict[str, list[tuple[SourceSentence, str, str]]]:
        by_kind: dict[str, dict[str, tuple[SourceSentence, str, str]]] = {kind: {} for kind in CLAUSE_KINDS}
        for source in self.sources:
            for kind, clauses in by_kind.items():
                match = find_clause(kind, source.text)
                if match is not None:
                    clauses.setdefault(match[0], (source, *match))
        return {kind: list(clauses.values()) for kind, clauses in by_kind.items()}

    def clauses(self, source: SourceSentence, kind: str) -> list[tuple[str, str, bool]]:
        """Return the clauses of a kind of all passages but one, with their actors, and whether of the same document."""
        return [
            (clause, actor, other.document == source.document)
            for other, clause, actor in self._clauses[kind]
            if (other.document, other.passage) != (source.document, source.passage)
        ]

    def corrupt(self, operator: str, number: int, round_: int = 0) -> Corruption | None:
        """Return the corruption of sentence `number` by `operator`, a function of the arguments alone."""
        rng = random.Random(f"{self.fingerprint}:{operator}:{number}:{round_}")
        return corrupt(operator, self.statement(number, rng))

    def applies(self, operator: str) -> bool:
        """Return whether the operator applies to any sentence; stops at the first."""
        if operator in DONOR_OPERATORS or operator in self._pools:
            return bool(self.pool(operator))
        return next(self._sites(operator), None) is not None

    def pool(self, operator: str) -> tuple[int, ...]:
        """Return the sentences to which `operator` applies, in document order; computed once."""
        return tuple(self.texts(operator))

    def texts(self, operator: str) -> Mapping[int, str]:
        """Return the claims that `operator` makes, by sentence; computed once."""
        if operator == "none" or operator in DONOR_OPERATORS:
            foreign = operator == "none" or sum(map(bool, self.by_document)) > 1
            return {number: source.text for number, source in enumerate(self.sources)} if foreign else {}
        if operator not in self._pools:
            with self._lock:
                self._pools[operator] = dict(self._sites(operator))
        return self._pools[operator]

    def _sites(self, operator: str) -> Iterator[tuple[int, str]]:
        cue = OPERATORS[operator].cue
        for number, source in enumerate(self.sources):
            corruption = self.corrupt(operator, number) if cue.search(source.text) else None
            if corruption is not None:
                yield number, corruption.text
