"""A closed world of people, books, towns, operas and companies, a corpus that states its facts, and questions on it.

How often the corpus states a subject's facts follows Zipf's law, from never to hundreds of times, so that counts over it
fall into all four tiers of the co-occurrence reward; a quarter of the subjects is in each tier. The corpus states no
falsehood. A fact's *statement* in the corpus is a sentence with subject and object in full, once each, so that the
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

from factgym.core.tasks import Immutable, shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.datasets.questions import Question
from factgym.generators.base import (
    GeneratedSplit,
    Kind,
    Relation,
    balanced_choice,
    word_table,
    world_aliases,
    world_kinds,
)
from factgym.generators.invented_names import Names
from factgym.text.sentences import capitalise

SPLITS: Mapping[str, int] = {"train": 2000, "validation": 400, "test": 400, "ood": 400}
"""Split -> its default size, which is its largest as well."""

TIERS: Mapping[str, tuple[int, int]] = {"absent": (0, 0), "rare": (1, 4), "known": (5, 19), "common": (20, 400)}
"""Tier -> bounds on the statements of a fact: the tiers of CorVer's co-occurrence reward."""

OOD_KINDS = ("opera", "company")
"""Kinds of subjects in the split "ood" alone."""

_VERSION = 1
_TABLE = "question_world"
_SUBJECTS, _OOD_SUBJECTS = 60, 13
"""Subjects of a kind and tier."""

_SPLIT_BOUNDS = {"train": (0, 0.7), "validation": (0.7, 0.85), "test": (0.85, 1), "ood": (0, 1)}
"""The part of a tier's shuffled subjects that a split asks about."""

_MAX_LEADS = 3
"""Statements of each fact in one article."""

_ZIPF = 0.55
_POOLS = {"press": 24, "university": 24, "award": 16, "province": 12, "river": 40, "musician": 60, "brand": 104}


@dataclass(frozen=True, slots=True)
class Fact:
    """A true fact. aliases: the object's names, the usual name first. statements: number of sentences that state it."""

    subject: str
    relation: Relation
    object: str
    aliases: tuple[str, ...]
    statements: int

    def statement(self, form: int = 0) -> str:
        """Return the fact as a sentence, in one of its relation's forms."""
        forms = self.relation.statements
        return capitalise(forms[form % len(forms)].format(s=self.subject, o=self.object))

    def question(self, form: int = 0) -> str:
        """Return a question for the object, in one of its relation's forms."""
        forms = self.relation.questions
        return forms[form % len(forms)].format(s=self.subject)


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of questions, with its facts in the order of its kind's relations. popularity: statements of each."""

    name: str
    kind: Kind
    tier: str
    popularity: int
    facts: tuple[Fact, ...]


