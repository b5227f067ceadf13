"""One chat completion, read into a message or a fault.

Servers differ in small ways (arguments as objects, null ids, parts, the old `function_call`, two names for reasoning).
The model's own words are never changed: its mistakes are answered by the environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecoder, JSONEncoder
from typing import Any

from factgym.agents.endpoint.faults import Fault, fault_of_status
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
class Reply:
    """A parsed reply. empty: it has no content, and the server does not report any token of one."""

    message: Message
    completion: Completion
    empty: bool


class BadReplyError(Exception):
    """The server's reply is no chat completion; the message says why."""


def read_reply(body: bytes, keep_reasoning: bool = False) -> Reply | Fault:
    """Read an answer with HTTP status 200. keep_reasoning: leave `<think>` in the content."""
    try:
        data = _json_object(body)
        error = data.get("error")
        if isinstance(error, (dict, str)) and error and not data.get("choices"):
            # Some routers send the error of the server behind them with status 200.
            status = error.get("code") if isinstance(error, dict) else None
            return fault_of_status(status if isinstance(status, int) and 400 <= status < 600 else 502, {}, body)
        return _read_completion(data, keep_reasoning)
    except BadReplyError as bad:
        return Fault("bad_reply", f"{bad}; it begins with {body[:120]!r}", again=True)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        data = _decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadReplyError("the reply is not JSON") from None
    if not isinstance(data, dict):
        raise BadReplyError("the reply is not a JSON object")
    return data


def _read_completion(data: dict[str, Any], keep_reasoning: bool) -> Reply | Fault:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadReplyError("the reply has no choices")
    choice = choices[0]
    raw = choice.get("message")
    if not isinstance(raw, dict):
        raise BadReplyError("the reply has no message")
    finish = _label(choice.get("finish_reason"))
    if finish in _ABORTED:
        return Fault("server", f"the server broke off its reply (finish_reason {finish!r})", again=True)
    message = _read_message(raw, keep_reasoning)
    usage = read_usage(data.get("usage"))
    completion: Completion = {"raw": _bounded_raw(raw)}
    if (model := _label(data.get("model"))) is not None:
        completion["model"] = model
    if finish is not None:
        completion["finish_reason"] = finish
    if usage:
        completion["usage"] = usage
    if tokens := read_logprobs(choice.get("logprobs")):
        completion["logprobs"] = tokens
    if alternatives := _read_alternatives(choice.get("logprobs")):
        completion["notes"] = {"top_logprobs": alternatives}
    text = (message["content"] or "").strip() or message.get("reasoning_content")
    has_content = text or message.get("tool_calls") or usage.get("completion_tokens") or finish == "content_filter"
    return Reply(message, completion, empty=not has_content)


def _label(value: Any) -> str | None:
    return clean_text(value[:_MAX_LABEL]) if isinstance(value, str) else None


def _bounded_raw(raw: dict[str, Any]) -> Any:
    """The server's message as it came; where it is too large or too deep for a record, its beginning as text."""
    try:
        return plain_json(raw, _RAW_LIMITS)
    except StrictJsonError:
        return clean_text(repr(raw)[:_RAW_HEAD])


def _read_message(raw: dict[str, Any], keep_reasoning: bool) -> Message:
    content = _read_content(raw.get("content"))
    refusal = raw.get("refusal")
    if content is None and isinstance(refusal, str):
        content = refusal
    fields = (raw.get("reasoning_content"), raw.get("reasoning"))
    reasoning = next((text for text in fields if isinstance(text, str) and text), "")
    if content and not keep_reasoning:
        thought, content = split_reasoning(content)
        reasoning = "\n".join(part for part in (reasoning, thought) if part)
    message: Message = {"role": "assistant", "content": content}
    calls = _read_calls(raw)
    if calls:
        message["tool_calls"] = calls
    elif content is None:
        message["content"] = ""
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def _read_content(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BadReplyError("the reply's content is neither text nor a list of parts")
    texts = [part if isinstance(part, str) else part.get("text") for part in value if isinstance(part, (str, dict))]
    return "".join(text for text in texts if isinstance(text, str))


def _read_calls(raw: dict[str, Any]) -> list[ToolCallMessage]:
    """The tool calls, their ids made unique and their arguments text."""
    calls = raw.get("tool_calls")
    if calls is None:
        function = raw.get("function_call")  # the API before tools
        calls = [{"function": function}] if isinstance(function, dict) else []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise BadReplyError("the reply's tool_calls are not a list of calls")
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
        named = {"name": name if isinstance(name, str) else "", "arguments": text}
        messages.append({"id": call_id, "type": "function", "function": named})  # type: ignore[typeddict-item]
    return messages


def read_usage(value: Any) -> Usage:
    """The token counts of a reply; a count that is no plausible number is left out."""
    if not isinstance(value, Mapping):
        return {}
    written, prompt = value.get("completion_tokens_details"), value.get("prompt_tokens_details")
    reasoning, cached = value.get("reasoning_tokens"), None
    if isinstance(written, Mapping):
        reasoning = written.get("reasoning_tokens")
    if isinstance(prompt, Mapping):
        cached = prompt.get("cached_tokens")
    counts = {
        "prompt_tokens": value.get("prompt_tokens"),
        "completion_tokens": value.get("completion_tokens"),
        "reasoning_tokens": reasoning,
        "cached_tokens": cached,
    }
    return {key: count for key, count in counts.items() if type(count) is int and 0 <= count < 2**53}  # type: ignore[return-value]


def read_logprobs(value: Any) -> list[TokenLogprob]:
    """The reply's tokens with their natural-log probabilities; empty where the server gives none."""
    if not isinstance(value, Mapping):
        return []
    content = value.get("content")
    if isinstance(content, list):
        return _read_tokens(content)
    tokens, logprobs = value.get("tokens"), value.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(logprobs, list) and len(tokens) == len(logprobs):
        pairs = zip(tokens, logprobs, strict=True)
        return _read_tokens([{"token": token, "logprob": logprob} for token, logprob in pairs])
    return []


def _read_alternatives(value: Any) -> list[list[TokenLogprob]]:
    """For each token the likeliest alternatives, where the server gives any."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(content, list):
        return []
    lists = [entry.get("top_logprobs") for entry in content if isinstance(entry, Mapping)]
    alternatives = [_read_tokens(entries) for entries in lists if isinstance(entries, list)]
    return alternatives if any(alternatives) else []


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
