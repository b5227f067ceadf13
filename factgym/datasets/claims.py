"""Claim records of ClaimCheck: passages, a question, an answer to check, and the gold label of each of its claims.

The synthetic generator, the corruption operators over real documents, and ContractNLI all produce these records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from factgym.corpora.corpus import Passage

Status = Literal["supported", "unsupported", "contradicted", "overclaim"]
Verdict = Literal["supported", "partially_supported", "unsupported", "contradicted", "overclaim"]
STATUSES: tuple[Status, ...] = get_args(Status)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class GoldFact:
    """A span `text[start:end]` of a passage (usually a sentence) that a complete answer quotes."""

    passage: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GoldClaim:
    """One claim of the answer with its gold status.

    text: verbatim part of the answer. unsupported_span: the shortest verbatim part of `text` that the evidence does not
    support, empty when supported. corruption: the operator that produced it, "none" for a faithful claim. reason: one
    sentence for people and for supervised traces.
    """

    text: str
    status: Status
    facts: tuple[GoldFact, ...]
    unsupported_span: str = ""
    corruption: str = "none"
    reason: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether the documents say nothing on the claim as a whole, rather than lack a part of it."""
        is_whole = self.unsupported_span.rstrip(". ") == self.text.rstrip(". ")
        return self.status == "unsupported" and (is_whole or not self.facts)


@dataclass(frozen=True, slots=True)
class ClaimExample:
    """A question with an answer to check against passages.

    nearest: ids of the passages nearest to the claim, best first, for an example without gold facts (human labels of
    "not mentioned" have no span); empty otherwise. alternatives: of an example of one claim, further sets of facts that
    suffice as well as the claim's own.
    """

    id: str
    split: str
    domain: str
    question: str
    answer: str
    passages: tuple[Passage, ...]
    claims: tuple[GoldClaim, ...]
    verdict: Verdict
    nearest: tuple[str, ...] = ()
    alternatives: tuple[tuple[GoldFact, ...], ...] = ()

    @property
    def gold_ids(self) -> tuple[str, ...]:
        """Ids of the passages that hold the gold facts, in order of first use."""
        return tuple(dict.fromkeys(fact.passage for claim in self.claims for fact in claim.facts))


_SEVERITY: tuple[Status, ...] = ("contradicted", "overclaim", "unsupported")


def final_verdict(statuses: Iterable[Status]) -> Verdict:
    """Return the verdict of an answer: supported if all its claims are, partially supported if only some are.

    Without a supported claim the most severe status decides: contradicted, then overclaim, then unsupported.
    """
    distinct = set(statuses)
    if not distinct:
        raise ValueError("an answer has at least one claim")
    if "supported" in distinct:
        return "supported" if len(distinct) == 1 else "partially_supported"
    return next(status for status in _SEVERITY if status in distinct)
