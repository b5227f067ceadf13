"""Picks documents within a cluster (EVE, appendix F, equation 31)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from factgym.training.eve.selector.clusters import Clusters

_ROUNDING = 1e-9


class Bag:
    """A cluster's documents to pick from: by distance to the centroid over one plus uses, which it counts.

    The running sums are made once and stay in use while a pick passes: a document picked since then has less weight now
    and passes by the ratio of the two. When one does not, the sums are made anew, so that the chances are exact.
    """

    def __init__(self, clusters: Clusters, chosen: int, used: NDArray[np.int64]) -> None:
        self._rows = clusters.members[chosen]
        self._far = clusters.distances[self._rows]
        # Documents that all lie on their centroid, to rounding, are as good as each other. So are all of the corpus for
        # a cluster without any.
        self._even = float(self._far.sum()) <= _ROUNDING
        if not len(self._rows):
            self._rows = np.arange(len(used))
        self._used = used
        self._sum_up()

    def _sum_up(self) -> None:
        self._before = self._used[self._rows]
        if not self._even:
            self._sums = np.cumsum(self._far / (1.0 + self._before))

    def pick(self, rng: np.random.Generator) -> int:
        """The row of a document, whose uses grow by one."""
        place = self._place(rng)
        if not self._even and rng.random() * (1 + self._used[self._rows[place]]) >= 1 + self._before[place]:
            self._sum_up()
            place = self._place(rng)
        row = int(self._rows[place])
        self._used[row] += 1
        return row

    def _place(self, rng: np.random.Generator) -> int:
        if self._even:
            return int(rng.integers(len(self._rows)))
        found = int(np.searchsorted(self._sums, rng.random() * self._sums[-1], side="right"))
        return min(found, len(self._rows) - 1)
