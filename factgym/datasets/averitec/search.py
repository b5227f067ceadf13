"""Search for one claim: over its own evidence or over everything, and only over what was there when it was made.

Evidence dated after the claim is passed over among the hits, not taken out of the index, so that one index serves
every claim; evidence without a known date stays (`url_date` says which dates are known). With `cache_dir` indexes
are kept on disk: the word scores of BM25, the passage vectors of a named encoder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.corpora.build import SMALL, build_index
from factgym.corpora.index import Index, check_request, index_fingerprint
from factgym.datasets.averitec.evidence import Evidence, EvidenceCorpus
from factgym.datasets.averitec.folder import KEEP, claim_name
from factgym.datasets.averitec.kept import KeptBm25
from factgym.datasets.averitec.recent import Recent
from factgym.datasets.averitec.stores import ClaimKey, KnowledgeStore
from factgym.datasets.averitec.vectors import dense_index

Scope = Literal["claim", "global"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

MAX_GLOBAL_PASSAGES = 2_000_000
"""A global index holds all passages in memory, a gigabyte or two of them at this number."""


_KEPT = ("bm25", "bm25s", "dense")
_ENCODING = ("dense", "hybrid")
"""Indexes that load a model: their options are checked when one is built, those of others at once."""


class Found(NamedTuple):
    """A piece of evidence and its score, which compares within one query only."""

    evidence: Evidence
    score: float


class _Searched(NamedTuple):
    corpus: EvidenceCorpus
    engine: Index


class EvidenceSearch(SharedByArguments):
    """Search in a store by claim.

    scope: "claim" for an index of each claim's own evidence, the `keep` used last held in memory; "global" for one
    over everything. A store in which all claims share their evidence has one index in either. index: the name of an
    index and options as of `factgym.corpora.build.build_index`, "bm25" by default. cache_dir: where indexes are kept,
    for "bm25", "bm25s", and "dense" with an encoder given by name; a corpus of `SMALL` passages or fewer is built
    sooner than read, and is not kept for "bm25". Immutable and safe under threads; indexes are built on first use.
    Raises ConfigError for unknown names, and for a global index over more than `max_global` passages.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        *,
        scope: Scope = "claim",
        index: str = "bm25",
        cache_dir: str | Path | None = None,
        keep: int = KEEP,
        max_global: int = MAX_GLOBAL_PASSAGES,
        **options: Any,
    ) -> None:
        if scope not in SCOPES:
            raise ConfigError(f"scope is 'claim' or 'global', not {scope!r}.{did_you_mean(str(scope), SCOPES)}")
        if cache_dir is not None and index not in _KEPT:
            raise ConfigError(f"cache_dir is for index={' or '.join(map(repr, _KEPT))}, not {index!r}")
        if index not in _ENCODING:
            build_index([], index, **options)
        self.store, self.scope, self.index = store, scope, index
        self._shared = scope == "global" or not store.per_claim
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._max_global = max_global
        self._options = options
        self._recent: Recent[_Searched] = Recent(1 if self._shared else keep)
        self._keep = keep

    def __reduce__(self) -> tuple[Any, ...]:
        fixed = {"scope": self.scope, "index": self.index, "cache_dir": self._cache_dir, "keep": self._keep}
        return _evidence_search, (self.store, {**fixed, "max_global": self._max_global, **self._options})

    def search(
        self, claim: ClaimKey, queries: Sequence[str], k: int = 3, *, before: dt.date | None = None
    ) -> list[list[Found]]:
        """At most `k` pieces of evidence for each query, best first, ties in the order of the store.

        before: the claim's date; evidence dated later is left out, that of the same day stays.
        """
        check_request(queries, k)
        corpus, engine = self._searched(claim)
        wanted = k
        while True:
            hits = engine.search(queries, wanted)
            found = [[Found(corpus.get(hit.id), hit.score) for hit in one] for one in hits]
            kept = [[one for one in row if _in_time(one.evidence, before)][:k] for row in found]
            settled = all(len(row) == k or len(all_) < wanted for row, all_ in zip(kept, found, strict=True))
            if settled or wanted >= len(corpus):
                return kept
            wanted = min(4 * wanted, len(corpus))

    def corpus(self, claim: ClaimKey) -> EvidenceCorpus:
        """What is searched for this claim, whatever the dates."""
        return self._searched(claim).corpus

    def fingerprint(self) -> str:
        """SHA-256 in hex over the store's fingerprint, scope, index and options; builds nothing."""
        options = {key: _plain(value) for key, value in self._options.items()}
        settings = {"scope": "global" if self._shared else "claim", "index": self.index, **options}
        return index_fingerprint("averitec-search", settings, [self.store.fingerprint()])

    def describe(self) -> dict[str, Any]:
        """The store's description with scope, index and fingerprint of the search: JSON data."""
        scope = "global" if self._shared else "claim"
        return {"store": self.store.describe(), "scope": scope, "index": self.index, "fingerprint": self.fingerprint()}

    def _searched(self, claim: ClaimKey) -> _Searched:
        if not self._shared:
            return self._recent.get(claim_name(claim), lambda: self._built(self.store.for_claim(claim)))
        if self.store.per_claim:
            return self._recent.get("", lambda: self._built(self._everything()))
        return self._recent.get("", lambda: self._built(self.store.for_claim(claim)))

    def _built(self, corpus: EvidenceCorpus) -> _Searched:
        if self.index == "dense":
            return _Searched(corpus, dense_index(corpus, self._cache_dir, **self._options))
        if self._cache_dir is not None and len(corpus) > (SMALL if self.index == "bm25" else 0):
            return _Searched(corpus, KeptBm25(corpus, self._cache_dir, **self._options))
        return _Searched(corpus, build_index(corpus, self.index, **self._options))

    def _everything(self) -> EvidenceCorpus:
        pieces = list(islice(self.store.passages(), self._max_global + 1))
        if len(pieces) > self._max_global:
            raise ConfigError(
                f"the store has more than {self._max_global:,} passages, which a global index would hold in memory: "
                "use scope='claim', or raise max_global"
            )
        return EvidenceCorpus(pieces)


def _in_time(evidence: Evidence, before: dt.date | None) -> bool:
    return before is None or evidence.date is None or evidence.date <= before


def _plain(value: Any) -> Any:
    """An option as a manifest can hold it: JSON scalars as they are, an encoder by its name, others by their type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    named = getattr(value, "name", None)
    return named if isinstance(named, str) else f"{type(value).__module__}.{type(value).__qualname__}"


def _evidence_search(store: KnowledgeStore, options: dict[str, Any]) -> EvidenceSearch:
    return EvidenceSearch(store, **options)
