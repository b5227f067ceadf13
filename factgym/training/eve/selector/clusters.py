"""Clusters of a corpus: centroids from mini-batch k-means, the nearest one of every document, and its distance.

The labels follow from the centroids alone, so that a saved selector needs to keep no label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import MissingExtraError

Vectors = NDArray[np.floating[Any]]

_ROWS = 1 << 14


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
        """The clusters that these centroids make of the vectors, shape (N, D)."""
        labels, distances = nearest(vectors, centroids)
        return cls(centroids, labels, distances)


def cluster(vectors: Vectors, count: int, *, seed: int) -> Clusters:
    """`count` clusters, no more than there are vectors, by scikit-learn's mini-batch k-means.

    The same for the same vectors, count and seed, whatever the number of threads. Raises `MissingExtraError` without
    the extra "selector".
    """
    try:
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("the corpus selector", "selector") from error
    count = min(count, len(vectors))
    model = MiniBatchKMeans(n_clusters=count, random_state=seed, n_init=3, compute_labels=False)
    with threadpool_limits(limits=1):
        model.fit(vectors)
    return Clusters.of(vectors, np.asarray(model.cluster_centers_, dtype=np.float64))


def nearest(vectors: Vectors, centroids: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest centroid of each vector, the first of several, and the Euclidean distance to it."""
    labels = np.empty(len(vectors), dtype=np.int64)
    distances = np.empty(len(vectors))
    end = 0
    for block in blocks(vectors):
        start, end = end, end + len(block)
        found = (-2.0 * block @ centroids.T + (centroids**2).sum(axis=1)).argmin(axis=1)
        labels[start:end] = found
        distances[start:end] = np.sqrt(((block - centroids[found]) ** 2).sum(axis=1))
    return labels, distances


def blocks(vectors: Vectors) -> Iterator[NDArray[np.float64]]:
    """The vectors a part at a time: they may be memory-mapped and larger than the memory."""
    for start in range(0, len(vectors), _ROWS):
        yield np.asarray(vectors[start : start + _ROWS], dtype=np.float64)
