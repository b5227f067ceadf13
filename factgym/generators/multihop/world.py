"""A generated closed world: short documents about invented things, and questions of one to four hops over them.

    corpus, triples = world(seed=0, size=200, split="train")

Every fact stands in one sentence of one document, so the gold evidence of a question is one verbatim sentence for each
hop, in the order of the hops; each hop needs another document. All names are invented and every answer is drawn at
random, so that a question cannot be answered without its evidence. Splits share no name.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.datasets.base import Records
from factgym.datasets.multihop import Evidence, Triple
from factgym.generators.multihop.graph import HOPS, WORLD_SPLITS, Block, Chain, Fact, Thing, blocks
from factgym.generators.multihop.relations import DATE, NUMBER

SPLITS: Mapping[str, int] = MappingProxyType(dict(zip(WORLD_SPLITS, (400, 100, 100), strict=True)))
"""Split -> the size by default."""

MAX_SIZE = 5_000
"""The largest world; beyond it, short invented names run out."""

_VERSION = 1


class WorldTriples(Records[Triple]):
    """The questions of a generated world; question *i* depends on (seed, split, i) alone.

    Triples have `kind` "generated" and in `meta` the "path" of relations and the "subject" that the question names.
    """

    def __init__(self, seed: int, size: int, split: str) -> None:
        self.seed, self.split = seed, split
        self._places: dict[int, Evidence] = {}
        passages: list[Passage] = []
        triples: list[Triple] = []
        rng = random.Random(f"factgym multihop documents {_VERSION} {seed} {split}")
        for block in _some(seed, size, split):
            passages += (self._document(thing, rng) for thing in block.things)
            triples += [self._triple(chain, len(triples) + at) for at, chain in enumerate(block.chains)]
        self._records = tuple(triples[:size])
        self.corpus = Corpus(sorted(passages, key=lambda passage: passage.id))
        self._places.clear()

    def _document(self, thing: Thing, rng: random.Random) -> Passage:
        """The document about a thing: what it is, then its facts and a remark in random order."""
        id_ = _document_id(self.split, self.seed, thing.name)
        told: list[Fact | None] = [*thing.told, None]
        rng.shuffle(told)
        text = _upper(rng.choice(thing.kind.leads).format(s=thing.name))
        for fact in told:
            sentence = _upper(fact.statement) if fact else rng.choice(thing.kind.fillers)
            start = len(text) + 1
            text = f"{text} {sentence}"
            if fact:
                self._places[id(fact)] = Evidence(id_, start, len(text), sentence)
        return Passage(id_, thing.name, text)

    def _triple(self, chain: Chain, index: int) -> Triple:
        last = chain.facts[-1]
        return Triple(
            id=f"world-{self.split}-{self.seed}-{index:05d}",
            question=chain.question,
            answers=_answers(last),
            evidence=tuple(self._places[id(fact)] for fact in chain.facts),
            hops=len(chain.facts),
            benchmark="synthetic",
            kind="generated",
            meta={
                "subject": chain.facts[0].subject.name,
                "path": [fact.relation.name for fact in chain.facts],
            },
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.seed, len(self), self.split)

    def fingerprint(self) -> str:
        """SHA-256 in hex over version, seed, size and split."""
        record = f"factgym multihop world {_VERSION} {self.seed} {len(self)} {self.split}"
        return hashlib.sha256(record.encode()).hexdigest()


def world(seed: int = 0, size: int | None = None, split: str = "train") -> tuple[Corpus, WorldTriples]:
    """The documents and the questions of a world, made once a process.

    size: the number of questions, default that of `SPLITS`, at most `MAX_SIZE`; there are about 2.4 documents for each.
    Raises ConfigError for an unknown split or an impossible size.
    """
    if split not in SPLITS:
        raise ConfigError(f"unknown split {split!r:.80}; there are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}")
    if size is not None and not 1 <= size <= MAX_SIZE:
        raise ConfigError(f"size is the number of generated questions, from 1 to {MAX_SIZE:,}, not {size!r}")
    triples = _again(seed, size or SPLITS[split], split)
    return triples.corpus, triples


def _again(seed: int, size: int, split: str) -> WorldTriples:
    return shared(("multihop world", seed, size, split), lambda: WorldTriples(seed, size, split))


def _some(seed: int, size: int, split: str) -> Sequence[Block]:
    """The blocks that hold the first `size` questions."""
    growing = blocks(seed, split)
    return [next(growing) for _ in range(-(-size // len(HOPS)))]


def _document_id(split: str, seed: int, name: str) -> str:
    """An id that says nothing: documents of one question have no ids in common."""
    return "w" + hashlib.blake2b(f"{split} {seed} {name}".encode(), digest_size=5).hexdigest()


def _answers(fact: Fact) -> tuple[str, ...]:
    """The object and other ways to write it."""
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


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
