"""From gold and predicted labels to the numbers of a classifier: accuracy, F1, balanced accuracy, correlation.

Everything is a function of the table of counts, so that one array function serves a single table and ten thousand
resampled ones (see `scores`). A missing prediction is wrong for every label: it stands in a column of its own, counts
in accuracy and in the recall of its gold label, and is nobody's precision. Where a ratio has nothing to divide by it is
0, as with scikit-learn's `zero_division=0`: a label that is asked for but never occurs pulls macro-F1 down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from factgym.benchmarks.intervals import Estimate, wilson
from factgym.benchmarks.summary import NO_VERDICT, Confusion, labels_in_order
from factgym.core.errors import ConfigError, did_you_mean

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
    ValueError for sequences of different lengths, for repeated labels, and for a label that `labels` lacks: whoever
    parses outputs decides what an unknown label means, None or an error.
    """
    known = _known(golds, predictions, labels)
    pairs = Counter(zip(golds, predictions, strict=True))
    missing = any(said is None for said in predictions)
    columns: tuple[str | None, ...] = (*known, None) if missing else known
    counts = tuple(tuple(pairs[(gold, said)] for said in columns) for gold in known)
    return Confusion(known, tuple(NO_VERDICT if said is None else said for said in columns), counts)


def _known(golds: Sequence[str], predictions: Sequence[str | None], labels: Sequence[str] | None) -> tuple[str, ...]:
    found = {*golds, *(said for said in predictions if said is not None)}
    known = labels_in_order(found) if labels is None else tuple(labels)
    if len(set(known)) != len(known):
        raise ValueError(f"a label is repeated in {known}")
    for one in sorted(found.difference(known)):
        raise ValueError(f"label {one!r} is none of {', '.join(known)}.{did_you_mean(one, known)}")
    if NO_VERDICT in known:
        raise ValueError(f"{NO_VERDICT!r} cannot be a label: it is how a missing prediction is written; use None")
    return known


def counts_of(table: Confusion) -> Counts:
    """The table with the same labels on both sides, in the order of its columns, and a last column for the missing."""
    labels = [one for one in table.predictions if one != NO_VERDICT]
    labels += [one for one in table.golds if one not in labels]
    places = {label: i for i, label in enumerate(labels)}
    found = np.zeros((len(labels), len(labels) + 1))
    for gold, row in zip(table.golds, table.counts, strict=True):
        for said, n in zip(table.predictions, row, strict=True):
            found[places[gold], places.get(said, len(labels))] = n
    return found


def accuracy(table: Confusion) -> Estimate:
    """The share of items whose prediction is the gold label, with Wilson's interval."""
    counts = counts_of(table)
    return wilson(round(float(np.trace(counts))), round(float(counts.sum())))


def label_scores(table: Confusion) -> Mapping[str, LabelScores]:
    """Precision, recall and F1 of every label of the table, in the order of its columns."""
    counts = counts_of(table)
    right, gold, predicted = _margins(counts)
    labels = [one for one in table.predictions if one != NO_VERDICT]
    labels += [one for one in table.golds if one not in labels]
    columns = zip(
        labels, _ratio(right, predicted), _ratio(right, gold), f1_counts(counts), gold, predicted, right, strict=True
    )
    return {
        label: LabelScores(float(p), float(r), float(f), int(g), int(said), int(hit))
        for label, p, r, f, g, said, hit in columns
    }


def macro_f1(table: Confusion) -> float:
    """The unweighted mean of the labels' F1 scores, in [0, 1]."""
    return float(macro_f1_counts(counts_of(table)))


def balanced_accuracy(table: Confusion) -> float:
    """The unweighted mean recall of the labels that occur as gold, in [0, 1]; 0 for an empty table."""
    return float(balanced_accuracy_counts(counts_of(table)))


def matthews(table: Confusion) -> float:
    """Matthews' correlation for any number of labels (Gorodkin 2004), in [-1, 1]; 0 where a side does not vary."""
    return float(matthews_counts(counts_of(table)))


def accuracy_counts(counts: Counts) -> Counts:
    """Accuracy of each of a stack of tables."""
    return _ratio(np.trace(counts, axis1=-2, axis2=-1), counts.sum((-2, -1)))


def f1_counts(counts: Counts) -> Counts:
    """F1 of each label of each table, shape (..., K)."""
    right, gold, predicted = _margins(counts)
    return _ratio(2 * right, gold + predicted)


def macro_f1_counts(counts: Counts) -> Counts:
    """Macro-F1 of each of a stack of tables; a label that a resample lost counts as 0 there."""
    return _mean_over(f1_counts(counts), np.ones(counts.shape[-2], bool))


def balanced_accuracy_counts(counts: Counts) -> Counts:
    """Balanced accuracy of each of a stack of tables."""
    right, gold, _ = _margins(counts)
    return _mean_over(_ratio(right, gold), gold > 0)


def matthews_counts(counts: Counts) -> Counts:
    """Matthews' correlation of each of a stack of tables; missing predictions are one more predicted label."""
    right, gold, _ = _margins(counts)
    said, n = counts.sum(-2), counts.sum((-2, -1))
    shared = right.sum(-1) * n - (said[..., :-1] * gold).sum(-1)
    spread = (n**2 - (said**2).sum(-1)) * (n**2 - (gold**2).sum(-1))
    return _ratio(shared, np.sqrt(spread))


METRICS: Mapping[str, Callable[[Counts], Counts]] = MappingProxyType(
    {
        "accuracy": accuracy_counts,
        "macro_f1": macro_f1_counts,
        "balanced_accuracy": balanced_accuracy_counts,
        "matthews": matthews_counts,
    }
)
"""What can be resampled, by name."""


def find_metric(name: str) -> Callable[[Counts], Counts]:
    """The function behind a name in `METRICS`. Raises ConfigError for any other."""
    if name not in METRICS:
        raise ConfigError(f"no metric {name!r}; there are {', '.join(METRICS)}.{did_you_mean(name, METRICS)}")
    return METRICS[name]


def _margins(counts: Counts) -> tuple[Counts, Counts, Counts]:
    """Right, gold and predicted counts of each label, shape (..., K)."""
    square = counts[..., :-1]
    return np.diagonal(square, axis1=-2, axis2=-1), counts.sum(-1), square.sum(-2)


def _mean_over(values: Counts, where: NDArray[np.bool_]) -> Counts:
    return _ratio((values * where).sum(-1), np.broadcast_to(where, values.shape).sum(-1).astype(float))


def _ratio(top: Counts, bottom: Counts) -> Counts:
    """`top / bottom`, 0 where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom > 0)
