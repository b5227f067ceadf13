"""Reranking: a cross-encoder reads the query with each candidate of another index, and orders them anew.

    build_index(passages, "rerank", reranker="./my-reranker")                  the first 50 of BM25
    build_index(passages, "rerank", base="hybrid", encoder="./my-e5", depth=100)

The model is any `CrossEncoder` of sentence-transformers with a single score for a pair, or an object with
`predict(pairs)`. Retrieve and rerank with BERT: Nogueira and Cho, 2019 (arXiv:1901.04085).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.dense import SCORE_DIGITS, SentenceModel, check_number
from factgym.corpora.index import (
    Hit,
    Index,
    IndexChoice,
    accepted_options,
    build_index,
    check_request,
    fingerprint_of,
    index_fingerprint,
)
from factgym.text.words import MAX_QUERY_CHARS

MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"
"""The model that is loaded where none is named."""

DEPTH = 50
"""Candidates of each query, or as many as are requested where that is more."""

MAX_PASSAGE_CHARS = 32_768
"""Characters of a passage that are read, title included; models read some hundred to some thousand tokens of them."""

_WITHOUT_HEAD = ("Model", "ForMaskedLM", "ForPreTraining")
"""Ends of the names of architectures that score no pairs: a head would be made of random numbers."""


class PairScorer(Protocol):
    """The method of `CrossEncoder` that is used: one score for each pair of query and passage, higher is better."""

    def predict(self, pairs: list[tuple[str, str]]) -> Any:
        """Array of shape (pairs,) or (pairs, 1)."""
        ...


class Reranker(SentenceModel):
    """A model that scores pairs of query and passage. A `Scorer`.

    model: a name or folder that `CrossEncoder` loads, whose score is the logit, or an object with `predict(pairs)`.
    """

    loader, option, methods = "CrossEncoder", "reranker", ("predict",)
    kind: ClassVar[str] = "rerank"

    def __init__(
        self, model: str | Path | PairScorer = MODEL, *, device: str | None = None, batch_size: int = 32
    ) -> None:
        super().__init__(model, device=device, batch_size=batch_size)

    def score(self, corpus: Corpus, queries: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the score of each candidate. All pairs of the batch are one call, each distinct one is scored once."""
        texts = {id_: passage_text(corpus.get(id_)) for ids in candidates for id_ in ids}
        pairs = [
            [(readable(query, MAX_QUERY_CHARS), texts[id_]) for id_ in ids]
            for query, ids in zip(queries, candidates, strict=True)
        ]
        distinct = list(dict.fromkeys(pair for own in pairs for pair in own))
        scores = dict(zip(distinct, self.scores(distinct), strict=True))
        return [[scores[pair] for pair in own] for own in pairs]

    def scores(self, pairs: list[tuple[str, str]]) -> list[float]:
        """Return the score of each pair. Raises ConfigError where the model gives something else."""
        if not pairs:
            return []
        with self._lock:
            result = np.asarray(self._model.predict(pairs, **self._options))
        if result.shape not in ((len(pairs),), (len(pairs), 1)) or result.dtype.kind not in "fiu":
            raise ConfigError(
                f"the reranker gave {result.dtype} of shape {result.shape} for {len(pairs)} pairs: expected one number each"
            )
        values = result.astype(np.float64).reshape(-1)
        if not np.isfinite(values).all():
            raise ConfigError("the reranker gave a score that is not finite")
        return values.tolist()

    @cached_property
    def _options(self) -> dict[str, Any]:
        if not isinstance(self.source, str):
            return {}
        from torch.nn import Identity

        # The logit itself: a sigmoid changes no order, but its rounded values would be equal near 0 and 1.
        return self._encode_options() | {"activation_fn": Identity()}

    def _load(self) -> Any:
        model = super()._load()
        architectures = getattr(model.config, "architectures", None) or []
        if any(name.endswith(_WITHOUT_HEAD) for name in architectures):
            raise ConfigError(f"{self.source!r} is {architectures[0]}, an encoder: a reranker is a cross-encoder")
        if model.config.num_labels != 1:
            raise ConfigError(
                f"{self.source!r} gives {model.config.num_labels} scores for a pair: a reranker gives one"
            )
        return model


class Scorer(Protocol):
    """A model that scores candidates of another index. kind, option, name: in the fingerprint of the ranking."""

    kind: ClassVar[str]
    option: ClassVar[str]

    @property
    def name(self) -> str:
        """The model."""
        ...

    def score(self, corpus: Corpus, queries: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the score of each candidate, an id of `corpus`, for its query."""
        ...


class RerankIndex(Immutable):
    """The candidates of `base`, ordered by a model; ties fall in corpus order.

    base: an index over the same passages. depth: candidates of each query, more where more hits are requested. Scores are
    rounded to `SCORE_DIGITS` decimals.
    """

    def __init__(self, corpus: Corpus, base: Index, scorer: Scorer, *, depth: int = DEPTH) -> None:
        check_number("depth", depth)
        self._corpus = corpus
        self._base = base
        self._scorer = scorer
        self.depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first, with the model's score."""
        check_request(queries, k)
        candidates = [[hit.id for hit in hits] for hits in self._base.search(queries, max(k, self.depth))]
        results = []
        for ids, scores in zip(candidates, self._scorer.score(self._corpus, queries, candidates), strict=True):
            scored = [Hit(id_, round(score, SCORE_DIGITS)) for id_, score in zip(ids, scores, strict=True)]
            results.append(sorted(scored, key=lambda hit: (-hit.score, self._corpus.position(hit.id)))[:k])
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, base, depth and model (a local model folder counts by its content)."""
        settings = {"depth": self.depth, self._scorer.option: self._scorer.name}
        return index_fingerprint(self._scorer.kind, settings, [self._corpus.fingerprint(), fingerprint_of(self._base)])


def passage_text(passage: Passage) -> str:
    """Return what a model reads of a passage: its title and text joined by a newline, within `MAX_PASSAGE_CHARS`."""
    return readable(f"{passage.title}\n{passage.text}".strip(), MAX_PASSAGE_CHARS)


def readable(text: str, limit: int) -> str:
    """Return the first `limit` characters without lone surrogates, which tokenizers refuse."""
    return text[:limit].encode("utf-8", "replace").decode()


def build_rerank(
    corpus: Corpus,
    base: IndexChoice = "bm25",
    reranker: str | Path | PairScorer | Reranker = MODEL,
    depth: int = DEPTH,
    **options: Any,
) -> RerankIndex:
    """Build the base with those of the options that it takes; device and batch_size are the reranker's too."""
    return RerankIndex(corpus, build_base(corpus, base, options), Reranker.of(reranker, options), depth=depth)


def build_base(corpus: Corpus, base: IndexChoice, options: Mapping[str, Any]) -> Index:
    """Build the index that gives candidates, with those of the options that it takes."""
    accepted = accepted_options(base, {}) if isinstance(base, str) else frozenset[str]()
    return build_index(corpus, base, **{key: value for key, value in options.items() if key in accepted})
