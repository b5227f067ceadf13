"""Answers of a server, each read into a message with its completion, or into a fault.

Replies differ in small ways (arguments as objects, null ids, parts, the old `function_call`, two names for reasoning).
The model's own words are never changed: its mistakes are answered by the environment.
"""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json import JSONDecoder, JSONEncoder
from typing import Any

from factgym.agents.endpoint.faults import MALFORMED_CALL, Fault, fault_of_status
from factgym.agents.sampling import split_reasoning
from factgym.core.messages import Completion, Message, TokenLogprob, ToolCallMessage, Usage
from factgym.core.strict_json import Limits, StrictJsonError, clean_text, plain_json

_RAW_LIMITS = Limits(max_chars=1_000_000, max_depth=64, max_number_chars=640)
_RAW_HEAD = 2_000
_MAX_CALLS = 64
_MAX_LABEL = 200
_ABORTED = frozenset({"error", "abort"})
"""Finish reasons of a server that gave up, which is no fault of the model."""

_MIN_LOGPROB = -9999.0
"""In place of minus infinity, which JSON cannot write; servers use the same number."""

_decode = JSONDecoder(parse_constant=lambda _: None).decode
_encode = JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A parsed reply. empty: it has no content, and the server does not report any token of one."""

    message: Message
    completion: Completion
    empty: bool


class _BadReplyError(Exception):
    """The server's reply is no chat completion; the message says why."""


def read_reply(body: bytes, keep_reasoning: bool = False) -> ChatReply | Fault:
    """Read an answer with HTTP status 200. keep_reasoning: leave `<think>` in the content."""
    try:
        try:
            data = _decode(body.removeprefix(BOM_UTF8).decode("utf-8"))
        except (ValueError, RecursionError):
            raise _BadReplyError("the reply is not JSON") from None
        if not isinstance(data, dict):
            raise _BadReplyError("the reply is not a JSON object")
        error = data.get("error")
        if isinstance(error, (dict, str)) and error and not data.get("choices"):
            # Some routers send the error of the server behind them with status 200.
            status = error.get("code") if isinstance(error, dict) else None
            return fault_of_status(status if isinstance(status, int) and 400 <= status < 600 else 502, {}, body)
        return _read_completion(data, keep_reasoning)
    except _BadReplyError as bad:
        return Fault("bad_reply", f"{bad}; it begins with {body[:120]!r}", again=True)


def _read_completion(data: dict[str, Any], keep_reasoning: bool) -> ChatReply | Fault:
    """Return the reply of a chat completion; what a server leaves out stays out, what is too large is cut."""
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _BadReplyError("the reply has no choices")
    choice = choices[0]
    raw = choice.get("message")
    if not isinstance(raw, dict):
        raise _BadReplyError("the reply has no message")
    finish = _label(choice.get("finish_reason"))
    if finish in _ABORTED:
        return Fault("server", f"the server broke off its reply (finish_reason {finish!r})", again=True)
    message = _read_message(raw, keep_reasoning)
    usage = read_usage(data.get("usage"))
    try:
        recorded = plain_json(raw, _RAW_LIMITS)
    except StrictJsonError:  # too large or too deep for a record
        recorded = clean_text(repr(raw)[:_RAW_HEAD])
    tokens, alternatives = read_logprobs(choice.get("logprobs"))
    first_token = data.get(FIRST_TOKEN)
    notes: dict[str, Any] = {"top_logprobs": alternatives} if alternatives else {}
    if isinstance(first_token, float) and 0 <= first_token < math.inf:
        notes[FIRST_TOKEN] = first_token
    optional = {
        "model": _label(data.get("model")),
        "finish_reason": finish,
        "usage": usage or None,
        "logprobs": tokens or None,
        "notes": notes or None,
    }
    completion = Completion(raw=recorded)
    completion.update({key: value for key, value in optional.items() if value is not None})  # type: ignore[typeddict-item]
    text = (message["content"] or "").strip() or message.get("reasoning_content")
    has_content = text or message.get("tool_calls") or usage.get("completion_tokens") or finish == "content_filter"
    return ChatReply(message, completion, empty=not has_content)


def _label(value: Any) -> str | None:
    return clean_text(value[:_MAX_LABEL]) if isinstance(value, str) else None


