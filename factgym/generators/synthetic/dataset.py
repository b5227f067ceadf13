"""The synthetic ClaimCheck data set (ClaimCheck, "Building The Benchmark").

Each item is generated alone on access. Within every run of five items each verdict occurs once, in a random order.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from factgym.datasets.claims import VERDICTS, ClaimExample, Verdict
from factgym.generators.base import GeneratedSplit, balanced_choice

GENERATOR_VERSION = "1"
SPLITS: Mapping[str, int] = MappingProxyType(
    {"train": 5000, "validation": 1000, "ood": 1000, "hard": 500, "multihop": 500}
)
"""Split -> its size in the paper, which is its default size."""


class SyntheticClaims(GeneratedSplit[ClaimExample]):
    """A split of synthetic claim examples.

    Passage ids are "E1" to "En" in document order, n between 3 and 6, exactly 5 in "multihop".
    """

    SPLITS = SPLITS
    ITEMS = "examples"

    def identity(self) -> str:
        """Return a text of the generator's version, the split, the seed and the size."""
        return f"factgym synthetic claims {GENERATOR_VERSION} {self.split} {self.seed} {self.size}"

    def generate(self, index: int) -> ClaimExample:
        """Generate an example."""
        from factgym.generators.synthetic.scenario import build

        return build(self.split, self.seed, index, self.verdict(index)).example

    def verdict(self, index: int) -> Verdict:
        """Return the verdict of an item, without generating it."""
        return balanced_choice(VERDICTS, index, f"factgym claims verdicts {self.seed} {self.split}")
