"""Retrieval indexes: the protocol, how one is built by name or from a user's object, and the checks of a user's hits.

    build_index(passages)                                        BM25
    build_index(passages, "dense", encoder="./my-e5", preset="e5")
    build_index(passages, "hybrid", encoder="./my-e5")           BM25 and dense, fused
    build_index(passages, "rerank", reranker="./my-reranker")    BM25's first hits, reordered by a cross-encoder
    build_index(passages, "late", model="./my-colbert")          late interaction, a vector for each token
    build_index(passages, "multi-hop")                           BM25 again with facts of its first hits, after Baleen
    build_index(passages, "http://127.0.0.1:8000")               a retrieval server over the same passages
    build_index(passages, my_index)                              anything with search(queries, k)
    build_index(passages, lambda passages: MyIndex(passages))

A user's index is never trusted: the shape of its results and the ids are checked, so that a mistake is reported where it
happens and not as a strange reward.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import Immutable
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.http_client import POSTGRES, is_remote, server_address
from factgym.corpora.retrieved import RetrievedCorpus


class Hit(NamedTuple):
    """One retrieved passage: its id and its score (higher is better; comparable within one query only)."""

    id: str
    score: float


@runtime_checkable
class Index(Protocol):
    """Batch-first search. Returns at most `k` hits per query, best first, ties in corpus order."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of each query, in the order of the queries."""
        ...


@runtime_checkable
class FingerprintedIndex(Index, Protocol):
    """An index with a digest of everything its rankings depend on, for manifests (every index of this package)."""

    def fingerprint(self) -> str:
        """SHA-256 in hex."""
        ...


IndexChoice = str | Index | Callable[[Sequence[Passage]], Index]


class _Kind(NamedTuple):
    """A named index: the function that builds it, as `module:function`, and the options it takes.

    base: the index in which it searches where its option `base` names none; it takes the options of its base too.
    """

    builder: str
    options: frozenset[str]
    base: str | None = None


_BM25_OPTIONS = frozenset({"k1", "b"})
_DENSE_OPTIONS = frozenset({"encoder", "preset", "device", "batch_size", "vectors", "exact", "search_device"})
_FUSION_OPTIONS = frozenset({"indexes", "constant", "depth"})
_RERANK_OPTIONS = frozenset({"base", "reranker", "depth", "device", "batch_size"})
_LATE_OPTIONS = frozenset({"base", "model", "depth", "device", "batch_size"})
_HOP_OPTIONS = frozenset({"base", "hops", "facts", "reads"})
_REMOTE = _Kind("factgym.corpora.remote:RemoteIndex", frozenset({"timeout", "retry_seconds", "connections"}))
_POSTGRES = _Kind(
    "factgym.corpora.postgres:PostgresIndex",
    frozenset({"encoder", "preset", "device", "batch_size", "timeout", "retry_seconds"}),
)

# Builders are named, not imported: the engines import this module, and an index loads only the libraries that it needs.
_KINDS: Mapping[str, _Kind] = {
    "bm25": _Kind("factgym.corpora.store_bm25:build_bm25", _BM25_OPTIONS),
    "bm25s": _Kind("factgym.corpora.store_bm25:build_bm25s", _BM25_OPTIONS),
    "dense": _Kind("factgym.corpora.stored_dense:build_dense", _DENSE_OPTIONS),
    "hybrid": _Kind("factgym.corpora.index:build_hybrid", _FUSION_OPTIONS | _BM25_OPTIONS | _DENSE_OPTIONS),
    "rerank": _Kind("factgym.corpora.rerank:build_rerank", _RERANK_OPTIONS, base="bm25"),
    "late": _Kind("factgym.corpora.late:build_late", _LATE_OPTIONS),
    "multi-hop": _Kind("factgym.corpora.multi_hop:build_multi_hop", _HOP_OPTIONS, base="bm25"),
}


def build_index(passages: Iterable[Passage], index: IndexChoice = "bm25", **options: Any) -> Index:
    """Return the index that `index` names or makes, over `passages`.

    index: "bm25", "bm25s" (options k1, b), "dense" (encoder: a model name, folder or object with `encode`, or an
    `Encoder`; preset; device; batch_size; vectors), "hybrid" (indexes: names or objects, by default ("bm25", "dense");
    constant; depth; and the options of its parts), "rerank" (base: a name or object, by default "bm25"; reranker: a
    cross-encoder's name, folder or object with `predict`, or a `Reranker`; depth; device; batch_size; and the options
    of its base), "late" (model: a name, folder or object, or a `LateEncoder`; base, by default none; depth; device;
    batch_size; and the options of its base), "multi-hop" (base; hops; facts; reads; and the options of its base), the
    URL of a retrieval server over the same passages (timeout, retry_seconds, connections), that of a table in
    PostgreSQL (`factgym.corpora.postgres`; encoder, preset, device, batch_size, timeout, retry_seconds), an object with
    `search(queries, k)`, or a callable from passages to such an object. Raises `ConfigError` for anything else,
    `MissingExtraError` when a library is absent.
    """
    check_index(index, **options)
    corpus = Corpus.of(passages)
    if isinstance(corpus, RetrievedCorpus) and isinstance(index, str) and not _is_elsewhere(index, options):
        raise ConfigError(f"the passages of {corpus!r} are not here to be indexed: give its server or object as index")
    if isinstance(index, str):
        module, _, name = kind_of(index).builder.partition(":")
        arguments = (corpus, index) if is_remote(index) else (corpus,)
        built: Index = getattr(importlib.import_module(module), name)(*arguments, **options)
        return built
    if isinstance(index, type) or not isinstance(index, Index):
        result = index(corpus.passages)
        if not isinstance(result, Index) or isinstance(result, type):
            raise ConfigError(f"the callable given as index returned {type(result).__name__}: {_expected(result)}")
        return CheckedIndex(result, corpus)
    return CheckedIndex(index, corpus)


