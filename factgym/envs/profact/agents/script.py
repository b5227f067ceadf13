"""What scripted players share: a prompt as it was shown, taken apart, and the calls that they answer with.

A script sees what any policy sees. It keeps nothing between turns: the record in the prompt is all that it knows.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.core.messages import Message, ToolSchema

Call = dict[str, Any]
"""One tool call: `{"name": …, "arguments": …}`."""

_RESULT = re.compile(r'<result source="[^"]*"(?: date="[^"]*")?>\n(.*?)\n</result>', re.DOTALL)
_PAIR = re.compile(r"^\d+\. (.*)\n   (.*)$", re.MULTILINE)
_QUESTION = re.compile(r"^Stage: search\. Question \d+ of \d+: (.*)$", re.MULTILINE)
_ABOUT = re.compile(r"^(Speaker|Date|Location|Reported by): (.*)$", re.MULTILINE)
_LEFT = re.compile(r"\(turns left: (\d+)")
_TURNS = re.compile(r"You have (\d+) turns")
_MOST = re.compile(r"pose at most (\d+) verification questions")


@dataclass(frozen=True, slots=True)
class Brief:
    """A prompt, taken apart.

    about: what is told about the claim, by name. record: the questions answered, with their answers. question: the
    one that is open, "" outside the second stage. shown: texts of the evidence in sight. searched: how often a search
    was answered for this question. most: how many questions are kept, and have turns for a search and an answer. left: turns left, None where it is not said.
    """

    claim: str
    about: Mapping[str, str]
    record: tuple[tuple[str, str], ...]
    question: str
    shown: tuple[str, ...]
    searched: int
    most: int
    left: int | None


class Script(ABC):
    """A policy that answers each stage with one call."""

    @abstractmethod
    def questions(self, brief: Brief) -> Sequence[str]:
        """What to ask."""

    @abstractmethod
    def look(self, brief: Brief) -> Call:
        """A search or an answer for the open question."""

    @abstractmethod
    def decide(self, brief: Brief) -> tuple[str, str]:
        """Label and justification."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The next completion."""
        names = {tool["function"]["name"] for tool in tools}
        brief = read_brief(messages)
        if "ask" in names:
            call = {"name": "ask", "arguments": {"questions": list(self.questions(brief))}}
        elif "answer" in names:
            call = self.look(brief)
        else:
            label, justification = self.decide(brief)
            call = {"name": "verdict", "arguments": {"label": label, "justification": justification}}
        return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def searching(query: str) -> Call:
    """A `search` call."""
    return {"name": "search", "arguments": {"query": query[:1000].strip() or "evidence"}}


def answering(text: str) -> Call:
    """An `answer` call."""
    return {"name": "answer", "arguments": {"answer": text[:2000].strip() or "No answer could be found."}}


def read_brief(messages: Sequence[Message]) -> Brief:
    """The prompt of any stage."""
    head = messages[1]["content"] or ""
    said = [message["content"] or "" for message in messages[2:] if message["role"] != "assistant"]
    question = _QUESTION.search(head)
    most, turns = (form.search(messages[0]["content"] or "") for form in (_MOST, _TURNS))
    left = _LEFT.findall(said[-1] if said else head)
    return Brief(
        claim=head.removeprefix("Claim: ").partition("\n")[0],
        about=dict(_ABOUT.findall(head.partition("\n\n")[0])),
        record=tuple(_PAIR.findall(head)),
        question=question[1] if question else "",
        shown=tuple(text for one in said for text in _RESULT.findall(one)),
        searched=sum("<tool_response>" in one for one in said),
        most=min(int(most[1]) if most else 5, max(1, ((int(turns[1]) if turns else 12) - 2) // 2)),
        left=int(left[-1]) if left else None,
    )
