"""The completion of an episode: recognition in a message, credits on its characters, and the action space.

A message with an `<answer>` outside its reasoning is the completion, unless it calls a tool first. In an environment of
one turn any text is the completion: the reward, not the parser, punishes a wrong format. Where a server separates the
reasoning from the text, the reasoning is the think block.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall, visible_text
from factgym.core.episode import SpanCredit
from factgym.core.messages import Message
from factgym.core.spaces import ActionSpace, UnicodeText
from factgym.core.strict_json import DEFAULT_LIMITS
from factgym.rewards.corver.format import ANSWER, THINK, THINK_END
from factgym.rewards.corver.score import CorverScore, sentence_returns
from factgym.rewards.rubric import Rubric

_TOOL_CALL_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Completion:
    """The scored text. shift: number of its characters before the message's own text."""

    text: str
    shift: int = 0


def message_completion(message: Message) -> Completion:
    """Return a message's text, with its separate reasoning as the think block if the text has none."""
    text = message.get("content") or ""
    reasoning = message.get("reasoning_content")
    if not reasoning or THINK in text:
        return Completion(text)
    head = f"{THINK}{reasoning.strip()}{THINK_END}\n"
    return Completion(head + text, len(head))


def is_completion(parsed: ParsedAction, single_turn: bool) -> bool:
    """Return whether a message is the completion."""
    text = parsed.message.get("content") or ""
    too_long = any(isinstance(item, CallError) and item.code == "too_long" for item in parsed.items)
    if parsed.native or too_long or not text.strip():
        return False
    if single_turn:
        return True
    answer = text.find(ANSWER, text.rfind(THINK_END) + 1)
    if answer < 0 or ANSWER not in visible_text(text, DEFAULT_LIMITS):
        return False
    return not any(isinstance(item, ToolCall) and (item.start or 0) < answer for item in parsed.items)


def completion_credits(
    score: CorverScore, rubric: Rubric, shift: int, length: int, message: int
) -> tuple[SpanCredit, ...]:
    """Return each sentence's credit on its characters, and the response's on the whole message; they sum to the total.

    A sentence's credit is its reward times its share of the blocks' characters. length: of the message's own text;
    sentences of reasoning outside the message's text have an empty span.
    """
    spans = []
    for scored, value in zip(score.sentences, sentence_returns(score.sentences, rubric), strict=True):
        start, end = scored.sentence.start, scored.sentence.end
        span_start, span_end = (min(max(offset - shift, 0), length) for offset in (start, end))
        spans.append(SpanCredit(message, span_start, span_end, float(value) * ((end - start) / score.chars)))
    # The format and the judge belong to no sentence: their part is on the whole message.
    remainder = rubric.total(score.components, score.gates) - math.fsum(span.value for span in spans)
    spans.append(SpanCredit(message, 0, length, remainder))
    return tuple(span for span in spans if span.value)


class CompletionSpace(ActionSpace):
    """An `ActionSpace` whose samples are completions, and half of the time calls of an available tool."""

    def sample(self, mask: None = None, probability: None = None) -> Any:
        """Return a completion, or a tool call whose arguments fit the tool's schema."""
        if self.tools() and self.np_random.random() < _TOOL_CALL_SHARE:
            return super().sample()
        texts = UnicodeText(seed=self.np_random)
        return f"<think>{texts.sample()}</think><answer>{texts.sample()}</answer>"

    def __deepcopy__(self, memo: dict[int, Any]) -> CompletionSpace:
        return _restore_space(self.tools, copy.deepcopy(self._np_random, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_space, (list(self.tools()), self._np_random)


def _restore_space(tools: Any, rng: Any) -> CompletionSpace:
    space = CompletionSpace(tools)
    space._np_random = rng
    return space


def _unpickle_space(tools: list[Any], rng: Any) -> CompletionSpace:
    return _restore_space(lambda: tools, rng)
