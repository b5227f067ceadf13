"""Questions about the generated world. Of a fixed world, question *i* of a split depends on (seed, split, i) alone.

Every four questions ask for one fact of each tier of popularity, in an order of their own. Splits share no subject;
"ood" asks about kinds of subjects that the others never ask about.
"""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, overload

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.datasets.questions import Question
from factgym.generators.questions.world import TIERS, Fact, question_world

SPLITS: Mapping[str, int] = MappingProxyType({"train": 2000, "validation": 400, "test": 400, "ood": 400})
"""Sizes by default, which are the largest as well."""

_VERSION = 1
_TIERS = tuple(TIERS)


class GeneratedQuestions(SharedByArguments, Sequence[Question]):
    """A split of the questions about the world of a seed. A smaller set is a prefix of a larger one.

    popularity is the number of sentences of the world's corpus that state the fact. `meta` holds "relation", "kind",
    "subject", "tier" and "statement", a sentence that states the fact. Raises ConfigError for an unknown split, or a
    size below 1 or above the split's.
    """

    def __init__(self, split: str = "train", *, seed: int = 0, size: int | None = None) -> None:
        if split not in SPLITS:
            raise ConfigError(f"unknown split {split!r}; there are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}")
        if size is not None and not 1 <= size <= SPLITS[split]:
            raise ConfigError(f"the generated world has 1 to {SPLITS[split]} questions for {split}, not {size!r}")
        self.split, self.seed = split, seed
        self.world = question_world(seed)
        self._size = size or SPLITS[split]
        self._facts = {tier: self.world.asked(split, tier) for tier in _TIERS}

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Question, ...]: ...
    def __getitem__(self, index: int | slice) -> Question | tuple[Question, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(self._size)))
        at = operator.index(index)
        at += self._size if at < 0 else 0
        if not 0 <= at < self._size:
            raise IndexError(f"question {index} of {self._size}")
        return self._make(at)

    def fact(self, at: int) -> Fact:
        """The fact that question `at` asks for."""
        return self._facts[self._tier(at)][at // len(_TIERS)]

    def _tier(self, at: int) -> str:
        block, place = divmod(at, len(_TIERS))
        order = list(_TIERS)
        random.Random(f"factgym question tiers {self.seed} {self.split} {block}").shuffle(order)
        return order[place]

    def _make(self, at: int) -> Question:
        rng = random.Random(f"factgym question {_VERSION} {self.seed} {self.split} {at}")
        fact = self.fact(at)
        meta: dict[str, Any] = {
            "relation": fact.relation.name,
            "kind": fact.relation.name,
            "subject": fact.subject,
            "tier": self._tier(at),
            "statement": fact.state(),
        }
        asked = fact.ask(rng.randrange(len(fact.relation.questions)))
        id_ = f"corver-{self.split}-{self.seed}-{at:05d}"
        return Question(id_, asked, fact.aliases, "synthetic", float(fact.statements), meta)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.split, self.seed, self._size)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the versions, split, seed and size."""
        record = f"factgym questions {_VERSION} {self.world.fingerprint()} {self.split} {self.seed} {self._size}"
        return hashlib.sha256(record.encode()).hexdigest()


def _again(split: str, seed: int, size: int) -> GeneratedQuestions:
    return GeneratedQuestions(split, seed=seed, size=size)
