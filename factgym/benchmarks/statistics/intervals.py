"""Estimates with 95 % intervals: every number in a table carries one.

A proportion gets Wilson's interval, a mean Student's t: on bimodal rewards it covers as well as the percentile bootstrap,
better below fifty episodes, and needs no random numbers. It is cut to the scale of the values, which every caller names:
no mean lies outside, so that the cut loses no coverage. Turns of one episode and samples of one task are not independent:
a rate over turns is a ratio of two sums over episodes, and `Series` averages samples by task first.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

Bounds = tuple[float, float]
"""The lowest and the highest value of a scale. Intervals are cut to it, which loses no coverage: no mean lies outside."""

UNIT = (0.0, 1.0)
POSITIVE = (0.0, math.inf)
UNBOUNDED = (-math.inf, math.inf)
_SLACK = 1e-9
LEVEL = 0.95
"""Confidence level of every interval that the package prints."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval `[low, high]`; `n`: independent units behind it (tasks, or episodes of different tasks).

    All three are None when n is 0. With n = 1 a mean has no interval: low and high are None.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval, in the value's unit, or None where there is none."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


NO_DATA = Estimate(None, None, None, 0)


def natural_bounds(values: Iterable[float], declared: Bounds | None = None) -> Bounds:
    """The declared scale where it holds the values, else the narrowest of [0, 1], [-1, 1], from 0 on, and none."""
    low, high = 0.0, 0.0
    for value in values:
        low, high = min(low, value), max(high, value)
    if declared is not None and min(declared[0], 0.0) - _SLACK <= low and high <= max(declared[1], 0.0) + _SLACK:
        return declared
    if low >= -1 and high <= 1:
        return UNIT if low >= 0 else (-1.0, 1.0)
    return POSITIVE if low >= 0 else UNBOUNDED