def check_index(index: IndexChoice, **options: Any) -> None:
    """Raise `ConfigError` for an unknown name or option, or for something that is no index."""
    if isinstance(index, str):
        accepted = accepted_options(index, options)
        for option in options:
            if option not in accepted:
                raise ConfigError(
                    f"index {index!r} has no option {option!r} (known: {', '.join(sorted(accepted))})."
                    f"{did_you_mean(option, accepted)}"
                )
    elif options:
        raise ConfigError(f"options {sorted(options)} go with an index named as a string; configure your own object")
    elif not callable(index) and not isinstance(index, Index):
        raise ConfigError(_expected(index))


def _is_elsewhere(index: str, options: Mapping[str, Any]) -> bool:
    """Whether the search needs no passages here: that of a server, or one in the hits of another index."""
    if is_remote(index):
        return True
    base = options.get("base", kind_of(index).base) if "base" in kind_of(index).options else None
    return _is_elsewhere(base, {}) if isinstance(base, str) else base is not None


def accepted_options(index: str, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of an index's options, those of the base among them that `options` names. Raises ConfigError."""
    kind = kind_of(index)
    base = options.get("base", kind.base) if "base" in kind.options else None
    return kind.options | (accepted_options(base, {}) if isinstance(base, str) else frozenset())


def kind_of(index: str) -> _Kind:
    """Return the kind of an index by its name or URL. Raises ConfigError for another text."""
    if index.startswith(POSTGRES):
        importlib.import_module("factgym.corpora.postgres").parse_address(index)
        return _POSTGRES
    if is_remote(index):
        server_address(index)
        return _REMOTE
    if index not in _KINDS:
        raise ConfigError(
            f"no index {index[:80]!r} (known: {', '.join(_KINDS)}, or a server's http://HOST:PORT or postgresql://USER@HOST/DATABASE)."
            f"{did_you_mean(index[:80], _KINDS)}"
        )
    return _KINDS[index]


def _expected(value: object) -> str:
    return (
        "index is a name, an object with search(queries: list[str], k: int) -> one list of (id, score) per query, or a"
        f" callable from passages to such an object; {type(value).__name__} has no search"
    )


def check_request(queries: Sequence[str], k: int) -> None:
    """Raise `ConfigError` for a bare string in place of a list of queries, and for a `k` below 1."""
    if isinstance(queries, str):
        raise ConfigError(f"search takes a list of queries: write search([{queries[:40]!r}], k), not a bare string")
    if k < 1:
        raise ConfigError(f"k is the number of hits requested, at least 1, not {k!r}")


def fingerprint_of(index: Index) -> str:
    """Return the fingerprint of a part of another index; a foreign index counts by its type."""
    return index.fingerprint() if isinstance(index, FingerprintedIndex) else type(index).__qualname__


def index_fingerprint(kind: str, settings: Mapping[str, object], parts: Sequence[str]) -> str:
    """Return a SHA-256 in hex over an index's kind, its settings (plain JSON data) and its parts' fingerprints."""
    return hashlib.sha256(json.dumps([kind, dict(sorted(settings.items())), list(parts)]).encode()).hexdigest()


class CheckedIndex(Immutable):
    """A user's index, `inner`, whose results are checked for shape, ids and scores."""

    def __init__(self, inner: Index, corpus: Corpus) -> None:
        self.inner = inner
        self._corpus = corpus

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of the inner index, whose pairs `(id, score)` become hits. Raises ConfigError for a fault."""
        check_request(queries, k)
        results: Any = self.inner.search(queries, k)
        name = f"{type(self.inner).__name__}.search"
        if not isinstance(results, list | tuple) or len(results) != len(queries):
            actual = f"{len(results)} lists" if isinstance(results, list | tuple) else type(results).__name__
            raise ConfigError(f"{name} gave {actual} for {len(queries)} queries: expected one list of hits for each")
        checked: list[list[Hit]] = []
        for hits in results:
            if not isinstance(hits, list | tuple) or len(hits) > k:
                actual = f"{len(hits)} hits" if isinstance(hits, list | tuple) else type(hits).__name__
                raise ConfigError(f"{name} gave {actual} where a list of at most k={k} hits is expected")
            by_id: dict[str, Hit] = {}
            for hit in map(partial(_checked_hit, name, self._corpus), hits):
                if not isinstance(self._corpus, RetrievedCorpus) and hit.id not in self._corpus:
                    raise ConfigError(f"{name} returned {hit.id[:80]!r}, which is no passage of this corpus")
                if hit.id in by_id:
                    raise ConfigError(f"{name} returned {hit.id[:80]!r} twice for one query")
                by_id[hit.id] = hit
            checked.append(list(by_id.values()))
        return checked

    def fingerprint(self) -> str:
        """The inner index's own fingerprint, or its type and the corpus where it has none."""
        if isinstance(self.inner, FingerprintedIndex):
            return self.inner.fingerprint()
        kind = type(self.inner)
        return f"{kind.__module__}.{kind.__qualname__}:{self._corpus.fingerprint()}"


def _checked_hit(name: str, corpus: Corpus, hit: Any) -> Hit:
    if isinstance(corpus, RetrievedCorpus):
        hit = _retrieved_hit(name, corpus, hit)
    if not isinstance(hit, list | tuple) or len(hit) != 2 or not isinstance(hit[0], str):
        raise ConfigError(f"{name} gave the hit {str(hit)[:80]!r}: expected a pair (passage id, score)")
    try:
        score = float(hit[1])
    except (TypeError, ValueError):
        score = math.nan
    if math.isnan(score):
        raise ConfigError(f"{name} gave the score {str(hit[1])[:40]!r}: expected a number")
    return Hit(hit[0], score)


def _retrieved_hit(name: str, corpus: RetrievedCorpus, hit: Any) -> tuple[str, Any]:
    """Return id and score of a hit that brings its document, which the corpus then holds. A bare document scores 0."""
    passage = corpus.add(hit.get("document", hit) if isinstance(hit, Mapping) else None)
    if passage is None:
        raise ConfigError(
            f'{name} gave the hit {str(hit)[:80]!r}: expected {{"document": {{"id": …, "contents": …}}, "score": …}}, as '
            "its passages are not here"
        )
    return passage.id, hit.get("score", 0.0)


# Fusion.

CONSTANT = 60
"""The paper's constant; larger ones make lower ranks count more."""

DEPTH = 100
"""Hits requested from each index; a passage below that rank everywhere is not returned."""


class HybridIndex(Immutable):
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009) of indexes over the same passages.

        score(d) = sum over the indexes that returned d of 1 / (constant + rank of d there), ranks from 1

    It uses ranks alone, so indexes whose scores mean different things (BM25, cosine) need no calibration. Ties fall in
    corpus order.
    """

    def __init__(
        self, passages: Iterable[Passage], indexes: Sequence[Index], *, constant: float = CONSTANT, depth: int = DEPTH
    ) -> None:
        if not indexes or constant < 0 or depth < 1:
            raise ConfigError("a hybrid index needs at least one index, constant >= 0 and depth >= 1")
        self._corpus = Corpus.of(passages)
        self._indexes = tuple(indexes)
        self.constant = constant
        self.depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first, with their fused score."""
        check_request(queries, k)
        results = []
        for rankings in zip(*(index.search(queries, max(k, self.depth)) for index in self._indexes), strict=True):
            scores: dict[str, float] = {}
            for ranking in rankings:
                for rank, hit in enumerate(ranking, start=1):
                    scores[hit.id] = scores.get(hit.id, 0.0) + 1.0 / (self.constant + rank)
            # Positions may be read from disk: they are needed of the entries from the k-th score on alone.
            lowest = sorted(scores.values(), reverse=True)[:k][-1:] or [0.0]
            ranked = sorted(
                (entry for entry in scores.items() if entry[1] >= lowest[0]),
                key=lambda entry: (-entry[1], self._corpus.position(entry[0])),
            )
            results.append([Hit(passage_id, score) for passage_id, score in ranked[:k]])
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over constant, depth and the fused indexes; a foreign index counts by its type."""
        parts = map(fingerprint_of, self._indexes)
        settings = {"constant": self.constant, "depth": self.depth}
        return index_fingerprint("hybrid", settings, [self._corpus.fingerprint(), *parts])


def build_hybrid(corpus: Corpus, indexes: Sequence[IndexChoice] = ("bm25", "dense"), **options: Any) -> HybridIndex:
    """Build the parts, each with those of the options that it takes, and fuse them. Raises ConfigError."""
    if isinstance(indexes, str):
        raise ConfigError(f"indexes is a list of index names or objects, not the string {indexes!r}")
    fusion = {key: options.pop(key) for key in ("constant", "depth") if key in options}
    parts = []
    used: set[str] = set()
    for part in indexes:
        is_named = isinstance(part, str) and (part in _KINDS or is_remote(part)) and part != "hybrid"
        accepted = accepted_options(str(part), {}) if is_named else frozenset[str]()
        used |= accepted
        parts.append(build_index(corpus, part, **{key: value for key, value in options.items() if key in accepted}))
    if unused := sorted(set(options) - used):
        raise ConfigError(f"options {unused} belong to no index among {list(indexes)!r}")
    return HybridIndex(corpus, parts, **fusion)
