"""How many sentence shapes the generator has: its documents with every word of the lexicons masked.

A "handful of templates" would show here: what is left when parties, actions, events, amounts, conditions and the rest
are single letters is the syntax alone. Fillers and ready-made statements are left out of the count.
"""

from __future__ import annotations

from collections import Counter

from factgym.generators.synthetic.dataset import SyntheticClaims
from factgym.generators.synthetic.scenario import build


def sentence_shapes(claims: SyntheticClaims, count: int) -> dict[str, Counter[str]]:
    """Masked document sentences that state or decide something claimed, by domain, of the first `count` items."""
    shapes: dict[str, Counter[str]] = {}
    for index in range(min(count, len(claims))):
        example = build(claims.split, claims.seed, index, claims.verdict(index), masked=True).example
        texts = {passage.id: passage.text for passage in example.passages}
        counter = shapes.setdefault(example.domain, Counter())
        for fact in {fact for claim in example.claims for fact in claim.facts}:
            counter[texts[fact.passage][fact.start : fact.end]] += 1
    return shapes
