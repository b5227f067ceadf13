"""Slices of a set of claims: stratified as the paper's evaluation draws them, or the same number of each label.

The paper (appendix "Evaluation Benchmarks") samples FEVER and HaluEval to 200 and TruthfulQA to 400, preserving the
label distribution, under three seeds. A slice keeps the order of the whole.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from typing import Protocol, overload

from factgym.core.errors import ConfigError
from factgym.core.tasks import SharedByArguments
from factgym.datasets.attribution.claims import LABELS, AttributionClaim, Label


class Claims(Protocol):
    """What every set of claims is."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> AttributionClaim: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AttributionClaim]: ...
    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        ...


class Slice(SharedByArguments, Sequence[AttributionClaim]):
    """The claims of `whole` at `places`, in their order."""

    def __init__(self, whole: Claims, places: Iterable[int]) -> None:
        self._whole = whole
        self._places = tuple(sorted(places))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> AttributionClaim: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AttributionClaim]: ...
    def __getitem__(self, index: int | slice) -> AttributionClaim | Sequence[AttributionClaim]:
        if isinstance(index, slice):
            return tuple(self._whole[place] for place in self._places[index])
        return self._whole[self._places[index]]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the whole's and the places."""
        return hashlib.sha256(f"{self._whole.fingerprint()}:{self._places}".encode()).hexdigest()


def stratified(claims: Claims, size: int, seed: int = 0) -> Slice:
    """`size` claims with the labels in the proportion of the whole, by largest remainder.

    Raises ConfigError for a size below 1 or above the number of claims.
    """
    if not 1 <= size <= len(claims):
        raise ConfigError(f"a slice has 1 to {len(claims)} claims here, not {size}")
    pools = _by_label(claims)
    exact = {label: size * len(pool) / len(claims) for label, pool in pools.items()}
    counts = {label: int(share) for label, share in exact.items()}
    for label in sorted(pools, key=lambda one: counts[one] - exact[one])[: size - sum(counts.values())]:
        counts[label] += 1
    return Slice(claims, _drawn(pools, counts, seed))


def balanced(claims: Claims, per_label: int, seed: int = 0) -> Slice:
    """`per_label` claims of each label. Raises ConfigError where a label has fewer."""
    pools = _by_label(claims)
    for label in LABELS:
        if not 1 <= per_label <= len(pools[label]):
            raise ConfigError(f"there are {len(pools[label])} claims that are {label}; {per_label} were asked for")
    return Slice(claims, _drawn(pools, dict.fromkeys(LABELS, per_label), seed))


def _by_label(claims: Claims) -> dict[Label, list[int]]:
    pools: dict[Label, list[int]] = {label: [] for label in LABELS}
    for place in range(len(claims)):
        pools[claims[place].label].append(place)
    return pools


def _drawn(pools: dict[Label, list[int]], counts: dict[Label, int], seed: int) -> list[int]:
    places = []
    for label, pool in pools.items():
        places += random.Random(f"factgym attribution slice {seed} {label}").sample(pool, counts[label])
    return places
