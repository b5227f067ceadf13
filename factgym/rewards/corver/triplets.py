"""Triplets, what finds them in sentences, and a cache around that.

An extractor turns sentences into lists of (head, relation, tail), in the order in which it found them. Which of them
counts is decided here: the first whose head and tail are neither empty nor a pronoun.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from factgym.core.errors import ConfigError, did_you_mean

_PRONOUNS = (
    "he him his she her hers it its they them their theirs we us our ours i me my mine you your yours this that these "
    "those who whom which himself herself itself themselves myself yourself there here someone something anyone "
    "anything everyone everything nobody nothing"
)
PRONOUNS = frozenset(_PRONOUNS.split())
"""A head or tail that is one of these makes a triplet invalid: nothing can be looked up for it."""


class Triplet(NamedTuple):
    """What a sentence says of two entities, in the sentence's own words."""

    head: str
    relation: str
    tail: str

    @property
    def valid(self) -> bool:
        """Whether head and tail are both neither empty nor a pronoun."""
        head, tail = self.head.strip().lower(), self.tail.strip().lower()
        return bool(head and tail) and head not in PRONOUNS and tail not in PRONOUNS


@runtime_checkable
class Extractor(Protocol):
    """Finds triplets. Must be deterministic: the same sentence gives the same triplets."""

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """The triplets of each sentence, in order; an empty list where there is none."""
        ...

    def describe(self) -> dict[str, Any]:
        """What a manifest should say of it: plain JSON data, equal for extractors that find the same."""
        ...


class CachedExtractor:
    """An extractor that remembers the last `size` sentences. Safe in threads; a copy starts empty."""

    def __init__(self, inner: Extractor, size: int) -> None:
        if type(size) is not int or size < 1:
            raise ConfigError(f"an extractor's cache holds at least 1 sentence, not {size!r:.80}")
        self.inner, self.size = inner, size
        self.hits = self.misses = 0
        self._found: OrderedDict[str, list[Triplet]] = OrderedDict()
        self._lock = threading.Lock()

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """The triplets of each sentence; the inner extractor sees each unknown sentence once."""
        answers: dict[str, list[Triplet]] = {}
        with self._lock:
            for one in dict.fromkeys(sentences):
                known = self._found.get(one)
                if known is not None:
                    self._found.move_to_end(one)
                    answers[one] = known
            self.hits += len(answers)
        missing = [one for one in dict.fromkeys(sentences) if one not in answers]
        if missing:
            answers.update(zip(missing, self.inner.extract(missing), strict=True))
            self._remember({one: answers[one] for one in missing})
        return [list(answers[one]) for one in sentences]

    def _remember(self, found: Mapping[str, list[Triplet]]) -> None:
        with self._lock:
            self.misses += len(found)
            self._found.update(found)
            while len(self._found) > self.size:
                self._found.popitem(last=False)

    def describe(self) -> dict[str, Any]:
        """As the inner extractor: a cache changes nothing that is found."""
        return self.inner.describe()

    def __reduce__(self) -> tuple[type[CachedExtractor], tuple[Extractor, int]]:
        return CachedExtractor, (self.inner, self.size)


def cached_extractor(inner: Extractor, size: int = 65_536) -> CachedExtractor:
    """The extractor with a cache of `size` sentences around it; a cached one comes back as it is."""
    return inner if isinstance(inner, CachedExtractor) else CachedExtractor(inner, size)


def find_extractor(which: str | Extractor) -> Extractor:
    """An extractor by name: "rule" (built in), "quco:PATH" (the published model in a folder), or an object as it is.

    The model is loaded when it is first used. Raises ConfigError for anything else.
    """
    from factgym.rewards.corver.model_extractor import ModelExtractor
    from factgym.rewards.corver.rule_extractor import RuleExtractor

    if not isinstance(which, str):
        if isinstance(which, Extractor):
            return which
        raise ConfigError(f"an extractor has extract(sentences) and describe(), which {which!r:.80} has not")
    kind, _, path = which.partition(":")
    if kind == "rule" and not path:
        return RuleExtractor()
    if kind == "quco" and path:
        return cached_extractor(ModelExtractor(path))
    hint = did_you_mean(which, ("rule", "quco:PATH"))
    raise ConfigError(f"there is no extractor {which!r:.80}.{hint} Use 'rule', 'quco:PATH', or an object.")
