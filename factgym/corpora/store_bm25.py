"""The BM25 index of a corpus on disk, memory-mapped: the scores and rankings of the index in memory, to the last bit.

The folder `bm25` of a corpus holds an index as bm25s saves it (`bm25s.BM25.load(folder, mmap=True, load_vocab=False)`
opens it), with a table of terms in place of the JSON vocabulary, which would have to be read whole:

    data.csc.index.npy      the score of each posting, by term (double precision)
    indices.csc.index.npy   the passage of each posting, ascending within a term
    indptr.csc.index.npy    the first posting of each term, and the number of all
    term_keys.npy           hashes of the terms, ascending: the order of the terms
    terms.txt, term_offsets.npy    the terms in UTF-8, and where each begins
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.bm25 import ANALYSER, K1, SMALL, B, Bm25Base, Bm25sIndex, SmallBM25, lucene_idf, top_positions
from factgym.corpora.cooccurrence.engine import LazyModule, core_count
from factgym.corpora.corpus import Corpus
from factgym.corpora.index import Hit, check_request
from factgym.corpora.mapped_files import equal_range, hash_key
from factgym.corpora.store import ENCODING_ERRORS, StoredCorpus
from factgym.text.words import query_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from factgym.corpora.mapped_files import MappedArray

INDEX = "bm25"
TERMS = f"{INDEX}/terms.txt"

COMPILED_FROM = 50_000
"""Passages from which it is worth loading numba, which takes a second and some fifty megabytes."""
COMPILED_HITS = 256
"""Hits up to which the kernels are used; they insert each into a sorted list."""

_MAX_BOUNDS = 1_000_000
"""Terms whose largest scores are kept in memory."""

_log = logging.getLogger(__name__)

kernels_module = LazyModule("factgym.corpora.store_kernels")


class StoredBm25(Bm25Base):
    """The BM25 index of a `StoredCorpus`; holds a number for each passage in memory. Pickles as the corpus's path.

    first, stop: only these positions of the corpus are searched, with the statistics of all. With numba the queries of a
    batch are shared out among the cores. Raises `DataError` where the index was made by another analyser, and when a
    damaged page is first needed.
    """

    __slots__ = (
        "_bounds",
        "_buffers",
        "_first",
        "_keys",
        "_offsets",
        "_passages",
        "_scores",
        "_slots",
        "_starts",
        "_stop",
        "_terms",
    )

    def __init__(self, corpus: StoredCorpus, first: int = 0, stop: int | None = None) -> None:
        self._first, self._stop = first, len(corpus) if stop is None else stop
        parameters = corpus.meta["bm25"]
        super().__init__(corpus, parameters["k1"], parameters["b"])
        if (analyser := corpus.meta["analyser"]) != ANALYSER:
            raise DataError(
                f"{corpus.path} was indexed with the analyser {analyser!r}; this factgym's is {ANALYSER!r}. "
                f"{corpus.folder.rebuild}"
            )
        self._keys, self._offsets, self._scores, self._passages, self._starts = (
            corpus.folder[f"{INDEX}/{name}.npy"]
            for name in ("term_keys", "term_offsets", "data.csc.index", "indices.csc.index", "indptr.csc.index")
        )
        self._terms: MappedArray = corpus.folder[TERMS]
        # Zeros and two arrays of scratch, each taken by one search at a time.
        self._buffers: list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]] = []
        self._slots = (os.getpid(), BoundedSemaphore(core_count()))
        self._bounds: dict[int, float] = {}
        if len(corpus) >= COMPILED_FROM:
            kernels_module.start()

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredBm25, (self._corpus, self._first, self._stop)

    def shard(self, first: int, stop: int) -> StoredBm25:
        """Return the index of the passages at positions `first` to `stop`, with the scores that they have among all."""
        return StoredBm25(self._corpus, first, stop)  # type: ignore[arg-type]  # it was made from a StoredCorpus

    def idf(self, term: str) -> float:
        """Return the weight of a term, above 0 for every term and largest for one that occurs nowhere."""
        start, stop = self._postings(term)
        return lucene_idf(stop - start, len(self._corpus))

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first, equal scores in the corpus's order."""
        check_request(queries, k)
        threads = 1 if kernels_module.module is None else min(len(queries), core_count())
        if threads < 2:
            return super().search(queries, k)
        with ThreadPoolExecutor(threads) as pool:  # the kernels release the interpreter's lock
            return list(pool.map(lambda query: self._search(query_terms(query), k), queries))

    def _search(self, words: list[str], k: int) -> list[Hit]:
        """Return the k best passages, term at a time: for each query term its posting list is added to the scores."""
        # Term-at-a-time, in the order of the query, as the engines in memory add up. No term has a passage twice, so
        # that the indexed addition is one for each posting.
        ranges = [bounds for word in words if (bounds := self._clip(*self._postings(word)))[0] < bounds[1]]
        if not ranges:
            return []
        if (kernels := kernels_module.module) is not None and k <= COMPILED_HITS:
            return self._search_compiled(kernels, ranges, k)
        scores = np.zeros(self._stop - self._first)
        for start, stop in ranges:
            scores[self._passages[start:stop] - np.int32(self._first)] += self._scores[start:stop]
        return [Hit(self._ids[self._first + i], float(scores[i])) for i in top_positions(scores, k)]

    def _search_compiled(self, kernels: Any, ranges: list[tuple[int, int]], k: int) -> list[Hit]:
        bounds = np.array([self._bound(start, stop) for start, stop in ranges])
        starts, stops = np.array(ranges, np.int64).T.copy()
        best, positions = np.zeros(k), np.zeros(k, np.int64)
        postings = self._passages.array, self._scores.array
        # More threads than cores would gain nothing, and hold a buffer each. After a fork the parent's threads are gone
        # with what they had taken.
        if self._slots[0] != os.getpid():
            self._slots = (os.getpid(), BoundedSemaphore(core_count()))
        with self._slots[1]:
            # An error on the way leaves a buffer with sums in it, which is not put back.
            length = self._stop - self._first
            buffer = (
                self._buffers.pop()
                if self._buffers
                else (np.zeros(length), np.empty(length, np.int64), np.empty(length))
            )
            kernels.search(*buffer, self._first, *postings, starts, stops, bounds, best, positions)
            self._buffers.append(buffer)
        return [
            Hit(self._ids[position], score)
            for position, score in zip(positions.tolist(), best.tolist(), strict=True)
            if score > 0
        ]

    def _bound(self, start: int, stop: int) -> float:
        """Return the largest score of a term's postings; their pages are sound afterwards."""
        if (bound := self._bounds.get(start)) is None:
            self._passages[start:stop]
            bound = float(self._scores[start:stop].max())
            if len(self._bounds) < _MAX_BOUNDS:
                self._bounds[start] = bound
        return bound

    def _clip(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of a term's postings that are of this shard, by bisection: passages ascend within a term."""
        if (self._first, self._stop) == (0, len(self._corpus)):
            return start, stop
        postings = range(start, stop)
        low, high = (
            bisect_left(postings, bound, key=lambda i: int(self._passages[i : i + 1][0]))
            for bound in (self._first, self._stop)
        )
        return start + low, start + high

    def _postings(self, term: str) -> tuple[int, int]:
        """Return the range of a term's postings, an empty one for an unknown term."""
        raw = term.encode("utf-8", ENCODING_ERRORS)
        for column in equal_range(self._keys, hash_key(raw)):
            start, end = self._offsets[column : column + 2].tolist()
            if self._terms[start:end].tobytes() == raw:
                first, last = self._starts[column : column + 2].tolist()
                return first, last
        return 0, 0


def build_bm25(corpus: Corpus, **options: float) -> Bm25Base:
    """Return the engine that suits the corpus: the saved index of one on disk, else one in memory by its size."""
    if (saved := _saved_index(corpus, options)) is not None:
        return saved
    return SmallBM25(corpus, **options) if len(corpus) <= SMALL else Bm25sIndex(corpus, **options)


def build_bm25s(corpus: Corpus, **options: float) -> Bm25Base:
    """Return the saved index of a corpus on disk, else bm25s in memory."""
    return _saved_index(corpus, options) or Bm25sIndex(corpus, **options)


def _saved_index(corpus: Corpus, options: Mapping[str, float]) -> StoredBm25 | None:
    """Return the saved index where it has the requested parameters; warns where one in memory is cheap.

    Raises ConfigError for other parameters of a corpus of `COMPILED_FROM` passages or more.
    """
    if not isinstance(corpus, StoredCorpus):
        return None
    parameters = corpus.meta["bm25"]
    requested = {"k1": K1, "b": B, **options}
    if all(parameters[name] == requested[name] for name in ("k1", "b")):
        return StoredBm25(corpus)
    flags = f"--k1 {requested['k1']} --b {requested['b']}"
    saved = f"{corpus.path} has BM25 with k1={parameters['k1']} and b={parameters['b']}"
    command = f"`factgym corpus build {corpus.path} NEW_FOLDER {flags}` writes it to disk"
    if len(corpus) >= COMPILED_FROM:
        raise ConfigError(f"{saved}, and another is too large to be built in every process: {command}")
    _log.warning("%s; another is built in memory now. %s", saved, command)
    return None


def saved_params(k1: float, b: float, passages: int) -> dict[str, Any]:
    """Return the parameters of the index as bm25s saves them."""
    import bm25s

    names = {"method": "lucene", "idf_method": "lucene", "dtype": "float64", "int_dtype": "int32", "backend": "numpy"}
    return {"k1": k1, "b": b, "delta": 0.5, **names, "num_docs": passages, "version": str(bm25s.__version__)}