class World(Immutable):
    """The world of a seed. Immutable; the corpus is written on first access (about half a second)."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        rng = random.Random(f"factgym question world {_VERSION} {seed}")
        self._names = _draw_names(rng)
        self.subjects = tuple(self._draw_subjects(rng))

    def _draw_subjects(self, rng: random.Random) -> Iterator[Subject]:
        for kind in world_kinds(_TABLE).values():
            names = iter(self._names[kind.name])
            size = _subjects_per_tier(kind)
            for tier, (low, high) in TIERS.items():
                counts = range(low, high + 1)
                for rank in range(1, size + 1):
                    # Zipf's law by rank in the common tier, a draw by 1 / n in the others.
                    if tier == "common":
                        popularity = min(high, round(low * math.pow(size / rank, _ZIPF)))
                    else:
                        popularity = rng.choices(counts, [1 / max(count, 1) for count in counts])[0]
                    name = next(names)
                    yield Subject(name, kind, tier, popularity, self._draw_facts(name, kind, popularity, rng))

    def _draw_facts(self, name: str, kind: Kind, popularity: int, rng: random.Random) -> tuple[Fact, ...]:
        """Draw an object for each relation; no two objects of a subject are equal, and none is the subject."""
        facts: list[Fact] = []
        for relation in kind.relations:
            value = str(rng.randint(1702, 1989)) if relation.target == "year" else name
            while value == name or any(fact.object == value for fact in facts):
                value = rng.choice(self._names[relation.target])
            facts.append(Fact(name, relation, value, world_aliases(_TABLE, relation.target, value), popularity))
        return tuple(facts)

    def facts_of(self, split: str, tier: str) -> list[Fact]:
        """Return the facts of a tier that a split asks for: those of subjects that no other split asks about."""
        is_ood = split == "ood"
        subjects = [
            subject for subject in self.subjects if subject.tier == tier and (subject.kind.name in OOD_KINDS) == is_ood
        ]
        random.Random(f"factgym question split {self.seed} {tier}").shuffle(subjects)
        start, end = (round(bound * len(subjects)) for bound in _SPLIT_BOUNDS[split])
        facts = [fact for subject in subjects[start:end] for fact in subject.facts]
        random.Random(f"factgym question order {self.seed} {split} {tier}").shuffle(facts)
        return facts

    @cached_property
    def corpus(self) -> Corpus:
        """Short articles about the subjects, in random order; one article states each fact of its subject 1 to 3 times."""
        rng = random.Random(f"factgym question corpus {_VERSION} {self.seed}")
        articles = [(subject.name, text) for subject in self.subjects for text in _articles(subject, rng)]
        rng.shuffle(articles)
        return Corpus(Passage(f"W{number:05d}", title, text) for number, (title, text) in enumerate(articles, start=1))

    def fingerprint(self) -> str:
        """SHA-256 in hex over the version and the seed; nothing is generated for it."""
        return hashlib.sha256(f"factgym question world {_VERSION} {self.seed}".encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return question_world, (self.seed,)


def question_world(seed: int = 0) -> World:
    """Return the world of a seed, generated once a process."""
    return shared(("question world", seed), lambda: World(seed))


class GeneratedQuestions(GeneratedSplit[Question]):
    """A split of the questions about the world of a seed.

    Every four questions ask for one fact of each tier of popularity, in a random order. Splits share no subject; "ood"
    asks about kinds of subjects that the others never ask about. `popularity` of a question is the number of sentences
    of the world's corpus that state the fact. `meta` holds "relation", "kind", "subject", "tier" and "statement", a
    sentence that states the fact.
    """

    SPLITS = MAX_SIZES = SPLITS
    ITEMS = "questions"

    def __init__(self, split: str | None = None, *, seed: int = 0, size: int | None = None) -> None:
        super().__init__(split, seed=seed, size=size)
        self.world = question_world(seed)
        self._facts = {tier: self.world.facts_of(self.split, tier) for tier in TIERS}

    def identity(self) -> str:
        """Return a text of the generator's versions, the split, the seed and the size."""
        return f"factgym questions {_VERSION} {self.world.fingerprint()} {self.split} {self.seed} {self.size}"

    def fact(self, index: int) -> Fact:
        """Return the fact that a question asks for."""
        return self._facts[self._tier(index)][index // len(TIERS)]

    def generate(self, index: int) -> Question:
        """Generate a question."""
        rng = random.Random(f"factgym question {_VERSION} {self.seed} {self.split} {index}")
        fact = self.fact(index)
        return Question(
            f"corver-{self.split}-{self.seed}-{index:05d}",
            fact.question(rng.randrange(len(fact.relation.questions))),
            fact.aliases,
            "synthetic",
            float(fact.statements),
            {
                "relation": fact.relation.name,
                "kind": fact.relation.name,
                "subject": fact.subject,
                "tier": self._tier(index),
                "statement": fact.statement(),
            },
        )

    def _tier(self, index: int) -> str:
        return balanced_choice(tuple(TIERS), index, f"factgym question tiers {self.seed} {self.split}")


def _subjects_per_tier(kind: Kind) -> int:
    return _OOD_SUBJECTS if kind.name in OOD_KINDS else _SUBJECTS


def _draw_names(rng: random.Random) -> dict[str, list[str]]:
    """Return names by kind of subject or object. The order of the kinds is the order of the draws."""
    names = Names(rng)
    sizes = {name: _subjects_per_tier(kind) * len(TIERS) for name, kind in world_kinds(_TABLE).items()} | _POOLS
    forms: Mapping[str, str] = word_table(_TABLE)["names"]
    return {kind: [names.fill(form) for _ in range(sizes[kind])] for kind, form in forms.items()}


def _articles(subject: Subject, rng: random.Random) -> Iterator[str]:
    """Yield the texts about a subject, which together hold as many leads as it is popular."""
    remaining = subject.popularity
    if not remaining and rng.random() < 0.5:
        yield subject.kind.stub.format(s=subject.name)
    values = {fact.relation.name: fact.object for fact in subject.facts}
    # A random composition of the popularity into parts of 1 to 3: the sum of the leads is the co-occurrence count.
    while remaining:
        leads = min(remaining, rng.randint(1, _MAX_LEADS))
        remaining -= leads
        sentences = []
        for _ in range(leads):
            sentences.append(capitalise(rng.choice(subject.kind.leads).format(s=subject.name, **values)))
            sentences.append(rng.choice(subject.kind.fillers))
        yield " ".join(sentences)
