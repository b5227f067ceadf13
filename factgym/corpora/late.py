"""Late interaction: a vector for each token, and the sum over the query's tokens of the best match in the passage.

    build_index(passages, "late", model="./my-colbert")                             every passage is compared
    build_index(passages, "late", model="./my-colbert", base="bm25", depth=100)     the first 100 of BM25 are

    score(q, d) = sum over the tokens i of q of the maximum over the tokens j of d of q_i · d_j

ColBERT (Khattab and Zaharia, SIGIR 2020). The models are those of PyLate and ColBERT, which `MultiVectorEncoder` of
sentence-transformers 6 loads with their prefixes, projection and masks. The vectors of passages have half precision,
wherever they are: `factgym corpus encode CORPUS --late` writes them into a corpus's folder, which processes then share;
otherwise a process computes them and holds them in memory.

    CORPUS/late/vectors.npy      shape (tokens, dimension), all passages in corpus order
    CORPUS/late/starts.npy       the first token of each passage, and the number of all tokens
    CORPUS/late/manifest.json    model, dimension, the corpus's fingerprint; `factgym.corpora.mapped_files`
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.corpus import Corpus
from factgym.corpora.dense import SCORE_DIGITS, SentenceModel, VectorIndex, best_positions, check_number
from factgym.corpora.index import Index, IndexChoice, index_fingerprint
from factgym.corpora.rerank import DEPTH, RerankIndex, build_base, passage_text, readable
from factgym.corpora.store import StoredCorpus
from factgym.corpora.stored_dense import VectorFolder, check_encoder, has_vectors, open_vectors, stored_source
from factgym.text.words import MAX_QUERY_CHARS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factgym.corpora.corpus import Passage
    from factgym.corpora.mapped_files import MappedArray

    Vectors = NDArray[np.float32]
    Rows = NDArray[np.float16]

MODEL = "lightonai/GTE-ModernColBERT-v1"
"""The model that is loaded where none is named."""

MAX_VECTOR_BYTES = 8 << 30
"""Vectors of a corpus that are held in memory, two bytes a number: some 200,000 passages of 100 words."""

STARTS = "starts.npy"

_ENCODED = 1024
"""Passages that are encoded in one call."""

_COMPARED = 256
"""Passages that are compared at a time."""
_SIMILARITIES = 1 << 24
"""Similarities of tokens that are held at a time, four bytes each; more where a passage is longer."""


class TokenEncoder(Protocol):
    """The methods of `MultiVectorEncoder` that are used: for each text an array of shape (tokens, dimension)."""

    def encode_query(self, texts: list[str], **options: Any) -> Any:
        """options: batch_size, show_progress_bar and convert_to_numpy."""
        ...

    def encode_document(self, texts: list[str], **options: Any) -> Any:
        """As `encode_query`."""
        ...


class LateEncoder(SentenceModel):
    """A model that gives a vector for each token.

    model: a name or folder that `MultiVectorEncoder` loads, or an object with its `encode_query` and `encode_document`.
    """

    loader, option, extra = "MultiVectorEncoder", "model", "late-interaction"
    methods = ("encode_query", "encode_document")

    def __init__(
        self, model: str | Path | TokenEncoder = MODEL, *, device: str | None = None, batch_size: int = 32
    ) -> None:
        super().__init__(model, device=device, batch_size=batch_size)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """Return an array of shape (tokens, dimension) for each query."""
        return self._encode(self._model.encode_query, [readable(text, MAX_QUERY_CHARS) for text in texts])

    def passages(self, passages: Iterable[Passage]) -> list[Rows]:
        """Return an array of shape (tokens, dimension) for each passage. Raises DataError beyond half precision."""
        rows = self._encode(self._model.encode_document, list(map(passage_text, passages)), **self._encode_options())
        with np.errstate(over="ignore"):
            halves = [row.astype("<f2") for row in rows]
        if not all(np.isfinite(row).all() for row in halves):
            raise DataError(f"{self.name} gave vectors that half precision cannot hold: take a model that scales them")
        return halves

    def _encode(self, encode: Any, texts: list[str], **options: Any) -> list[Vectors]:
        """Return a matrix of token vectors for each text, in float32; a text without tokens has a zero row."""
        if not texts:
            return []
        options = {"batch_size": self.batch_size, "show_progress_bar": False, **options}
        with self._lock:
            result = encode(texts, convert_to_numpy=True, **options)
        rows = [np.asarray(row, dtype=np.float32) for row in result]
        if len(rows) != len(texts) or any(row.ndim != 2 for row in rows):
            shapes = [row.shape for row in rows[:3]]
            raise ConfigError(f"the model gave {len(rows)} arrays of shapes {shapes} … for {len(texts)} texts")
        # A text without tokens scores 0.
        return [row if len(row) else np.zeros((1, row.shape[1]), np.float32) for row in rows]

    def _load(self) -> Any:
        with _messages() as messages:
            model = super()._load()
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


class TokenVectors(NamedTuple):
    """The vectors of passages. starts: the first token of each and the number of all; values: the numbers, row after row.

    corpus: the one that has them in its folder, from which they are opened again where they are unpickled.
    """

    starts: NDArray[np.int64] | MappedArray
    values: Rows | MappedArray
    dimension: int
    corpus: StoredCorpus | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (TokenVectors, tuple(self)) if self.corpus is None else (open_token_vectors, (self.corpus,))

    def read(self, first: int, stop: int) -> tuple[Rows, NDArray[np.int64]]:
        """Return the rows of the passages `first` to `stop`, and where each passage begins in them."""
        starts = self.starts[first : stop + 1]
        values = self.values[int(starts[0]) * self.dimension : int(starts[-1]) * self.dimension]
        return values.reshape(-1, self.dimension), starts[:-1] - starts[0]


def npy_header(rows: int, dimension: int) -> bytes:
    """Return the beginning of an array file of shape (rows, dimension); its length does not depend on `rows`."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": (rows, dimension)})
    return file.getvalue()


