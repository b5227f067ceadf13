"""Who and what there is in the generated world: things with invented names, and the facts that join them.

The world grows in blocks of ten questions. Facts about a block's things point to things of that block or of an earlier
one and are told in the block's own documents, so that nothing of a block changes when the world grows: a smaller world
is the beginning of a larger one.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from factgym.generators.multihop.relations import DATE, KINDS, NUMBER, VALUES, Kind, Relation
from factgym.generators.questions.names import Names
from factgym.generators.synthetic.words import MONTHS

HOPS = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4)
"""Hops of the questions of a block: the paper's proportion of 4:3:2:1."""

WORLD_SPLITS = ("train", "validation", "test")
"""Splits have different things: the names of each come from its own third of all invented words."""

_FIRST_YEAR, _LAST_YEAR = 1702, 1925
_EARLIER = 0.25
"""How often a fact's object is a thing of an earlier block."""

_TOLD_BY_SUBJECT = 0.65
"""How often a fact about two things of a block stands in the document of its subject, not of its object."""

_SHORT_NAME = 0.4
_MOST_TOLD = 7
_MOST_ANSWERS = 2
"""How many questions of a world may have the same answer: a frequent one could be guessed."""

_TRIES = 5_000


@dataclass(eq=False, slots=True)
class Thing:
    """One thing. born: the year of a person's birth. facts: what is true of it. told: what its document states."""

    name: str
    kind: Kind
    born: int = 0
    facts: dict[str, Fact] = field(default_factory=dict)
    told: list[Fact] = field(default_factory=list)

    @property
    def named(self) -> str:
        """How a question names it."""
        return self.kind.named.format(s=self.name)

    def mentions(self, words: str) -> bool:
        """Whether its document holds these words."""
        return words in self.name or any(words in fact.statement for fact in self.told)


@dataclass(eq=False, slots=True)
class Fact:
    """One thing that is true. target: the object where it is a thing. place: whose document states it."""

    subject: Thing
    relation: Relation
    object: str
    target: Thing | None
    place: Thing
    statement: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Facts of which each is about the object of the one before; the last one's object is the answer."""

    facts: tuple[Fact, ...]
    way: int

    @property
    def question(self) -> str:
        """The question, which names the first subject alone."""
        asked = self.facts[0].subject.named
        for fact in self.facts[:-1]:
            asked = fact.relation.phrase.format(s=asked)
        forms = self.facts[-1].relation.questions
        return forms[self.way % len(forms)].format(s=asked)

    @property
    def key(self) -> tuple[str, ...]:
        """What is asked, whatever the words."""
        return (self.facts[0].subject.name, *(fact.relation.name for fact in self.facts))


@dataclass(frozen=True, slots=True)
class Block:
    """Ten questions' worth of the world."""

    things: tuple[Thing, ...]
    chains: tuple[Chain, ...]


