"""What goes out: the request's body, put together from parts that are encoded once.

A transcript only grows, so an episode keeps the bytes of the messages it has sent. Servers are stricter than records:
chat templates read a call's arguments as JSON, so that arguments which are no object go out wrapped in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json import JSONEncoder
from typing import Any

from factgym.agents.endpoint.settings import EndpointSettings
from factgym.core.messages import Message, ToolSchema

MALFORMED = "malformed_arguments"
"""The key under which arguments that are no JSON object are sent back to the model."""

_SENT_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
_NOT_SEEN = frozenset({"completion"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encoded(value: Any) -> bytes:
    """JSON as UTF-8; half a surrogate pair becomes a question mark."""
    return _encode(value).encode("utf-8", "replace")


def sendable(message: Message) -> tuple[Message, bool]:
    """A message as servers take it, and whether the model sees something else than the message says."""
    extra = message.keys() - _SENT_KEYS
    calls = message.get("tool_calls")
    if not extra and not calls and "name" not in message:
        return message, False
    sent: dict[str, Any] = {key: value for key, value in message.items() if key in _SENT_KEYS}
    if "name" in sent and (sent["role"] == "tool" or not _NAME.fullmatch(str(sent["name"]))):
        del sent["name"]
    if calls:
        sent["tool_calls"] = [_sendable_call(call) for call in calls]
    elif "tool_calls" in sent:
        del sent["tool_calls"]
    same = sent == {key: value for key, value in message.items() if key not in _NOT_SEEN}
    return sent, not same  # type: ignore[return-value]  # the keys are a message's


def _sendable_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name = function["name"]
    if not _NAME.fullmatch(name):
        name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "invalid"
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": name, "arguments": _object_text(function["arguments"])},
    }


def _object_text(arguments: str) -> str:
    try:
        fits = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        fits = False
    return arguments if fits else _encode({MALFORMED: arguments})


class Transcript:
    """The messages of one episode as they go out, and their bytes: what was encoded for a turn is kept for the next."""

    __slots__ = ("_bytes", "_changed", "_given", "_sent", "_tools", "_tools_bytes")

    def __init__(self) -> None:
        self._given: list[Message] = []
        self._sent: list[Message] = []
        self._bytes: list[bytes] = []
        self._changed: list[bool] = []
        self._tools: list[ToolSchema] = []
        self._tools_bytes = b""

    def messages(self, messages: Sequence[Message]) -> bytes:
        """The JSON list of the messages."""
        kept = self._kept(messages)
        for parts in (self._given, self._sent, self._bytes, self._changed):
            del parts[kept:]
        for message in messages[kept:]:
            sent, changed = sendable(message)
            self._given.append(message)
            self._sent.append(sent)
            self._bytes.append(encoded(sent))
            self._changed.append(changed)
        return b"[" + b",".join(self._bytes) + b"]"

    def _kept(self, messages: Sequence[Message]) -> int:
        """How many messages at the beginning are the very ones that were sent before."""
        count = 0
        for old, new in zip(self._given, messages, strict=False):
            if old is not new:
                break
            count += 1
        return count

    def sent(self, always: bool = False) -> list[Message] | None:
        """The messages as the model saw them, None where they are those that were given (unless always)."""
        return list(self._sent) if always or any(self._changed) else None

    def tools(self, tools: Sequence[ToolSchema]) -> bytes:
        """The JSON list of the tools."""
        if len(tools) != len(self._tools) or any(a is not b for a, b in zip(tools, self._tools, strict=True)):
            self._tools = list(tools)
            self._tools_bytes = encoded(self._tools)
        return self._tools_bytes


class Template:
    """The parts of every request that do not change: the model and how it samples."""

    def __init__(self, model: str, settings: EndpointSettings, is_openai: bool) -> None:
        self.limit_key = "max_completion_tokens" if is_openai else "max_tokens"
        self._head = b'{"model":' + encoded(model) + b',"messages":'
        self._seeded = settings.send_seed
        keys = {key: value for key, value in _sampling(settings).items() if value is not None}
        extra = settings.extra_body or {}
        self.limit = extra.get(self.limit_key, settings.max_tokens)
        self._keys = {**keys, **extra}
        self._keys.pop(self.limit_key, None)
        self._tail = encoded(self._keys)[1:-1]

    def body(
        self, messages: bytes, tools: bytes | None = None, seed: int | None = None, limit: int | None = None
    ) -> bytes:
        """A whole request. messages, tools: JSON lists. limit: `max_tokens` of this request; 0 leaves it out."""
        parts = [self._head, messages]
        if tools is not None:
            parts += [b',"tools":', tools]
        if seed is not None and self._seeded and "seed" not in self._keys:
            parts.append(b',"seed":%d' % seed)
        most = self.limit if limit is None else limit
        if most:
            parts.append(b',"%b":%d' % (self.limit_key.encode(), most))
        if self._tail:
            parts += [b",", self._tail]
        parts.append(b"}")
        return b"".join(parts)


def _sampling(settings: EndpointSettings) -> dict[str, Any]:
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "stop": settings.stop,
        "logprobs": True if settings.logprobs or settings.top_logprobs else None,
        "top_logprobs": settings.top_logprobs or None,
    }
