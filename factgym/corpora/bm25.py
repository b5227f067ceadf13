"""BM25 with Lucene's idf: one scoring, two engines.

    score(q, d) = sum over the terms t of q (repeats count) of
                  ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * |d| / avgdl))

A passage is its title and its text. `SmallBM25` is plain Python for an episode's own handful of passages, where any
library's call costs more than the search; `Bm25sIndex` is bm25s on NumPy for everything larger. Both compute in
double precision in the same order, so they give the same scores to the last bit, and ties fall in corpus order.
A passage that shares no term with the query is never a hit. Both are immutable and safe under threads.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import Hit, check_request, index_fingerprint
from factgym.text.words import query_terms, terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

SharedT = TypeVar("SharedT", bound=tuple[Any, ...])

K1 = 1.5
B = 0.75
SMALL = 512
"""Passages up to which "bm25" means `SmallBM25`; above it `Bm25sIndex`. Scores and rankings are the same."""

ANALYSER = "nfkc-lower-en1"
"""Names the behaviour of `text.terms` in fingerprints; changes whenever its output does."""


def passage_terms(passage: Passage) -> list[str]:
    """Return the terms that BM25 indexes of a passage: those of title and text."""
    return terms(f"{passage.title}\n{passage.text}")


def check_parameters(k1: float, b: float) -> None:
    """Raise `ConfigError` for parameters out of range."""
    if k1 < 0 or not 0 <= b <= 1:
        raise ConfigError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, not k1={k1!r}, b={b!r}")


class Bm25Base(Immutable, ABC):
    """Parameters, search and fingerprint, which all engines share, as their scores are the same."""

    __slots__ = ("_corpus", "_ids", "b", "k1")

    def __init__(self, passages: Iterable[Passage], k1: float, b: float) -> None:
        check_parameters(k1, b)
        self._corpus = Corpus.of(passages)
        self._ids = self._corpus.ids
        self.k1, self.b = k1, b

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first; see the module for the score and the order of ties."""
        check_request(queries, k)
        return [self._search(query_terms(query), k) for query in queries]

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, parameters and analyser."""
        settings = {"k1": self.k1, "b": self.b, "analyser": ANALYSER}
        return index_fingerprint("bm25", settings, [self._corpus.fingerprint()])

    @abstractmethod
    def _search(self, words: list[str], k: int) -> list[Hit]: ...


class SmallBM25(Bm25Base):
    """BM25 in pure Python, for up to some hundred passages: microseconds to search, nothing to import."""

    __slots__ = ("_idf", "_norms", "_postings")

    def __init__(self, passages: Iterable[Passage], *, k1: float = K1, b: float = B) -> None:
        super().__init__(passages, k1, b)
        counts = [Counter(passage_terms(passage)) for passage in self._corpus.passages]
        lengths = [count.total() for count in counts]
        average = sum(lengths) / len(lengths) if lengths else 0.0
        self._norms = [k1 * ((1 - b) + b * length / average) if average else 0.0 for length in lengths]
        self._idf = [lucene_idf(frequency, len(lengths)) for frequency in range(len(lengths) + 1)]
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for i, count in enumerate(counts):
            for word, tf in count.items():
                postings[word].append((i, tf))
        self._postings = {sys.intern(word): share(tuple(posting)) for word, posting in postings.items()}

    def idf(self, term: str) -> float:
        """Return the weight of a term, above 0 for every term and largest for one that occurs nowhere."""
        return self._idf[len(self._postings.get(term, ()))]

    def _search(self, words: list[str], k: int) -> list[Hit]:
        # Term-at-a-time scoring (Turtle and Flood, 1995): a repeated term is added again, in the order of the query, so
        # that both engines round alike.
        postings, norms = self._postings, self._norms
        scores = [0.0] * len(norms)
        for word in words:
            if posting := postings.get(word):
                idf = self._idf[len(posting)]
                for i, tf in posting:
                    scores[i] += idf * (tf / (norms[i] + tf))
        # A sort keeps the order of ties, which is that of the corpus.
        ranked = sorted([i for i, score in enumerate(scores) if score], key=scores.__getitem__, reverse=True)
        ids = self._ids
        return [Hit(ids[i], scores[i]) for i in ranked[:k]]


@lru_cache(maxsize=4096)
def share(values: SharedT) -> SharedT:
    """Return the tuple itself, or an equal one that was shared before.

    Thousands of small indexes then hold the same few objects, which take less memory and stay in the processor's cache.
    """
    return values


@lru_cache(maxsize=4096)
def lucene_idf(frequency: int, total: int) -> float:
    """Return Lucene's idf of a term that `frequency` of `total` passages hold."""
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


class Bm25sIndex(Bm25Base):
    """The same BM25 by bm25s (scores computed at build time, NumPy), for hundreds to millions of passages."""

    __slots__ = ("_engine", "_vocabulary")

    def __init__(self, passages: Iterable[Passage], *, k1: float = K1, b: float = B) -> None:
        super().__init__(passages, k1, b)
        import bm25s

        vocabulary: dict[str, int] = {}
        rows = [
            [vocabulary.setdefault(word, len(vocabulary)) for word in passage_terms(passage)]
            for passage in self._corpus
        ]
        self._vocabulary = vocabulary
        self._engine: Any = None
        if vocabulary:
            self._engine = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64", backend="numpy")
            self._engine.index((rows, vocabulary), create_empty_token=False, show_progress=False)

    def idf(self, term: str) -> float:
        """Return the weight of a term, above 0 for every term and largest for one that occurs nowhere."""
        column = self._vocabulary.get(term)
        bounds = None if column is None else self._engine.scores["indptr"][column : column + 2]
        return lucene_idf(0 if bounds is None else int(bounds[1] - bounds[0]), len(self._ids))

    def _search(self, words: list[str], k: int) -> list[Hit]:
        columns = [self._vocabulary[word] for word in words if word in self._vocabulary]
        if not columns:
            return []
        scores: NDArray[np.float64] = self._engine.get_scores_from_ids(columns)
        return [Hit(self._ids[i], float(scores[i])) for i in top_positions(scores, k)]


_BLOCK = 512
"""Passages whose largest score is compared first."""


def top_positions(scores: NDArray[np.float64], k: int) -> list[int]:
    """Return the positions of the `k` largest scores above 0, equal ones in order of position also across the cut."""
    # The k-th largest of the blocks' maxima bounds the k-th largest score from below, in one pass over the scores.
    blocks = len(scores) // _BLOCK
    bound = 0.0
    if 0 < k <= blocks:
        maxima = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        bound = float(np.partition(maxima, -k)[-k])
    candidates = np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)
    values = scores[candidates]
    # Selection by partition (quickselect) instead of a sort; of those level with the k-th score the first are taken.
    if k < len(values):
        least = np.partition(values, -k)[-k]
        above = np.flatnonzero(values > least)
        level = np.flatnonzero(values == least)[: k - len(above)]
        chosen = np.sort(np.concatenate([above, level]))
        candidates, values = candidates[chosen], values[chosen]
    return [int(i) for i in candidates[np.argsort(-values, kind="stable")]]
