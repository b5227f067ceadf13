"""Bias-corrected and accelerated (BCa) bootstrap intervals (Efron 1987), for statistics that are functions of sums.

Items that are not independent (samples of one task) are resampled as whole clusters. The result depends on the multiset
of items and on the seed, not on the order of the items. A bootstrap knows only the sample: where every item agrees the
interval has no length. `scipy.stats.bootstrap` gives the same intervals within resampling error in 3 to 30 times the time,
and has no clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from factgym.benchmarks.statistics.classification import Counts, confusion, find_metric
from factgym.benchmarks.statistics.intervals import LEVEL, NO_DATA, Estimate

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From sums of rows, shape (..., d), to values, shape (...)."""

RESAMPLES = 10_000

_NORMAL = NormalDist()
_SAME = 1e-12
"""Relative difference under which two values of a statistic are one: sums in another order round differently."""
_AT_ONCE = 2**20
"""Numbers in memory at a time: 8 MB."""
_FEW_CELLS = 8
"""Where there are this many times fewer distinct rows than units, their counts are drawn, else the units."""


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """Independent units as distinct rows, shape (m, d), in ascending order, and how often each occurs, shape (m,)."""

    rows: Floats
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """The number of units."""
        return int(self.counts.sum())

    def sums(self) -> Floats:
        """Return the sum of all units, shape (d,)."""
        return np.asarray(self.counts @ self.rows, np.float64)

    def resampled(self, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield the sums of samples of the same size drawn with replacement: arrays of shape (…, d), `resamples` rows in all."""
        # Means, shares, F1 and their differences depend on the items through sums alone. So equal items are kept once with
        # their count: a resample draws new counts (a multinomial, which is exact), and all resamples are one matrix
        # product. Where most rows differ, units are drawn and added up column by column.
        n, (kinds, width) = self.n, self.rows.shape
        by_counts = _FEW_CELLS * kinds <= n
        step = max(1, _AT_ONCE // max(kinds if by_counts else n, width))
        columns = np.repeat(self.rows, self.counts, axis=0).T
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            if by_counts:
                counts = rng.multinomial(n, self.counts / n, size=size)
                yield np.asarray(counts.astype(np.float64) @ self.rows, np.float64)
            else:  # A column that never varies needs no adding up.
                drawn = rng.integers(n, size=(size, n))
                sums = [column[drawn].sum(1) if np.ptp(column) else np.full(size, column.sum()) for column in columns]
                yield np.stack(sums, axis=-1)


@dataclass(frozen=True, eq=False, slots=True)
class Bootstrap:
    """A statistic on the sample, on resamples (any order) and without each unit (`left_out[i]` occurs `counts[i]` times)."""

    observed: float
    replicates: Floats
    left_out: Floats
    counts: NDArray[np.int64]

    @property
    def bias(self) -> float:
        """z0: the normal quantile of the share of replicates below the value, ties by half.

        Kept finite where all lie on one side: the share stays half a replicate away from 0 and 1.
        """
        return self._quantile(self.observed)

    @property
    def acceleration(self) -> float:
        """a: a sixth of the skewness of the jackknife's influence values; 0 where they are all equal."""
        # Jackknife influence of each unit, scaled by the largest so that cubes neither overflow nor vanish.
        away = np.average(self.left_out, weights=self.counts) - self.left_out
        scale = float(np.abs(away).max(initial=0.0))
        if scale <= self._tolerance:
            return 0.0
        away = away / scale
        return float((self.counts * away**3).sum() / (6 * (self.counts * away**2).sum() ** 1.5))

    @property
    def constant(self) -> bool:
        """Whether the statistic is the same on every resample."""
        return float(np.ptp(self.replicates)) <= self._tolerance

    def interval(self, level: float = LEVEL) -> Estimate:
        """Return the BCa interval; `[value, value]` where the statistic is constant."""
        n = int(self.counts.sum())
        if self.constant:
            return Estimate(self.observed, self.observed, self.observed, n)
        tails = [self._adjusted(_NORMAL.inv_cdf(tail)) for tail in ((1 - level) / 2, (1 + level) / 2)]
        low, high = np.quantile(self.replicates, tails)
        return Estimate(self.observed, float(low), float(high), n)

    def p_value(self, at: float = 0.0) -> float:
        """Return the two-sided p of the hypothesis that the statistic is `at`: 1 - level of the BCa interval that ends there.

        Not below 1 / resamples. 1 where the statistic is constant at `at`, and 1 / resamples where constant elsewhere.
        """
        floor = 1 / len(self.replicates)
        if self.constant:
            return 1.0 if abs(self.observed - at) <= self._tolerance else floor
        # Inverts the interval: the level whose BCa end lies at `at` solves the same equation for the normal quantile.
        # With w the quantile at `at` and s = z0 + z, equation 6.8 reads w - z0 = s / (1 - a s). So s = (w - z0) / (1 +
        # a (w - z0)), and z = s - z0 is the end's normal quantile.
        past = self._quantile(at) - self.bias
        bend = 1 + self.acceleration * past
        if bend <= 0:
            return floor
        tail = _NORMAL.cdf(past / bend - self.bias)
        return min(1.0, max(floor, 2 * min(tail, 1 - tail)))

    @property
    def _tolerance(self) -> float:
        return _SAME * max(abs(self.observed), float(np.abs(self.replicates).max(initial=0.0)))

    def _quantile(self, at: float) -> float:
        size, slack = len(self.replicates), self._tolerance
        below = np.count_nonzero(self.replicates < at - slack) + np.count_nonzero(self.replicates <= at + slack)
        return _NORMAL.inv_cdf(min(max(int(below), 1), 2 * size - 1) / (2 * size))

    def _adjusted(self, z: float) -> float:
        """Return the level of the replicates' quantile for the normal quantile `z`, corrected for bias and acceleration."""
        # Efron 1987, equation 6.8: z0 + (z0 + z) / (1 - a (z0 + z)), as a level of the replicates.
        shifted = self.bias + z
        bend = 1 - self.acceleration * shifted
        if bend <= 0:  # Past the pole of the correction: its limit.
            return 1.0 if shifted > 0 else 0.0
        return _NORMAL.cdf(self.bias + shifted / bend)


def sample_of(rows: ArrayLike, clusters: Sequence[Hashable] | None = None) -> Sample:
    """Return the units of a bootstrap: items, one row of finite numbers each, shape (n, d); or clusters, the sums of theirs.

    clusters: the cluster of each item, such as its task. Raises ValueError for other shapes and for NaN or infinity.
    """
    units = np.asarray(rows, np.float64)
    if units.ndim != 2:
        raise ValueError(f"rows of shape (items, columns) are needed, not {units.shape}")
    if not np.isfinite(units).all():
        raise ValueError("a value is NaN or infinite")
    if clusters is not None:
        numbers: dict[Hashable, int] = {}
        cluster_of_item = [numbers.setdefault(cluster, len(numbers)) for cluster in clusters]
        if len(cluster_of_item) != len(units):
            raise ValueError(f"{len(units)} items, but clusters for {len(cluster_of_item)}")
        sums = np.zeros((len(numbers), units.shape[1]))
        np.add.at(sums, cluster_of_item, units)
        units = sums
    distinct, counts = np.unique(units, axis=0, return_counts=True)
    return Sample(distinct, counts.astype(np.int64))


def bootstrap(sample: Sample, statistic: Statistic, *, resamples: int = RESAMPLES, seed: int = 0) -> Bootstrap:
    """Evaluate a statistic on a sample of at least two units, its resamples and its jackknife.

    Raises ValueError for fewer units, for no resamples, and where the statistic is NaN or infinite: define its
    limits instead.
    """
    if sample.n < 2 or resamples < 1:
        raise ValueError(f"{sample.n} units and {resamples} resamples: at least 2 and 1 are needed")
    sums = sample.sums()
    rng = np.random.default_rng(seed)
    replicates = np.concatenate(
        [np.asarray(statistic(sums_of), np.float64) for sums_of in sample.resampled(resamples, rng)]
    )
    # The jackknife in one step: the sums without a unit are the sums minus its row.
    left_out = np.asarray(statistic(sums - sample.rows), np.float64)
    observed = float(statistic(sums))
    if not (np.isfinite(observed) and np.isfinite(replicates).all() and np.isfinite(left_out).all()):
        raise ValueError("the statistic is NaN or infinite on a resample")
    return Bootstrap(observed, replicates, left_out, sample.counts)


def bca(sample: Sample, statistic: Statistic, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Return a statistic of the sums with its BCa interval; no interval for one unit, nothing for none."""
    if sample.n == 0:
        return NO_DATA
    if sample.n == 1:
        return Estimate(float(statistic(sample.sums())), None, None, 1)
    return bootstrap(sample, statistic, resamples=resamples, seed=seed).interval()


def bca_mean(
    values: Sequence[float], *, clusters: Sequence[Hashable] | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Return the mean of all items with its BCa interval over items, or over clusters where items are not independent.

    Clusters may differ in size: the mean is still that of the items, a ratio of two sums over clusters.
    """
    rows = np.column_stack([np.asarray(values, np.float64), np.ones(len(values))])

    def mean(sums: Floats) -> Floats:
        return np.asarray(sums[..., 0] / sums[..., 1], np.float64)

    return bca(sample_of(rows, clusters), mean, resamples=resamples, seed=seed)


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
) -> Estimate:
    """Return a score of `classification.METRICS` with its BCa interval over items, or over clusters of items.

    Raises ConfigError for an unknown metric, and ValueError as `confusion` does.
    """
    names = confusion(golds, predictions, labels).golds
    sample = _sample([_codes(golds, predictions, names)], len(names), clusters)
    score = _on_tables(find_metric(metric), len(names), 1)
    return bca(sample, lambda sums: score(sums)[..., 0], resamples=resamples, seed=seed)


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
    """Return the difference `second - first` of a score, with its BCa interval over items or clusters.

    Exchanging the two classifiers changes the sign and nothing else. Labels are by default those that occur in any of
    the three sequences. Raises ConfigError for an unknown metric, and ValueError as `confusion` does.
    """
    score = find_metric(metric)
    if labels is None:
        labels = confusion([*golds, *golds], [*first, *second]).golds
    names = confusion(golds, first, labels).golds
    confusion(golds, second, names)
    codes = [_codes(golds, predictions, names) for predictions in (first, second)]
    sample, mirror = _sample(codes, len(names), clusters), _sample(codes[::-1], len(names), clusters)
    if sample.n == 0:
        return Comparison(None, None, NO_DATA, None)
    scores_of = _on_tables(score, len(names), 2)
    a, b = (float(value) for value in scores_of(sample.sums()))
    if sample.n == 1:
        return Comparison(a, b, Estimate(b - a, None, None, 1), None)

    # Of a sample and its mirror image always the same one is resampled, so that exchanging the classifiers is exact.
    key, mirror_key = (units.rows.tobytes() + units.counts.tobytes() for units in (sample, mirror))
    sign = 1.0 if key <= mirror_key else -1.0
    resampled = bootstrap(
        sample if sign > 0 else mirror, lambda sums: np.diff(scores_of(sums))[..., 0], resamples=resamples, seed=seed
    )
    replicates = sign * resampled.replicates
    resampled = Bootstrap(
        sign * resampled.observed,
        np.concatenate([replicates, -replicates]) if key == mirror_key else replicates,
        sign * resampled.left_out,
        resampled.counts,
    )
    return Comparison(a, b, resampled.interval(level), resampled.p_value())


def _codes(golds: Sequence[str], predictions: Sequence[str | None], labels: Sequence[str]) -> NDArray[np.int64]:
    """The cell of each item in a table of shape (K, K + 1), counted row by row."""
    row = {label: i * (len(labels) + 1) for i, label in enumerate(labels)}
    column: dict[str | None, int] = {label: i for i, label in enumerate(labels)}
    column[None] = len(labels)
    return np.array([row[gold] + column[label] for gold, label in zip(golds, predictions, strict=True)], np.int64)


def _sample(codes: Sequence[NDArray[np.int64]], labels: int, clusters: Sequence[Hashable] | None) -> Sample:
    """Items as rows that hold a 1 in their cell of each classifier's table."""
    cells = labels * (labels + 1)
    # Column i * cells + c counts the items in cell c of classifier i: any score of tables is a function of the sums.
    cells_of = np.stack([code + i * cells for i, code in enumerate(codes)], axis=-1)
    if clusters is None:
        kinds, counts = np.unique(cells_of, axis=0, return_counts=True)
        return Sample(_one_hot(kinds, cells * len(codes)), counts.astype(np.int64))
    return sample_of(_one_hot(cells_of, cells * len(codes)), clusters)


def _one_hot(cells_of_items: NDArray[np.int64], width: int) -> Floats:
    rows = np.zeros((len(cells_of_items), width))
    np.put_along_axis(rows, cells_of_items, 1.0, axis=1)
    return rows


def _on_tables(score: Callable[[Counts], Counts], labels: int, classifiers: int) -> Callable[[Floats], Floats]:
    """Return a function from sums of rows to the scores of each classifier, shape (..., classifiers)."""
    return lambda sums: score(sums.reshape(*sums.shape[:-1], classifiers, labels, labels + 1))
