"""Messages and tools, from chat dicts to Inspect's types and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
)
from inspect_ai.tool import ToolCall, ToolInfo, ToolParams

from factgym.core.messages import Message, ToolSchema
from factgym.core.native import encode_json
from factgym.integrations.session import Session


def said(message: ChatMessageAssistant) -> dict[str, Any]:
    """An assistant message of Inspect's as a chat dict. Arguments are written as JSON again, since Inspect keeps no text.

    A call that Inspect could not read is handed on with what Inspect says of it as its arguments, which is no JSON:
    the environment refuses it in its own words.
    """
    content, reasoning = message.content, ""
    if not isinstance(content, str):
        reasoning = "\n".join(one.reasoning for one in content if one.type == "reasoning")
        content = "".join(one.text for one in content if one.type == "text")
    found: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning:
        found["reasoning_content"] = reasoning
    if message.tool_calls:
        found["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.function, "arguments": _arguments(one)}}
            for one in message.tool_calls
        ]
    return found


def _arguments(call: ToolCall) -> str:
    if call.parse_error is not None:
        return str(call.parse_error)
    try:
        return encode_json(call.arguments)
    except ValueError:  # NaN, which Inspect reads and the environment refuses
        return json.dumps(call.arguments)


class Talk:
    """The episode's messages as Inspect's, each made once: what a provider adds to its own goes back to it unchanged."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: list[tuple[Message, ChatMessage]] = []
        self._by_id: dict[int, ChatMessage] = {}
        self._functions: dict[str, str] = {}

    def news(self, own: ChatMessageAssistant | None = None, given: Sequence[ChatMessage] = ()) -> list[ChatMessage]:
        """What the transcript has gained, `own` being the policy's message in it. given: the sample's messages."""
        fresh: list[ChatMessage] = []
        for place, message in enumerate(self._session.env.episode.messages[len(self._known) :]):
            if message["role"] == "assistant" and own is not None:
                chat: ChatMessage = self._answered(own, message)
            elif place < len(given) and (given[place].role, given[place].content) == (
                message["role"],
                message["content"],
            ):
                chat = given[place]
            else:
                chat = chat_message(message, self._functions)
            self._known.append((message, chat))
            self._by_id[id(message)] = chat
            fresh.append(chat)
        return fresh

    def _answered(self, own: ChatMessageAssistant, kept: Message) -> ChatMessageAssistant:
        """The model's message with the ids by which its calls are answered."""
        ours = kept.get("tool_calls") or []
        theirs = own.tool_calls or []
        self._functions.update((call["id"], call["function"]["name"]) for call in ours)
        if [call["id"] for call in ours] == [call.id for call in theirs]:
            return own
        calls = [replace(call, id=one["id"]) for call, one in zip(theirs, ours, strict=False)]
        return own.model_copy(update={"tool_calls": calls})

    def prompt(self) -> list[ChatMessage]:
        """What the policy sees now: not always the whole transcript."""
        return [self._by_id.get(id(message)) or self._equal(message) for message in self._session.messages]

    def _equal(self, message: Message) -> ChatMessage:
        for known, chat in self._known:
            if known == message:
                return chat
        return chat_message(message, self._functions)


class ToolInfos:
    """The environment's tools as Inspect's, each made once."""

    def __init__(self) -> None:
        self._made: list[tuple[ToolSchema, ToolInfo]] = []

    def of(self, schema: ToolSchema) -> ToolInfo:
        """A tool by its schema."""
        for known, info in self._made:
            if known is schema or known == schema:
                return info
        info = tool_info(schema)
        self._made.append((schema, info))
        return info


def tool_info(schema: ToolSchema) -> ToolInfo:
    """A tool's schema as Inspect hands it to providers; what its type of schemas has no field for is left out."""
    function = schema["function"]
    return ToolInfo(
        name=function["name"],
        description=function.get("description") or "",
        parameters=ToolParams.model_validate(function["parameters"]),
    )


def chat_message(message: Message, functions: Mapping[str, str]) -> ChatMessage:
    """A chat dict as Inspect's message. functions: the tools that were called, by the ids of the calls."""
    content, role = message["content"] or "", message["role"]
    own: Any = {"id": token_hex(11), "content": content}  # Inspect's own ids take longer than a turn
    if role == "system":
        return ChatMessageSystem(**own)
    if role == "user":
        return ChatMessageUser(**own)
    if role == "tool":
        call = message.get("tool_call_id", "")
        return ChatMessageTool(**own, tool_call_id=call, function=functions.get(call))
    calls = [
        ToolCall(id=one["id"], function=one["function"]["name"], arguments=json.loads(one["function"]["arguments"]))
        for one in message.get("tool_calls") or []
    ]
    return ChatMessageAssistant(**own, tool_calls=calls or None)
