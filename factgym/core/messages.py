"""Chat messages, as OpenAI-compatible servers write them: the lingua franca of the package.

Nothing of ours stands between a policy and its server: a message is a plain dict with these keys.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Role = Literal["system", "user", "assistant", "tool"]


class FunctionCall(TypedDict):
    """The called function; `arguments` is a JSON text, as servers send it."""

    name: str
    arguments: str


class ToolCallMessage(TypedDict):
    """One entry of an assistant message's `tool_calls`."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict):
    """One chat message."""

    role: Role
    content: str | None
    tool_calls: NotRequired[list[ToolCallMessage]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]
    reasoning_content: NotRequired[str]


ToolSchema = dict[str, Any]
"""One tool in the OpenAI form: `{"type": "function", "function": {name, description, parameters}}`."""


def message_text(message: Message) -> str:
    """The text of a policy's message in which character ranges (span credits, call positions) are counted.

    It is `content`, followed by the raw argument text of each native tool call, joined by newlines.
    """
    parts = [message.get("content") or ""]
    parts += [call["function"]["arguments"] for call in message.get("tool_calls") or []]
    return "\n".join(parts) if len(parts) > 1 else parts[0]
