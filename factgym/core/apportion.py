"""Whole numbers in proportion to weights."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K")


def apportion(total: int, weights: Mapping[K, int] | Mapping[K, Fraction]) -> dict[K, int]:
    """Divide `total` in proportion to the weights, by largest remainders (Hamilton's method).

    Exact: a remainder must not depend on rounding. Of equal remainders the first name's is rounded up. Each part is
    within one of its exact share. Raises ZeroDivisionError for weights that sum to 0.
    """
    whole = sum(weights.values())
    parts = {name: divmod(total * weight, whole) for name, weight in weights.items()}
    counts = {name: int(quotient) for name, (quotient, _) in parts.items()}
    # Each quotient is less than one below its share, so the rest is smaller than the number of names.
    for name in sorted(parts, key=lambda name: -parts[name][1])[: total - sum(counts.values())]:
        counts[name] += 1
    return counts
