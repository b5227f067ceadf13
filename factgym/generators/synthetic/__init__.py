"""Synthetic ClaimCheck data: documents from a typed fact model, claims with controlled corruptions, and their measures.

How an example is made: `rules` draws the facts of the document, `corruption` (or `multihop`) derives claims from them,
`document` and `clause` word both, `questions` asks and explains, `scenario` records the gold. `facts.judge` derives each
label a second time, from slots alone; `statistics` measures the result. The words are in `lexicon/*.toml`, one file per
domain.

Gold facts are whole sentences: the rule's main sentence, those of the limits that a claim states or leaves out, and the
definitions of its terms; for an unsupported claim, the same of the nearest rule. An unsupported span is the wording of
the one slot that the document does not carry; where nothing visible is wrong (a limit silently dropped, an invented or
irrelevant statement), it is the whole claim without its full stop.
"""

from factgym.generators.synthetic.dataset import GENERATOR_VERSION, SPLITS, SyntheticClaims

__all__ = ["GENERATOR_VERSION", "SPLITS", "SyntheticClaims"]
