"""Means over episodes whose intervals are over tasks: samples of one task are not independent.

The values of a task's samples are averaged first, and Student's t interval (for shares that are 0 or 1 in every task,
Wilson's) is taken over the tasks. Where tasks have different numbers of samples, each counts by its number: the mean is
that of all episodes, and the interval comes by linearisation of the ratio of the two sums, which is the same thing
when the numbers are equal. With one sample for each task it is the plain interval over episodes.
"""

from __future__ import annotations

import math
from array import array

from factgym.benchmarks.intervals import NO_DATA, Estimate, mean_interval, ratio_interval

UNIT = (0.0, 1.0)
POSITIVE = (0.0, math.inf)


class Series:
    """One number of each episode with its task: 20 bytes an episode, whatever the episode holds.

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

    def mean(self, bounds: tuple[float, float] | None = None) -> Estimate:
        """The mean of all values, its interval over tasks, cut to `bounds`; `n` is the number of tasks."""
        sums, sizes = self._by_task()
        if not sums:
            return NO_DATA
        if len(set(sizes)) == 1:
            return mean_interval([top / bottom for top, bottom in zip(sums, sizes, strict=True)], bounds=bounds)
        mean = math.fsum(sums) / math.fsum(sizes)
        typical = math.fsum(sizes) / len(sizes)
        around = [mean + (top - mean * bottom) / typical for top, bottom in zip(sums, sizes, strict=True)]
        return mean_interval(around, bounds=bounds)

    def scaled_mean(self) -> Estimate:
        """The mean, cut to [0, 1] when no value leaves it; nothing is known of other scales."""
        return self.mean(UNIT if all(0 <= value <= 1 for value in self._values) else None)

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
