"""The one way to an index: by name, as the user's own object, or as a function that builds one.

    build_index(passages)                                        BM25
    build_index(passages, "dense", encoder="./my-e5", preset="e5")
    build_index(passages, "hybrid", encoder="./my-e5")           BM25 and dense, fused
    build_index(passages, my_index)                              anything with search(queries, k)
    build_index(passages, lambda passages: MyIndex(passages))

A user's index is used as it is, but never trusted: every answer is checked for shape and for ids of the corpus, so
that a slip is reported where it happens and not as a strange reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.corpora.bm25 import Bm25sIndex, RankBm25Index, SmallBM25
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.dense import DenseIndex, Encoder, shared_encoder
from factgym.corpora.hybrid import HybridIndex
from factgym.corpora.index import FingerprintedIndex, Hit, Index, check_request

SMALL = 512
"""Passages up to which "bm25" means `SmallBM25`; above it `Bm25sIndex`. Scores and rankings are the same."""

IndexChoice = str | Index | Callable[[Sequence[Passage]], Index]

_BM25_OPTIONS = frozenset({"k1", "b"})
_DENSE_OPTIONS = frozenset({"encoder", "preset", "device", "batch_size", "vectors"})
_HYBRID_OPTIONS = frozenset({"indexes", "constant", "depth"})


def build_index(passages: Sequence[Passage] | Corpus, index: IndexChoice = "bm25", **options: Any) -> Index:
    """The index that `index` means, over `passages`.

    index: "bm25", "bm25s", "rank-bm25" (options k1, b), "dense" (encoder: a model name, folder or object with
    `encode`, or an `Encoder`; preset; device; batch_size; vectors), "hybrid" (indexes: names or objects, by default
    ("bm25", "dense"); constant; depth; and the options of its parts), an object with `search(queries, k)`, or a
    callable from passages to such an object. Raises `ConfigError` for anything else, `MissingExtraError` when a
    library is absent.
    """
    check_index(index, **options)
    corpus = Corpus.of(passages)
    if isinstance(index, str):
        return _builders()[index][0](corpus, **options)
    if isinstance(index, Index) and not isinstance(index, type):
        return CheckedIndex(index, corpus)
    return CheckedIndex(_built(index, corpus), corpus)


def check_index(index: IndexChoice, **options: Any) -> None:
    """Raise `ConfigError` for what `build_index` does not know: a name, an option, or something that is no index."""
    if isinstance(index, str):
        _check_named(index, options)
    elif options:
        raise ConfigError(f"options {sorted(options)} go with an index named as a string; configure your own object")
    elif not callable(index) and not isinstance(index, Index):
        raise ConfigError(_expected(index))


def checked_search(index: Index, queries: Sequence[str], k: int, known: Container[str]) -> list[list[Hit]]:
    """`index.search(queries, k)` with its shape, ids and scores verified; raises `ConfigError` naming the fault.

    Pairs `(id, score)` are accepted for hits. known: the ids of the corpus.
    """
    check_request(queries, k)
    answer = index.search(queries, k)
    name = type(index).__name__
    if not isinstance(answer, list | tuple) or len(answer) != len(queries):
        got = f"{len(answer)} lists" if isinstance(answer, list | tuple) else type(answer).__name__
        raise ConfigError(f"{name}.search gave {got} for {len(queries)} queries: expected one list of hits for each")
    return [_checked_hits(name, hits, k, known) for hits in answer]


class CheckedIndex(SharedByArguments):
    """A user's index behind `checked_search`; `inner` is the object itself."""

    def __init__(self, inner: Index, corpus: Corpus) -> None:
        self.inner = inner
        self._corpus = corpus

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """What the inner index gives, verified."""
        return checked_search(self.inner, queries, k, self._corpus)

    def fingerprint(self) -> str:
        """The inner index's own fingerprint, or its type and the corpus where it has none."""
        if isinstance(self.inner, FingerprintedIndex):
            return self.inner.fingerprint()
        kind = type(self.inner)
        return f"{kind.__module__}.{kind.__qualname__}:{self._corpus.fingerprint()}"


