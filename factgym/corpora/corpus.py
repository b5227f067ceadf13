"""Passages and corpora: the immutable, ordered sets of passages that indexes, tools and manifests share.

Copies of a corpus are the corpus itself, so branching an episode costs nothing; it pickles by value.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from factgym.core.errors import ConfigError, DataError, FactgymError, did_you_mean
from factgym.core.tasks import Immutable

_MAX_SUGGESTION_IDS = 2_000


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of evidence. id: unique in its corpus. title: the document, or the heading above the text."""

    id: str
    title: str
    text: str


class UnknownPassageError(FactgymError, LookupError):
    """No passage of the corpus has this id."""


class Corpus(Immutable):
    """Passages by id and in order. Raises `DataError` for a repeated id."""

    __slots__ = ("_by_id", "_fingerprint", "_passages", "_positions")

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages: Sequence[Passage] = tuple(passages)
        self._by_id = {passage.id: passage for passage in self._passages}
        self._fingerprint = ""
        self._positions: dict[str, int] = {}
        if len(self._by_id) != len(self._passages):
            counts = Counter(passage.id for passage in self._passages)
            repeated = next(id_ for id_, count in counts.items() if count > 1)
            raise DataError(f"two passages share the id {repeated!r}: ids are unique in a corpus")

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> Corpus:
        """Return `passages` as a corpus: itself when it already is one."""
        return passages if isinstance(passages, Corpus) else cls(passages)

    @property
    def passages(self) -> Sequence[Passage]:
        """The passages in order."""
        return self._passages

    @property
    def ids(self) -> Sequence[str]:
        """Their ids in order."""
        return tuple(passage.id for passage in self)

    def get(self, passage_id: str) -> Passage:
        """Return the passage with this id. Raises `UnknownPassageError`, which suggests the nearest id."""
        passage = self.find(passage_id)
        if passage is None:
            requested = str(passage_id)[:80]
            hint = did_you_mean(requested, (passage.id for passage in islice(self, _MAX_SUGGESTION_IDS)))
            raise UnknownPassageError(f"no passage {requested!r} in this corpus of {len(self):,}.{hint}")
        return passage

    def find(self, passage_id: object) -> Passage | None:
        """Return the passage with this id, None where there is none."""
        return self._by_id.get(passage_id)  # type: ignore[call-overload,no-any-return]  # any hashable key may be asked for

    def position(self, passage_id: str) -> int:
        """Return the position of a passage in the order of the corpus, -1 for an unknown id."""
        if not self._positions:
            self._positions = {passage.id: position for position, passage in enumerate(self)}
        return self._positions.get(passage_id, -1)

    def fingerprint(self) -> str:
        """SHA-256 in hex over ids, titles and texts in order; computed once."""
        if not self._fingerprint:
            digest = hashlib.sha256()
            for passage in self:
                digest.update(json.dumps([passage.id, passage.title, passage.text]).encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def __len__(self) -> int:
        return len(self._passages)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages)

    def __contains__(self, passage_id: object) -> bool:
        return self.find(passage_id) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} passages)"


def shards(corpus: Corpus, held_out: float, seed: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the ids into (training, held-out), each in corpus order, by a hash of seed and id.

    held_out: the share of held-out documents, above 0 and below 1. Whether a document is held out depends only on its
    id, the seed and the share: a larger share holds out the same documents and more. Raises ConfigError for a share out
    of range, or one that leaves a side empty.
    """
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out is a share above 0 and below 1, not {held_out!r}")
    # The first 8 bytes of a SHA-256 are a uniform number below 2^64.
    bound = int(held_out * 2**64)
    texts = {id_: f"factgym shard {seed} {id_}".encode("utf-8", "replace") for id_ in corpus.ids}
    numbers = {id_: int.from_bytes(hashlib.sha256(text).digest()[:8], "big") for id_, text in texts.items()}
    held_out_ids = tuple(id_ for id_, number in numbers.items() if number < bound)
    training_ids = tuple(id_ for id_, number in numbers.items() if number >= bound)
    if not held_out_ids or not training_ids:
        raise ConfigError(
            f"held_out={held_out!r} of {len(corpus):,} documents leaves {len(training_ids):,} to train on and"
            f" {len(held_out_ids):,} held out: both need some. Change the share or give more documents."
        )
    return training_ids, held_out_ids
