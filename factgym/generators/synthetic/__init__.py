"""The synthetic ClaimCheck data set: documents from a typed fact model, claims with controlled corruptions.

ClaimCheck ("Building The Benchmark"). How an example is made: `rules` draws the facts of the document, `corruption` (or
`multihop`) derives claims from them, `document` and `clause` word both, `scenario` asks, explains and records the gold.
The words are in `wordings/lexicon/*.toml`, one table per domain, the sentence frames in `wordings/frames.toml`.

Gold facts are whole sentences: the rule's main sentence, those of the limits that a claim states or leaves out, and the
definitions of its terms; for an unsupported claim, the same of the nearest rule. An unsupported span is the wording of
the one slot that the document does not carry; where nothing visible is wrong (a limit silently dropped, an invented or
irrelevant statement), it is the whole claim without its full stop.
"""

from __future__ import annotations

from collections.abc import Mapping

from factgym.datasets.claims import VERDICTS, ClaimExample, Verdict
from factgym.generators.base import GeneratedSplit, balanced_choice

GENERATOR_VERSION = "3"
SPLITS: Mapping[str, int] = {"train": 5000, "validation": 1000, "ood": 1000, "hard": 500, "multihop": 500}
"""Split -> its size in the paper, which is its default size."""


class SyntheticClaims(GeneratedSplit[ClaimExample]):
    """A split of synthetic claim examples; each verdict occurs once in every run of five, in a random order.

    Passage ids are "E1" to "En" in document order, n between 3 and 6, exactly 5 in "multihop".
    """

    SPLITS = SPLITS
    ITEMS = "examples"
    IDENTITY = f"factgym synthetic claims {GENERATOR_VERSION} {{split}} {{seed}} {{size}}"

    def generate(self, index: int) -> ClaimExample:
        """Generate an example."""
        from factgym.generators.synthetic.scenario import build

        return build(self.split, self.seed, index, self.verdict(index)).example

    def verdict(self, index: int) -> Verdict:
        """Return the verdict of an item, without generating it."""
        return balanced_choice(VERDICTS, index, f"factgym claims verdicts {self.seed} {self.split}")
