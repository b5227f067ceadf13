"""Reranking: a cross-encoder reads the query with each candidate of another index, and orders them anew.

    build_index(passages, "rerank", reranker="./my-reranker")                  the first 50 of BM25
    build_index(passages, "rerank", base="hybrid", encoder="./my-e5", depth=100)

The model is any `CrossEncoder` of sentence-transformers with a single score for a pair, or an object with
`predict(pairs)`. Retrieve and rerank with BERT: Nogueira and Cho, 2019 (arXiv:1901.04085).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.tasks import Immutable, shared
from factgym.corpora.corpus import Corpus
from factgym.corpora.dense import SCORE_DIGITS, encoder_name
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
from factgym.corpora.text import MAX_QUERY_CHARS

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


class Reranker(Immutable):
    """A model that scores pairs of query and passage. Safe under threads.

    model: a name or folder that `CrossEncoder` loads, whose score is the logit, or an object with `predict(pairs)`. A
    named model pickles as its name and is loaded again where it arrives. Raises `MissingExtraError` without the extra
    "dense", `ConfigError` for a model that is absent or does not score pairs.
    """

    def __init__(
        self, model: str | Path | PairScorer = MODEL, *, device: str | None = None, batch_size: int = 32
    ) -> None:
        check_number("batch_size", batch_size)
        self.source: str | PairScorer = str(model) if isinstance(model, str | Path) else model
        self.device = device
        self.batch_size = batch_size
        self._lock = threading.Lock()
        self._predict: Any = self._load() if isinstance(self.source, str) else getattr(model, "predict", None)
        if not callable(self._predict):
            raise ConfigError(
                f"reranker is a model name, a folder or an object with predict(pairs), not {model!r:.80}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        make: Any = shared_reranker if isinstance(self.source, str) else Reranker
        return partial(make, device=self.device, batch_size=self.batch_size), (self.source,)

    @cached_property
    def name(self) -> str:
        """The model in a fingerprint, see `encoder_name`."""
        source: Any = self.source
        return encoder_name(source)

    def scores(self, pairs: list[tuple[str, str]]) -> list[float]:
        """Return the score of each pair, rounded to `SCORE_DIGITS` decimals. Raises ConfigError for other results."""
        if not pairs:
            return []
        # Fast tokenizers are not safe under threads: a second one in the same tokenizer raises "Already borrowed".
        with self._lock:
            result = np.asarray(self._predict(pairs))
        if result.shape not in ((len(pairs),), (len(pairs), 1)) or result.dtype.kind not in "fiu":
            raise ConfigError(
                f"the reranker gave {result.dtype} of shape {result.shape} for {len(pairs)} pairs: expected one number each"
            )
        values = result.astype(np.float64).reshape(-1)
        if not np.isfinite(values).all():
            raise ConfigError("the reranker gave a score that is not finite")
        return [round(float(value), SCORE_DIGITS) for value in values]

    def _load(self) -> Any:
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingExtraError("a cross-encoder", "dense") from error
        try:
            model = CrossEncoder(str(self.source), device=self.device.split(",")[0] if self.device else None)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no reranker at {self.source!r}: name a folder or a hub model that is available"
                f" ({' '.join(str(error).split())[:200]})"
            ) from error
        from torch.nn import Identity

        architectures = getattr(model.config, "architectures", None) or []
        if any(name.endswith(_WITHOUT_HEAD) for name in architectures):
            raise ConfigError(f"{self.source!r} is {architectures[0]}, an encoder: a reranker is a cross-encoder")
        if model.config.num_labels != 1:
            raise ConfigError(
                f"{self.source!r} gives {model.config.num_labels} scores for a pair: a reranker gives one"
            )
        # The logit itself: a sigmoid changes no order, but its rounded values would be equal near 0 and 1.
        return partial(model.predict, batch_size=self.batch_size, show_progress_bar=False, activation_fn=Identity())


def shared_reranker(model: str | Path = MODEL, *, device: str | None = None, batch_size: int = 32) -> Reranker:
    """Return the reranker of this model, loaded once in a process."""
    key = ("reranker", str(model), device, batch_size)
    return shared(key, lambda: Reranker(model, device=device, batch_size=batch_size))


class RerankIndex(Immutable):
    """The candidates of `base`, ordered by a reranker; ties fall in corpus order.

    base: an index over the same passages. depth: candidates of each query, more where more hits are requested. All pairs
    of a batch of queries are scored in one call.
    """

    def __init__(self, corpus: Corpus, base: Index, reranker: Reranker, *, depth: int = DEPTH) -> None:
        check_number("depth", depth)
        self._corpus = corpus
        self._base = base
        self._reranker = reranker
        self.depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first, with the reranker's score."""
        check_request(queries, k)
        candidates = self._base.search(queries, max(k, self.depth))
        ids = {hit.id for hits in candidates for hit in hits}
        passages = {id_: passage_text(self._corpus, id_) for id_ in ids}
        # A pair that several queries of the batch share is scored once.
        pairs = dict.fromkeys(
            (readable(query, MAX_QUERY_CHARS), passages[hit.id])
            for query, hits in zip(queries, candidates, strict=True)
            for hit in hits
        )
        scores = dict(zip(pairs, self._reranker.scores(list(pairs)), strict=True))
        results = []
        for query, hits in zip(queries, candidates, strict=True):
            text = readable(query, MAX_QUERY_CHARS)
            scored = [Hit(hit.id, scores[text, passages[hit.id]]) for hit in hits]
            scored.sort(key=lambda hit: (-hit.score, self._corpus.position(hit.id)))
            results.append(scored[:k])
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, base, depth and reranker (a local model folder counts by its content)."""
        settings = {"depth": self.depth, "reranker": self._reranker.name}
        return index_fingerprint("rerank", settings, [self._corpus.fingerprint(), fingerprint_of(self._base)])


def check_number(name: str, value: object) -> None:
    """Raise `ConfigError` for an option that is no whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} is a whole number, at least 1, not {value!r:.40}")


def passage_text(corpus: Corpus, passage_id: str) -> str:
    """Return what a model reads of a passage: its title and text joined by a newline, within `MAX_PASSAGE_CHARS`."""
    passage = corpus.get(passage_id)
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
    if isinstance(reranker, str | Path):
        model = shared_reranker(reranker, **{key: options[key] for key in ("device", "batch_size") if key in options})
    else:
        model = reranker if isinstance(reranker, Reranker) else Reranker(reranker)
    accepted = accepted_options(base, {}) if isinstance(base, str) else frozenset[str]()
    own = {key: value for key, value in options.items() if key in accepted}
    return RerankIndex(corpus, build_index(corpus, base, **own), model, depth=depth)