def _check_named(name: str, options: Mapping[str, Any]) -> None:
    builders = _builders()
    if name not in builders:
        raise ConfigError(f"no index {name[:80]!r} (known: {', '.join(builders)}).{did_you_mean(name[:80], builders)}")
    accepted = builders[name][1]
    for option in options:
        if option not in accepted:
            known = ", ".join(sorted(accepted))
            raise ConfigError(
                f"index {name!r} has no option {option!r} (known: {known}).{did_you_mean(option, accepted)}"
            )


def _builders() -> dict[str, tuple[Callable[..., Index], frozenset[str]]]:
    """Name -> what builds it, and the options that it takes."""
    return {
        "bm25": (_bm25, _BM25_OPTIONS),
        "bm25s": (Bm25sIndex, _BM25_OPTIONS),
        "rank-bm25": (RankBm25Index, _BM25_OPTIONS),
        "dense": (_dense, _DENSE_OPTIONS),
        "hybrid": (_hybrid, _HYBRID_OPTIONS | _BM25_OPTIONS | _DENSE_OPTIONS),
    }


def _bm25(corpus: Corpus, **options: float) -> Index:
    return SmallBM25(corpus, **options) if len(corpus) <= SMALL else Bm25sIndex(corpus, **options)


def _dense(corpus: Corpus, encoder: Any = None, vectors: Any = None, **options: Any) -> Index:
    if isinstance(encoder, Encoder):
        if options:
            raise ConfigError(f"options {sorted(options)} belong to the Encoder that was given")
        return DenseIndex(corpus, encoder, vectors=vectors)
    named = encoder is None or isinstance(encoder, str) or hasattr(encoder, "__fspath__")
    ready = shared_encoder(encoder, **options) if named else Encoder(encoder, **options)
    return DenseIndex(corpus, ready, vectors=vectors)


def _hybrid(corpus: Corpus, indexes: Sequence[IndexChoice] = ("bm25", "dense"), **options: Any) -> Index:
    if isinstance(indexes, str):
        raise ConfigError(f"indexes is a list of index names or objects, not the string {indexes!r}")
    fusion = {key: options.pop(key) for key in ("constant", "depth") if key in options}
    wanted = {"dense": _DENSE_OPTIONS, "hybrid": frozenset[str]()}
    parts = []
    used: set[str] = set()
    for part in indexes:
        accepted = wanted.get(part, _BM25_OPTIONS) if isinstance(part, str) else frozenset[str]()
        used |= accepted
        parts.append(build_index(corpus, part, **{key: value for key, value in options.items() if key in accepted}))
    if unused := sorted(set(options) - used):
        raise ConfigError(f"options {unused} belong to no index among {list(indexes)!r}")
    return HybridIndex(corpus, parts, **fusion)


def _built(factory: Callable[[Sequence[Passage]], Index], corpus: Corpus) -> Index:
    made = factory(corpus.passages)
    if not isinstance(made, Index) or isinstance(made, type):
        raise ConfigError(f"the callable given as index returned {type(made).__name__}: {_expected(made)}")
    return made


def _expected(found: object) -> str:
    return (
        "index is a name, an object with search(queries: list[str], k: int) -> one list of (id, score) per query, or a"
        f" callable from passages to such an object; {type(found).__name__} has no search"
    )


def _checked_hits(name: str, hits: Any, k: int, known: Container[str]) -> list[Hit]:
    if not isinstance(hits, list | tuple) or len(hits) > k:
        got = f"{len(hits)} hits" if isinstance(hits, list | tuple) else type(hits).__name__
        raise ConfigError(f"{name}.search gave {got} where a list of at most k={k} hits is expected")
    checked: dict[str, Hit] = {}
    for hit in hits:
        if not isinstance(hit, list | tuple) or len(hit) != 2 or not isinstance(hit[0], str):
            raise ConfigError(f"{name}.search gave the hit {str(hit)[:80]!r}: expected a pair (passage id, score)")
        if hit[0] not in known:
            raise ConfigError(f"{name}.search found {hit[0][:80]!r}, which is no passage of this corpus")
        if hit[0] in checked:
            raise ConfigError(f"{name}.search found {hit[0][:80]!r} twice for one query")
        checked[hit[0]] = Hit(hit[0], _score(name, hit[1]))
    return list(checked.values())


def _score(name: str, score: Any) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        raise ConfigError(f"{name}.search gave the score {str(score)[:40]!r}: expected a number")
    return value
