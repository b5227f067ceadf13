"""Request bodies, assembled from parts that are encoded once.

A transcript only grows, so an episode stores the bytes of the messages that it has sent. Servers are stricter than
records: chat templates read a call's arguments as JSON, so that arguments which are none are sent inside an object.
Reasoning goes back under the keys under which it came (`reasoning_fields`); records have it as `reasoning_content`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import JSONEncoder
from typing import Any

from factgym.agents.endpoint.faults import Fault
from factgym.agents.endpoint.reply import ChatReply, reasoning_fields
from factgym.agents.endpoint.settings import EndpointSettings
from factgym.agents.folding import Fold, json_arguments
from factgym.core.messages import Message, ToolSchema

_SENT_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_TOOL_LISTS = 64
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(value: Any) -> bytes:
    """JSON as UTF-8; half a surrogate pair becomes a question mark."""
    return _encode(value).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which a conversation is sent.

    folds: of roles. reasoning: the reasoning of the episode's own replies goes back. demanded: a key of reasoning that
    every assistant message gets, a space where a reply had none; empty for none.
    """

    folds: frozenset[Fold] = frozenset()
    reasoning: bool = True
    demanded: str = ""


def sendable(message: Message) -> Message:
    """A message without the keys that servers refuse, reasoning included."""
    calls = message.get("tool_calls")
    if not calls and "name" not in message and message.keys() <= _SENT_KEYS:
        return message
    sent: dict[str, Any] = {key: value for key, value in message.items() if key in _SENT_KEYS}
    if "name" in sent and (sent["role"] == "tool" or not _NAME.fullmatch(str(sent["name"]))):
        del sent["name"]
    if calls:
        sent["tool_calls"] = [_sendable_call(call) for call in calls]
    elif "tool_calls" in sent:
        del sent["tool_calls"]
    return sent  # type: ignore[return-value]  # the keys are a message's


def _sendable_call(call: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if not _NAME.fullmatch(name):
        name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "invalid"
    return {"id": call["id"], "type": "function", "function": {"name": name, "arguments": json_arguments(arguments)}}


class Transcript:
    """The messages of one episode as they are sent, and their bytes, which are reused from turn to turn.

    reasoning_keys: keys under which the episode's replies had reasoning.
    """

    __slots__ = (
        "_bytes",
        "_changed",
        "_form",
        "_originals",
        "_reasoning",
        "_sent",
        "_signed",
        "_wire",
        "reasoning_keys",
    )

    def __init__(self) -> None:
        self._originals: list[Message] = []
        self._sent: list[Message] = []
        self._wire: list[Mapping[str, Any]] = []
        self._bytes: list[bytes] = []
        self._changed: list[bool] = []
        self._form = Form()
        self._reasoning: dict[str, Mapping[str, Any]] = {}  # `_identity` of a reply -> its fields
        self._signed: dict[tuple[str, str], Mapping[str, Any]] = {}  # id and arguments of a call -> its further keys
        self.reasoning_keys: set[str] = set()

    def add_reply(self, reply: ChatReply) -> None:
        """Store the reasoning of a reply, which goes back with the next request."""
        if reply.reasoning:
            fields = dict(reply.reasoning)
            self._signed |= fields.pop("tool_calls", {})
            self._reasoning[_identity(reply.message)] = fields
            self.reasoning_keys |= fields.keys()

    def messages(self, messages: Sequence[Message], form: Form) -> bytes:
        """The JSON list of the messages. Those that are the same objects as before are not encoded again."""
        # Invariant: the five lists are parallel. Messages are compared by identity, which costs nothing: an episode's
        # transcript holds the objects of the turns before.
        unchanged = 0
        for old, new in zip(self._originals if form == self._form else (), messages, strict=False):
            if old is not new:
                break
            unchanged += 1
        self._form = form
        for parts in (self._originals, self._sent, self._wire, self._bytes, self._changed):
            del parts[unchanged:]
        for message in messages[unchanged:]:
            sent = sendable(message)
            wire = self._with_reasoning(message, sent) if message["role"] == "assistant" else sent
            if wire is not sent and form.reasoning and (reasoning := message.get("reasoning_content")):
                sent = {**sent, "reasoning_content": reasoning}
            self._originals.append(message)
            self._sent.append(sent)
            self._wire.append(wire)
            self._bytes.append(encode_json(wire))
            given = {key: value for key, value in message.items() if key != "completion"}
            self._changed.append(sent is not message and sent != given)
        return b"[" + b",".join(self._bytes) + b"]"

    def _with_reasoning(self, message: Message, sent: Message) -> Mapping[str, Any]:
        """An assistant message as it is sent, with its reasoning as it came; the same object where there is none."""
        form, text = self._form, message.get("reasoning_content") or ""
        fields: dict[str, Any] = {}
        if form.reasoning:
            raw = (message.get("completion") or {}).get("raw")  # outside of episodes
            fields = dict(
                self._reasoning.get(_identity(message)) or reasoning_fields(raw if isinstance(raw, dict) else {})
            )
            self._signed |= fields.pop("tool_calls", {})
        if form.demanded and not fields.get(form.demanded):
            fields[form.demanded] = text or " "
        calls = sent.get("tool_calls") or []
        originals = message.get("tool_calls") or []
        extras = [self._signed.get((call["id"], call["function"]["arguments"]), {}) for call in originals]
        if form.reasoning and any(extras):
            fields["tool_calls"] = [{**call, **extra} for call, extra in zip(calls, extras, strict=True)]
        thought = fields.get("content")
        if isinstance(thought, str):
            fields["content"] = thought + (sent["content"] or "")
        elif thought is not None:
            fields["content"] = [*thought, {"type": "text", "text": sent["content"]}] if sent["content"] else thought
        return {**sent, **fields} if fields else sent

    def transitions(self) -> set[tuple[str, str]]:
        """The pairs of neighbours in the messages as sent: each a role with what a server may refuse about it."""
        kinds = [
            f"{message['role']}{'+calls' * ('tool_calls' in message)}{'+reasoning' * (wire is not message)}"
            f"{'+null' if message['content'] is None else '+text' * bool(message['content'])}"
            for message, wire in zip(self._sent, self._wire, strict=True)
        ]
        return set(zip(["", *kinds], [*kinds, ""], strict=True))

    @property
    def sent_reasoning(self) -> bool:
        """Whether any message was sent with its reasoning."""
        return any(wire is not message for message, wire in zip(self._sent, self._wire, strict=True))

    def lacks(self, key: str) -> bool:
        """Whether an assistant message was sent without a key."""
        return any(not wire.get(key) for wire in self._wire if wire["role"] == "assistant")

    def sent(self, always: bool = False) -> list[Message] | None:
        """The messages as the model saw them; None where they equal the given ones (unless always)."""
        return list(self._sent) if always or self._form.folds or any(self._changed) else None


def _identity(message: Message) -> str:
    """A text by which a reply is found again in the transcript."""
    by_calls = "".join(call["id"] + call["function"]["arguments"] for call in message.get("tool_calls") or ())
    return message.get("reasoning_content") or by_calls or message["content"] or ""


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
            parts.append(b',"stream":true' + (b',"stream_options":{"include_usage":true}' if self._with_usage else b""))
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
