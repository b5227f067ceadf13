"""From a weakness profile to how many probes each category gets: lines 5 to 9 of SEVA's Algorithm 2, in exact numbers.

Everything is computed in fractions, because a ceiling of a float decides by its rounding: 0.1 of 30 is 3 and not 4.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from factgym.core.errors import ConfigError
from factgym.datasets.attribution import ERROR_TYPES

Counts = Mapping[str, int]
Weights = Mapping[str, Fraction]


def weakness_weights(accuracy: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """w_t = (1 - α_t) / Σ(1 - α_t'), which sum to 1; uniform where every α_t is 1 and there is no weakness to follow.

    Raises ConfigError for an accuracy outside [0, 1] and where there is no category.
    """
    if not accuracy:
        raise ConfigError("weights need the accuracy of at least one category")
    for name, value in accuracy.items():
        if not 0 <= value <= 1:
            raise ConfigError(f"the accuracy of {name!r} must be from 0 to 1, not {value}")
    weakness = {name: 1 - Fraction(value) for name, value in accuracy.items()}
    total = sum(weakness.values())
    if not total:
        return dict.fromkeys(weakness, Fraction(1, len(weakness)))
    return {name: value / total for name, value in weakness.items()}


def ceiling_allocation(weights: Weights, budget: int) -> dict[str, int]:
    """n_t = ⌈w_t · B⌉ for each category.

    The sum is at least B and below B plus the number of categories, as the algorithm has it. Raises ConfigError for a
    budget below 1.
    """
    if budget < 1:
        raise ConfigError(f"a probe budget must be at least 1, not {budget}")
    return {name: math.ceil(weight * budget) for name, weight in weights.items()}


def random_allocation(total: int, seed: int) -> dict[str, int]:
    """`total` probes over the six categories, each drawn uniformly: what the control does in place of the weights."""
    if total < 1:
        raise ConfigError(f"a probe budget must be at least 1, not {total}")
    rng = random.Random(f"factgym evolve random probes {seed}")
    drawn = Counter(rng.choice(ERROR_TYPES) for _ in range(total))
    return {name: drawn[name] for name in ERROR_TYPES}


def split_by_share(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """`total` in the proportion of `shares`, exactly, by largest remainder; of equal remainders the first comes first.

    Raises ConfigError for shares that are negative or sum to 0.
    """
    whole = sum(shares.values(), Fraction(0))
    if whole <= 0 or any(value < 0 for value in shares.values()):
        raise ConfigError("shares must not be negative, and one must be above 0")
    exact = {name: total * Fraction(value) / whole for name, value in shares.items()}
    found = {name: math.floor(value) for name, value in exact.items()}
    behind = sorted(found, key=lambda name: found[name] - exact[name])
    for name in behind[: total - sum(found.values())]:
        found[name] += 1
    return found
