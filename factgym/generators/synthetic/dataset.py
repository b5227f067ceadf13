"""The synthetic ClaimCheck data set (ClaimCheck, "Building The Benchmark"): lazy, immutable, item i from (seed, split, i).

Nothing is generated until an item is asked for, and each item is generated alone, so a first example costs what one
example costs. Within every run of five items each verdict occurs once, in an order of its own.
"""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import overload

from factgym.core.errors import ConfigError, did_you_mean
from factgym.datasets.claims import VERDICTS, ClaimExample, Verdict

GENERATOR_VERSION = "1"
SPLITS: Mapping[str, int] = MappingProxyType(
    {"train": 5000, "validation": 1000, "ood": 1000, "hard": 500, "multihop": 500}
)
"""Sizes of the splits as in the paper."""


class SyntheticClaims(Sequence[ClaimExample]):
    """A split of synthetic claim examples.

    Passage ids are "E1" to "En" in document order, n between 3 and 6, exactly 5 in "multihop". `size` may be below or
    above the paper's; a smaller set is a prefix of a larger one.
    Raises `ConfigError` for an unknown split or a size below 1.
    """

    SPLITS = SPLITS

    def __init__(self, split: str = "train", *, seed: int = 0, size: int | None = None) -> None:
        if split not in SPLITS:
            raise ConfigError(f"unknown split {split!r}; there are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}")
        if size is not None and size < 1:
            raise ConfigError(f"size is the number of examples wanted, at least 1, not {size!r}")
        self.split = split
        self.seed = seed
        self.size = SPLITS[split] if size is None else size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> ClaimExample: ...
    @overload
    def __getitem__(self, index: slice) -> list[ClaimExample]: ...
    def __getitem__(self, index: int | slice) -> ClaimExample | list[ClaimExample]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self.size))]
        at = operator.index(index)
        if at < 0:
            at += self.size
        if not 0 <= at < self.size:
            raise IndexError(f"example {index} of a split of {self.size}")
        from factgym.generators.synthetic.scenario import build

        return build(self.split, self.seed, at, self.verdict(at)).example

    def verdict(self, index: int) -> Verdict:
        """The verdict of item `index`, without generating it."""
        block, place = divmod(index, len(VERDICTS))
        order = list(VERDICTS)
        random.Random(f"factgym claims verdicts {self.seed} {self.split} {block}").shuffle(order)
        return order[place]

    def fingerprint(self) -> str:
        """A SHA-256 in hex over the generator's version, split, seed and size; nothing is generated for it."""
        record = f"factgym synthetic claims {GENERATOR_VERSION} {self.split} {self.seed} {self.size}"
        return hashlib.sha256(record.encode()).hexdigest()
