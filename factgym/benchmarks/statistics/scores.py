"""Intervals of a classifier's scores, and of the difference between two classifiers on the same items.

Each resample draws items, with their gold label and all predictions together, so that a difference is taken on the same
items. Labels are fixed before resampling: one that a resample loses counts as 0 in its macro-F1 (scikit-learn's
`zero_division=0` with `labels=`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from factgym.benchmarks.intervals import LEVEL, NO_DATA, Estimate
from factgym.benchmarks.statistics.counts import Counts, confusion, find_metric
from factgym.benchmarks.statistics.resampling import RESAMPLES, Bootstrap, Floats, Sample, bca, bootstrap, sample_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two classifiers on the same items.

    first, second: their scores. difference: second - first with its BCa interval. p: two-sided, of no difference, not
    below 1 / resamples; None for fewer than two units.
    """

    first: float | None
    second: float | None
    difference: Estimate
    p: float | None


def bca_score(
    golds: Sequence[str],
    predictions: Sequence[str | None],
    metric: str = "macro_f1",
    *,
    labels: Sequence[str] | None = None,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """A score of `counts.METRICS` with its BCa interval over items, or over clusters of items.

    Raises ConfigError for an unknown metric, and ValueError as `confusion` does.
    """
    known = confusion(golds, predictions, labels).golds
    sample = _sample([_codes(golds, predictions, known)], len(known), clusters)
    return bca(sample, _on_tables(find_metric(metric), len(known)), resamples=resamples, seed=seed, level=level)


def paired_bca(
    golds: Sequence[str],
    first: Sequence[str | None],
    second: Sequence[str | None],
    metric: str = "macro_f1",
    *,
    labels: Sequence[str] | None = None,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Comparison:
    """The difference `second - first` of a score, with its BCa interval over items or clusters.

    Exchanging the two classifiers changes the sign and nothing else. Labels are by default those that occur in any of
    the three sequences. Raises ConfigError for an unknown metric, and ValueError as `confusion` does.
    """
    score = find_metric(metric)
    if labels is None:
        labels = confusion([*golds, *golds], [*first, *second]).golds
    known = confusion(golds, first, labels).golds
    confusion(golds, second, known)
    codes = [_codes(golds, said, known) for said in (first, second)]
    sample, other = _sample(codes, len(known), clusters), _sample(codes[::-1], len(known), clusters)
    if sample.n == 0:
        return Comparison(None, None, NO_DATA, None)
    scores = [float(one) for one in _both(score, len(known))(sample.sums())]
    if sample.n == 1:
        return Comparison(scores[0], scores[1], Estimate(scores[1] - scores[0], None, None, 1), None)
    found = _exchangeable(sample, other, _difference(score, len(known)), resamples, seed)
    return Comparison(scores[0], scores[1], found.interval(level), found.p_value())


def _exchangeable(
    sample: Sample, other: Sample, statistic: Callable[[Floats], Floats], resamples: int, seed: int
) -> Bootstrap:
    """Resample always the same one of a sample and its mirror image, so that exchanging them is exact."""
    mine, mirrored = _key(sample), _key(other)
    found = bootstrap(sample if mine <= mirrored else other, statistic, resamples=resamples, seed=seed)
    if mine == mirrored:
        return replace(found, replicates=np.concatenate([found.replicates, -found.replicates]))
    if mine < mirrored:
        return found
    return replace(found, observed=-found.observed, replicates=-found.replicates, left_out=-found.left_out)


def _codes(golds: Sequence[str], predictions: Sequence[str | None], labels: Sequence[str]) -> NDArray[np.int64]:
    """The cell of each item in a table of shape (K, K + 1), counted row by row."""
    row = {label: i * (len(labels) + 1) for i, label in enumerate(labels)}
    column: dict[str | None, int] = {label: i for i, label in enumerate(labels)}
    column[None] = len(labels)
    cells = [row[gold] + column[said] for gold, said in zip(golds, predictions, strict=True)]
    return np.array(cells, np.int64)


def _sample(codes: Sequence[NDArray[np.int64]], labels: int, clusters: Sequence[Hashable] | None) -> Sample:
    """Items as rows that hold a 1 in their cell of each classifier's table."""
    cells = labels * (labels + 1)
    together = np.stack([code + i * cells for i, code in enumerate(codes)], axis=-1)
    if clusters is None:
        kinds, counts = np.unique(together, axis=0, return_counts=True)
        return Sample(_one_hot(kinds, cells * len(codes)), counts.astype(np.int64))
    return sample_of(_one_hot(together, cells * len(codes)), clusters)


def _one_hot(places: NDArray[np.int64], width: int) -> Floats:
    rows = np.zeros((len(places), width))
    np.put_along_axis(rows, places, 1.0, axis=1)
    return rows


def _key(sample: Sample) -> bytes:
    """What tells two samples apart; which of two comes first does not matter, only that it is always the same."""
    return sample.rows.tobytes() + sample.counts.tobytes()


def _on_tables(score: Callable[[Counts], Counts], labels: int) -> Callable[[Floats], Floats]:
    return lambda sums: score(sums.reshape(*sums.shape[:-1], labels, labels + 1))


def _both(score: Callable[[Counts], Counts], labels: int) -> Callable[[Floats], Floats]:
    return lambda sums: score(sums.reshape(*sums.shape[:-1], 2, labels, labels + 1))


def _difference(score: Callable[[Counts], Counts], labels: int) -> Callable[[Floats], Floats]:
    both = _both(score, labels)
    return lambda sums: np.asarray(both(sums)[..., 1] - both(sums)[..., 0], np.float64)
