"""Whether stated confidence means what it says: reliability bins, expected calibration error, Brier score.

A confidence is that of the *predicted* label and is compared with whether the prediction was right. Verifiers say 0.9
and 0.95 over and over; equal confidences are never split between bins, so no number here depends on the order of items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from factgym.benchmarks.intervals import Estimate, wilson


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
    """How confidence and accuracy go together over `n` items.

    bins: of equal width over [0, 1]. mass_bins: between quantiles of the confidences (the strategy "quantile" of
    scikit-learn's `calibration_curve`); where many are equal some are empty. ece and adaptive_ece: the mean over items of |accuracy - confidence| of their bin, for the two kinds of bins
    (Naeini et al. 2015; Nguyen and O'Connor 2015), in [0, 1]; both are biased upwards when bins hold few items. brier:
    the mean squared difference between confidence and correctness, in [0, 1]. confidence and accuracy: over all items;
    their difference is the overconfidence. All are None without items.
    """

    n: int
    bins: tuple[Bin, ...]
    mass_bins: tuple[Bin, ...]
    ece: float | None
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
    for i, one in enumerate(confidences):
        if not math.isfinite(one):
            raise ValueError(f"confidence {one} of item {i}: leave the item out, or say what it counts as")
    stated = np.clip(np.asarray(confidences, np.float64), 0.0, 1.0)
    right = np.asarray(correct, bool)
    even = _bins(np.arange(bins + 1) / bins, stated, right)
    mass = _bins(_quantiles(np.sort(stated), bins), stated, right) if len(stated) else ()
    return Reliability(
        n=len(stated),
        bins=even,
        mass_bins=mass,
        ece=calibration_error(even),
        adaptive_ece=calibration_error(mass),
        brier=_mean((stated - right) ** 2),
        confidence=_mean(stated),
        accuracy=wilson(int(right.sum()), len(right)),
    )


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """The mean of |accuracy - confidence| over bins, weighted by their items; None when all are empty."""
    gaps = [
        (abs(one.accuracy.value - one.confidence), one.n)
        for one in bins
        if one.confidence is not None and one.accuracy.value is not None
    ]
    return math.fsum(gap * n for gap, n in gaps) / sum(n for _, n in gaps) if gaps else None


def _quantiles(ordered: NDArray[np.float64], parts: int) -> NDArray[np.float64]:
    """The edges between `parts` equal parts, interpolated; in whole numbers, so that an edge that is an item is exact."""
    place, rest = np.divmod(np.arange(parts + 1) * (len(ordered) - 1), parts)
    after = ordered[np.minimum(place + 1, len(ordered) - 1)]
    return np.asarray(ordered[place] + (after - ordered[place]) * rest / parts, np.float64)


def _bins(edges: NDArray[np.float64], stated: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[Bin, ...]:
    place = np.searchsorted(edges[1:-1], stated, side="left")
    found = []
    for i in range(len(edges) - 1):
        here = place == i
        accuracy = wilson(int(right[here].sum()), int(here.sum()))
        found.append(Bin(float(edges[i]), float(edges[i + 1]), _mean(stated[here]), accuracy))
    return tuple(found)


def _mean(values: NDArray[np.float64]) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None
