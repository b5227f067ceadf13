"""A generated closed world: short documents about invented things, and questions of one to four hops over them.

    corpus, triples = world(seed=0, size=200, split="train")

Every fact is stated in one sentence of one document, so the gold evidence of a question is one verbatim sentence for
each hop, in the order of the hops; each hop needs another document. All names are invented and every answer is drawn at
random, so that a question cannot be answered without its evidence. Splits share no name.

The world grows in blocks of ten questions. A block's facts join its things to things of that block or of an earlier one
and are stated in the block's own documents. Nothing of a block changes when the world grows: a smaller world is a prefix
of a larger one.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.datasets.multihop import Evidence, Triple
from factgym.generators.base import GeneratedSplit
from factgym.generators.invented_names import Names
from factgym.generators.multihop_relations import DATE, KINDS, NUMBER, VALUES, Kind, Relation
from factgym.generators.synthetic.grammar import MONTHS

SPLITS: Mapping[str, int] = MappingProxyType({"train": 400, "validation": 100, "test": 100})
"""Split -> its default size. Splits have different things: each uses its own third of all invented words."""

MAX_SIZE = 5_000
"""The largest world; beyond it, short invented names run out."""

HOPS = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4)
"""Hops of the questions of a block: the paper's proportion of 4:3:2:1."""

_VERSION = 1
_FIRST_YEAR, _LAST_YEAR = 1702, 1925
_EARLIER_RATE = 0.25
"""Share of the facts whose object is a thing of an earlier block."""

_OWN_DOCUMENT_RATE = 0.65
"""Share of the facts about two things of a block that the subject's document states, not the object's."""

_SHORT_NAME_RATE = 0.4
_MAX_STATED = 7
_MAX_SAME_ANSWER = 2
"""Questions of a world with the same answer: a frequent one could be guessed."""

_MAX_ATTEMPTS = 5_000
_NAME_FORMS = {
    "company": ("{} House", "thing"),
    "town": ("{}", "place"),
    "university": ("{} University", "place"),
    "river": ("River {}", "river"),
    "lake": ("Lake {}", "river"),
    "province": ("{}", "thing"),
    "prize": ("{} Prize", "person"),
}


@dataclass(eq=False, slots=True)
class Thing:
    """One thing. born: the year of a person's birth. facts: by relation. stated: the facts that its document states."""

    name: str
    kind: Kind
    born: int = 0
    facts: dict[str, Fact] = field(default_factory=dict)
    stated: list[Fact] = field(default_factory=list)

    def mentions(self, words: str) -> bool:
        """Return whether its document holds these words."""
        return words in self.name or any(words in fact.statement for fact in self.stated)


