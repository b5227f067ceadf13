"""A corpus: an immutable, ordered set of passages that indexes, tools and manifests share.

Copies of a corpus are the corpus itself, so branching an episode costs nothing; it pickles by value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from factgym.core.errors import DataError, FactgymError, did_you_mean
from factgym.core.shared import SharedByArguments
from factgym.corpora.claims import Passage

_SUGGEST_FROM = 2_000


class UnknownPassageError(FactgymError, LookupError):
    """No passage of the corpus has this id."""


class Corpus(SharedByArguments):
    """Passages by id and in order. Raises `DataError` for a repeated id."""

    __slots__ = ("_by_id", "_fingerprint", "_passages")

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages = tuple(passages)
        self._by_id = {passage.id: passage for passage in self._passages}
        self._fingerprint = ""
        if len(self._by_id) != len(self._passages):
            raise DataError(
                f"two passages share the id {_first_repeated(self._passages)!r}: ids are unique in a corpus"
            )

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> Corpus:
        """`passages` as a corpus: itself when it already is one."""
        return passages if isinstance(passages, Corpus) else cls(passages)

    @property
    def passages(self) -> Sequence[Passage]:
        """The passages in order."""
        return self._passages

    @property
    def ids(self) -> tuple[str, ...]:
        """Their ids in order."""
        return tuple(self._by_id)

    def get(self, passage_id: str) -> Passage:
        """The passage of this id; raises `UnknownPassageError`, which suggests the nearest id."""
        try:
            return self._by_id[passage_id]
        except KeyError:
            shown = str(passage_id)[:80]
            hint = did_you_mean(shown, islice(self._by_id, _SUGGEST_FROM))
            raise UnknownPassageError(f"no passage {shown!r} in this corpus of {len(self)}.{hint}") from None

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
        return passage_id in self._by_id

    def __repr__(self) -> str:
        return f"Corpus({len(self)} passages)"


def _first_repeated(passages: Iterable[Passage]) -> str:
    seen: set[str] = set()
    return next(p.id for p in passages if p.id in seen or seen.add(p.id))  # type: ignore[func-returns-value]
