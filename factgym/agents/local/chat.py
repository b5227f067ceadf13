"""From chat messages to the text of a prompt: the model's own chat template, and what it does not take.

What a template can do is found out once by rendering a probe: does the system message appear in the text, do the
tools? A template that drops or refuses a system message gets it at the top of the first user message; one that
ignores tools gets them as text. One that then still refuses the order of roles gets neighbours of one role merged.

Text in a message never becomes a control token: those that occur in it are broken up (see `Codec.defuse`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.local.codec import Codec
from factgym.agents.sampling import ToolMode, tools_as_text
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema

_PROBE = "factgymprobe"
_PROBE_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": _PROBE,
        "description": "A probe.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "A text."}}},
    },
}
_SENT_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")
"""Reasoning of earlier turns is not sent back, as its authors advise."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a prompt, the messages in it, and how many control tokens were broken up in them."""

    text: str
    sent: list[Message]
    defused: int


@dataclass(slots=True)
class ChatFormat:
    """How one model wants its conversations. Raises ConfigError when its template cannot be used.

    tokenizer: a Hugging Face tokenizer. options: further variables of the template.
    """

    tokenizer: Any
    codec: Codec
    model: str
    tools: ToolMode = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    native: bool = field(init=False)
    system: bool = field(init=False)

    def __post_init__(self) -> None:
        if not self.tokenizer.chat_template:
            raise ConfigError(
                f"{self.model!r} has no chat template: choose its instruct or chat variant, or give "
                "chat_template=FILE with a Jinja template"
            )
        hello: list[Message] = [{"role": "user", "content": "Hello."}]
        self.system = self._shows([{"role": "system", "content": _PROBE}, *hello], None)
        shown = self._shows(hello, [_PROBE_TOOL])
        if self.tools == "native" and not shown:
            raise ConfigError(f"the chat template of {self.model!r} ignores tools: set tools to 'text' or 'auto'")
        self.native = shown and self.tools != "text"

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Rendered:
        """The prompt for a conversation, ending where the reply begins."""
        sent = [_sent(message) for message in messages]
        if not self.native:
            sent, tools = tools_as_text(sent, tools), ()
        if not self.system:
            sent = fold_system(sent)
        try:
            return self._rendered(sent, tools)
        except _faults():
            sent = merge_neighbours(fold_system(sent))
        try:
            return self._rendered(sent, tools)
        except _faults() as fault:
            roles = ", ".join(message["role"] for message in sent)
            raise ConfigError(
                f"the chat template of {self.model!r} refuses a conversation of {roles}: "
                f"{type(fault).__name__}: {fault}. Another can be given with chat_template=FILE"
            ) from fault

    def _rendered(self, sent: list[Message], tools: Sequence[ToolSchema]) -> Rendered:
        defused, count = [], 0
        for message in sent:
            shaped, found = self._shape(message)
            defused.append(shaped)
            count += found
        return Rendered(self._apply(defused, tools), sent, count)

    def _shape(self, message: Message) -> tuple[dict[str, Any], int]:
        """A message as templates take it: content is a text, arguments of calls are objects."""
        content, count = self.codec.defuse(message["content"] or "")
        shaped: dict[str, Any] = {**message, "content": content}
        if calls := message.get("tool_calls"):
            shaped["tool_calls"] = []
            for call in calls:
                arguments, found = self.codec.defuse(call["function"]["arguments"])
                count += found
                function = {"name": call["function"]["name"], "arguments": arguments_object(arguments)}
                shaped["tool_calls"].append({**call, "function": function})
        return shaped, count

    def _apply(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSchema] | None) -> str:
        text: str = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=list(tools) if tools else None,
            add_generation_prompt=True,
            tokenize=False,
            **self.options,
        )
        return text

    def _shows(self, messages: list[Message], tools: list[ToolSchema] | None) -> bool:
        try:
            return _PROBE in self._apply(messages, tools)
        except _faults():
            return False


def _faults() -> tuple[type[Exception], ...]:
    """What a template raises: its own words, or an operation that its author did not expect."""
    from jinja2 import TemplateError

    return (TemplateError, TypeError, ValueError, LookupError, AttributeError)


def _sent(message: Message) -> Message:
    return {key: message[key] for key in _SENT_KEYS if key in message}  # type: ignore[literal-required,return-value]


def arguments_object(text: str) -> dict[str, Any]:
    """The arguments of a call for a template; what is not a JSON object is kept whole under "_raw"."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"_raw": text}
    return value if isinstance(value, dict) else {"_raw": text}


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system messages at the top of the first user message."""
    texts = [message["content"] or "" for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    if not texts:
        return rest
    for place, message in enumerate(rest):
        if message["role"] == "user":
            folded: Message = {**message, "content": "\n\n".join([*texts, message["content"] or ""])}
            return [*rest[:place], folded, *rest[place + 1 :]]
    return [{"role": "user", "content": "\n\n".join(texts)}, *rest]


def merge_neighbours(messages: Sequence[Message]) -> list[Message]:
    """The messages with neighbours of one role made one; those with tool calls or tool results stay as they are."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        same = last is not None and last["role"] == message["role"] and message["role"] != "tool"
        if last is None or not same or last.get("tool_calls") or message.get("tool_calls"):
            merged.append(message)
        else:
            merged[-1] = {**last, "content": f"{last['content'] or ''}\n\n{message['content'] or ''}"}
    return merged
