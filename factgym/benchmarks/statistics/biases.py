"""Where a verifier leans: false alarms by kind of item, too many rejections, one favourite diagnosis.

What a verifier looks for is the positive here: for one that flags unsupported claims that is "Not Attributable", and a
false positive is a supported claim that it flags (SEVA, section 4.2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from factgym.benchmarks.intervals import LEVEL, NO_DATA, Estimate, wilson


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often each kind occurs: counts from the most frequent down, and shares with Wilson's intervals.

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
    for gold, said, group in zip(golds, predictions, groups, strict=True):
        totals[group] += gold != positive
        false[group] += gold != positive and said == positive
    return {group: wilson(false[group], totals[group]) for group in sorted(totals)}


def share_difference(first: Estimate, second: Estimate) -> Estimate:
    """`second - first` of two independent proportions with Wilson's intervals, in [-1, 1].

    The interval is Newcombe's hybrid score (1998, method 10), at the level of the two; NO_DATA where one has no value.
    """
    known = [one.low is not None and one.high is not None and one.value is not None for one in (first, second)]
    if not all(known):
        return NO_DATA
    (a, a_low, a_high), (b, b_low, b_high) = (
        (one.value or 0.0, one.low or 0.0, one.high or 0.0) for one in (first, second)
    )
    down, up = math.hypot(b - b_low, a_high - a), math.hypot(b_high - b, a - a_low)
    return Estimate(b - a, b - a - down, b - a + up, first.n + second.n)


def negative_bias(
    golds: Sequence[str], predictions: Sequence[str | None], negative: str, *, level: float = LEVEL
) -> Estimate:
    """The share predicted `negative` minus the share that is, in [-1, 1]: above 0 it is predicted too often.

    A missing prediction is not `negative`. The interval is Bonett and Price's adjusted Wald (2012) for a difference of
    paired proportions, which keeps a length where every prediction is right.
    """
    over = under = n = 0
    for gold, said in zip(golds, predictions, strict=True):
        over += said == negative and gold != negative
        under += said != negative and gold == negative
        n += 1
    if n == 0:
        return NO_DATA
    value, (up, down) = (over - under) / n, ((over + 1) / (n + 2), (under + 1) / (n + 2))
    reach = NormalDist().inv_cdf(0.5 + level / 2) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    low, high = max(-1.0, up - down - reach), min(1.0, up - down + reach)
    return Estimate(value, min(low, value), max(high, value), n)


def distribution(kinds: Iterable[str], reference: Iterable[str] | None = None) -> Distribution:
    """Count kinds, such as the error types that were diagnosed, against those of the gold items."""
    counts = Counter(kinds)
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    shares = {kind: wilson(n, counts.total()) for kind, n in ordered.items()}
    return Distribution(ordered, shares, None if reference is None else total_variation(counts, Counter(reference)))


def total_variation(first: Mapping[str, int], second: Mapping[str, int]) -> float | None:
    """Half the sum of the differences between two distributions' shares, in [0, 1]; None where one has no items."""
    a, b = sum(first.values()), sum(second.values())
    if not a or not b:
        return None
    gaps = (abs(first.get(kind, 0) * b - second.get(kind, 0) * a) for kind in {*first, *second})
    return sum(gaps) / (2 * a * b)
