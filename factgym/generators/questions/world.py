"""A small closed world: people, books, towns, operas, companies, what is true of them, and a corpus that says so.

How often the corpus states a subject's facts follows Zipf's law, from never to hundreds of times, so that counts over it
fall into all four tiers of the co-occurrence reward; a quarter of the subjects is in each tier. The corpus never says
anything false. A fact's *statement* in the corpus is a sentence with subject and object in full, once each, so that the
number of statements is the co-occurrence count of the two.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from factgym.core.tasks import SharedByArguments, shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.generators.questions.names import Names
from factgym.generators.questions.relations import KINDS, OOD_KINDS, Kind, Relation

TIERS: Mapping[str, tuple[int, int]] = {"absent": (0, 0), "rare": (1, 4), "known": (5, 19), "common": (20, 400)}
"""Tier -> the least and the most statements of a fact; those of the paper's reward."""

_VERSION = 1
_SUBJECTS, _OOD_SUBJECTS = 60, 13
"""Subjects of a kind and tier."""

_LEADS_A_PASSAGE = 3
_ZIPF = 0.55
_POOLS = {"press": 24, "university": 24, "award": 16, "province": 12, "river": 40, "musician": 60, "brand": 104}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is true. aliases: the object's names, the usual one first. statements: sentences that state it."""

    subject: str
    relation: Relation
    object: str
    aliases: tuple[str, ...]
    statements: int

    def state(self, way: int = 0) -> str:
        """The fact as a sentence, in one of the ways to say it."""
        forms = self.relation.statements
        return _upper(forms[way % len(forms)].format(s=self.subject, o=self.object))

    def ask(self, way: int = 0) -> str:
        """A question for the object."""
        forms = self.relation.questions
        return forms[way % len(forms)].format(s=self.subject)


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to ask about, with its facts in the order of its kind's relations. popularity: statements of each."""

    name: str
    kind: Kind
    tier: str
    popularity: int
    facts: tuple[Fact, ...]


class World(SharedByArguments):
    """The world of a seed. Immutable; the corpus is written when it is first asked for (about half a second)."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        rng = random.Random(f"factgym question world {_VERSION} {seed}")
        self._named = _names(rng)
        self.subjects = tuple(self._subjects(rng))

    def _subjects(self, rng: random.Random) -> Iterator[Subject]:
        for kind in KINDS.values():
            names = iter(self._named[kind.name])
            each = _per_tier(kind)
            for tier, (low, high) in TIERS.items():
                for rank in range(1, each + 1):
                    yield self._subject(next(names), kind, tier, _popularity(rng, low, high, rank, each), rng)

    def _subject(self, name: str, kind: Kind, tier: str, popularity: int, rng: random.Random) -> Subject:
        facts: list[Fact] = []
        for relation in kind.relations:
            value = str(rng.randint(1702, 1989)) if relation.value == "year" else name
            while value == name or any(fact.object == value for fact in facts):
                value = rng.choice(self._named[relation.value])
            facts.append(Fact(name, relation, value, _aliases(relation.value, value), popularity))
        return Subject(name, kind, tier, popularity, tuple(facts))

    def asked(self, split: str, tier: str) -> list[Fact]:
        """The facts of a tier that are asked in a split: those of subjects that no other split asks about."""
        found = [one for one in self.subjects if one.tier == tier and (one.kind.name in OOD_KINDS) == (split == "ood")]
        order = random.Random(f"factgym question split {self.seed} {tier}")
        order.shuffle(found)
        if split != "ood":
            size = len(found)
            bounds = {"train": (0, 0.7), "validation": (0.7, 0.85), "test": (0.85, 1)}[split]
            found = found[round(bounds[0] * size) : round(bounds[1] * size)]
        facts = [fact for subject in found for fact in subject.facts]
        order = random.Random(f"factgym question order {self.seed} {split} {tier}")
        order.shuffle(facts)
        return facts

    @cached_property
    def corpus(self) -> Corpus:
        """Short articles about the subjects, in random order; one article states each fact of its subject 1 to 3 times."""
        rng = random.Random(f"factgym question corpus {_VERSION} {self.seed}")
        texts = [(one.name, text) for one in self.subjects for text in _articles(one, rng)]
        rng.shuffle(texts)
        return Corpus(Passage(f"W{number:05d}", title, text) for number, (title, text) in enumerate(texts, start=1))

    def fingerprint(self) -> str:
        """SHA-256 in hex over the version and the seed; nothing is generated for it."""
        return hashlib.sha256(f"factgym question world {_VERSION} {self.seed}".encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return question_world, (self.seed,)


def question_world(seed: int = 0) -> World:
    """The world of a seed, made once a process."""
    return shared(("question world", seed), lambda: World(seed))


def _per_tier(kind: Kind) -> int:
    return _OOD_SUBJECTS if kind.name in OOD_KINDS else _SUBJECTS


def _names(rng: random.Random) -> dict[str, list[str]]:
    """Names by kind of subject or of object."""
    new = Names(rng)
    many = {name: _per_tier(kind) * len(TIERS) for name, kind in KINDS.items()}
    return {
        "book": [new.title() for _ in range(many["book"])],
        "person": [new.person() for _ in range(many["person"])],
        "town": [new.word("place") for _ in range(many["town"])],
        "opera": [new.title() for _ in range(many["opera"])],
        "company": [f"{new.word('thing')} Works" for _ in range(many["company"])],
        "musician": [new.person() for _ in range(_POOLS["musician"])],
        "press": [f"{new.word('thing')} Press" for _ in range(_POOLS["press"])],
        "university": [f"{new.word('place')} University" for _ in range(_POOLS["university"])],
        "award": [f"{new.word('person')} Prize" for _ in range(_POOLS["award"])],
        "province": [new.word("thing") for _ in range(_POOLS["province"])],
        "river": [f"River {new.word('river')}" for _ in range(_POOLS["river"])],
        "brand": [new.word("thing") for _ in range(_POOLS["brand"])],
    }


def _popularity(rng: random.Random, low: int, high: int, rank: int, size: int) -> int:
    """Statements of the subject at a rank of its tier: Zipf's law in the highest, a draw by 1 / n in the others."""
    if high >= 100:
        return min(high, round(low * math.pow(size / rank, _ZIPF)))
    choices = range(low, high + 1)
    weights = [1 / max(one, 1) for one in choices]
    return rng.choices(choices, weights)[0]


def _aliases(kind: str, value: str) -> tuple[str, ...]:
    """The names that a value goes by."""
    first, _, rest = value.partition(" ")
    if kind in ("person", "musician"):
        return (value, f"{rest}, {first}", rest)
    if kind == "river":
        return (value, f"{rest} River", rest)
    if kind == "university":
        return (value, f"University of {first}")
    if kind in ("press", "award"):
        return (value, f"the {value}")
    return (value, f"the town of {value}") if kind == "town" else (value,)


def _articles(subject: Subject, rng: random.Random) -> Iterator[str]:
    """The texts about a subject, which together hold as many leads as it is popular."""
    left = subject.popularity
    if not left and rng.random() < 0.5:
        yield subject.kind.stub.format(s=subject.name)
    values = {fact.relation.name: fact.object for fact in subject.facts}
    while left:
        leads = min(left, rng.randint(1, _LEADS_A_PASSAGE))
        left -= leads
        parts = []
        for _ in range(leads):
            parts.append(_upper(rng.choice(subject.kind.leads).format(s=subject.name, **values)))
            parts.append(rng.choice(subject.kind.fillers))
        yield " ".join(parts)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
