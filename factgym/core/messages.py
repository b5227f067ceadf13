"""Chat messages as plain dicts, in the form of OpenAI-compatible servers."""

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


class Usage(TypedDict, total=False):
    """Tokens of one reply, or summed over an episode. `reasoning_tokens` and `cached_tokens` are parts of the others."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_tokens: int


class TokenLogprob(TypedDict):
    """One token of a reply and its natural-log probability under the policy that sampled it."""

    token: str
    logprob: float


class Retry(TypedDict):
    """A request that failed and was repeated: the cause's code, and the seconds waited before the next."""

    cause: str
    waited: float


class Completion(TypedDict, total=False):
    """Facts about a policy's reply besides the message itself; every key is optional.

    raw: the unprocessed reply (a model's text, or a server's message as JSON data). sent: the messages that the model
    received, where they differ from those that the policy was given. A truncated reply has finish_reason "length".
    """

    raw: Any
    model: str
    finish_reason: str
    usage: Usage
    logprobs: list[TokenLogprob]
    requests: int
    retries: list[Retry]
    sent: list[Message]
    notes: dict[str, Any]


class Message(TypedDict):
    """One chat message. `completion` is for records: it is never part of a transcript, and never sent."""

    role: Role
    content: str | None
    tool_calls: NotRequired[list[ToolCallMessage]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]
    reasoning_content: NotRequired[str]
    completion: NotRequired[Completion]


ToolSchema = dict[str, Any]
"""One tool in the OpenAI form: `{"type": "function", "function": {name, description, parameters}}`."""


def message_text(message: Message) -> str:
    """Return the text of a policy's message in which character ranges (span credits, call positions) are counted.

    It is `content`, followed by the raw argument text of each native tool call, joined by newlines.
    """
    content, calls = message.get("content") or "", message.get("tool_calls")
    return "\n".join([content, *(call["function"]["arguments"] for call in calls)]) if calls else content
