"""What counts as the completion of an episode, and which of its words earned what.

A message with an `<answer>` outside its reasoning is the completion, unless it calls a tool first. Where there is one
turn only, whatever text comes is the completion: the reward, not the parser, says what a wrong form costs. A server
that splits the reasoning off is put right: the reasoning is the think block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from factgym.core.action import ParsedAction
from factgym.core.action_text import visible_text
from factgym.core.calls import CallError, ToolCall
from factgym.core.episode import SpanCredit
from factgym.core.messages import Message
from factgym.core.strict_json import DEFAULT_LIMITS
from factgym.rewards.corver import CorverScore, sentence_returns
from factgym.rewards.rubric import Rubric

ANSWER = "<answer>"
_THINK, _THINK_END = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Completion:
    """The text that is scored. shift: how many of its characters stand before the message's own text."""

    text: str
    shift: int = 0


def completion_of(message: Message) -> Completion:
    """A message's text, with its separate reasoning as the think block where the text has none."""
    text = message.get("content") or ""
    reasoning = message.get("reasoning_content")
    if not reasoning or _THINK in text:
        return Completion(text)
    head = f"{_THINK}{reasoning.strip()}{_THINK_END}\n"
    return Completion(head + text, len(head))


def is_completion(parsed: ParsedAction, only_turn: bool) -> bool:
    """Whether a message is the completion."""
    text = parsed.message.get("content") or ""
    refused = any(isinstance(item, CallError) and item.code == "too_long" for item in parsed.items)
    if parsed.native or refused or not text.strip():
        return False
    if only_turn:
        return True
    place = text.find(ANSWER, text.rfind(_THINK_END) + 1)
    if place < 0 or ANSWER not in visible_text(text, DEFAULT_LIMITS):
        return False
    return not any(isinstance(item, ToolCall) and (item.start or 0) < place for item in parsed.items)


def credits_of(score: CorverScore, rubric: Rubric, shift: int, length: int, message: int) -> tuple[SpanCredit, ...]:
    """Each sentence's part of the total on its characters, and the response's part on the whole message.

    A sentence's part is its reward times its share of the blocks' characters, so the credits sum to the total.
    length: of the message's own text; what was said in reasoning that the message does not hold has an empty range.
    """
    found = []
    for one, value in zip(score.sentences, sentence_returns(score.sentences, rubric), strict=True):
        start, end = (min(max(place - shift, 0), length) for place in (one.sentence.start, one.sentence.end))
        share = (one.sentence.end - one.sentence.start) / score.chars
        found.append(SpanCredit(message, start, end, float(value) * share))
    rest = rubric.total(score.components, score.gates) - math.fsum(one.value for one in found)
    found.append(SpanCredit(message, 0, length, rest))
    return tuple(credit for credit in found if credit.value)
