"""Parts of SEVA's scripted agents: the prompt parsed, the parts of a verdict, and verbatim grounds for it.

The grounds split the claim into parts, assign each the nearest sentence of the source by shared weighted words, and
explain it. Spans are verbatim and within the lengths of the paper's rubric.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.baselines.evidence import Evidence, build_evidence, parse_statement
from factgym.core.messages import Message, ToolSchema
from factgym.corpora.corpus import Passage
from factgym.corpora.text import terms
from factgym.envs.scripted import user_text
from factgym.rewards.seva.output import LABELS, NOT_FOUND

Verdict = dict[str, Any]
"""A verdict as JSON data; those of exploiters need not fit the schema."""

Grounds = tuple[list[dict[str, str]], list[dict[str, str]]]
"""The evidence alignment and the reasoning chain of a verdict."""

POSITIVE, NEGATIVE = LABELS


@dataclass(frozen=True, slots=True)
class EpisodeBrief:
    """Claim and source as shown in the prompt."""

    claim: str
    source: str


def parse_brief(messages: Sequence[Message]) -> EpisodeBrief:
    """Parse the first user message; a source cannot hold the tags that delimit it."""
    source, _, claim = user_text(messages).removeprefix("<document>\n").partition("\n</document>\n\nClaim to check: ")
    return EpisodeBrief(claim, source)


class ScriptedPolicy:
    """A policy that replies with the same verdict in every turn: the review of a draft changes nothing."""

    def __init__(self, verdict: Callable[[EpisodeBrief], Verdict]) -> None:
        self._verdict = verdict

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        return json.dumps(self._verdict(parse_brief(messages)), ensure_ascii=False)


def align(claim_span: str, source_span: str, status: str) -> dict[str, str]:
    """Return one entry of `evidence_alignment`."""
    return {"claim_span": claim_span, "source_span": source_span, "status": status}


def reasoning_step(claim_part: str, evidence: str, judgment: str, explanation: str) -> dict[str, str]:
    """Return one step of `reasoning_chain`."""
    return {
        "claim_part": claim_part,
        "source_evidence": evidence,
        "judgment": judgment,
        "explanation": explanation,
    }


def make_verdict(
    label: str, confidence: float, grounds: Grounds, error_type: str | None = None, fix: str | None = None
) -> Verdict:
    """Return a verdict; a negative one with an error type has a diagnosis."""
    alignments, chain = grounds
    verdict: Verdict = {
        "evidence_alignment": alignments,
        "reasoning_chain": chain,
        "label": label,
        "confidence": confidence,
    }
    if label == NEGATIVE and error_type is not None:
        verdict |= {"error_type": error_type, "fix_suggestion": fix or "Remove what the source does not say."}
    return verdict


MAX_CLAIM_SPAN, MAX_SOURCE_SPAN, MIN_SPAN = 200, 500, 3
_MAX_PARTS = 8
_MIN_CLAUSE = 30
_JOINT = re.compile(r"(?<=[.;?!])\s+|,\s+|\s+(?=(?:and|but|or|which|who|that|because|if|when|after|before|unless)\s)")


def split_claim(claim: str) -> list[str]:
    """Split a claim into two to eight verbatim parts that cover it; one where it has a single word."""
    parts = [clause for clause in _clauses(claim) if len(clause) >= MIN_SPAN]
    if len(parts) == 1:
        middle = parts[0].find(" ", len(parts[0]) // 2)
        middle = parts[0].rfind(" ") if middle < 0 else middle
        halves = [parts[0][:middle].strip(), parts[0][middle:].strip()] if middle > 0 else parts
        parts = halves if all(len(half) >= MIN_SPAN for half in halves) else parts
    return parts[:_MAX_PARTS] or [claim.strip()[:MAX_CLAIM_SPAN]]


def _clauses(claim: str) -> Iterator[str]:
    """Yield the clauses, short ones joined to the next, long ones cut at spaces."""
    # Invariant: no clause covers claim[start:] yet; a joint too near to either end of it is passed over.
    start = 0
    for joint in [*_JOINT.finditer(claim), None]:
        end = len(claim) if joint is None else joint.start()
        if joint is not None and (end - start < _MIN_CLAUSE or len(claim) - joint.end() < _MIN_CLAUSE):
            continue
        clause = claim[start:end].strip()
        while len(clause) > MAX_CLAIM_SPAN:
            cut = _cut_position(clause, MAX_CLAIM_SPAN)
            yield clause[:cut].strip()
            clause = clause[cut:].strip()
        yield clause
        start = end if joint is None else joint.end()


def _cut_position(text: str, limit: int) -> int:
    space = text.rfind(" ", 1, limit)
    return limit if space < 0 else space


def truncate_source_span(text: str) -> str:
    """Cut a text to whole words within the length of a source span."""
    text = text.strip()
    return text if len(text) <= MAX_SOURCE_SPAN else text[: _cut_position(text, MAX_SOURCE_SPAN)].strip()


def source_evidence(source: str) -> Evidence:
    """Split a source into sentences."""
    return build_evidence([Passage("S", "", source)])


@dataclass(frozen=True, slots=True)
class GroundedPart:
    """A part of the claim and the sentence of the source nearest to it, both verbatim; the sentence may be empty.

    name: the part as an explanation refers to it; with the claim if the part has no content word.
    """

    part: str
    sentence: str
    name: str


def ground_parts(brief: EpisodeBrief, evidence: Evidence, sentence: str = "") -> list[GroundedPart]:
    """Assign a sentence to each part of the claim. sentence: that of all parts, where it is known."""
    parts = []
    for part in split_claim(brief.claim):
        name = f"“{part}”" if terms(part) else f"“{part}” of “{brief.claim[:MAX_CLAIM_SPAN]}”"
        nearest = sentence
        if not nearest:
            statement = parse_statement(part)
            overlaps = {nearby.text: evidence.overlap(statement, nearby) for nearby in evidence.sentences}
            nearest = truncate_source_span(max(overlaps, key=overlaps.__getitem__, default=brief.source))
        parts.append(GroundedPart(part, nearest, name))
    return parts


def supporting_grounds(parts: Sequence[GroundedPart]) -> Grounds:
    """Return grounds that match every part with its sentence."""
    alignments = [align(part.part, part.sentence, "match") for part in parts]
    steps = [
        reasoning_step(part.part, part.sentence, "supported", f"The source states {part.name}.") for part in parts
    ]
    return alignments, steps


def refuting_grounds(parts: Sequence[GroundedPart], wrong: str, source: str, reason: str) -> Grounds:
    """Return grounds that match every part but one. wrong: the words of the claim that are not supported.

    The mismatch is the last part that contains these words or is among them, else the last that shares most of them.
    """
    matches = [index for index, part in enumerate(parts) if wrong and (wrong in part.part or part.part in wrong)]
    shared = [len(set(wrong.split()) & set(part.part.split())) for part in parts]
    index = matches[-1] if matches else max(range(len(parts)), key=lambda index: (shared[index], index))
    alignments, steps = supporting_grounds([part for position, part in enumerate(parts) if position != index])
    part, sentence = parts[index].part, parts[index].sentence
    if len(sentence) < MIN_SPAN or sentence.casefold() == part.casefold():
        sentence = truncate_source_span(source)
    differs = sentence.casefold() != part.casefold()
    mismatch = align(part, sentence, "mismatch") if differs else align(part, NOT_FOUND, "not_found")
    alignments.insert(index, mismatch)
    explanation = f"The source does not state {parts[index].name}. {reason}".strip()
    steps.insert(index, reasoning_step(part, mismatch["source_span"], "not_supported", explanation))
    return alignments, steps


def fix_suggestion(brief: EpisodeBrief, wrong: str) -> str:
    """Return the correction of a claim of which the words `wrong`, or all, are not supported."""
    return f"Replace or remove “{(wrong or brief.claim)[:200]}”, as the source has it otherwise or not at all."
