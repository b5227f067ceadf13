"""The best one-to-one assignment of predicted items to gold items, and its score.

Source: ProFact, equation 5, and AVeriTeC's `eval.py`: the assignment with the largest sum of similarities, found by
`scipy.optimize.linear_sum_assignment`; the sum divided by the number of gold items, so that an unmatched gold item counts
zero, and only the first ten predictions take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import DataError
from factgym.rewards.profact.meteor import DEFAULT_METEOR, MeteorSettings, meteor_matrix
from factgym.rewards.profact.tokens import Tokenize, word_tokens

MAX_PREDICTIONS = 10
"""Number of predictions that the official scorer reads."""


@dataclass(frozen=True, slots=True)
class Match:
    """Indices of a prediction and of the gold item assigned to it, and their similarity, 0 to 1."""

    prediction: int
    gold: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Matching:
    """score: sum of the similarities over the number of gold items, 0 to 1. matches: by prediction."""

    score: float
    matches: tuple[Match, ...]


def best_matching(similarities: NDArray[np.float64]) -> Matching:
    """Return the best assignment of rows (predictions) to columns (gold items), by the Hungarian method.

    Without a row the score is 0. Raises DataError without a column: such a task cannot be scored.
    """
    from scipy.optimize import linear_sum_assignment

    if similarities.ndim != 2 or similarities.shape[1] == 0:
        raise DataError("there are no gold items to match: a task needs at least one gold question")
    rows, columns = linear_sum_assignment(similarities, maximize=True)
    matched = similarities[rows, columns]
    matches = map(Match, rows.tolist(), columns.tolist(), matched.tolist())
    return Matching(float(matched.sum() * (1 / similarities.shape[1])), tuple(matches))


def match_texts(
    predictions: Sequence[str],
    golds: Sequence[str],
    *,
    tokenize: Tokenize = word_tokens,
    settings: MeteorSettings = DEFAULT_METEOR,
    limit: int | None = MAX_PREDICTIONS,
) -> Matching:
    """Return the best assignment by METEOR of the first `limit` predictions (None: of all) to the gold texts.

    Raises DataError when `golds` is empty.
    """
    return best_matching(meteor_matrix(predictions[:limit], golds, tokenize=tokenize, settings=settings))
