"""A generated closed world: short documents about invented entities, and questions of one to four hops over them.

    corpus, triples = world(seed=0, size=200, split="train")

Every fact is stated in one sentence of one document, so the gold evidence of a question is one verbatim sentence for
each hop, in the order of the hops; each hop needs another document. All names are invented and every answer is drawn at
random, so that a question cannot be answered without its evidence. Splits share no name.

The world grows in blocks of ten questions. A block's facts join its entities to entities of that block or of an earlier
one and are stated in the block's own documents. Nothing of a block changes when the world grows: a smaller world is a
prefix of a larger one.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.datasets.multihop import Evidence, Triple
from factgym.generators.base import GeneratedSplit, Kind, Relation, word_table, world_aliases, world_kinds
from factgym.generators.invented_names import Names
from factgym.text.numbers import MONTH_NAMES
from factgym.text.sentences import capitalise

SPLITS: Mapping[str, int] = {"train": 400, "validation": 100, "test": 100}
"""Split -> its default size. Splits have different entities: each uses its own third of all invented words."""

MAX_SIZE = 5_000
"""The largest world; beyond it, short invented names run out."""

HOPS = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4)
"""Hops of the questions of a block: the paper's proportion of 4:3:2:1."""

_VERSION = 1
_TABLE = "multihop_world"
_FIRST_YEAR, _LAST_YEAR = 1702, 1925
_EARLIER_RATE = 0.25
"""Share of the facts whose object is an entity of an earlier block."""

_OWN_DOCUMENT_RATE = 0.65
"""Share of the facts about two entities of a block that the subject's document states, not the object's."""

_SHORT_NAME_RATE = 0.4
_MAX_STATED = 7
_MAX_SAME_ANSWER = 2
"""Questions of a world with the same answer: a frequent one could be guessed."""

_MAX_ATTEMPTS = 5_000


