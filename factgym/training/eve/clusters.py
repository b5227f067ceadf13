"""Clusters of a corpus for the selector: embeddings of passages, mini-batch k-means, and the nearest centroids.

The paper's embeddings are E5's (`Encoder(preset="e5")`, extra "dense"). Without a model they are hashed TF-IDF,
projected on its leading singular directions (latent semantic analysis), which keeps topics apart and runs anywhere.
Labels follow from the centroids alone, so a saved selector holds no labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.corpora.corpus import Passage
from factgym.text.words import terms

if TYPE_CHECKING:
    from factgym.corpora.dense import Encoder

Vectors = NDArray[np.floating[Any]]

DIMENSIONS = 128
_HASH_FEATURES = 1 << 15
_BLOCK_ROWS = 1 << 14


def corpus_embeddings(passages: Iterable[Passage], encoder: Encoder | None = None) -> NDArray[np.float32]:
    """Unit vectors of passages (title and text), shape (passages, D). encoder: None for `text_embeddings`."""
    if encoder is not None:
        return encoder.passages(list(passages))
    return text_embeddings([f"{passage.title}\n{passage.text}" for passage in passages])


def text_embeddings(texts: Sequence[str], *, dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """Unit vectors of texts without a model (latent semantic analysis), shape (texts, min(dimensions, texts)).

    A text without a word has the zero vector. Deterministic in the texts and their order. Raises ConfigError for no
    text, MissingExtraError without the extra "selector".
    """
    if not texts or dimensions < 1:
        raise ConfigError("text_embeddings needs at least one text and one dimension")
    try:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("an embedding without a model", "selector") from error
    hashed = HashingVectorizer(analyzer=terms, n_features=_HASH_FEATURES, alternate_sign=False, norm=None)
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(hashed.transform(texts))
    components = min(dimensions, len(texts))
    # One thread: sums in another order would round differently.
    with threadpool_limits(limits=1):
        singular_vectors, singular_values, _ = randomized_svd(tfidf, n_components=components, n_iter=3, random_state=0)
    projected = singular_vectors * singular_values
    norms = np.linalg.norm(projected, axis=1, keepdims=True)
    unit = np.where(norms > 1e-9, projected / np.maximum(norms, 1e-9), 0.0)
    return np.ascontiguousarray(unit, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Clusters:
    """K clusters of N documents. centroids: (K, D). labels: the cluster of each document, (N,). distances: Euclidean,
    of each document to its centroid, (N,)."""

    centroids: NDArray[np.float64]
    labels: NDArray[np.int64]
    distances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.centroids)

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The rows of each cluster's documents, ascending; empty for an empty cluster."""
        order = np.argsort(self.labels, kind="stable")
        ends = np.cumsum(np.bincount(self.labels, minlength=len(self)))
        return np.split(order, ends[:-1])

    @classmethod
    def of(cls, vectors: Vectors, centroids: NDArray[np.float64]) -> Clusters:
        """Assign vectors, shape (N, D), to their nearest centroids."""
        return cls(centroids, *nearest(vectors, centroids))


def cluster(vectors: Vectors, count: int, *, seed: int) -> Clusters:
    """`count` clusters, at most as many as vectors, by scikit-learn's mini-batch k-means (Sculley 2010).

    Deterministic in vectors, count and seed, for any number of threads. Raises `MissingExtraError` without the extra
    "selector".
    """
    try:
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("the corpus selector", "selector") from error
    model = MiniBatchKMeans(n_clusters=min(count, len(vectors)), random_state=seed, n_init=3, compute_labels=False)
    with threadpool_limits(limits=1):
        model.fit(vectors)
    return Clusters.of(vectors, np.asarray(model.cluster_centers_, dtype=np.float64))


def nearest(vectors: Vectors, centroids: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest centroid of each vector, the first of equals, and the Euclidean distance to it."""
    labels = np.empty(len(vectors), dtype=np.int64)
    distances = np.empty(len(vectors))
    end = 0
    for block in blocks(vectors):
        start, end = end, end + len(block)
        # |v - c|² = |v|² - 2 v·c + |c|², and |v|² does not change the order of the centroids.
        indices = (-2.0 * block @ centroids.T + (centroids**2).sum(axis=1)).argmin(axis=1)
        labels[start:end] = indices
        distances[start:end] = np.sqrt(((block - centroids[indices]) ** 2).sum(axis=1))
    return labels, distances


def blocks(vectors: Vectors) -> Iterator[NDArray[np.float64]]:
    """Iterate over the vectors in blocks: they may be memory-mapped and larger than the memory."""
    for start in range(0, len(vectors), _BLOCK_ROWS):
        yield np.asarray(vectors[start : start + _BLOCK_ROWS], dtype=np.float64)
