"""A claim example: passages, a question, an answer to be checked, and what is true of it.

This is the one record that every source of ClaimCheck data makes: the synthetic generator, the corruption
operators over real documents, and ContractNLI. It is frozen data; behaviour lives with its readers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Status = Literal["supported", "unsupported", "contradicted", "overclaim"]
Verdict = Literal["supported", "partially_supported", "unsupported", "contradicted", "overclaim"]
STATUSES: tuple[Status, ...] = get_args(Status)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of evidence. `id` is unique in its corpus; `title` says where the text stands."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class GoldFact:
    """A stretch `text[start:end]` of a passage (usually a sentence) that a complete answer quotes."""

    passage: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GoldClaim:
    """One statement of the answer with its true status.

    text: verbatim part of the answer. unsupported_span: the shortest verbatim part of `text` that the evidence
    does not carry, empty when supported. corruption: the operator that made it, "none" for a faithful claim.
    reason: one sentence for people and for supervised traces.
    """

    text: str
    status: Status
    facts: tuple[GoldFact, ...]
    unsupported_span: str = ""
    corruption: str = "none"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ClaimExample:
    """One example.

    nearest: for an example without gold facts (human labels of silence carry no span), the passages where one
    would expect the fact, nearest first; a reward says how many of them show the silence. Empty otherwise.
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

    @property
    def gold_ids(self) -> tuple[str, ...]:
        """Ids of the passages that hold the gold facts, in order of first use."""
        return tuple(dict.fromkeys(fact.passage for claim in self.claims for fact in claim.facts))


_SEVERITY: tuple[Status, ...] = ("contradicted", "overclaim", "unsupported")


def final_verdict(statuses: Iterable[Status]) -> Verdict:
    """The verdict of an answer from its claims: one shared status is itself, supported mixed with others is partial.

    Without a supported claim the most severe status wins: contradicted, then overclaim, then unsupported.
    """
    found = set(statuses)
    if not found:
        raise ValueError("an answer has at least one claim")
    if "supported" in found:
        return "supported" if len(found) == 1 else "partially_supported"
    return next(status for status in _SEVERITY if status in found)
