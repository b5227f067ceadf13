"""What counts as a solver's submission: two blocks in a message, or a call of `submit`.

A message with an `<answer>` block outside its reasoning is the submission, unless it calls a tool before the block.
The last blocks count. A last message without a block counts as a whole (a reading that the paper's base code settles):
where there is one turn, or at the turn limit, whatever text comes is the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall
from factgym.core.messages import Message
from factgym.core.strict_json import in_json
from factgym.rewards.eve.spans import Solution, parse_solution
from factgym.tools.schema import Text
from factgym.tools.toolbox import tool
from factgym.tools.untrusted import neutralise

SUBMIT = "submit"

_THINK = re.compile(r"</?think>")


@dataclass(slots=True)
class SubmitDesk:
    """Takes what is submitted by a call."""

    solution: Solution | None = None


@tool(render=str)
def submit(
    desk: SubmitDesk, answer: Annotated[str, Text(0, 2000)], evidence: Annotated[str, Text(0, 8000)] = ""
) -> str:
    """Submit the answer with its evidence. This ends the episode.

    Args:
        answer: The answer, as short as it can be said.
        evidence: The words that show it, copied without a change from one search result.
    """
    desk.solution = Solution(neutralise(answer.strip()), neutralise(evidence.strip()), tagged=True)
    return RECEIPT


RECEIPT = "Submitted. The episode is over."


def written(answer: str, evidence: str = "") -> str:
    """The blocks of an answer, as the prompts ask for them."""
    said = f"<answer>{answer}</answer>"
    return f"{said}\n<evidence>{evidence}</evidence>" if evidence else said


def visible(text: str) -> str:
    """The text with its reasoning blanked out; of the same length.

    A closing tag without an opening one ends reasoning that the prompt's template had opened; what is opened and never
    closed is reasoning to the end.
    """
    blank: list[tuple[int, int]] = []
    opened: int | None = None
    for tag in _THINK.finditer(text):
        if tag[0] == "<think>":
            opened = tag.start() if opened is None else opened
        elif opened is None:
            blank = [(0, tag.end())]
        else:
            blank.append((opened, tag.end()))
            opened = None
    if opened is not None:
        blank.append((opened, len(text)))
    kept, at = [], 0
    for start, end in blank:
        kept += [text[at:start], " " * (end - start)]
        at = end
    return "".join((*kept, text[at:]))


def solution_of(message: Message) -> Solution:
    """The solution in a message's text; its ranges count in `message_text(message)`."""
    found = parse_solution(visible(message.get("content") or ""))
    return replace(found, answer=neutralise(found.answer), evidence=neutralise(found.evidence))


def placed(solution: Solution, text: str, call: ToolCall) -> Solution:
    """A solution that came by a call, with the ranges of its texts in `text`, the message's; else that of the call."""
    whole = call.start, call.end
    spans = [in_json(one, text, *whole) or whole for one in (solution.answer, solution.evidence)]
    return replace(solution, answer_span=spans[0], evidence_span=spans[1])


def is_submission(parsed: ParsedAction, ends: bool) -> bool:
    """Whether a message is the submission. ends: whether a text without a block is one, too."""
    text = parsed.message.get("content") or ""
    refused = any(isinstance(item, CallError) and item.code == "too_long" for item in parsed.items)
    if parsed.native or refused or not text.strip():
        return False
    calls = [item.start for item in parsed.items if isinstance(item, ToolCall)]
    found = parse_solution(visible(text))
    if found.tagged and found.answer_span is not None:
        return not any(start < found.answer_span[0] for start in calls)
    return ends and not calls
