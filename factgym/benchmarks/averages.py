"""Averages over benchmarks: of independent estimates, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

from factgym.benchmarks.intervals import NO_DATA, Estimate


def mean_of(parts: Sequence[Estimate]) -> Estimate:
    """The plain mean of independent estimates, its interval from theirs by their squared reaches (Zou and Donner 2008).

    Parts without a value do not count; where a part has no interval the mean has none.
    """
    known = [one for one in parts if one.value is not None]
    if not known:
        return NO_DATA
    k = len(known)
    mean = math.fsum(one.value or 0.0 for one in known) / k
    n = sum(one.n for one in known)
    if any(one.low is None or one.high is None for one in known):
        return Estimate(mean, None, None, n)
    down = math.hypot(*((one.value or 0.0) - (one.low or 0.0) for one in known)) / k
    up = math.hypot(*((one.high or 0.0) - (one.value or 0.0) for one in known)) / k
    return Estimate(mean, mean - down, mean + up, n)
