"""From gold and predicted labels to the numbers of a classifier: scores of tables, McNemar's test, biases, calibration.

A missing prediction is wrong for every label: it has a column of its own, counts in accuracy and in the recall of its gold
label, and in nobody's precision. Where a ratio has nothing to divide by it is 0, as with scikit-learn's `zero_division=0`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from factgym.benchmarks.statistics.intervals import LEVEL, NO_DATA, Estimate, wilson
from factgym.core.apportion import apportion
from factgym.core.errors import ConfigError, did_you_mean
from factgym.datasets.claims import VERDICTS

NO_VERDICT = "none"
"""Written for a missing prediction: nothing valid was submitted."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of episodes, `counts[i][j]` with gold label `golds[i]` and submitted label `predictions[j]`."""

    golds: tuple[str, ...]
    predictions: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def labels_in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct labels: verdicts in their own order, others after them by name."""
    distinct = set(labels)
    verdicts = [label for label in VERDICTS if label in distinct]
    return (*verdicts, *sorted(distinct.difference(verdicts)))


Counts = NDArray[np.float64]
"""Tables of shape (..., K, K + 1): gold label, predicted label; the last column holds missing predictions."""


@dataclass(frozen=True, slots=True)
class LabelScores:
    """One label against the rest: precision, recall and F1 in [0, 1], 0 where undefined.

    gold, predicted, right: items with this gold label, with this prediction, with both.
    """

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    right: int


def confusion(
    golds: Sequence[str], predictions: Sequence[str | None], labels: Sequence[str] | None = None
) -> Confusion:
    """Counts of gold against predicted labels, in the order of `labels` (by default those that occur).

    A prediction of None is counted in a last column, `none`, which is there only when one is missing. Raises
    ValueError for sequences of different lengths, for repeated labels, and for a label that `labels` lacks: the
    parser of outputs decides whether an unknown label is None or an error.
    """
    occurring = {*golds, *(label for label in predictions if label is not None)}
    names = labels_in_order(occurring) if labels is None else tuple(labels)
    if len(set(names)) != len(names):
        raise ValueError(f"a label is repeated in {names}")
    for label in sorted(occurring.difference(names)):
        raise ValueError(f"label {label!r} is none of {', '.join(names)}.{did_you_mean(label, names)}")
    if NO_VERDICT in names:
        raise ValueError(f"{NO_VERDICT!r} cannot be a label: it is how a missing prediction is written; use None")
    pairs = Counter(zip(golds, predictions, strict=True))
    columns: tuple[str | None, ...] = (*names, None) if any(label is None for label in predictions) else names
    counts = tuple(tuple(pairs[(gold, label)] for label in columns) for gold in names)
    return Confusion(names, tuple(NO_VERDICT if label is None else label for label in columns), counts)


def counts_of(table: Confusion) -> Counts:
    """Return the table with the same labels on both sides, in the order of its columns, and a last column for the missing."""
    numbers = {label: i for i, label in enumerate(_table_labels(table))}
    counts = np.zeros((len(numbers), len(numbers) + 1))
    for gold, row in zip(table.golds, table.counts, strict=True):
        for label, n in zip(table.predictions, row, strict=True):
            counts[numbers[gold], numbers.get(label, -1)] = n
    return counts


def _table_labels(table: Confusion) -> list[str]:
    return list(dict.fromkeys(label for label in (*table.predictions, *table.golds) if label != NO_VERDICT))


def accuracy(table: Confusion) -> Estimate:
    """Return the share of items whose prediction is the gold label, with Wilson's interval."""
    counts = counts_of(table)
    return wilson(round(float(np.trace(counts))), round(float(counts.sum())))


def label_scores(table: Confusion) -> Mapping[str, LabelScores]:
    """Precision, recall and F1 of every label of the table, in the order of its columns."""
    counts = counts_of(table)
    right, gold, predicted = _margins(counts)
    scores = np.stack([ratio(right, predicted), ratio(right, gold), _f1(counts)], -1).tolist()
    sizes = np.stack([gold, predicted, right], -1).astype(int).tolist()
    rows = zip(_table_labels(table), scores, sizes, strict=True)
    return {label: LabelScores(*label_scores, *label_sizes) for label, label_scores, label_sizes in rows}


def table_score(table: Confusion, metric: str) -> float:
    """Return a score of `METRICS`. Raises ConfigError for an unknown one."""
    return float(find_metric(metric)(counts_of(table)))


def _margins(counts: Counts) -> tuple[Counts, Counts, Counts]:
    """Return right, gold and predicted counts of each label, shape (..., K)."""
    return np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(-1), counts[..., :-1].sum(-2)


