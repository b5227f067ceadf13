"""Late interaction: a vector for each token, and the sum over the query's tokens of the best match in the passage.

    build_index(passages, "late", model="./my-colbert")                             every passage is compared
    build_index(passages, "late", model="./my-colbert", base="bm25", depth=100)     the first 100 of BM25 are

    score(q, d) = sum over the tokens i of q of the maximum over the tokens j of d of q_i · d_j

ColBERT (Khattab and Zaharia, SIGIR 2020). The models are those of PyLate and ColBERT, which `MultiVectorEncoder` of
sentence-transformers 6 loads with their prefixes, projection and masks.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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
from factgym.corpora.rerank import DEPTH, check_number, passage_text, readable
from factgym.corpora.text import MAX_QUERY_CHARS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MODEL = "lightonai/GTE-ModernColBERT-v1"
"""The model that is loaded where none is named."""

MAX_VECTOR_BYTES = 8 << 30
"""Vectors of a corpus that are held in memory, four bytes a number: some 100,000 passages of 100 words."""

_ENCODED = 1024
"""Passages that are encoded in one call."""

_COMPARED = 256
"""Passages whose similarities are held at a time."""


class TokenEncoder(Protocol):
    """The methods of `MultiVectorEncoder` that are used: for each text an array of shape (tokens, dimension)."""

    def encode_query(self, texts: list[str], **options: Any) -> Any:
        """options: batch_size, show_progress_bar and convert_to_numpy."""
        ...

    def encode_document(self, texts: list[str], **options: Any) -> Any:
        """As `encode_query`."""
        ...


class LateEncoder(Immutable):
    """A model that gives a vector for each token. Safe under threads.

    model: a name or folder that `MultiVectorEncoder` loads, or an object with its `encode_query` and `encode_document`. A
    named model pickles as its name. Raises `MissingExtraError` without the extra "late-interaction", `ConfigError` for a
    model that is absent or was not trained for late interaction.
    """

    def __init__(
        self, model: str | Path | TokenEncoder = MODEL, *, device: str | None = None, batch_size: int = 32
    ) -> None:
        check_number("batch_size", batch_size)
        self.source: str | TokenEncoder = str(model) if isinstance(model, str | Path) else model
        self.device = device
        self.batch_size = batch_size
        self._lock = threading.Lock()
        self._model: Any = self._load() if isinstance(self.source, str) else self.source
        if not all(callable(getattr(self._model, name, None)) for name in ("encode_query", "encode_document")):
            raise ConfigError(
                f"model is a name, a folder or an object with encode_query and encode_document, not {model!r:.80}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        make: Any = shared_late_encoder if isinstance(self.source, str) else LateEncoder
        return partial(make, device=self.device, batch_size=self.batch_size), (self.source,)

    @cached_property
    def name(self) -> str:
        """The model in a fingerprint, see `encoder_name`."""
        source: Any = self.source
        return encoder_name(source)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """Return an array of shape (tokens, dimension) for each query."""
        return self._encode(self._model.encode_query, [readable(text, MAX_QUERY_CHARS) for text in texts])

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """Return an array of shape (tokens, dimension) for each passage."""
        return self._encode(self._model.encode_document, list(texts))

    def _encode(self, encode: Any, texts: list[str]) -> list[Vectors]:
        if not texts:
            return []
        # Fast tokenizers are not safe under threads: a second one in the same tokenizer raises "Already borrowed".
        with self._lock:
            result = encode(texts, batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True)
        rows = [np.asarray(row, dtype=np.float32) for row in result]
        if len(rows) != len(texts) or any(row.ndim != 2 for row in rows):
            shapes = [row.shape for row in rows[:3]]
            raise ConfigError(f"the model gave {len(rows)} arrays of shapes {shapes} … for {len(texts)} texts")
        # A text without tokens scores 0.
        return [row if len(row) else np.zeros((1, row.shape[1]), np.float32) for row in rows]

    def _load(self) -> Any:
        try:
            from sentence_transformers import MultiVectorEncoder
        except ImportError as error:
            raise MissingExtraError("index='late'", "late-interaction") from error
        try:
            with _messages() as messages:
                model = MultiVectorEncoder(str(self.source), device=self.device.split(",")[0] if self.device else None)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"no model at {self.source!r}: name a folder or a hub model that is available"
                f" ({' '.join(str(error).split())[:200]})"
            ) from error
        # The library adds a random projection to a model that has none, and says so in a message alone.
        if any("randomly-initialised" in text for text in messages):
            raise ConfigError(
                f"{self.source!r} was not trained for late interaction: name a model of PyLate or ColBERT"
            )
        return model


@contextlib.contextmanager
def _messages() -> Iterator[list[str]]:
    """Give the list of what the library logs about the loading of a model, none of which is shown."""
    texts: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("sentence_transformers.multi_vector_encoder.model")
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def shared_late_encoder(model: str | Path = MODEL, *, device: str | None = None, batch_size: int = 32) -> LateEncoder:
    """Return the encoder of this model, loaded once in a process."""
    key = ("late encoder", str(model), device, batch_size)
    return shared(key, lambda: LateEncoder(model, device=device, batch_size=batch_size))


class LateIndex(Immutable):
    """Search by late interaction: over all passages, whose vectors it holds, or over the candidates of a base.

    Scores are rounded to `SCORE_DIGITS` decimals and equal ones fall in corpus order. base: an index over the same
    passages, whose candidates are encoded for each batch of queries; depth: their number, more where more hits are
    requested. Raises ConfigError for a corpus whose vectors take more than `MAX_VECTOR_BYTES`.
    """

    def __init__(self, corpus: Corpus, encoder: LateEncoder, base: Index | None = None, *, depth: int = DEPTH) -> None:
        check_number("depth", depth)
        self._corpus = corpus
        self._encoder = encoder
        self._base = base
        self.depth = depth
        self._vectors: list[Vectors] = []
        if base is None:
            self._ids = corpus.ids
            size = 0
            for rows in self._encoded(self._ids):
                size += sum(row.nbytes for row in rows)
                if size > MAX_VECTOR_BYTES:
                    raise ConfigError(
                        f"the token vectors of {len(corpus):,} passages need more than {MAX_VECTOR_BYTES >> 30} GiB: name a"
                        " base, such as base='bm25', whose candidates are compared"
                    )
                self._vectors += rows

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first; none for a blank query."""
        check_request(queries, k)
        nonblank = [i for i, query in enumerate(queries) if query.strip()]
        results: list[list[Hit]] = [[] for _ in queries]
        vectors = self._encoder.queries([queries[i] for i in nonblank])
        if self._base is None:
            for i, query in zip(nonblank, vectors, strict=True):
                scores = np.round(maxsim(query, self._vectors).astype(np.float64), SCORE_DIGITS)
                order = np.argsort(-scores, kind="stable")[:k]
                results[i] = [Hit(self._ids[row], float(scores[row])) for row in order]
            return results
        candidates = self._base.search([queries[i] for i in nonblank], max(k, self.depth))
        ids = list(dict.fromkeys(hit.id for hits in candidates for hit in hits))
        passages: Mapping[str, Vectors] = dict(
            zip(ids, (row for rows in self._encoded(ids) for row in rows), strict=True)
        )
        for i, query, hits in zip(nonblank, vectors, candidates, strict=True):
            values = maxsim(query, [passages[hit.id] for hit in hits])
            scored = [Hit(hit.id, round(float(value), SCORE_DIGITS)) for hit, value in zip(hits, values, strict=True)]
            results[i] = sorted(scored, key=lambda hit: (-hit.score, self._corpus.position(hit.id)))[:k]
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, base, depth and model (a local model folder counts by its content)."""
        settings = {"model": self._encoder.name, "depth": None if self._base is None else self.depth}
        base = [] if self._base is None else [fingerprint_of(self._base)]
        return index_fingerprint("late", settings, [self._corpus.fingerprint(), *base])

    def _encoded(self, ids: Sequence[str]) -> Iterator[list[Vectors]]:
        for start in range(0, len(ids), _ENCODED):
            yield self._encoder.passages([passage_text(self._corpus, id_) for id_ in ids[start : start + _ENCODED]])


def maxsim(query: Vectors, passages: Sequence[Vectors]) -> Vectors:
    """Return the score of each passage for a query; arrays of shape (tokens, dimension), of at least one token."""
    scores = np.zeros(len(passages), np.float32)
    for start in range(0, len(passages), _COMPARED):
        block = passages[start : start + _COMPARED]
        # The late interaction of ColBERT (Khattab and Zaharia, 2020): for each query token its most similar passage
        # token.
        # All tokens of the block side by side: the maximum of each passage's range, then the sum over the query's.
        similarities = query @ np.concatenate(block).T
        starts = np.cumsum([0, *(len(vectors) for vectors in block[:-1])])
        scores[start : start + len(block)] = np.maximum.reduceat(similarities, starts, axis=1).sum(axis=0)
    return scores


def build_late(
    corpus: Corpus,
    base: IndexChoice | None = None,
    model: str | Path | TokenEncoder | LateEncoder = MODEL,
    depth: int = DEPTH,
    **options: Any,
) -> LateIndex:
    """Build the base with those of the options that it takes; device and batch_size are the model's too."""
    if isinstance(model, str | Path):
        encoder = shared_late_encoder(
            model, **{key: options[key] for key in ("device", "batch_size") if key in options}
        )
    else:
        encoder = model if isinstance(model, LateEncoder) else LateEncoder(model)
    accepted = accepted_options(base, {}) if isinstance(base, str) else frozenset[str]()
    own = {key: value for key, value in options.items() if key in accepted}
    return LateIndex(corpus, encoder, None if base is None else build_index(corpus, base, **own), depth=depth)
