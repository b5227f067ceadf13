"""Scripts: policies written as generators, and the little language they speak with the environment.

A script sees what any policy sees: the chat messages and the tool schemas. It parses our own rendering of search
results and evidence, and it answers with completion text, the way a Qwen- or Hermes-style model writes tool calls.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from factgym.baselines.reading import Seen
from factgym.core.messages import Message, ToolSchema

Call = dict[str, Any]
"""One tool call: `{"name": …, "arguments": …}`."""

Verdict = dict[str, Any]
"""The arguments of `submit`."""

ReturnT = TypeVar("ReturnT")
Steps = Generator[list[Call], str, ReturnT]
"""Yields the calls of a turn, receives the text of its observation, returns what it was all for."""

MAX_CALLS = 16
"""Calls in one turn that the environment's parser reads."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What an episode starts with. `shown` holds the passages of an offline prompt; `tools` the names that are open.

    turns: how many actions the episode has, the submission included. silence: how many passages the instructions want
    cited for a statement that the text does not carry.
    """

    question: str
    answer: str
    shown: tuple[Seen, ...]
    tools: frozenset[str]
    turns: int
    silence: int = 1

    @property
    def offline(self) -> bool:
        """Whether there is nothing to do but to submit."""
        return "search" not in self.tools


class Script(ABC):
    """A policy for one episode. `turns`: the environment's `max_turns`, which a script never runs past."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._steps: Steps[Verdict] | None = None

    @abstractmethod
    def play(self, brief: Brief) -> Steps[Verdict]:
        """Look around in at most `brief.turns - 1` turns and return what to submit."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The next completion."""
        if self._steps is None:
            self._steps = self._then_submit(read_brief(messages, tools, self._turns))
            calls = next(self._steps)
        else:
            try:
                calls = self._steps.send(_latest(messages))
            except StopIteration:
                return "I have nothing to add."
        return "\n".join(f"<tool_call>\n{_encode(call)}\n</tool_call>" for call in calls)

    def _then_submit(self, brief: Brief) -> Steps[Verdict]:
        verdict = yield from self.play(brief)
        yield [{"name": "submit", "arguments": verdict}]
        return verdict


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _latest(messages: Sequence[Message]) -> str:
    """What was said since the policy's own last message."""
    new: list[str] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        new.append(message["content"] or "")
    return "\n".join(reversed(new))


_ANSWER = "\n\nAnswer to check: "
_SILENCE = re.compile(r"cite the (\d{1,2}) passages that come nearest")


def read_brief(messages: Sequence[Message], tools: Sequence[ToolSchema], turns: int) -> Brief:
    """The brief in the first messages."""
    said = next(message["content"] or "" for message in messages if message["role"] == "user")
    _, _, asked = said.rpartition("</evidence>")
    question, _, answer = asked.strip().removeprefix("Question: ").partition(_ANSWER)
    names = frozenset(tool["function"]["name"] for tool in tools)
    told = "".join(message["content"] or "" for message in messages if message["role"] == "system")
    asked_for = _SILENCE.search(told)
    silence = int(asked_for[1]) if asked_for else 1
    return Brief(question, answer, tuple(evidence_in(said)), names, turns, silence)


def evidence_in(text: str) -> list[Seen]:
    """The passages that an observation opens; of one that was cut for its length, what there is of it."""
    found = []
    for piece in text.split('<evidence id="')[1:]:
        head, _, rest = piece.partition('">\n')
        id_, _, title = head.partition('" title="')
        body, closed, _ = rest.partition("\n</evidence>")
        if not closed:
            body = body.partition("… [cut: ")[0]
        if body.strip():
            found.append(Seen(id_, title, body))
    return found


def results_in(text: str) -> list[Seen]:
    """The entries of search results and listings; a listing's entry has its title as text."""
    found = []
    for piece in text.split('<result id="')[1:]:
        inside, closed, _ = piece.partition("</result>")
        head, _, body = inside.partition('">')
        id_, _, title = head.partition('" title="')
        if closed:
            found.append(Seen(id_, title or body, body))
    return found


def search(query: str, k: int = 3) -> Call:
    """A `search` call."""
    return {"name": "search", "arguments": {"query": query[:1000].strip() or "policy", "k": k}}


def read(id_: str) -> Call:
    """A `read` call."""
    return {"name": "read", "arguments": {"id": id_}}


def listing(page: int = 1) -> Call:
    """A `list` call."""
    return {"name": "list", "arguments": {"page": page}}


def claim(
    text: str,
    status: str,
    ids: Sequence[str] = (),
    quote: str | list[str] = "",
    span: str = "",
    reason: str = "",
) -> dict[str, Any]:
    """One entry of a verdict's `claims`."""
    return {
        "claim": text,
        "status": status,
        "evidence_ids": list(ids)[:16],
        "quote": quote,
        "unsupported_span": span,
        "reason": reason,
    }


def verdict(final: str, claims: Sequence[dict[str, Any]], used: Sequence[str] | None = None) -> Verdict:
    """The arguments of `submit`; the evidence used is what the claims cite unless it is given."""
    cited = [one for entry in claims for one in entry["evidence_ids"]] if used is None else used
    return {"claims": list(claims)[:16], "final_verdict": final, "evidence_used": list(dict.fromkeys(cited))[:32]}