def wilson(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """A proportion with Wilson's score interval, without continuity correction (Wilson 1927).

    Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes out of {n}")
    return _score_interval(successes / n, n, level) if n else NO_DATA


def _score_interval(share: float, n: int, level: float = LEVEL) -> Estimate:
    z = NormalDist().inv_cdf(0.5 + level / 2)
    # Roots of (p - share)^2 = z^2 p (1 - p) / n in p: centre and half the distance of the two.
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # The bounds at 0 and 1 are exact; rounding must not push them past the value.
    low = 0.0 if share == 0 else max(0.0, centre - reach)
    high = 1.0 if share == 1 else min(1.0, centre + reach)
    return Estimate(share, low, high, n)


def mean_interval(values: Sequence[float], bounds: Bounds) -> Estimate:
    """A mean with Student's t interval, cut to the bounds of the scale.

    On the scale [0, 1], values that are all 0 or 1 are a proportion and get Wilson's interval.
    """
    n = len(values)
    if n == 0:
        return NO_DATA
    if bounds == (0.0, 1.0) and all(value in (0, 1) for value in values):
        return wilson(round(sum(values)), n)
    mean = math.fsum(values) / n
    return _t_interval(mean, math.fsum((value - mean) ** 2 for value in values), n, bounds)


def paired_interval(first: Sequence[float], second: Sequence[float], bounds: Bounds | None = None) -> Estimate:
    """The mean of second minus first, value by value. bounds: of the values, where they are declared."""
    differences = [after - before for before, after in zip(first, second, strict=True)]
    low, high = natural_bounds([*first, *second], bounds)
    return mean_interval(differences, (low - high, high - low))


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """The share `sum(numerators) / sum(denominators)` over clusters, by linearisation, cut to [0, 1].

    One pair for each episode, 0 <= numerator <= denominator; pairs with a denominator of 0 do not count. A share of
    exactly 0 or 1 gets Wilson's interval over the episodes, as if all turns of an episode were one.
    """
    pairs = [(top, bottom) for top, bottom in zip(numerators, denominators, strict=True) if bottom]
    n = len(pairs)
    if n == 0:
        return NO_DATA
    total = math.fsum(bottom for _, bottom in pairs)
    share = math.fsum(top for top, _ in pairs) / total
    if share in (0.0, 1.0):
        return _score_interval(share, n)
    # Linearisation: the residuals top - share * bottom have mean 0, and the ratio varies as their mean over the mean size.
    spread = math.fsum((top - share * bottom) ** 2 for top, bottom in pairs) / (total / n) ** 2
    return _t_interval(share, spread, n, UNIT)


def _t_interval(mean: float, spread: float, n: int, bounds: Bounds) -> Estimate:
    """`spread` is the sum of squared deviations from the mean."""
    if n == 1:
        return Estimate(mean, None, None, 1)
    # scipy.stats would cost most of a second to import.
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * math.sqrt(spread / (n - 1) / n)
    low, high = max(mean - reach, bounds[0]), min(mean + reach, bounds[1])
    return Estimate(mean, min(low, mean), max(high, mean), n)


def mean_of(parts: Sequence[Estimate]) -> Estimate:
    """The plain mean of independent estimates; parts without a value do not count.

    Its interval combines theirs by their squared reaches (MOVER, Zou and Donner 2008), so that it does not collapse where
    every part is 0 or 1; where a part has no interval the mean has none.
    """
    parts = [part for part in parts if part.value is not None]
    if not parts:
        return NO_DATA
    k, n = len(parts), sum(part.n for part in parts)
    mean = math.fsum(part.value or 0.0 for part in parts) / k
    if any(part.low is None or part.high is None for part in parts):
        return Estimate(mean, None, None, n)
    # The reach of a mean of independent parts is the root of the sum of their squared reaches, over k; each side apart.
    down = math.hypot(*((part.value or 0.0) - (part.low or 0.0) for part in parts)) / k
    up = math.hypot(*((part.high or 0.0) - (part.value or 0.0) for part in parts)) / k
    return Estimate(mean, mean - down, mean + up, n)


def macro_interval(parts: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of independent proportions (macro recall), cut to [0, 1]; parts without an interval are left out."""
    mean = mean_of([part for part in parts if part.low is not None])
    if mean.low is None or mean.high is None:
        return NO_DATA
    return Estimate(mean.value, max(0.0, mean.low), min(1.0, mean.high), sum(part.n for part in parts))


class Series:
    """One number of each episode with its task: 20 bytes an episode, whatever the episode holds.

    The interval of a mean is Student's t (for shares that are 0 or 1 in every task, Wilson's) over the tasks' means. Where
    tasks have different numbers of samples, each counts by its number and the interval comes by linearisation of the
    ratio of the two sums, which is the same where the numbers are equal.

    A value may be a sum over `size` parts of an episode (its turns): estimates are then for one part.
    """

    __slots__ = ("_sizes", "_tasks", "_values")

    def __init__(self) -> None:
        self._tasks = array("I")
        self._values = array("d")
        self._sizes = array("d")

    def __len__(self) -> int:
        return len(self._values)

    def add(self, task: int, value: float, size: float = 1.0) -> None:
        """Add an episode of the task with this number; a size of 0 adds nothing."""
        if size:
            self._tasks.append(task)
            self._values.append(value)
            self._sizes.append(size)

    @property
    def values(self) -> array[float]:
        """The values in the order in which they came."""
        return self._values

    @property
    def total(self) -> float:
        """The sum of the values."""
        return math.fsum(self._values)

    def mean(self, bounds: Bounds | None = None) -> Estimate:
        """The mean of all values, its interval over tasks, cut to `bounds`, by default `natural_bounds`; `n` is the number of tasks."""
        sums, sizes = self._by_task()
        if not sums:
            return NO_DATA
        bounds = natural_bounds(self._values) if bounds is None else bounds
        if len(set(sizes)) == 1:
            return mean_interval([top / bottom for top, bottom in zip(sums, sizes, strict=True)], bounds)
        # Tasks of different sizes: each task enters as the mean plus its residual over the typical size, so that the t interval
        # of these values is that of the ratio of the two sums.
        mean = math.fsum(sums) / math.fsum(sizes)
        typical = math.fsum(sizes) / len(sizes)
        around = [mean + (top - mean * bottom) / typical for top, bottom in zip(sums, sizes, strict=True)]
        return mean_interval(around, bounds)

    def share(self) -> Estimate:
        """Values over sizes as a share in [0, 1]."""
        return ratio_interval(*self._by_task())

    def _by_task(self) -> tuple[list[float], list[float]]:
        sums: dict[int, float] = {}
        sizes: dict[int, float] = {}
        for task, value, size in zip(self._tasks, self._values, self._sizes, strict=True):
            sums[task] = sums.get(task, 0.0) + value
            sizes[task] = sizes.get(task, 0.0) + size
        return list(sums.values()), list(sizes.values())
