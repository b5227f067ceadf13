"""An episode as conversations to train on: what the model was sent, and what it said.

Training data must not hold prompts that the model never saw. Where every turn was sent what stands before it, the whole
episode is one conversation. Where turns were sent something else (isolated contexts, reasoning taken out of earlier
turns, tools that opened later), each turn is a conversation of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factgym.agents.sampling import tools_as_text
from factgym.core.strict_json import StrictJsonError, loads

Reasoning = Literal["keep", "drop", "inline"]
Arguments = Literal["text", "object"]
Chat = list[dict[str, Any]]


_KEYS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages that end with one of the policy's. turn: which turn that is, None when it holds the whole episode.

    prompt: how many of the messages come before the policy's first own. tools: schemas that were offered beside the
    messages, none where they were written into the prompt.
    """

    messages: Chat
    tools: list[dict[str, Any]]
    prompt: int
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """How messages are written. reasoning: kept apart, dropped, or inline as `<think>…</think>` before the content.

    arguments: of native calls, as JSON text (OpenAI's form, one type for Arrow) or as an object (what most chat
    templates take).
    """

    reasoning: Reasoning = "keep"
    arguments: Arguments = "text"

    def message(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message to train on. Raises StrictJsonError for arguments that are to be an object and are none."""
        said = {key: message[key] for key in sorted(message, key=_rank) if key != "completion"}
        if self.reasoning != "keep":
            reasoning = said.pop("reasoning_content", None)
            if reasoning and self.reasoning == "inline":
                said["content"] = f"<think>\n{reasoning}\n</think>\n\n{said['content'] or ''}"
        if self.arguments == "object" and said.get("tool_calls"):
            said["tool_calls"] = [_with_object(call) for call in said["tool_calls"]]
        return said


def _rank(key: str) -> int:
    return _KEYS.index(key) if key in _KEYS else len(_KEYS)


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    call = copy.deepcopy(call)
    text = call["function"]["arguments"]
    arguments = loads(text) if text.strip() else {}
    if not isinstance(arguments, dict):
        raise StrictJsonError("bad_shape", "the arguments are no object", None)
    call["function"]["arguments"] = arguments
    return call


def conversations(episode: dict[str, Any], form: Form) -> list[Conversation]:
    """The whole episode as one conversation where each turn was sent what stands before it, else one for each turn.

    Raises StrictJsonError as `Form.message` does.
    """
    turns = [_turn(episode, turn, form) for turn in episode["turns"]]
    if not turns:
        return []
    whole = turns[-1]
    for earlier in turns[:-1]:
        size = len(earlier.messages)
        if earlier.messages != whole.messages[:size] or earlier.tools != whole.tools:
            return [Conversation(one.messages, one.tools, one.prompt, number) for number, one in enumerate(turns)]
    return [Conversation(whole.messages, whole.tools, turns[0].prompt)]


def _turn(episode: dict[str, Any], turn: dict[str, Any], form: Form) -> Conversation:
    everything = [*episode["messages"], *episode["other_messages"]]
    place = turn["message"]
    sent = episode["messages"][:place] if turn["sent"] is None else [everything[index] for index in turn["sent"]]
    tools = _open_tools(episode["tools"], turn["tools"])
    if turn["sent"] is not None and _tools_are_written_out(sent, tools):
        tools = []
    messages = [form.message(message) for message in [*sent, episode["messages"][place]]]
    return Conversation(messages, tools, len(sent))


def _open_tools(tools: list[dict[str, Any]], names: Sequence[str] | None) -> list[dict[str, Any]]:
    return tools if names is None else [tool for tool in tools if tool["function"]["name"] in names]


def _tools_are_written_out(sent: Chat, tools: list[dict[str, Any]]) -> bool:
    """Whether the prompt itself tells of the tools, so that a template must not tell of them again.

    They stand in the system message, or in the first message of a model that takes no system message.
    """
    if not tools:
        return False
    told = tools_as_text([], tools)[0]["content"] or ""
    first = sent[0].get("content") if sent else None
    return isinstance(first, str) and told in first