class Graph:
    """Grows block by block, the same for the same seed and split; splits share no invented word."""

    def __init__(self, seed: int, split: str) -> None:
        self._rng = random.Random(f"factgym multihop world {seed} {split}")
        self._names = _SplitNames(self._rng, WORLD_SPLITS.index(split))
        self._earlier: dict[str, list[Thing]] = {name: [] for name in KINDS}
        self._asked: set[tuple[str, ...]] = set()
        self._answers: Counter[str] = Counter()

    def grow(self) -> Block:
        """The next block."""
        new = {kind.name: [self._thing(kind) for _ in range(kind.each)] for kind in KINDS.values()}
        things = tuple(thing for found in new.values() for thing in found)
        for thing in things:
            for relation in thing.kind.relations:
                self._state(thing, relation, new)
        hops = list(HOPS)
        self._rng.shuffle(hops)
        chains = tuple(self._chain(things, count) for count in hops)
        for name, found in new.items():
            self._earlier[name] += found
        return Block(things, chains)

    def _thing(self, kind: Kind) -> Thing:
        born = self._rng.randint(_FIRST_YEAR, _LAST_YEAR) if kind.name == "person" else 0
        return Thing(self._names.of(kind.name), kind, born)

    def _state(self, thing: Thing, relation: Relation, new: dict[str, list[Thing]]) -> None:
        """Make a fact true and tell it. A person without anyone older has no teacher."""
        rng = self._rng
        if relation.target in VALUES:
            self._tell(thing, relation, self._value(thing, relation), None, thing)
            return
        earlier = self._earlier[relation.target]
        is_new = not earlier or rng.random() >= _EARLIER
        target = rng.choice(new[relation.target] if is_new else earlier)
        if target is thing or (relation.name == "teacher" and target.born > thing.born - 15):
            return
        told_by_object = is_new and relation.other and len(target.told) < _MOST_TOLD
        place = target if told_by_object and rng.random() >= _TOLD_BY_SUBJECT else thing
        self._tell(thing, relation, target.name, target, place)

    def _tell(self, thing: Thing, relation: Relation, value: str, target: Thing | None, place: Thing) -> None:
        rng = self._rng
        forms = relation.own if place is thing else relation.other
        name = thing.name
        if place is thing and thing.born and rng.random() < _SHORT_NAME:
            name = name.rpartition(" ")[2]
        fact = Fact(thing, relation, value, target, place, rng.choice(forms).format(s=name, o=value))
        thing.facts[relation.name] = fact
        place.told.append(fact)

    def _value(self, thing: Thing, relation: Relation) -> str:
        rng = self._rng
        if relation.target == NUMBER:
            return f"{rng.randint(*relation.bounds):,}"
        if relation.target == DATE:
            return f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {thing.born}"
        before = thing.facts.get(relation.after)
        born = before.target.born if before and before.target else rng.randint(_FIRST_YEAR, _LAST_YEAR)
        return str(born + rng.randint(22, 64))

    def _chain(self, things: tuple[Thing, ...], hops: int) -> Chain:
        for _ in range(_TRIES):
            facts = self._walk(self._rng.choice(things), hops)
            chain = Chain(facts, self._rng.randrange(2))
            if len(facts) == hops and self._is_new(chain) and _is_sound(facts):
                self._asked.add(chain.key)
                self._answers[facts[-1].object] += 1
                return chain
        raise RuntimeError(f"no question of {hops} hops in {_TRIES} tries: the relations leave too few paths")

    def _is_new(self, chain: Chain) -> bool:
        return chain.key not in self._asked and self._answers[chain.facts[-1].object] < _MOST_ANSWERS

    def _walk(self, thing: Thing, hops: int) -> tuple[Fact, ...]:
        """Up to `hops` facts along a random path; fewer where it ends at a value too early."""
        facts: list[Fact] = []
        while len(facts) < hops:
            fact = self._rng.choice(tuple(thing.facts.values()))
            facts.append(fact)
            if fact.target is None:
                break
            thing = fact.target
        return tuple(facts)


def _is_sound(facts: tuple[Fact, ...]) -> bool:
    """Whether every hop needs a document of its own, and nothing before the last one gives the answer away."""
    answer = facts[-1].object
    places = [fact.place for fact in facts]
    visited = [facts[0].subject.name, *(fact.object for fact in facts)]
    if len(set(visited)) < len(visited) or len(set(map(id, places))) < len(places):
        return False
    before = [facts[0].subject, *places[:-1]] if len(facts) > 1 else []
    return not any(place.mentions(answer) for place in before)


class _SplitNames(Names):
    """Names of a split: it has every third word, by a hash of the word."""

    def __init__(self, rng: random.Random, share: int) -> None:
        super().__init__(rng)
        self._share = share

    def word(self, kind: str) -> str:
        """A word that neither this split nor another one has used."""
        while True:
            word = super().word(kind)
            if zlib.crc32(word.encode()) % len(WORLD_SPLITS) == self._share:
                return word

    def of(self, kind: str) -> str:
        """A name for a thing of this kind."""
        if kind == "person":
            return self.person()
        if kind == "novel":
            return self.title()
        form, sound = _FORMS[kind]
        return form.format(self.word(sound))


_FORMS = {
    "company": ("{} House", "thing"),
    "town": ("{}", "place"),
    "university": ("{} University", "place"),
    "river": ("River {}", "river"),
    "lake": ("Lake {}", "river"),
    "province": ("{}", "thing"),
    "prize": ("{} Prize", "person"),
}


def blocks(seed: int, split: str) -> Iterator[Block]:
    """The blocks of a world, without end."""
    graph = Graph(seed, split)
    while True:
        yield graph.grow()