def ratio(top: Counts, bottom: Counts) -> Counts:
    """Return `top / bottom`, 0 where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom > 0)


def _accuracy(counts: Counts) -> Counts:
    return ratio(np.trace(counts, axis1=-2, axis2=-1), counts.sum((-2, -1)))


def _f1(counts: Counts) -> Counts:
    """Return F1 of each label of each table, shape (..., K)."""
    right, gold, predicted = _margins(counts)
    return ratio(2 * right, gold + predicted)


def _macro_f1(counts: Counts) -> Counts:
    return np.asarray(_f1(counts).sum(-1) / max(1, counts.shape[-2]), np.float64)


def _balanced_accuracy(counts: Counts) -> Counts:
    right, gold, _ = _margins(counts)
    return ratio(ratio(right, gold).sum(-1), (gold > 0).sum(-1))


def _matthews(counts: Counts) -> Counts:
    # Gorodkin 2004: the covariance of gold and predicted indicators, over the geometric mean of their variances.
    # Missing predictions are one more predicted label.
    right, gold, _ = _margins(counts)
    predicted, n = counts.sum(-2), counts.sum((-2, -1))
    shared = right.sum(-1) * n - (predicted[..., :-1] * gold).sum(-1)
    spread = (n**2 - (predicted**2).sum(-1)) * (n**2 - (gold**2).sum(-1))
    return ratio(shared, np.sqrt(spread))


METRICS: Mapping[str, Callable[[Counts], Counts]] = {
    "accuracy": _accuracy,
    "macro_f1": _macro_f1,
    "balanced_accuracy": _balanced_accuracy,
    "matthews": _matthews,
}
"""Scores of each of a stack of tables, by name; they can be resampled.

macro_f1: the unweighted mean of the labels' F1; a label that a resample lost counts as 0. balanced_accuracy: the
unweighted mean recall of the labels that occur as gold. matthews: in [-1, 1], 0 where a side does not vary; the others
are in [0, 1].
"""


def find_metric(name: str) -> Callable[[Counts], Counts]:
    """Return the function behind a name in `METRICS`. Raises ConfigError for any other."""
    if name not in METRICS:
        raise ConfigError(f"no metric {name!r}; there are {', '.join(METRICS)}.{did_you_mean(name, METRICS)}")
    return METRICS[name]


EXACT_BELOW = 25
"""Discordant items under which the chi-square approximation is not trusted."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """The outcome of the test.

    first_only, second_only: items that only the first or only the second has right. statistic: the smaller of the two (exact), or
    chi-square with one degree of freedom and continuity correction. p: two-sided, in [0, 1].
    """

    first_only: int
    second_only: int
    statistic: float
    p: float
    exact: bool


def mcnemar(first: Sequence[bool], second: Sequence[bool], *, exact: bool | None = None) -> McNemar:
    """Test whether two classifiers are right equally often, from their correctness on the same items in order.

    exact: the binomial test, or the chi-square test with continuity correction; by default exact under 25 discordant
    items. Equal counts give p = 1 either way. Raises ValueError for sequences of different lengths.
    """
    pairs = [(bool(a), bool(b)) for a, b in zip(first, second, strict=True)]
    first_only, second_only = pairs.count((True, False)), pairs.count((False, True))
    discordant = first_only + second_only
    if discordant < EXACT_BELOW if exact is None else exact:
        from scipy.special import bdtr  # scipy.stats would cost most of a second to import.

        # Twice the lower tail of Binomial(discordant, 1/2), cut at 1: with equal counts both tails hold the middle.
        fewer = min(first_only, second_only)
        p = min(1.0, 2 * float(bdtr(fewer, discordant, 0.5))) if discordant else 1.0
        return McNemar(first_only, second_only, float(fewer), p, True)
    # Chi-square with continuity correction; its upper tail with one degree of freedom is erfc(sqrt(x / 2)).
    statistic = max(0, abs(first_only - second_only) - 1) ** 2 / discordant if discordant else 0.0
    return McNemar(first_only, second_only, statistic, math.erfc(math.sqrt(statistic / 2)), False)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Frequencies of kinds: counts from the most frequent down, and shares with Wilson's intervals.

    distance: total variation distance to the reference, in [0, 1]; None without a reference or without items.
    """

    counts: Mapping[str, int]
    shares: Mapping[str, Estimate]
    distance: float | None