LATE = VectorFolder(
    "late", "factgym-token-vectors", 1, "vectors.npy", npy_header, "factgym corpus encode {} --late --encoder NAME"
)


class LateIndex(VectorIndex):
    """Search by late interaction over all passages.

    vectors: of `LATE` in the corpus's folder; without them they are computed and held. first, stop: only these positions
    are searched. Scores are those of double precision over the half-precision rows, rounded to `SCORE_DIGITS` decimals;
    equal ones fall in corpus order. Raises ConfigError for a corpus whose vectors take more than `MAX_VECTOR_BYTES`.
    """

    def __init__(
        self,
        corpus: Corpus,
        encoder: LateEncoder,
        vectors: TokenVectors | None = None,
        *,
        first: int = 0,
        stop: int | None = None,
    ) -> None:
        super().__init__(corpus, encoder, first, stop)
        self._vectors = _encode_all(corpus, encoder) if vectors is None else vectors

    def __reduce__(self) -> tuple[Any, ...]:
        first, stop = self.range
        return partial(LateIndex, first=first, stop=stop), (self._corpus, self._encoder, self._vectors)

    def shard(self, first: int, stop: int) -> LateIndex:
        """Return the search of the passages at positions `first` to `stop`. Raises ConfigError for vectors in memory."""
        if self._vectors.corpus is None:
            raise ConfigError(f"the corpus has no token vectors: run `{LATE.command.format('CORPUS')}` first")
        return LateIndex(self._corpus, self._encoder, self._vectors, first=first, stop=stop)

    def search_vectors(self, queries: Sequence[Vectors], k: int) -> list[list[tuple[int, float]]]:
        """Return positions and scores by MaxSim (ColBERT): single precision with a bound, then exact rescoring."""
        first, stop = self.range
        results = []
        scores, errors = maxsim(queries, self._vectors, first, stop)
        for query, row, error in zip(queries, scores, errors, strict=True):
            # Single precision finds every passage that can be among the first k, double precision orders them.
            lowest = np.partition(row, -k)[-k] if k < len(row) else -np.inf
            positions = (first + np.flatnonzero(row >= lowest - 2 * error - 10**-SCORE_DIGITS)).tolist()
            exact = (exact_maxsim(query, self._vectors.read(p, p + 1)[0]) for p in positions)
            results.append(best_positions(exact, positions, k))
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus and model (a local model folder counts by its content)."""
        settings = {"model": self._encoder.name, "depth": None, "vectors": "float16"}
        return index_fingerprint("late", settings, [self._corpus.fingerprint()])


def _encode_all(corpus: Corpus, encoder: LateEncoder) -> TokenVectors:
    """Encode all passages into memory."""
    passages, rows, size = corpus.passages, list[Any](), 0
    for start in range(0, len(passages), _ENCODED):
        rows += encoder.passages(passages[start : start + _ENCODED])
        size += sum(row.nbytes for row in rows[start:])
        if size > MAX_VECTOR_BYTES:
            raise ConfigError(
                f"the token vectors of {len(corpus):,} passages need more than {MAX_VECTOR_BYTES >> 30} GiB of memory: run "
                f"`{LATE.command.format('CORPUS')}`, or name a base, such as base='bm25', whose candidates are compared"
            )
    starts = np.cumsum([0, *map(len, rows)])
    values = np.concatenate(rows).reshape(-1) if rows else np.empty(0, np.float16)
    return TokenVectors(starts, values, rows[0].shape[1] if rows else 1)


def open_token_vectors(corpus: Corpus) -> TokenVectors | None:
    """Map the token vectors beside a corpus on disk; None where there are none. Raises DataError as `open_vectors`."""
    if not isinstance(corpus, StoredCorpus) or not has_vectors(corpus, LATE):
        return None
    folder = open_vectors(corpus, LATE)
    dimension = int(folder.meta["dimension"])
    starts, values = folder[STARTS], folder[LATE.file]
    if len(starts) != len(corpus) + 1 or int(starts[len(corpus) : len(corpus) + 1][0]) * dimension != len(values):
        raise DataError(
            f"{folder.path} holds another number of vectors than its passages have tokens. {folder.rebuild}"
        )
    return TokenVectors(starts, values, dimension, corpus)


def maxsim(
    queries: Sequence[Vectors], vectors: TokenVectors, first: int, stop: int
) -> tuple[Vectors, NDArray[np.float64]]:
    """Return the scores of the passages `first` to `stop`, shape (queries, passages), and a bound of each query's error."""
    scores = np.zeros((len(queries), stop - first), np.float32)
    longest = 0.0
    for start in range(first, stop, _COMPARED):
        end = min(start + _COMPARED, stop)
        halves, starts = vectors.read(start, end)
        rows = halves.astype(np.float32)
        longest = max(longest, float(np.einsum("ij,ij->i", rows, rows).max()) ** 0.5)
        size = max(1, _SIMILARITIES // len(rows) // max(map(len, queries)))
        for i in range(0, len(queries), size):
            # The late interaction of ColBERT (Khattab and Zaharia, 2020): for each query token its most similar passage
            # token. All tokens of some passages and queries side by side: the maximum over each passage's rows, then the
            # sum over each query's columns.
            group = queries[i : i + size]
            best = np.maximum.reduceat(rows @ np.concatenate(group).T, starts, axis=0)
            columns = np.cumsum([0, *map(len, group[:-1])])
            scores[i : i + size, start - first : end - first] = np.add.reduceat(best, columns, axis=1).T
    # Of a dot product and a sum in single precision (Higham, Accuracy and Stability, 3.1), for rows of the greatest length.
    terms = [vectors.dimension + len(query) for query in queries]
    lengths = [float(np.linalg.norm(query.astype(np.float64), axis=1).sum()) for query in queries]
    return scores, np.multiply(terms, lengths) * longest * np.finfo(np.float32).eps


def exact_maxsim(query: Vectors, rows: Rows) -> float:
    """Return the score of a passage in double precision."""
    return float((query.astype(np.float64) @ rows.astype(np.float64).T).max(axis=1).sum())


class LateScorer:
    """Scores candidates of another index by their vectors on disk, or by those that are computed for each batch."""

    kind: ClassVar[str] = "late"
    option: ClassVar[str] = "model"

    def __init__(self, encoder: LateEncoder, vectors: TokenVectors | None = None) -> None:
        self._encoder, self._vectors = encoder, vectors

    @property
    def name(self) -> str:
        """The model."""
        return self._encoder.name

    def score(self, corpus: Corpus, queries: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the score of each candidate."""
        ids = list(dict.fromkeys(id_ for own in candidates for id_ in own))
        rows: dict[str, Rows] = {}
        for start in range(0, len(ids), _ENCODED):
            some = ids[start : start + _ENCODED]
            if self._vectors is None:
                rows |= zip(some, self._encoder.passages(map(corpus.get, some)), strict=True)
            else:
                positions = map(corpus.position, some)
                rows |= zip(some, (self._vectors.read(p, p + 1)[0] for p in positions), strict=True)
        encoded = self._encoder.queries(queries)
        return [[exact_maxsim(query, rows[id_]) for id_ in own] for query, own in zip(encoded, candidates, strict=True)]


def build_late(
    corpus: Corpus,
    base: IndexChoice | None = None,
    model: str | Path | TokenEncoder | LateEncoder | None = None,
    depth: int = DEPTH,
    **options: Any,
) -> Index:
    """Search the vectors beside a corpus on disk, or compute those of a corpus in memory or of the candidates of a base.

    model: by default that of the vectors on disk, else `MODEL`. The base takes those of the options that it knows; device
    and batch_size are the model's too.
    """
    check_number("depth", depth)
    vectors = open_token_vectors(corpus)
    if vectors is not None and isinstance(corpus, StoredCorpus):
        folder = open_vectors(corpus, LATE)
        if model is None:
            model, _ = stored_source(folder)
        source: Any = model.source if isinstance(model, LateEncoder) else model
        check_encoder(folder, str(source) if isinstance(source, Path) else source)
    encoder = LateEncoder.of(MODEL if model is None else model, options)
    if base is None:
        return LateIndex(corpus, encoder, vectors)
    return RerankIndex(corpus, build_base(corpus, base, options), LateScorer(encoder, vectors), depth=depth)
