"""Thresholds of the tiers for another counter than the paper's, so that its tiers agree with those of a reference's counts.

The published thresholds, 5 and 20, are for counts in the tokens of a language model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from factgym.core.errors import DataError
from factgym.rewards.corver.rubrics import DEFAULT_RULES
from factgym.rewards.corver.triplets import Extractor, Query, build_query
from factgym.text.sentences import sentences

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Calibration(NamedTuple):
    """Thresholds of a counter's tiers. before, after: the share of equal tiers with the published ones and with these."""

    low_count: int
    high_count: int
    before: float
    after: float


def text_queries(texts: Iterable[str], extractor: Extractor) -> list[Query]:
    """Return the different queries that the reward would count for the sentences of the texts, in order."""
    spans = [text[start:end] for text in texts for start, end in sentences(text)]
    queries = (
        build_query(triplets[0])
        for triplets in extractor.extract(list(dict.fromkeys(spans)))
        if triplets and triplets[0].valid
    )
    return list(dict.fromkeys(query for query in queries if query is not None))


def tiers(counts: NDArray[np.int64], low_count: int, high_count: int) -> NDArray[np.int64]:
    """Return the tier of each count: 0 for none, 1 below `low_count`, 2 below `high_count`, 3 from there on."""
    return np.where(counts > 0, 1 + np.searchsorted([low_count, high_count], counts, side="right"), 0)


def calibrate(counts: Sequence[int], reference: Sequence[int]) -> Calibration:
    """Return the thresholds for `counts` with which most tiers are those of the `reference` with the published ones.

    Negative counts, of queries that a server did not count, are left out. Of equally good thresholds the published ones,
    else the smallest. Raises DataError without queries.
    """
    low, high = DEFAULT_RULES.low_count, DEFAULT_RULES.high_count
    pairs = np.array([counts, reference], np.int64).reshape(2, -1)
    values, reference_counts = pairs[:, (pairs >= 0).all(axis=0)]
    expected = tiers(reference_counts, low, high)
    if not len(values):
        raise DataError("there is no query to calibrate with: give texts with sentences that name two entities")
    before = float(np.mean(tiers(values, low, high) == expected))
    thresholds = np.unique(np.append(values[values > 0], [low, high, values.max() + 1]))
    # below[t][i]: reference tiers t among the positive counts below the i-th threshold. The number of equal tiers is
    # below[1][l] + (below[2][h] - below[2][l]) + (all[3] - below[3][h]): for each h the best l is a running maximum.
    positive = np.sort(values[values > 0])
    order = np.argsort(values[values > 0], kind="stable")
    ranks = np.searchsorted(positive, thresholds)
    below = [np.concatenate([[0], np.cumsum(expected[values > 0][order] == tier)])[ranks] for tier in range(4)]
    from_low, from_high = below[1] - below[2], below[2] - below[3]
    best_low = np.maximum.accumulate(from_low)
    i = int(np.argmax(best_low + from_high))
    best = Calibration(int(thresholds[int(np.argmax(from_low[: i + 1]))]), int(thresholds[i]), before, 0.0)
    after = float(np.mean(tiers(values, best.low_count, best.high_count) == expected))
    return best._replace(after=after) if after > before else Calibration(low, high, before, before)