def false_positive_rates(
    golds: Sequence[str], predictions: Sequence[str | None], positive: str, groups: Sequence[str]
) -> dict[str, Estimate]:
    """For each group by name, the share of its items without gold `positive` that are predicted `positive`.

    With Wilson's intervals; a missing prediction is no false positive, but its item counts. A group without such items
    has no value. Raises ValueError for sequences of different lengths.
    """
    totals, false = Counter[str](), Counter[str]()
    for gold, label, group in zip(golds, predictions, groups, strict=True):
        totals[group] += gold != positive
        false[group] += gold != positive and label == positive
    return {group: wilson(false[group], totals[group]) for group in sorted(totals)}


def share_difference(first: Estimate, second: Estimate) -> Estimate:
    """`second - first` of two independent proportions with Wilson's intervals, in [-1, 1].

    The interval is Newcombe's hybrid score (1998, method 10), at the level of the two; NO_DATA where one has no value.
    """
    if any(share.value is None or share.low is None or share.high is None for share in (first, second)):
        return NO_DATA
    (a, a_low, a_high), (b, b_low, b_high) = (
        (share.value or 0.0, share.low or 0.0, share.high or 0.0) for share in (first, second)
    )
    # Newcombe: the reach down combines the lower reach of b with the upper reach of a, and the other way round.
    down, up = math.hypot(b - b_low, a_high - a), math.hypot(b_high - b, a - a_low)
    return Estimate(b - a, max(-1.0, b - a - down), min(1.0, b - a + up), first.n + second.n)


def negative_bias(golds: Sequence[str], predictions: Sequence[str | None], negative: str) -> Estimate:
    """The share predicted `negative` minus the share that is, in [-1, 1]: above 0 it is predicted too often.

    A missing prediction is not `negative`. The interval is Bonett and Price's adjusted Wald (2012) for a difference of
    paired proportions, which keeps a length where every prediction is right.
    """
    pairs = [(gold == negative, label == negative) for gold, label in zip(golds, predictions, strict=True)]
    over, under, n = pairs.count((False, True)), pairs.count((True, False)), len(pairs)
    if n == 0:
        return NO_DATA
    # One pseudo-item in each discordant cell keeps a length where every prediction is right.
    value, (up, down) = (over - under) / n, ((over + 1) / (n + 2), (under + 1) / (n + 2))
    reach = NormalDist().inv_cdf(0.5 + LEVEL / 2) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    low, high = max(-1.0, up - down - reach), min(1.0, up - down + reach)
    return Estimate(value, min(low, value), max(high, value), n)


def distribution(kinds: Iterable[str], reference: Iterable[str] | None = None) -> Distribution:
    """Count kinds, such as the error types that were diagnosed, against those of the gold items."""
    counts = Counter(sorted(kinds))
    ordered = dict(counts.most_common())  # Of equally frequent kinds the first by name comes first.
    shares = {kind: wilson(n, counts.total()) for kind, n in ordered.items()}
    return Distribution(ordered, shares, None if reference is None else total_variation(counts, Counter(reference)))


def total_variation(first: Mapping[str, int], second: Mapping[str, int]) -> float | None:
    """Half the sum of the differences between two distributions' shares, in [0, 1]; None where one has no items."""
    a, b = sum(first.values()), sum(second.values())
    if not a or not b:
        return None
    gaps = (abs(first.get(kind, 0) * b - second.get(kind, 0) * a) for kind in {*first, *second})
    return sum(gaps) / (2 * a * b)


@dataclass(frozen=True, slots=True)
class Bin:
    """The items with a confidence in (low, high], in the first bin also those at `low`.

    confidence: their mean confidence, None in an empty bin. accuracy: the share of them that is right, with Wilson's
    interval; its `n` is their number.
    """

    low: float
    high: float
    confidence: float | None
    accuracy: Estimate

    @property
    def n(self) -> int:
        """The number of items in the bin."""
        return self.accuracy.n


@dataclass(frozen=True, slots=True)
class Reliability:
    """Agreement of confidence and accuracy over `n` items.

    bins: of equal width over [0, 1], (low, high], the first with 0. mass_bins: between quantiles of the confidences (the
    strategy "quantile" of scikit-learn's `calibration_curve`); where many are equal some are empty. ece and adaptive_ece:
    the mean over items of |accuracy - confidence| of their bin, for the two kinds of bins (Naeini et al. 2015; Nguyen and
    O'Connor 2015), in [0, 1]; both are biased upwards when bins hold few items. ece_left: ece with bins [low, high), the
    last with 1, as SEVA's authors compute it: round confidences such as .9 fall on edges. brier:
    the mean squared difference between confidence and correctness, in [0, 1]. confidence and accuracy: over all items;
    their difference is the overconfidence. All are None without items.
    """

    n: int
    bins: tuple[Bin, ...]
    mass_bins: tuple[Bin, ...]
    ece: float | None
    ece_left: float | None
    adaptive_ece: float | None
    brier: float | None
    confidence: float | None
    accuracy: Estimate


