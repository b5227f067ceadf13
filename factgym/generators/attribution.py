"""Claims with sources that need no data: rules of generated documents, stated faithfully or with one known error.

Documents and claims are those of the synthetic ClaimCheck data; one statement is one claim here, and its document is
the source. Each corruption belongs to one category of SEVA's error taxonomy. Labels and the six categories are balanced:
every run of twelve items holds six attributable claims and one of each error, in a random order. The miniature does the
same with the statements and passages of `factgym.generators.miniature`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from factgym.corpora.corpus import Passage
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim
from factgym.datasets.claims import ClaimExample, GoldClaim, Verdict
from factgym.generators.base import GeneratedSplit, balanced_choice
from factgym.generators.miniature import MiniatureClaims

SPLITS: Mapping[str, int] = {"train": 5000, "validation": 1000, "test": 1000, "ood": 1000}
"""Split -> its default size; "ood" has other kinds of documents in another style."""

_VERSION = 2
_ATTEMPTS = 64
"""Numbers of documents reserved for an item: of some errors, only one document in ten has one."""

_ERRORS: Mapping[str, tuple[tuple[Verdict, ...], tuple[str, ...]]] = {
    "numerical_exaggeration": (("contradicted",), ("number",)),
    "negation_flip": (("contradicted",), ("polarity",)),
    "scope_inflation": (
        ("overclaim",),
        ("scope", "modality", "condition", "condition_dropped", "exception_dropped", "exception_generalised"),
    ),
    "temporal_shift": (("contradicted",), ("date", "version", "trigger")),
    "entity_substitution": (("contradicted", "unsupported"), ("party", "entity", "channel", "name")),
    "fabrication": (("unsupported",), ("cause", "detail", "invented", "irrelevant", "silence")),
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
    claim, empty for a faithful one) and "reason". passages: of a document that its source has, those that decide first;
    None for all. Raises ConfigError as `GeneratedSplit` does.
    """

    SPLITS = SPLITS
    ERRORS: ClassVar[tuple[str, ...]] = ERROR_TYPES
    ITEMS = "claims"
    IDENTITY = f"factgym synthetic attribution {_VERSION} {{split}} {{seed}} {{size}}"

    def __init__(
        self, split: str | None = None, *, seed: int = 0, size: int | None = None, passages: int | None = None
    ) -> None:
        super().__init__(split, seed=seed, size=size)
        self.passages = passages

    def identity(self) -> str:
        """Return the text of `GeneratedSplit`, and the number of passages where it is set."""
        return super().identity() + ("" if self.passages is None else f" {self.passages} passages")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), seed=self.seed, size=self.size, passages=self.passages), (self.split,)

    def generate(self, index: int) -> AttributionClaim:
        """Generate a claim with its source: the document as one text, each passage under its heading."""
        example, claim = self._example_with_claim(index)
        source = ""
        starts: dict[str, int] = {}
        for passage in self._excerpt(example.passages, {fact.passage for fact in claim.facts}):
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

    def _excerpt(self, passages: Sequence[Passage], deciding: set[str]) -> Sequence[Passage]:
        """The passages of a source in the document's order. Fewer of them support no other claim, so labels hold."""
        if self.passages is None:
            return passages
        ranked = sorted(passages, key=lambda passage: passage.id not in deciding)
        chosen = {passage.id for passage in ranked[: max(self.passages, len(deciding))]}
        return [passage for passage in passages if passage.id in chosen]

    def _example_with_claim(self, index: int) -> tuple[ClaimExample, GoldClaim]:
        """Return the first generated example that has a claim with the item's error, by rejection sampling."""
        balanced = (*self.ERRORS, *[None] * len(self.ERRORS))
        error = balanced_choice(balanced, index, f"factgym attribution labels {self.seed} {self.split}")
        rng = random.Random(f"factgym attribution {self.seed} {self.split} {index}")
        number = index * _ATTEMPTS
        while True:
            verdict: Verdict = rng.choice(_ERRORS[error][0]) if error else "supported"
            example = self._example(number, verdict)
            number += 1
            claims = [
                claim
                for claim in example.claims
                if (error_type_of(claim) == error if error else claim.status == "supported")
            ]
            if claims:
                return example, rng.choice(claims)

    def _example(self, number: int, verdict: Verdict) -> ClaimExample:
        """Return a generated example. verdict: of the whole answer, where the generator lets it be chosen."""
        from factgym.generators.synthetic.scenario import build

        return build("ood" if self.split == "ood" else f"attribution {self.split}", self.seed, number, verdict).example


class MiniatureAttribution(SyntheticAttribution):
    """A split of claims of the miniature world, for small models: claims of some eight words, passages of three sentences.

    No claim denies, so of the six categories there is no "negation_flip".
    """

    SPLITS: ClassVar[Mapping[str, int]] = {"train": 20_000, "validation": 500, "test": 500}
    ERRORS = tuple(error for error in ERROR_TYPES if error != "negation_flip")
    IDENTITY = f"factgym miniature attribution {_VERSION} {{split}} {{seed}} {{size}}"

    def _example(self, number: int, verdict: Verdict) -> ClaimExample:
        return MiniatureClaims(self.split, seed=self.seed, size=number + 1)[number]
