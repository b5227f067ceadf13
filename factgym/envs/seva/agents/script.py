"""What scripted players share: the claim and source out of the prompt, and the pieces of a verdict."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from factgym.core.messages import Message, ToolSchema
from factgym.rewards.seva import LABELS, NOT_FOUND

Verdict = dict[str, Any]
"""A verdict as JSON data; the exploiters' do not fit the schema."""

POSITIVE, NEGATIVE = LABELS

_OPEN, _CLOSE = "<document>\n", "\n</document>\n\nClaim to check: "


@dataclass(frozen=True, slots=True)
class Brief:
    """What the prompt asks about, as it was shown."""

    claim: str
    source: str


def read_brief(messages: Sequence[Message]) -> Brief:
    """The claim and the source in the first user message; a source cannot hold the tags that delimit it."""
    said = next(message["content"] or "" for message in messages if message["role"] == "user")
    source, _, claim = said.removeprefix(_OPEN).partition(_CLOSE)
    return Brief(claim, source)


class Script(ABC):
    """A policy that says the same verdict whenever it is asked: a review of its draft does not change its mind."""

    @abstractmethod
    def verdict(self, brief: Brief) -> Verdict:
        """What to submit."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The verdict as the text of a completion."""
        return json.dumps(self.verdict(read_brief(messages)), ensure_ascii=False)


def align(claim_span: str, source_span: str, status: str) -> dict[str, str]:
    """One entry of `evidence_alignment`."""
    return {"claim_span": claim_span, "source_span": source_span, "status": status}


def step(claim_part: str, evidence: str, judgment: str, explanation: str) -> dict[str, str]:
    """One step of `reasoning_chain`."""
    return {
        "claim_part": claim_part,
        "source_evidence": evidence,
        "judgment": judgment,
        "explanation": explanation,
    }


def verdict(
    label: str,
    confidence: float,
    alignments: Sequence[dict[str, str]],
    chain: Sequence[dict[str, str]],
    error_type: str | None = None,
    fix: str | None = None,
) -> Verdict:
    """A verdict; the diagnosis is there for a negative label only."""
    found: Verdict = {
        "evidence_alignment": list(alignments),
        "reasoning_chain": list(chain),
        "label": label,
        "confidence": confidence,
    }
    if label == NEGATIVE and error_type is not None:
        found |= {"error_type": error_type, "fix_suggestion": fix or "Remove what the source does not say."}
    return found


__all__ = [
    "NEGATIVE",
    "NOT_FOUND",
    "POSITIVE",
    "Brief",
    "Script",
    "Verdict",
    "align",
    "read_brief",
    "step",
    "verdict",
]