@dataclass(eq=False, slots=True)
class Fact:
    """One true fact. target: the object where it is a thing. host: the thing whose document states the fact."""

    subject: Thing
    relation: Relation
    object: str
    target: Thing | None
    host: Thing
    statement: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Facts of which each is about the object of the one before; the object of the last one is the answer."""

    facts: tuple[Fact, ...]
    form: int

    @property
    def question(self) -> str:
        """The question, which names the first subject alone."""
        subject = self.facts[0].subject
        phrase = subject.kind.named.format(s=subject.name)
        for fact in self.facts[:-1]:
            phrase = fact.relation.phrase.format(s=phrase)
        forms = self.facts[-1].relation.questions
        return forms[self.form % len(forms)].format(s=phrase)

    @property
    def key(self) -> tuple[str, ...]:
        """The subject and the path of relations, which identify a question whatever its words."""
        return (self.facts[0].subject.name, *(fact.relation.name for fact in self.facts))


class _Graph:
    """Grows block by block, the same for the same seed and split; splits share no invented word."""

    def __init__(self, seed: int, split: str) -> None:
        self._rng = random.Random(f"factgym multihop world {seed} {split}")
        self._names = _SplitNames(self._rng, tuple(SPLITS).index(split))
        self._earlier: dict[str, list[Thing]] = {name: [] for name in KINDS}
        self._questions: set[tuple[str, ...]] = set()
        self._answers: Counter[str] = Counter()

    def grow(self) -> tuple[list[Thing], list[Chain]]:
        """Return the things and the questions of the next block."""
        new = {kind.name: [self._draw_thing(kind) for _ in range(kind.each)] for kind in KINDS.values()}
        things = [thing for same_kind in new.values() for thing in same_kind]
        for thing in things:
            for relation in thing.kind.relations:
                self._add_fact(thing, relation, new)
        hops = list(HOPS)
        self._rng.shuffle(hops)
        chains = [self._draw_chain(things, count) for count in hops]
        for name, same_kind in new.items():
            self._earlier[name] += same_kind
        return things, chains

    def _draw_thing(self, kind: Kind) -> Thing:
        born = self._rng.randint(_FIRST_YEAR, _LAST_YEAR) if kind.name == "person" else 0
        return Thing(self._names.of(kind.name), kind, born)

    def _add_fact(self, thing: Thing, relation: Relation, new: dict[str, list[Thing]]) -> None:
        """Draw a fact and the document that states it. A person without anyone older has no teacher."""
        rng = self._rng
        target: Thing | None = None
        host = thing
        if relation.target in VALUES:
            value = self._draw_value(thing, relation)
        else:
            earlier = self._earlier[relation.target]
            is_new = not earlier or rng.random() >= _EARLIER_RATE
            target = rng.choice(new[relation.target] if is_new else earlier)
            if target is thing or (relation.name == "teacher" and target.born > thing.born - 15):
                return
            value = target.name
            can_move = is_new and relation.other and len(target.stated) < _MAX_STATED
            if can_move and rng.random() >= _OWN_DOCUMENT_RATE:
                host = target
        name = thing.name
        if host is thing and thing.born and rng.random() < _SHORT_NAME_RATE:
            name = name.rpartition(" ")[2]
        form = rng.choice(relation.own if host is thing else relation.other)
        fact = Fact(thing, relation, value, target, host, form.format(s=name, o=value))
        thing.facts[relation.name] = fact
        host.stated.append(fact)

    def _draw_value(self, thing: Thing, relation: Relation) -> str:
        rng = self._rng
        if relation.target == NUMBER:
            return f"{rng.randint(*relation.bounds):,}"
        if relation.target == DATE:
            return f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {thing.born}"
        person = thing.facts.get(relation.after)
        born = person.target.born if person and person.target else rng.randint(_FIRST_YEAR, _LAST_YEAR)
        return str(born + rng.randint(22, 64))

    def _draw_chain(self, things: list[Thing], hops: int) -> Chain:
        """Draw a new question by rejection sampling over random walks."""
        for _ in range(_MAX_ATTEMPTS):
            facts = self._walk(self._rng.choice(things), hops)
            chain = Chain(facts, self._rng.randrange(2))
            answer = facts[-1].object
            is_new = chain.key not in self._questions and self._answers[answer] < _MAX_SAME_ANSWER
            if len(facts) == hops and is_new and _is_sound(facts):
                self._questions.add(chain.key)
                self._answers[answer] += 1
                return chain
        raise RuntimeError(f"no question of {hops} hops in {_MAX_ATTEMPTS} attempts: the relations have too few paths")

    def _walk(self, thing: Thing, hops: int) -> tuple[Fact, ...]:
        """Return up to `hops` facts along a random path; fewer where it ends at a value too early."""
        facts: list[Fact] = []
        while len(facts) < hops:
            fact = self._rng.choice(tuple(thing.facts.values()))
            facts.append(fact)
            if fact.target is None:
                break
            thing = fact.target
        return tuple(facts)


def _is_sound(facts: tuple[Fact, ...]) -> bool:
    """Return whether every hop needs a document of its own, and no document before the last one holds the answer."""
    hosts = [fact.host for fact in facts]
    visited = [facts[0].subject.name, *(fact.object for fact in facts)]
    if len(set(visited)) < len(visited) or len(set(map(id, hosts))) < len(hosts):
        return False
    before = [facts[0].subject, *hosts[:-1]] if len(facts) > 1 else []
    return not any(host.mentions(facts[-1].object) for host in before)


class _SplitNames(Names):
    """Names of a split: it has every third word, by a hash of the word."""

    def __init__(self, rng: random.Random, remainder: int) -> None:
        super().__init__(rng)
        self._remainder = remainder

    def word(self, kind: str) -> str:
        """Return a word that neither this split nor another one has used."""
        while True:
            word = super().word(kind)
            if zlib.crc32(word.encode()) % len(SPLITS) == self._remainder:
                return word

    def of(self, kind: str) -> str:
        """Return a name for a thing of this kind."""
        if kind == "person":
            return self.person()
        if kind == "novel":
            return self.title()
        form, sound = _NAME_FORMS[kind]
        return form.format(self.word(sound))


class GeneratedTriples(GeneratedSplit[Triple]):
    """The questions of a generated world, all of which are generated at once, and its corpus.

    Triples have `kind` "generated" and in `meta` the "path" of relations and the "subject" that the question names.
    """

    SPLITS = SPLITS
    ITEMS = "questions"

    def __init__(self, split: str | None = None, *, seed: int = 0, size: int | None = None) -> None:
        super().__init__(split, seed=seed, size=size)
        graph = _Graph(self.seed, self.split)
        rng = random.Random(f"factgym multihop documents {_VERSION} {self.seed} {self.split}")
        passages: list[Passage] = []
        chains: list[Chain] = []
        evidence: dict[int, Evidence] = {}
        while len(chains) < self.size:
            things, block_chains = graph.grow()
            passages += [self._write_document(thing, rng, evidence) for thing in things]
            chains += block_chains
        self.corpus = Corpus(sorted(passages, key=lambda passage: passage.id))
        self._triples = tuple(self._triple(chain, index, evidence) for index, chain in enumerate(chains[: self.size]))

    @classmethod
    def max_size(cls, split: str) -> int | None:
        """Return the largest size of a split."""
        return MAX_SIZE

    def identity(self) -> str:
        """Return a text of the generator's version, the split, the seed and the size."""
        return f"factgym multihop world {_VERSION} {self.seed} {self.size} {self.split}"

    def generate(self, index: int) -> Triple:
        """Return a question."""
        return self._triples[index]

    def _write_document(self, thing: Thing, rng: random.Random, evidence: dict[int, Evidence]) -> Passage:
        """Write the document about a thing: a definition, then its facts and a remark in random order.

        evidence: by the identity of a fact; the document's facts are added.
        """
        # The id is a hash: documents of one question have nothing in common.
        digest = hashlib.blake2b(f"{self.split} {self.seed} {thing.name}".encode(), digest_size=5)
        document_id = f"w{digest.hexdigest()}"
        order: list[Fact | None] = [*thing.stated, None]
        rng.shuffle(order)
        text = _capitalize(rng.choice(thing.kind.leads).format(s=thing.name))
        for fact in order:
            sentence = _capitalize(fact.statement) if fact else rng.choice(thing.kind.fillers)
            start = len(text) + 1
            text = f"{text} {sentence}"
            if fact:
                evidence[id(fact)] = Evidence(document_id, start, len(text), sentence)
        return Passage(document_id, thing.name, text)

    def _triple(self, chain: Chain, index: int, evidence: Mapping[int, Evidence]) -> Triple:
        return Triple(
            id=f"world-{self.split}-{self.seed}-{index:05d}",
            question=chain.question,
            answers=_answers(chain.facts[-1]),
            evidence=tuple(evidence[id(fact)] for fact in chain.facts),
            hops=len(chain.facts),
            benchmark="synthetic",
            kind="generated",
            meta={
                "subject": chain.facts[0].subject.name,
                "path": [fact.relation.name for fact in chain.facts],
            },
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_triples, (self.split, self.seed, self.size)


def world(seed: int = 0, size: int | None = None, split: str = "train") -> tuple[Corpus, GeneratedTriples]:
    """Return the documents and the questions of a world, generated once a process.

    size: the number of questions, default that of `SPLITS`, at most `MAX_SIZE`; there are about 2.4 documents for each.
    Raises ConfigError for an unknown split or an impossible size.
    """
    triples = _shared_triples(split, seed, SPLITS.get(split) if size is None else size)
    return triples.corpus, triples


def _shared_triples(split: str, seed: int, size: int | None) -> GeneratedTriples:
    return shared(("multihop world", split, seed, size), lambda: GeneratedTriples(split, seed=seed, size=size))


def _answers(fact: Fact) -> tuple[str, ...]:
    """Return the object and other ways to write it."""
    value = fact.object
    if fact.relation.target == DATE:
        day, month, year = value.split(" ")
        return (value, f"{month} {day}, {year}")
    if fact.relation.target == NUMBER:
        return (value, value.replace(",", "")) if "," in value else (value,)
    first, _, rest = value.partition(" ")
    others = {
        "person": (rest,),
        "river": (rest, f"{rest} River"),
        "prize": (first,),
        "lake": (rest,),
    }
    return (value, *others.get(fact.relation.target, ()))


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:]