def _read_message(raw: dict[str, Any], keep_reasoning: bool) -> Message:
    """Return the assistant's message: text of all parts, or the refusal; thoughts apart unless `keep_reasoning`."""
    content: Any = raw.get("content")
    if isinstance(content, list):
        parts = [
            part if isinstance(part, str) else part.get("text") or part.get("refusal")
            for part in content
            if isinstance(part, (str, dict))
        ]
        content = "".join(text for text in parts if isinstance(text, str))
    elif content is not None and not isinstance(content, str):
        raise _BadReplyError("the reply's content is neither text nor a list of parts")
    refusal = raw.get("refusal")
    if content is None and isinstance(refusal, str):
        content = refusal
    fields = (raw.get("reasoning_content"), raw.get("reasoning"))
    reasoning = next((text for text in fields if isinstance(text, str) and text), "")
    if content and not keep_reasoning:
        thought, content = split_reasoning(content)
        reasoning = "\n".join(part for part in (reasoning, thought) if part)
    message: Message = {"role": "assistant", "content": content}
    if calls := _read_calls(raw):
        message["tool_calls"] = calls
    elif content is None:
        message["content"] = ""
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def _read_calls(raw: dict[str, Any]) -> list[ToolCallMessage]:
    """The tool calls, their ids made unique and their arguments text."""
    calls = raw.get("tool_calls")
    if calls is None:
        function = raw.get("function_call")  # the API before tools
        calls = [{"function": function}] if isinstance(function, dict) else []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise _BadReplyError("the reply's tool_calls are not a list of calls")
    # Invariant: every id is used once, because results are matched to calls by id. Some servers send none, or doubles.
    used_ids: set[str] = set()
    messages: list[ToolCallMessage] = []
    for number, call in enumerate(calls[:_MAX_CALLS]):
        function = call.get("function")
        fields = function if isinstance(function, dict) else call
        name, arguments = fields.get("name"), fields.get("arguments")
        text = arguments if isinstance(arguments, str) else _encode({} if arguments is None else arguments)
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            call_id = f"call_{number}"
        while call_id in used_ids:
            call_id = f"{call_id}_{number}"
        used_ids.add(call_id)
        called: Any = {"name": name if isinstance(name, str) else "", "arguments": text}
        messages.append({"id": call_id, "type": "function", "function": called})
    return messages


def read_usage(value: Any) -> Usage:
    """The token counts of a reply; a count that is no plausible number is left out."""
    if not isinstance(value, Mapping):
        return {}
    written, prompt = value.get("completion_tokens_details"), value.get("prompt_tokens_details")
    counts = {
        "prompt_tokens": value.get("prompt_tokens"),
        "completion_tokens": value.get("completion_tokens"),
        "reasoning_tokens": (written if isinstance(written, Mapping) else value).get("reasoning_tokens"),
        "cached_tokens": prompt.get("cached_tokens") if isinstance(prompt, Mapping) else None,
    }
    return {key: count for key, count in counts.items() if type(count) is int and 0 <= count < 2**53}  # type: ignore[return-value]


def read_logprobs(value: Any) -> tuple[list[TokenLogprob], list[list[TokenLogprob]]]:
    """The reply's tokens with their natural-log probabilities, and the likeliest alternatives of each.

    Both are empty where the server gives none.
    """
    if not isinstance(value, Mapping):
        return [], []
    content = value.get("content")
    if isinstance(content, list):
        lists = [entry.get("top_logprobs") for entry in content if isinstance(entry, Mapping)]
        alternatives = [_read_tokens(entries) for entries in lists if isinstance(entries, list)]
        return _read_tokens(content), alternatives if any(alternatives) else []
    tokens, logprobs = value.get("tokens"), value.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(logprobs, list) and len(tokens) == len(logprobs):
        pairs = zip(tokens, logprobs, strict=True)
        return _read_tokens([{"token": token, "logprob": logprob} for token, logprob in pairs]), []
    return [], []


def _read_tokens(entries: list[Any]) -> list[TokenLogprob]:
    tokens: list[TokenLogprob] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("token"), str):
            continue
        value = entry.get("logprob")
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -math.inf
        logprob = number if math.isfinite(number) else _MIN_LOGPROB
        tokens.append({"token": clean_text(entry["token"]), "logprob": logprob})
    return tokens


