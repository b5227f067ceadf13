"""Claims with sources that need no data: rules of generated documents, stated faithfully or with one known error.

Documents and claims are those of the synthetic ClaimCheck data; one statement is one claim here, and its document is
the source. Each way of corruption is one category of SEVA's error taxonomy. Labels are balanced and so are the six
categories: every run of twelve items holds six attributable claims and one of each error, in an order of its own.
Item *i* depends on (seed, split, i) alone.
"""

from __future__ import annotations

import hashlib
import operator
import random
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import overload

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim
from factgym.datasets.claims import ClaimExample, GoldClaim, Verdict

SPLITS: Mapping[str, int] = MappingProxyType({"train": 5000, "validation": 1000, "test": 1000, "ood": 1000})
"""Sizes by default; "ood" has other kinds of documents in another style."""

_VERSION = 1
_BLOCK = 2 * len(ERROR_TYPES)
_TRIES = 64

_CORRUPTION: Mapping[str, str] = {
    "number": "numerical_exaggeration",
    "polarity": "negation_flip",
    "scope": "scope_inflation",
    "modality": "scope_inflation",
    "condition_dropped": "scope_inflation",
    "exception_dropped": "scope_inflation",
    "exception_generalised": "scope_inflation",
    "date": "temporal_shift",
    "version": "temporal_shift",
    "trigger": "temporal_shift",
    "party": "entity_substitution",
    "entity": "entity_substitution",
    "channel": "entity_substitution",
    "cause": "fabrication",
    "detail": "fabrication",
    "invented": "fabrication",
    "irrelevant": "fabrication",
}
_VERDICTS: Mapping[str, tuple[Verdict, ...]] = {
    "numerical_exaggeration": ("contradicted",),
    "negation_flip": ("contradicted",),
    "scope_inflation": ("overclaim",),
    "temporal_shift": ("contradicted",),
    "entity_substitution": ("contradicted", "unsupported"),
    "fabrication": ("unsupported",),
}
_FREQUENCY = re.compile(r"daily|weekly|monthly|quarterly|yearly|annual|\b(?:once|twice|each|every|per)\b", re.I)
_QUANTITY = re.compile(r"\d|\b(?:hours?|days?|weeks?|months?|years?|percent)\b", re.I)


def error_type_of(claim: GoldClaim) -> str | None:
    """The category of a corrupted claim; None where it is faithful or could belong to two categories."""
    span = claim.unsupported_span
    if claim.corruption == "number" and _FREQUENCY.search(span):
        return "temporal_shift"
    if claim.corruption == "party" and _QUANTITY.search(span):
        return None
    return _CORRUPTION.get(claim.corruption)


class SyntheticAttribution(SharedByArguments, Sequence[AttributionClaim]):
    """A split of generated claims: immutable, each item made on demand (a few milliseconds).

    `meta` of an item holds "evidence" (deciding spans of the source, [start, end]), "span" (the part of the claim
    that is wrong, empty for a faithful one) and "reason". A smaller set is a prefix of a larger one.
    Raises ConfigError for an unknown split or a size below 1.
    """

    def __init__(self, split: str = "train", *, seed: int = 0, size: int | None = None) -> None:
        if split not in SPLITS:
            raise ConfigError(f"unknown split {split!r}; there are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}")
        if size is not None and size < 1:
            raise ConfigError(f"size is the number of claims, at least 1, not {size!r}")
        self.split, self.seed = split, seed
        self._size = size or SPLITS[split]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> AttributionClaim: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AttributionClaim, ...]: ...
    def __getitem__(self, index: int | slice) -> AttributionClaim | tuple[AttributionClaim, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(self._size)))
        number = operator.index(index)
        number += self._size if number < 0 else 0
        if not 0 <= number < self._size:
            raise IndexError(f"claim {index} of {self._size}")
        return self._make(number)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the version, split, seed and size; nothing is generated for it."""
        record = f"factgym synthetic attribution {_VERSION} {self.split} {self.seed} {self._size}"
        return hashlib.sha256(record.encode()).hexdigest()

    def _make(self, number: int) -> AttributionClaim:
        block, position = divmod(number, _BLOCK)
        order: list[str | None] = [*ERROR_TYPES, *[None] * len(ERROR_TYPES)]
        random.Random(f"factgym attribution labels {self.seed} {self.split} {block}").shuffle(order)
        rng = random.Random(f"factgym attribution {self.seed} {self.split} {number}")
        example, claim = self._draw(number, order[position], rng)
        source, starts = _source(example)
        start_of = {passage.id: start for passage, start in zip(example.passages, starts, strict=True)}
        evidence = [[start_of[f.passage] + f.start, start_of[f.passage] + f.end] for f in claim.facts]
        return AttributionClaim(
            id=f"seva-{self.split}-{self.seed}-{number:05d}",
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
                "evidence": evidence,
            },
        )

    def _draw(self, number: int, error_type: str | None, rng: random.Random) -> tuple[ClaimExample, GoldClaim]:
        """The first generated example with a claim of this category (None: attributable), and one such claim.

        Rejection sampling: of some errors, only one document in ten has a claim.
        """
        from factgym.generators.synthetic.scenario import build

        kind = "ood" if self.split == "ood" else f"attribution {self.split}"
        attempt = number * _TRIES
        while True:
            verdict = rng.choice(_VERDICTS[error_type]) if error_type else "supported"
            example = build(kind, self.seed, attempt, verdict).example
            if error_type is None:
                claims = [claim for claim in example.claims if claim.status == "supported"]
            else:
                claims = [claim for claim in example.claims if error_type_of(claim) == error_type]
            if claims:
                return example, rng.choice(claims)
            attempt += 1


def _source(example: ClaimExample) -> tuple[str, list[int]]:
    """The document as one text, each passage under its heading, and where the passages' texts begin."""
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for passage in example.passages:
        head = f"{passage.title}\n" if passage.title else ""
        starts.append(length + len(head))
        parts.append(head + passage.text)
        length += len(parts[-1]) + 2
    return "\n\n".join(parts), starts
