"""Messages and tools, from chat dicts to Inspect's types and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
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

from factgym.core.action import encode_json
from factgym.core.env import Env
from factgym.core.messages import Message, ToolSchema


def said(message: ChatMessageAssistant) -> dict[str, Any]:
    """An assistant message of Inspect's as a chat dict. Arguments are written as JSON again, since Inspect keeps no text.

    A call that Inspect could not read is handed on with what Inspect says of it as its arguments, which is no JSON:
    the environment refuses it in its own words.
    """
    content = message.content
    found: dict[str, Any] = {"role": "assistant", "content": content}
    if not isinstance(content, str):
        found["content"] = "".join(one.text for one in content if one.type == "text")
        if reasoning := "\n".join(one.reasoning for one in content if one.type == "reasoning"):
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

    def __init__(self, env: Env[Any]) -> None:
        self._env = env
        self._transcript: Sequence[Message] = env.episode.messages
        self._isolated = type(env).policy_prompt is not Env.policy_prompt
        self._chats: list[ChatMessage] = []
        self._functions: dict[str, str] = {}
        self._ids = token_hex(8)  # once: Inspect's own ids, and the system's randomness, take longer than a turn

    def begun(self, given: Sequence[ChatMessage]) -> list[ChatMessage] | None:
        """The first messages; None where they are the sample's own, given, which are kept where they are equal."""
        for place, message in enumerate(self._transcript):
            known = given[place] if place < len(given) else None
            if known is None or known.content != message["content"] or known.role != message["role"]:
                known = chat_message(message, self._functions, f"{self._ids}{place:06x}")
            self._chats.append(known)
        same = len(given) == len(self._chats) and all(map(is_, given, self._chats))
        return None if same else self._chats.copy()

    def answered(self, own: ChatMessageAssistant) -> list[ChatMessage]:
        """The policy's message, as the transcript has it, and what answers it."""
        chats, transcript = self._chats, self._transcript
        first = len(chats)
        chats.append(self._with_ids(own, transcript[first]))
        for place in range(first + 1, len(transcript)):
            chats.append(chat_message(transcript[place], self._functions, f"{self._ids}{place:06x}"))
        return chats[first:]

    def _with_ids(self, own: ChatMessageAssistant, kept: Message) -> ChatMessageAssistant:
        """The model's message with the ids by which its calls are answered."""
        ours, theirs = kept.get("tool_calls") or (), own.tool_calls or ()
        same = len(ours) == len(theirs)
        for n, call in enumerate(ours):
            self._functions[call["id"]] = call["function"]["name"]
            same = same and call["id"] == theirs[n].id
        if same:
            return own
        calls = [replace(call, id=one["id"]) for call, one in zip(theirs, ours, strict=False)]
        return own.model_copy(update={"tool_calls": calls})

    def prompt(self) -> list[ChatMessage]:
        """What the policy sees now: not always the whole transcript."""
        if not self._isolated:
            return self._chats.copy()
        known = {id(message): chat for message, chat in zip(self._transcript, self._chats, strict=True)}
        return [known.get(id(message)) or self._equal(message) for message in self._env.policy_prompt()]

    def _equal(self, message: Message) -> ChatMessage:
        place = next((n for n, known in enumerate(self._transcript) if known == message), None)
        return chat_message(message, self._functions, token_hex(11)) if place is None else self._chats[place]


class ToolInfos:
    """The environment's tools as Inspect's, each made once."""

    def __init__(self) -> None:
        self._made: list[tuple[ToolSchema, ToolInfo]] = []
        self._last: tuple[Sequence[ToolSchema], tuple[ToolInfo, ...]] = ((), ())

    def of(self, schemas: Sequence[ToolSchema]) -> tuple[ToolInfo, ...]:
        """The tools by their schemas."""
        known, found = self._last
        if known is not schemas:
            found = tuple([self._one(schema) for schema in schemas])
            if isinstance(schemas, tuple):  # a list may say something else tomorrow
                self._last = (schemas, found)
        return found

    def _one(self, schema: ToolSchema) -> ToolInfo:
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


def chat_message(message: Message, functions: Mapping[str, str], own: str) -> ChatMessage:
    """A chat dict as Inspect's message. functions: the tools that were called, by the ids of the calls. own: its id."""
    content, role = message["content"] or "", message["role"]
    if role == "tool":
        call = message.get("tool_call_id", "")
        return ChatMessageTool(id=own, content=content, tool_call_id=call, function=functions.get(call))
    if role == "system":
        return ChatMessageSystem(id=own, content=content)
    if role == "user":
        return ChatMessageUser(id=own, content=content)
    calls = [
        ToolCall(id=one["id"], function=one["function"]["name"], arguments=json.loads(one["function"]["arguments"]))
        for one in message.get("tool_calls") or []
    ]
    return ChatMessageAssistant(id=own, content=content, tool_calls=calls or None)