def malformed_turn(fault: Fault) -> ChatReply:
    """The model's turn whose tool call the server could not read: its text where that is known, no call."""
    message: Message = {"role": "assistant", "content": fault.generation}
    completion = Completion(raw=fault.generation)
    completion["notes"] = {MALFORMED_CALL: clean_text(fault.message)}
    return ChatReply(message, completion, empty=False)


FIRST_TOKEN = "first_token_seconds"
"""Seconds from the request to the first part of a stream that holds a part of the reply, among a turn's notes."""

_MAX_CHOICE_CALLS = 4 * _MAX_CALLS


def is_stream(body: bytes) -> bool:
    """Whether a body is a stream of events, whatever its type says: a JSON document begins otherwise."""
    return body.removeprefix(BOM_UTF8).lstrip()[:6].startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def completion_of_stream(body: bytes, arrivals: Sequence[tuple[int, float]] = ()) -> bytes:
    """The chat completion of a stream of server-sent events, as JSON; read by `read_reply`.

    arrivals: bytes so far and seconds since the request, after each part that arrived. An event that cannot be read, or a
    stream that ends without a finish reason, makes a body that is no completion. Deltas are joined as OpenAI's API
    defines them: texts are appended, calls by their index.
    """
    stream = _Stream()
    end = 0
    for line in body.split(b"\n"):
        end += len(line) + 1
        if line.startswith(b"data:") and (data := line[5:].strip()) and data != b"[DONE]":
            try:
                event = json.loads(data)
            except (ValueError, RecursionError):
                return body
            if not isinstance(event, dict):
                return body
            if stream.add(event) and stream.first is None:
                stream.first = next((seconds for size, seconds in arrivals if size >= end - 1), None)
    return _encode(stream.completion()).encode("utf-8", "replace")


@dataclass(slots=True)
class _Stream:
    """The deltas of a stream so far. first: seconds to the first token."""

    head: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    logprobs: list[Any] = field(default_factory=list)
    finish: Any = None
    usage: Any = None
    error: Any = None
    first: float | None = None

    def add(self, event: Mapping[str, Any]) -> bool:
        """Add an event; return whether it holds a part of the reply."""
        self.head = self.head or {key: event[key] for key in ("id", "model", "created") if key in event}
        self.usage = event.get("usage") or self.usage
        self.error = event.get("error") or self.error
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        self.finish = choice.get("finish_reason") or self.finish
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
            self.logprobs += logprobs["content"]
        delta = choice.get("delta") or choice.get("message")
        return isinstance(delta, Mapping) and self._add_delta(delta)

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        any_part = False
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            if isinstance(text := delta.get(name), str) and text:
                self.texts.setdefault(name, []).append(text)
                any_part = True
        calls = delta.get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, Mapping):
                self._add_call(number, call)
                any_part = True
        return any_part

    def _add_call(self, number: int, call: Mapping[str, Any]) -> None:
        """Merge a part of a streamed call, which names its index or, from some servers, does not."""
        index = call.get("index")
        index = index if type(index) is int else number
        if index not in self.calls and len(self.calls) >= _MAX_CHOICE_CALLS:
            return
        merged = self.calls.setdefault(index, {"id": None, "name": None, "arguments": []})
        function = call.get("function")
        fields = function if isinstance(function, Mapping) else {}
        merged["id"] = merged["id"] or call.get("id")
        merged["name"] = merged["name"] or fields.get("name")
        if (arguments := fields.get("arguments")) is not None:
            merged["arguments"].append(arguments if isinstance(arguments, str) else _encode(arguments))

    def completion(self) -> dict[str, Any]:
        """The whole reply; without a finish reason, a completion without choices."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: "".join(parts) for name, parts in self.texts.items()}
        if self.calls:
            message["tool_calls"] = [
                {"id": call["id"], "function": {"name": call["name"], "arguments": "".join(call["arguments"])}}
                for _, call in sorted(self.calls.items())
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        if self.logprobs:
            choice["logprobs"] = {"content": self.logprobs}
        data = {**self.head, "choices": [choice] if self.finish else [], "usage": self.usage, "error": self.error}
        return data if self.first is None else {**data, FIRST_TOKEN: float(self.first)}
