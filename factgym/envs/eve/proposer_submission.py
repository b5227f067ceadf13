"""What counts as a proposal: three blocks in a message, or a call of `submit`.

A message with a `<question>` and an `<answer>` block outside its reasoning is the proposal, unless it calls a tool before
them. The last blocks count. Texts are bounded, since each of them is put to the solver many times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall
from factgym.core.messages import Message
from factgym.core.strict_json import in_json
from factgym.envs.eve.submission import SUBMIT, visible
from factgym.rewards.eve.spans import Proposal, parse_proposal
from factgym.tools.schema import Text
from factgym.tools.toolbox import Tool, tool
from factgym.tools.untrusted import neutralise

MAX_QUESTION_CHARS = 2_000
MAX_ANSWER_CHARS = 500
MAX_EVIDENCE_CHARS = 20_000
RECEIPT = "Received. The episode is over."
FORM = "<question>…</question>\n<answer>…</answer>\n<evidence>…</evidence>"

_PARTS = ("question", "answer", "evidence")


@dataclass(slots=True)
class ProposalDesk:
    """Takes what is submitted by a call."""

    proposal: Proposal | None = None


def _submit(
    desk: ProposalDesk,
    question: Annotated[str, Text(1, MAX_QUESTION_CHARS)],
    answer: Annotated[str, Text(1, MAX_ANSWER_CHARS)],
    evidence: Annotated[str, Text(0, MAX_EVIDENCE_CHARS)] = "",
) -> str:
    """Submit the question with its answer and the evidence for it. This ends the episode.

    Args:
        question: The question, which must not hold its answer.
        answer: The answer, as short as it can be said.
        evidence: The words that show it, copied without a change from the document or from one search result.
    """
    desk.proposal = _harmless(Proposal(question.strip(), answer.strip(), evidence.strip()))
    return RECEIPT


submit_proposal: Tool = tool(render=str, name=SUBMIT)(_submit)


def written(question: str, answer: str, evidence: str, thought: str = "") -> str:
    """A proposal in the form that is asked for."""
    blocks = zip(_PARTS, (question, answer, evidence), strict=True)
    said = "\n".join(f"<{name}>{text}</{name}>" for name, text in blocks if text or name != "evidence")
    return f"<think>{thought}</think>\n{said}" if thought else said


def proposal_of(message: Message) -> Proposal:
    """The proposal in a message's text; its ranges count in `message_text(message)`."""
    return _harmless(parse_proposal(visible(message.get("content") or "")))


def _harmless(found: Proposal) -> Proposal:
    question, answer, evidence = map(neutralise, (found.question, found.answer, found.evidence))
    return replace(found, question=question, answer=answer, evidence=evidence)


def placed(proposal: Proposal, text: str, call: ToolCall) -> Proposal:
    """A proposal that came by a call, with the ranges of its parts in `text`, the message's; None where not found."""
    spans = [in_json(getattr(proposal, name), text, call.start or 0, call.end) for name in _PARTS]
    return replace(proposal, question_span=spans[0], answer_span=spans[1], evidence_span=spans[2])


def too_long(proposal: Proposal) -> str | None:
    """Which part is longer than it may be, in words; None where none is."""
    limits = zip(_PARTS, (MAX_QUESTION_CHARS, MAX_ANSWER_CHARS, MAX_EVIDENCE_CHARS), strict=True)
    for name, most in limits:
        size = len(getattr(proposal, name))
        if size > most:
            return f"The {name} has {size} characters; at most {most} are allowed."
    return None


def is_proposal(parsed: ParsedAction) -> bool:
    """Whether a message is the proposal."""
    text = parsed.message.get("content") or ""
    refused = any(isinstance(item, CallError) and item.code == "too_long" for item in parsed.items)
    if parsed.native or refused:
        return False
    found = parse_proposal(visible(text))
    if found.question_span is None or found.answer_span is None:
        return False
    first = min(found.question_span[0], found.answer_span[0])
    return not any(isinstance(item, ToolCall) and (item.start or 0) < first for item in parsed.items)
