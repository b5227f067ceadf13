"""Request bodies, assembled from parts that are encoded once.

A transcript only grows, so an episode stores the bytes of the messages that it has sent. Servers are stricter than
records: chat templates read a call's arguments as JSON, so that arguments which are no object are sent inside one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json import JSONEncoder
from typing import Any

from factgym.agents.endpoint.faults import Fault
from factgym.agents.endpoint.settings import EndpointSettings
from factgym.core.messages import Message, ToolSchema

MALFORMED = "malformed_arguments"
"""The key under which arguments that are no JSON object are sent back to the model."""

_SENT_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_TOOL_LISTS = 64
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(value: Any) -> bytes:
    """JSON as UTF-8; half a surrogate pair becomes a question mark."""
    return _encode(value).encode("utf-8", "replace")


def sendable(message: Message) -> tuple[Message, bool]:
    """A message as servers take it, and whether that differs from the given message in anything the model sees."""
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
    changed = sent != {key: value for key, value in message.items() if key != "completion"}
    return sent, changed  # type: ignore[return-value]  # the keys are a message's


def _sendable_call(call: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if not _NAME.fullmatch(name):
        name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "invalid"
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        arguments = _encode({MALFORMED: arguments})
    return {"id": call["id"], "type": "function", "function": {"name": name, "arguments": arguments}}


class Transcript:
    """The messages of one episode as they are sent, and their bytes, which are reused from turn to turn."""

    __slots__ = ("_bytes", "_changed", "_originals", "_sent")

    def __init__(self) -> None:
        self._originals: list[Message] = []
        self._sent: list[Message] = []
        self._bytes: list[bytes] = []
        self._changed: list[bool] = []

    def messages(self, messages: Sequence[Message]) -> bytes:
        """The JSON list of the messages. Those that are the same objects as before are not encoded again."""
        # Invariant: the four lists are parallel. Messages are compared by identity, which costs nothing: an episode's
        # transcript holds the objects of the turns before.
        unchanged = 0
        for old, new in zip(self._originals, messages, strict=False):
            if old is not new:
                break
            unchanged += 1
        for parts in (self._originals, self._sent, self._bytes, self._changed):
            del parts[unchanged:]
        for message in messages[unchanged:]:
            sent, changed = sendable(message)
            self._originals.append(message)
            self._sent.append(sent)
            self._bytes.append(encode_json(sent))
            self._changed.append(changed)
        return b"[" + b",".join(self._bytes) + b"]"

    def sent(self, always: bool = False) -> list[Message] | None:
        """The messages as the model saw them; None where they equal the given ones (unless always)."""
        return list(self._sent) if always or any(self._changed) else None


class RequestTemplate:
    """The parts of requests that do not change: the model, how it samples, and the tools, which episodes share."""

    def __init__(self, model: str, settings: EndpointSettings, is_openai: bool) -> None:
        self.limit_key = "max_completion_tokens" if is_openai else "max_tokens"
        self._streamed, self._with_usage = settings.stream, True
        self._head = b'{"model":' + encode_json(model) + b',"messages":'
        sampling = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "stop": settings.stop,
            "logprobs": True if settings.logprobs or settings.top_logprobs else None,
            "top_logprobs": settings.top_logprobs or None,
        }
        extra = settings.extra_body or {}
        keys = {**{key: value for key, value in sampling.items() if value is not None}, **extra}
        keys.pop(self.limit_key, None)
        self._fixed = frozenset(extra)
        self.limit = extra.get(self.limit_key, settings.max_tokens)
        self._seeded = settings.send_seed and "seed" not in keys
        self._tail = encode_json(keys)[1:-1]
        self._tools: dict[tuple[int, ...], tuple[list[ToolSchema], bytes]] = {}

    def tools(self, tools: Sequence[ToolSchema]) -> bytes:
        """The JSON list of the tools. The same objects are encoded once."""
        key = tuple(map(id, tools))
        if key not in self._tools:
            if len(self._tools) >= _MAX_TOOL_LISTS:
                self._tools.clear()
            objects = list(tools)  # held, so that no other object gets their ids
            self._tools[key] = objects, encode_json(objects)
        return self._tools[key][1]

    def body(
        self, messages: bytes, tools: bytes | None = None, seed: int | None = None, limit: int | None = None
    ) -> bytes:
        """A whole request. messages, tools: JSON lists. limit: `max_tokens` of this request; 0 leaves it out."""
        parts = [self._head, messages]
        if tools is not None:
            parts += [b',"tools":', tools]
        if seed is not None and self._seeded:
            parts.append(b',"seed":%d' % seed)
        max_tokens = self.limit if limit is None else limit
        if max_tokens:
            parts.append(b',"%b":%d' % (self.limit_key.encode(), max_tokens))
        if self._streamed:
            parts.append(
                b',"stream":true' + (b',"stream_options":{"include_usage":true}' if self._with_usage else b"")
            )
        if self._tail:
            parts += [b",", self._tail]
        parts.append(b"}")
        return b"".join(parts)

    def adapt(self, fault: Fault) -> str | None:
        """Change what requests hold where the server does not take it, and return the change; None for no remedy.

        The name of the limit, a stream in place of a whole reply, and the seed can change without another meaning of the
        settings; that replies are then not repeatable is for the record. Keys of `extra_body` stay as they are.
        """
        if fault.setting in self._fixed:
            return None
        if fault.setting in _LIMIT_KEYS and (other := _LIMIT_KEYS[fault.setting]) not in self._fixed:
            self.limit_key = other
            return f"{fault.setting} is sent as {other}"
        if fault.setting == "seed":
            self._seeded = False
            return "seed is not sent: replies cannot be repeated"
        if fault.setting == "stream":
            self._streamed = True
            return "replies are streamed"
        if fault.setting == "stream_options":
            self._with_usage = False
            return "streams come without token counts"
        return None


_LIMIT_KEYS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
