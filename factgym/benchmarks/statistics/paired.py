"""McNemar's test: do two classifiers err on different items, or only here and there?

Only the items that one of them has right and the other wrong carry information (McNemar 1947; the continuity
correction is Edwards', 1948).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

EXACT_BELOW = 25
"""Discordant items under which the chi-square approximation is not trusted."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """The outcome of the test.

    first_only, second_only: items that this one alone has right. statistic: the smaller of the two (exact), or
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
    one, two = pairs.count((True, False)), pairs.count((False, True))
    discordant = one + two
    if exact is None:
        exact = discordant < EXACT_BELOW
    if exact:
        return McNemar(one, two, float(min(one, two)), _binomial(min(one, two), discordant), True)
    statistic = max(0, abs(one - two) - 1) ** 2 / discordant if discordant else 0.0
    return McNemar(one, two, statistic, math.erfc(math.sqrt(statistic / 2)), False)


def _binomial(fewer: int, n: int) -> float:
    """Twice the chance of at most `fewer` heads in `n` throws."""
    # scipy.stats would cost most of a second to import.
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(fewer, n, 0.5))) if n else 1.0
