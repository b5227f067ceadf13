"""Vectors of documents for the selector: without a model, or from the encoder that dense retrieval uses.

The paper's are E5's (`Encoder(preset="e5")`, extra "dense"). Without a model they are hashed TF-IDF, projected on its
leading singular directions (latent semantic analysis), which keeps topics apart and runs anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.corpora.corpus import Passage
from factgym.corpora.text import terms

if TYPE_CHECKING:
    from factgym.corpora.dense import Encoder

DIMENSIONS = 128
_FEATURES = 1 << 15


def corpus_embeddings(passages: Iterable[Passage], encoder: Encoder | None = None) -> NDArray[np.float32]:
    """Unit vectors of passages (title and text), shape (passages, D). encoder: None for `text_embeddings`."""
    kept = list(passages)
    if encoder is not None:
        return encoder.passages(kept)
    return text_embeddings([f"{one.title}\n{one.text}" for one in kept])


def text_embeddings(texts: Sequence[str], *, dimensions: int = DIMENSIONS, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors of texts without a model, shape (texts, D) with D = `dimensions` or the number of texts if that is less.

    A text without a word has the zero vector. The same for the same texts, in the same order, and the same seed.
    Raises ConfigError for no text, MissingExtraError without the extra "selector".
    """
    if not texts or dimensions < 1:
        raise ConfigError("text_embeddings needs at least one text and one dimension")
    weighted = _weighted(texts)
    left, values = _leading(weighted, min(dimensions, len(texts)), seed)
    rows = left * values
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found = np.where(lengths > 1e-9, rows / np.maximum(lengths, 1e-9), 0.0)
    return np.ascontiguousarray(found, dtype=np.float32)


def _weighted(texts: Sequence[str]) -> Any:
    """TF-IDF of hashed words, a sparse matrix of shape (texts, features)."""
    try:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    except ImportError as error:
        raise MissingExtraError("an embedding without a model", "selector") from error
    hashed = HashingVectorizer(analyzer=terms, n_features=_FEATURES, alternate_sign=False, norm=None)
    return TfidfTransformer(sublinear_tf=True).fit_transform(hashed.transform(texts))


def _leading(matrix: Any, count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The leading left singular vectors, shape (rows, count), and the singular values."""
    from sklearn.utils.extmath import randomized_svd
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        left, values, _ = randomized_svd(matrix, n_components=count, n_iter=3, random_state=seed)
    return left, values
