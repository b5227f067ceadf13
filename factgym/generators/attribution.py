"""Claims with sources that need no data: rules of generated documents, stated faithfully or with one known error.

Documents and claims are those of the synthetic ClaimCheck data; one statement is one claim here, and its document is
the source. Each corruption belongs to one category of SEVA's error taxonomy. Labels and the six categories are balanced:
every run of twelve items holds six attributable claims and one of each error, in a random order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim
from factgym.datasets.claims import ClaimExample, GoldClaim, Verdict
from factgym.generators.base import GeneratedSplit, balanced_choice

SPLITS: Mapping[str, int] = {"train": 5000, "validation": 1000, "test": 1000, "ood": 1000}
"""Split -> its default size; "ood" has other kinds of documents in another style."""

_VERSION = 2
_ATTEMPTS = 64
"""Numbers of documents reserved for an item: of some errors, only one document in ten has one."""

_BALANCED: tuple[str | None, ...] = (*ERROR_TYPES, *[None] * len(ERROR_TYPES))
_ERRORS: Mapping[str, tuple[tuple[Verdict, ...], tuple[str, ...]]] = {
    "numerical_exaggeration": (("contradicted",), ("number",)),
    "negation_flip": (("contradicted",), ("polarity",)),
    "scope_inflation": (
        ("overclaim",),
        ("scope", "modality", "condition_dropped", "exception_dropped", "exception_generalised"),
    ),
    "temporal_shift": (("contradicted",), ("date", "version", "trigger")),
    "entity_substitution": (("contradicted", "unsupported"), ("party", "entity", "channel")),
    "fabrication": (("unsupported",), ("cause", "detail", "invented", "irrelevant")),
}
"""Error -> verdicts of its claims, and the corruptions that belong to it."""
_ERROR_OF_CORRUPTION = {name: error for error, (_, corruptions) in _ERRORS.items() for name in corruptions}
_FREQUENCY = re.compile(r"daily|weekly|monthly|quarterly|yearly|annual|\b(?:once|twice|each|every|per)\b", re.I)
_QUANTITY = re.compile(r"\d|\b(?:hours?|days?|weeks?|months?|years?|percent)\b", re.I)


def error_type_of(claim: GoldClaim) -> str | None:
    """Return the category of a corrupted claim; None for a faithful one and where two categories could be argued."""
    if claim.corruption == "number" and _FREQUENCY.search(claim.unsupported_span):
        return "temporal_shift"
    if claim.corruption == "party" and _QUANTITY.search(claim.unsupported_span):
        return None
    return _ERROR_OF_CORRUPTION.get(claim.corruption)


class SyntheticAttribution(GeneratedSplit[AttributionClaim]):
    """A split of generated claims; an item takes a few milliseconds.

    `meta` of an item holds "evidence" (spans of the source that decide, [start, end]), "span" (the wrong part of the
    claim, empty for a faithful one) and "reason".
    """

    SPLITS = SPLITS
    ITEMS = "claims"
    IDENTITY = f"factgym synthetic attribution {_VERSION} {{split}} {{seed}} {{size}}"

    def generate(self, index: int) -> AttributionClaim:
        """Generate a claim with its source: the document as one text, each passage under its heading."""
        example, claim = self._example_with_claim(index)
        source = ""
        starts: dict[str, int] = {}
        for passage in example.passages:
            source += ("\n\n" if source else "") + (f"{passage.title}\n" if passage.title else "")
            starts[passage.id] = len(source)
            source += passage.text
        return AttributionClaim(
            id=f"seva-{self.split}-{self.seed}-{index:05d}",
            claim=claim.text,
            source=source,
            label=ATTRIBUTABLE if claim.status == "supported" else NOT_ATTRIBUTABLE,
            error_type=error_type_of(claim),
            benchmark="synthetic",
            meta={
                "domain": example.domain,
                "corruption": claim.corruption,
                "span": claim.unsupported_span,
                "reason": claim.reason,
                "evidence": [[starts[fact.passage] + at for at in (fact.start, fact.end)] for fact in claim.facts],
            },
        )

    def _example_with_claim(self, index: int) -> tuple[ClaimExample, GoldClaim]:
        """Return the first generated example that has a claim with the item's error, by rejection sampling."""
        from factgym.generators.synthetic.scenario import build

        error = balanced_choice(_BALANCED, index, f"factgym attribution labels {self.seed} {self.split}")
        rng = random.Random(f"factgym attribution {self.seed} {self.split} {index}")
        kind = "ood" if self.split == "ood" else f"attribution {self.split}"
        number = index * _ATTEMPTS
        while True:
            verdict: Verdict = rng.choice(_ERRORS[error][0]) if error else "supported"
            example = build(kind, self.seed, number, verdict).example
            number += 1
            claims = [
                claim
                for claim in example.claims
                if (error_type_of(claim) == error if error else claim.status == "supported")
            ]
            if claims:
                return example, rng.choice(claims)
