"""Submissions of both EVE environments: blocks in a message, or a call of `submit`.

A solver's message with an `<answer>` block outside its reasoning is its submission, a proposer's message with a
`<question>` and an `<answer>` block its proposal, unless it calls a tool before them. Of several blocks of one name the
last counts. A solver's last message without a block counts as a whole (the paper's base code settles this): where there
is one turn, or at the turn limit, any text is the answer. A proposal's texts are bounded, since each of them is put to
the solver many times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from pydantic import Field

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall
from factgym.core.episode import ToolResult
from factgym.core.messages import Message
from factgym.core.strict_json import in_json
from factgym.envs.eve.search import SearchState
from factgym.rewards.eve.spans import Proposal, Range, Solution, parse_proposal, parse_solution
from factgym.tools.toolbox import tool
from factgym.tools.untrusted import neutralise

SUBMIT = "submit"
MAX_QUESTION_CHARS = 2_000
MAX_ANSWER_CHARS = 500
MAX_EVIDENCE_CHARS = 20_000
SOLUTION_RECEIPT = "Submitted. The episode is over."
PROPOSAL_RECEIPT = "Received. The episode is over."
NO_CALL_ERRORS = ("no_tool_call", "empty", "only_reasoning")
"""Error codes of messages that were no attempt to call a tool."""

_THINK = re.compile(r"</?think>")

SubmissionT = TypeVar("SubmissionT", Proposal, Solution)


@dataclass(slots=True)
class SolverState(SearchState):
    """State of a solver's episode. submission: None until there is one."""

    submission: Solution | None = None


@dataclass(slots=True)
class ProposerState(SearchState):
    """State of a proposer's episode. submission: None until there is one."""

    submission: Proposal | None = None


@tool(render=str, ends_episode=True)
def submit(
    state: SolverState,
    answer: Annotated[str, Field(max_length=2000)],
    evidence: Annotated[str, Field(max_length=8000)] = "",
) -> str:
    """Submit the answer with its evidence. This ends the episode.

    Args:
        answer: The answer, as short as it can be said.
        evidence: The words that show it, copied without a change from one search result.
    """
    state.submission = Solution(neutralise(answer.strip()), neutralise(evidence.strip()), tagged=True)
    return SOLUTION_RECEIPT


@tool(render=str, name=SUBMIT, ends_episode=True)
def submit_proposal(
    state: ProposerState,
    question: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_CHARS)],
    answer: Annotated[str, Field(min_length=1, max_length=MAX_ANSWER_CHARS)],
    evidence: Annotated[str, Field(max_length=MAX_EVIDENCE_CHARS)] = "",
) -> str:
    """Submit the question with its answer and the evidence for it. This ends the episode.

    Args:
        question: The question, which must not hold its answer.
        answer: The answer, as short as it can be said.
        evidence: The words that show it, copied without a change from the document or from one search result.
    """
    question, answer, evidence = (neutralise(text.strip()) for text in (question, answer, evidence))
    state.submission = Proposal(question, answer, evidence)
    return PROPOSAL_RECEIPT


def answer_blocks(answer: str, evidence: str = "") -> str:
    """Return the blocks of an answer, as the prompts ask for them."""
    text = f"<answer>{answer}</answer>"
    return f"{text}\n<evidence>{evidence}</evidence>" if evidence else text


def proposal_blocks(question: str, answer: str, evidence: str, thought: str = "") -> str:
    """Return the blocks of a proposal, as the prompts ask for them, after a thought if there is one."""
    text = f"<question>{question}</question>\n{answer_blocks(answer, evidence)}"
    return f"<think>{thought}</think>\n{text}" if thought else text


def message_solution(message: Message) -> Solution:
    """Return the solution in a message's text; its spans are offsets in `message_text(message)`."""
    solution = parse_solution(mask_reasoning(message.get("content") or ""))
    return replace(solution, answer=neutralise(solution.answer), evidence=neutralise(solution.evidence))


def message_proposal(message: Message) -> Proposal:
    """Return the proposal in a message's text; its spans are offsets in `message_text(message)`."""
    proposal = parse_proposal(mask_reasoning(message.get("content") or ""))
    question, answer, evidence = map(neutralise, (proposal.question, proposal.answer, proposal.evidence))
    return replace(proposal, question=question, answer=answer, evidence=evidence)


def mask_reasoning(text: str) -> str:
    """Return the text with its reasoning replaced by spaces, of the same length.

    A closing tag without an opening one ends reasoning that the prompt's template opened; an opening tag that is never
    closed begins reasoning up to the end.
    """
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for tag in _THINK.finditer(text):
        if tag[0] == "<think>":
            opened = tag.start() if opened is None else opened
        elif opened is None:
            spans = [(0, tag.end())]
        else:
            spans.append((opened, tag.end()))
            opened = None
    if opened is not None:
        spans.append((opened, len(text)))
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], " " * (stop - start)]
        end = stop
    return "".join((*parts, text[end:]))


def is_solution(parsed: ParsedAction, ends: bool) -> bool:
    """Return whether a message is the solver's submission. ends: whether a text without a block is one, too."""
    text = parsed.message.get("content") or ""
    if not _may_submit(parsed) or not text.strip():
        return False
    solution = parse_solution(mask_reasoning(text))
    if solution.tagged and solution.answer_span is not None:
        return not _calls_before(parsed, solution.answer_span[0])
    return ends and not _calls_before(parsed, len(text))


def is_proposal(parsed: ParsedAction) -> bool:
    """Return whether a message is the proposal."""
    proposal = parse_proposal(mask_reasoning(parsed.message.get("content") or ""))
    if not _may_submit(parsed) or proposal.question_span is None or proposal.answer_span is None:
        return False
    return not _calls_before(parsed, min(proposal.question_span[0], proposal.answer_span[0]))


def _may_submit(parsed: ParsedAction) -> bool:
    too_long = any(isinstance(item, CallError) and item.code == "too_long" for item in parsed.items)
    return not parsed.native and not too_long


def _calls_before(parsed: ParsedAction, offset: int) -> bool:
    return any(isinstance(item, ToolCall) and (item.start or 0) < offset for item in parsed.items)


def length_error(proposal: Proposal) -> str | None:
    """Return an error message for a part of a proposal that is too long; None where none is."""
    limits = {"question": MAX_QUESTION_CHARS, "answer": MAX_ANSWER_CHARS, "evidence": MAX_EVIDENCE_CHARS}
    for name, limit in limits.items():
        size = len(getattr(proposal, name))
        if size > limit:
            return f"The {name} has {size} characters; at most {limit} are allowed."
    return None


def with_spans(submission: SubmissionT, text: str, call: ToolCall) -> SubmissionT:
    """Return the submission of a call with the spans of its parts in `text`, the message's.

    A part that is not found has no span in a proposal, and the call's in a solution.
    """
    names = ("question", "answer", "evidence") if isinstance(submission, Proposal) else ("answer", "evidence")
    default = None if isinstance(submission, Proposal) else (call.start, call.end)
    spans: dict[str, Range | None] = {
        f"{name}_span": in_json(getattr(submission, name), text, call.start, call.end) or default for name in names
    }
    return replace(submission, **spans)  # type: ignore[arg-type]  # the names of spans


def with_form(result: ToolResult, message: str) -> ToolResult:
    """Return the result with another message where the action was no attempt to call a tool."""
    if result.error_code not in NO_CALL_ERRORS:
        return result
    return replace(result, text=f"Error ({result.error_code}): {message}")
