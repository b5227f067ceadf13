"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): one ranking out of several.

    score(d) = sum over the indexes that returned d of 1 / (constant + rank of d there), ranks from 1

It uses ranks alone, so indexes whose scores mean different things (BM25, cosine) need no calibration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import (
    FingerprintedIndex,
    Hit,
    Index,
    IndexChoice,
    build_index,
    check_request,
    index_fingerprint,
    index_options,
)

CONSTANT = 60
"""The paper's constant; larger ones make lower ranks count more."""

DEPTH = 100
"""Hits requested from each index; a passage below that rank everywhere is not returned."""


class HybridIndex(Immutable):
    """Fuses the rankings of `indexes` over the same passages. Ties fall in corpus order."""

    def __init__(
        self,
        passages: Iterable[Passage],
        indexes: Sequence[Index],
        *,
        constant: float = CONSTANT,
        depth: int = DEPTH,
    ) -> None:
        if not indexes or constant < 0 or depth < 1:
            raise ConfigError("a hybrid index needs at least one index, constant >= 0 and depth >= 1")
        self._corpus = Corpus.of(passages)
        self._order = {passage_id: i for i, passage_id in enumerate(self._corpus.ids)}
        self._indexes = tuple(indexes)
        self.constant = constant
        self.depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first, with their fused score."""
        check_request(queries, k)
        rankings = [index.search(queries, max(k, self.depth)) for index in self._indexes]
        return [self._fuse(of_query)[:k] for of_query in zip(*rankings, strict=True)]

    def fingerprint(self) -> str:
        """SHA-256 in hex over constant, depth and the fused indexes; a foreign index counts by its type."""
        parts = [
            index.fingerprint() if isinstance(index, FingerprintedIndex) else type(index).__qualname__
            for index in self._indexes
        ]
        settings = {"constant": self.constant, "depth": self.depth}
        return index_fingerprint("hybrid", settings, [self._corpus.fingerprint(), *parts])

    def _fuse(self, rankings: Iterable[Sequence[Hit]]) -> list[Hit]:
        scores: dict[str, float] = {}
        for ranking in rankings:
            for rank, hit in enumerate(ranking, start=1):
                scores[hit.id] = scores.get(hit.id, 0.0) + 1.0 / (self.constant + rank)
        ranked = sorted(scores.items(), key=lambda entry: (-entry[1], self._order[entry[0]]))
        return [Hit(passage_id, score) for passage_id, score in ranked]


def build_hybrid(corpus: Corpus, indexes: Sequence[IndexChoice] = ("bm25", "dense"), **options: Any) -> HybridIndex:
    """Build the parts, each with those of the options that it takes, and fuse them. Raises ConfigError."""
    if isinstance(indexes, str):
        raise ConfigError(f"indexes is a list of index names or objects, not the string {indexes!r}")
    fusion = {key: options.pop(key) for key in ("constant", "depth") if key in options}
    parts = []
    used: set[str] = set()
    for part in indexes:
        accepted = index_options(part) if isinstance(part, str) and part != "hybrid" else frozenset[str]()
        used |= accepted
        parts.append(build_index(corpus, part, **{key: value for key, value in options.items() if key in accepted}))
    if unused := sorted(set(options) - used):
        raise ConfigError(f"options {unused} belong to no index among {list(indexes)!r}")
    return HybridIndex(corpus, parts, **fusion)