@dataclass(eq=False, slots=True)
class Entity:
    """An invented entity. born: a person's year of birth. facts: by relation. stated: facts in its document."""

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
    """A true fact. target: the object where it is an entity. host: the entity whose document states the fact."""

    subject: Entity
    relation: Relation
    object: str
    target: Entity | None
    host: Entity
    statement: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Facts of which each is about the object of the previous fact; the object of the last is the answer."""

    facts: tuple[Fact, ...]
    form: int

    @property
    def question(self) -> str:
        """The question, which names the first subject alone."""
        subject = self.facts[0].subject
        phrase = subject.kind.phrase.format(s=subject.name)
        for fact in self.facts[:-1]:
            phrase = fact.relation.phrase.format(s=phrase)
        forms = self.facts[-1].relation.questions
        return forms[self.form % len(forms)].format(s=phrase)

    @property
    def key(self) -> tuple[str, ...]:
        """The subject and the path of relations, which identify a question whatever its words."""
        return (self.facts[0].subject.name, *(fact.relation.name for fact in self.facts))

    @property
    def is_sound(self) -> bool:
        """Whether every hop needs a document of its own, and no document before the last holds the answer."""
        # No entity is visited twice (a walk without a cycle), and no two facts are stated in the same document.
        hosts = [fact.host for fact in self.facts]
        subject, answer = self.facts[0].subject, self.facts[-1].object
        visited = {subject.name, *(fact.object for fact in self.facts)}
        if len(visited) <= len(self.facts) or len(set(map(id, hosts))) < len(hosts):
            return False
        return len(hosts) == 1 or not any(host.mentions(answer) for host in (subject, *hosts[:-1]))


class _Graph:
    """Grows block by block, the same for the same seed and split; splits share no invented word."""

    def __init__(self, seed: int, split: str) -> None:
        self._rng = random.Random(f"factgym multihop world {seed} {split}")
        self._names = _SplitNames(self._rng, tuple(SPLITS).index(split))
        self._earlier: dict[str, list[Entity]] = {name: [] for name in world_kinds(_TABLE)}
        self._questions: set[tuple[str, ...]] = set()
        self._answers: Counter[str] = Counter()

    def grow(self) -> tuple[list[Entity], list[Chain]]:
        """Return the entities and the questions of the next block."""
        rng = self._rng
        block: dict[str, list[Entity]] = {}
        for kind in world_kinds(_TABLE).values():
            block[kind.name] = []
            for _ in range(kind.count):
                born = rng.randint(_FIRST_YEAR, _LAST_YEAR) if kind.name == "person" else 0
                block[kind.name].append(Entity(self._names.fill(word_table(_TABLE)["names"][kind.name]), kind, born))
        entities = [entity for same_kind in block.values() for entity in same_kind]
        for entity in entities:
            for relation in entity.kind.relations:
                self._add_fact(entity, relation, block)
        # Facts before questions: a walk may use every fact of this block and of earlier blocks, never of a later block.
        hops = list(HOPS)
        rng.shuffle(hops)
        chains = [self._draw_chain(entities, count) for count in hops]
        for name, same_kind in block.items():
            self._earlier[name] += same_kind
        return entities, chains

    def _add_fact(self, subject: Entity, relation: Relation, block: Mapping[str, list[Entity]]) -> None:
        """Draw a fact and the document that states it. A person without anyone older has no teacher."""
        rng = self._rng
        target: Entity | None = None
        host = subject
        if relation.target == "number":
            value = f"{rng.randint(*relation.bounds):,}"
        elif relation.target == "date":
            value = f"{rng.randint(1, 28)} {rng.choice(MONTH_NAMES)} {subject.born}"
        elif relation.target == "year":
            person = subject.facts.get(relation.after)
            born = person.target.born if person and person.target else rng.randint(_FIRST_YEAR, _LAST_YEAR)
            value = str(born + rng.randint(22, 64))
        else:
            earlier = self._earlier[relation.target]
            is_new = not earlier or rng.random() >= _EARLIER_RATE
            target = rng.choice(block[relation.target] if is_new else earlier)
            if target is subject or (relation.name == "teacher" and target.born > subject.born - 15):
                return
            value = target.name
            can_move = is_new and relation.inverse and len(target.stated) < _MAX_STATED
            if can_move and rng.random() >= _OWN_DOCUMENT_RATE:
                host = target
        name = subject.name
        if host is subject and subject.born and rng.random() < _SHORT_NAME_RATE:
            name = name.rpartition(" ")[2]
        form = rng.choice(relation.statements if host is subject else relation.inverse)
        fact = Fact(subject, relation, value, target, host, form.format(s=name, o=value))
        subject.facts[relation.name] = fact
        host.stated.append(fact)

    def _draw_chain(self, entities: list[Entity], hops: int) -> Chain:
        """Draw a new question by rejection sampling over random walks; a walk ends early at a value."""
        for _ in range(_MAX_ATTEMPTS):
            entity: Entity | None = self._rng.choice(entities)
            facts: list[Fact] = []
            while entity is not None and len(facts) < hops:
                facts.append(self._rng.choice(tuple(entity.facts.values())))
                entity = facts[-1].target
            chain = Chain(tuple(facts), self._rng.randrange(2))
            answer = facts[-1].object
            is_new = chain.key not in self._questions and self._answers[answer] < _MAX_SAME_ANSWER
            if len(facts) == hops and is_new and chain.is_sound:
                self._questions.add(chain.key)
                self._answers[answer] += 1
                return chain
        raise RuntimeError(f"no question of {hops} hops in {_MAX_ATTEMPTS} attempts: the relations have too few paths")


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


class GeneratedTriples(GeneratedSplit[Triple]):
    """The questions of a generated world, all of which are generated at once, and its corpus.

    Triples have `kind` "generated" and in `meta` the "path" of relations and the "subject" that the question names.
    """

    SPLITS = SPLITS
    MAX_SIZES = dict.fromkeys(SPLITS, MAX_SIZE)
    ITEMS = "questions"
    IDENTITY = f"factgym multihop world {_VERSION} {{seed}} {{size}} {{split}}"

    def __init__(self, split: str | None = None, *, seed: int = 0, size: int | None = None) -> None:
        super().__init__(split, seed=seed, size=size)
        graph = _Graph(self.seed, self.split)
        rng = random.Random(f"factgym multihop documents {_VERSION} {self.seed} {self.split}")
        passages: list[Passage] = []
        self._chains: list[Chain] = []
        self._evidence: dict[int, Evidence] = {}
        while len(self._chains) < self.size:
            entities, chains = graph.grow()
            passages += [self._write_document(entity, rng) for entity in entities]
            self._chains += chains
        self.corpus = Corpus(sorted(passages, key=lambda passage: passage.id))
        self._triples = tuple(map(self._triple, range(self.size)))

    def generate(self, index: int) -> Triple:
        """Return a question."""
        return self._triples[index]

    def _write_document(self, entity: Entity, rng: random.Random) -> Passage:
        """Write the document about an entity: a definition, then its facts and a remark in random order."""
        # The id is a hash: documents of one question have nothing in common.
        digest = hashlib.blake2b(f"{self.split} {self.seed} {entity.name}".encode(), digest_size=5)
        document_id = f"w{digest.hexdigest()}"
        order: list[Fact | None] = [*entity.stated, None]
        rng.shuffle(order)
        text = capitalise(rng.choice(entity.kind.leads).format(s=entity.name))
        for fact in order:
            sentence = capitalise(fact.statement) if fact else rng.choice(entity.kind.fillers)
            start = len(text) + 1
            text = f"{text} {sentence}"
            if fact:
                self._evidence[id(fact)] = Evidence(document_id, start, len(text), sentence)
        return Passage(document_id, entity.name, text)

    def _triple(self, index: int) -> Triple:
        chain = self._chains[index]
        return Triple(
            id=f"world-{self.split}-{self.seed}-{index:05d}",
            question=chain.question,
            answers=_answers(chain.facts[-1]),
            evidence=tuple(self._evidence[id(fact)] for fact in chain.facts),
            hops=len(chain.facts),
            benchmark="synthetic",
            kind="generated",
            meta={"subject": chain.facts[0].subject.name, "path": [fact.relation.name for fact in chain.facts]},
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
    if fact.relation.target == "date":
        day, month, year = value.split(" ")
        return (value, f"{month} {day}, {year}")
    if fact.relation.target == "number":
        return (value, value.replace(",", "")) if "," in value else (value,)
    return world_aliases(_TABLE, fact.relation.target, value)