def reliability(confidences: Sequence[float], correct: Sequence[bool], bins: int = 10) -> Reliability:
    """Compare confidences, cut to [0, 1], with correctness.

    Raises ValueError for sequences of different lengths, for NaN or infinity, and for fewer than one bin.
    """
    if len(confidences) != len(correct):
        raise ValueError(f"{len(confidences)} confidences for {len(correct)} items")
    if bins < 1:
        raise ValueError(f"{bins} bins: at least one is needed")
    stated, right = np.clip(np.asarray(confidences, np.float64), 0.0, 1.0), np.asarray(correct, bool)
    for i, confidence in enumerate(confidences):
        if not math.isfinite(confidence):
            raise ValueError(f"confidence {confidence} of item {i}: leave the item out, or set its confidence")
    even = _bins(np.arange(bins + 1) / bins, stated, right)
    mass: tuple[Bin, ...] = ()
    if len(stated):
        # Edges between equal parts of the ordered items, interpolated in whole numbers: an edge that is an item is exact.
        ordered = np.sort(stated)
        index, remainder = np.divmod(np.arange(bins + 1) * (len(ordered) - 1), bins)
        after = ordered[np.minimum(index + 1, len(ordered) - 1)]
        mass = _bins(ordered[index] + (after - ordered[index]) * remainder / bins, stated, right)
    return Reliability(
        n=len(stated),
        bins=even,
        mass_bins=mass,
        ece=_calibration_error(even),
        ece_left=_calibration_error(_bins(np.arange(bins + 1) / bins, stated, right, closed="left")),
        adaptive_ece=_calibration_error(mass),
        brier=_mean((stated - right) ** 2),
        confidence=_mean(stated),
        accuracy=wilson(int(right.sum()), len(right)),
    )


def _calibration_error(bins: Sequence[Bin]) -> float | None:
    """Return the mean of |accuracy - confidence| over bins, weighted by their items; None when all are empty."""
    gaps = [abs((bin_.accuracy.value or 0.0) - (bin_.confidence or 0.0)) * bin_.n for bin_ in bins]
    n = sum(bin_.n for bin_ in bins)
    return math.fsum(gaps) / n if n else None


def _bins(
    edges: NDArray[np.float64],
    stated: NDArray[np.float64],
    right: NDArray[np.bool_],
    closed: Literal["left", "right"] = "right",
) -> tuple[Bin, ...]:
    index = np.searchsorted(edges[1:-1], stated, side="left" if closed == "right" else "right")
    members = [index == i for i in range(len(edges) - 1)]
    return tuple(
        Bin(float(low), float(high), _mean(stated[inside]), wilson(int(right[inside].sum()), int(inside.sum())))
        for low, high, inside in zip(edges, edges[1:], members, strict=False)
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None


@dataclass(frozen=True, slots=True)
class SeedVariance:
    """A score over slices, in their order; std is the sample standard deviation (n - 1), None for one slice."""

    values: tuple[float, ...]
    mean: float
    std: float | None
    low: float
    high: float


def stratified_slices(labels: Sequence[str], n: int, seeds: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each seed, ascending indices of `n` items whose labels have the same shares as all items.

    A label's number is its share of `n`, rounded by largest remainders, ties to the larger label, then by name. Which
    items of a label are drawn depends on the seed and on that label's items alone. Raises ValueError unless
    0 <= n <= items, and for a negative seed.
    """
    if not 0 <= n <= len(labels):
        raise ValueError(f"{n} of {len(labels)} items")
    counts = Counter(labels)
    sizes = apportion(n, {label: counts[label] for label in sorted(counts, key=lambda label: (-counts[label], label))})
    indices = {label: [i for i, other in enumerate(labels) if other == label] for label in sizes}

    def drawn(label: str, seed: int) -> list[int]:
        # The label's bytes are part of the entropy, so that labels are drawn independently and one more changes no
        # other.
        rng = np.random.default_rng([seed, *label.encode("utf-8", "surrogatepass")])
        return list(rng.choice(indices[label], sizes[label], replace=False).tolist())

    return tuple(tuple(sorted(i for label in sizes for i in drawn(label, seed))) for seed in seeds)


def seed_variance(metric: Callable[[Sequence[int]], float], slices: Sequence[Sequence[int]]) -> SeedVariance:
    """Evaluate `metric` on the indices of each slice. Raises ValueError without slices."""
    if not slices:
        raise ValueError("no slices to evaluate")
    values = tuple(float(metric(indices)) for indices in slices)
    std = stdev(values) if len(values) > 1 else None
    return SeedVariance(values, math.fsum(values) / len(values), std, min(values), max(values))
