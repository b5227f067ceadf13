"""Stratified slices of a benchmark, and how much a score moves from slice to slice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class SeedVariance:
    """A score over slices, in their order; std is the sample standard deviation (n - 1), None for one slice."""

    values: tuple[float, ...]
    mean: float
    std: float | None
    low: float
    high: float


def stratified_slices(labels: Sequence[str], n: int, seeds: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each seed, ascending indices of `n` items whose labels have the same shares as all items.

    A label's number is its share of `n`, rounded by largest remainders: within one of the exact share and the same for
    every seed. Which items of a label are drawn depends on the seed and on that label's items alone. Raises ValueError
    unless 0 <= n <= items, and for a negative seed.
    """
    if not 0 <= n <= len(labels):
        raise ValueError(f"{n} of {len(labels)} items")
    places: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        places.setdefault(label, []).append(i)
    sizes = allocation(Counter(labels), n)
    return tuple(_slice(places, sizes, seed) for seed in seeds)


def allocation(counts: Counter[str], n: int) -> dict[str, int]:
    """`n` divided in proportion to `counts` by largest remainders; equal ones go to the larger label, then by name."""
    total = counts.total()
    if not total:
        return {}
    # Whole numbers: a remainder must not depend on rounding.
    found = {label: count * n // total for label, count in counts.items()}
    order = sorted(counts, key=lambda label: (-(counts[label] * n % total), -counts[label], label))
    for label in order[: n - sum(found.values())]:
        found[label] += 1
    return found


def _slice(places: dict[str, list[int]], sizes: dict[str, int], seed: int) -> tuple[int, ...]:
    found: list[int] = []
    for label in places:
        rng = np.random.default_rng([seed, *label.encode("utf-8", "surrogatepass")])
        found += rng.choice(places[label], sizes[label], replace=False).tolist()
    return tuple(sorted(found))


def seed_variance(metric: Callable[[Sequence[int]], float], slices: Sequence[Sequence[int]]) -> SeedVariance:
    """Evaluate `metric` on the indices of each slice. Raises ValueError without slices."""
    if not slices:
        raise ValueError("no slices to evaluate")
    values = tuple(float(metric(one)) for one in slices)
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    std = math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else None
    return SeedVariance(values, mean, std, min(values), max(values))
