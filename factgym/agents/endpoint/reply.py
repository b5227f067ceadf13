"""What comes back: one chat completion read into a message, or a fault where it is none.

Servers differ in small ways (arguments as objects, null ids, parts, the old `function_call`, two names for reasoning);
what the model said is never changed, and what it did badly is left to the environment to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import JSONDecoder, JSONEncoder
from typing import Any

from factgym.agents.endpoint.faults import Fault, fault_of_status
from factgym.agents.endpoint.usage import alternatives_of, logprobs_of, usage_of
from factgym.agents.reasoning import split_reasoning
from factgym.core.json_sanitize import StrictJsonError, clean_text, plain_json
from factgym.core.limits import Limits
from factgym.core.messages import Completion, Message, ToolCallMessage

_RAW_LIMITS = Limits(max_chars=1_000_000, max_depth=64, max_number_chars=640)
_RAW_HEAD = 2_000
_MAX_CALLS = 64
_MAX_LABEL = 200
_BROKEN_OFF = frozenset({"error", "abort"})
"""Finish reasons with which servers say that they gave up, which is none of the model's doing."""

_decode = JSONDecoder(parse_constant=lambda _: None).decode
_encode = JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as read. empty: there is nothing in it, and the server does not report any token of one."""

    message: Message
    completion: Completion
    empty: bool


class BadReplyError(Exception):
    """The server's reply is no chat completion; the message says why."""


def read_reply(body: bytes, keep_reasoning: bool = False) -> Reply | Fault:
    """A server's answer with HTTP status 200, read. keep_reasoning: leave `<think>` in the content."""
    try:
        data = _json(body)
        if isinstance(data.get("error"), (dict, str)) and data["error"] and not data.get("choices"):
            return _error_in_disguise(data, body)
        return _read(data, keep_reasoning)
    except BadReplyError as error:
        return Fault("bad_reply", f"{error}; it begins with {body[:120]!r}", again=True)


def _json(body: bytes) -> dict[str, Any]:
    try:
        data = _decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadReplyError("the reply is not JSON") from None
    if not isinstance(data, dict):
        raise BadReplyError("the reply is not a JSON object")
    return data


def _error_in_disguise(data: dict[str, Any], body: bytes) -> Fault:
    """Some routers send the error of the server behind them with status 200."""
    error = data["error"]
    status = error.get("code") if isinstance(error, dict) else None
    return fault_of_status(status if isinstance(status, int) and 400 <= status < 600 else 502, {}, body)


def _read(data: dict[str, Any], keep_reasoning: bool) -> Reply | Fault:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadReplyError("the reply has no choices")
    choice = choices[0]
    given = choice.get("message")
    if not isinstance(given, dict):
        raise BadReplyError("the reply has no message")
    finish = _label(choice.get("finish_reason"))
    if finish in _BROKEN_OFF:
        return Fault("server", f"the server broke off its reply (finish_reason {finish!r})", again=True)
    message = _message(given, keep_reasoning)
    usage = usage_of(data.get("usage"))
    completion: Completion = {"raw": _raw(given)}
    if (model := _label(data.get("model"))) is not None:
        completion["model"] = model
    if finish is not None:
        completion["finish_reason"] = finish
    if usage:
        completion["usage"] = usage
    if choice.get("logprobs"):
        _add_logprobs(completion, choice["logprobs"])
    empty = _is_empty(message) and not usage.get("completion_tokens") and finish != "content_filter"
    return Reply(message, completion, empty)


def _add_logprobs(completion: Completion, given: Any) -> None:
    found = logprobs_of(given)
    if found:
        completion["logprobs"] = found
    alternatives = alternatives_of(given)
    if alternatives:
        completion["notes"] = {"top_logprobs": alternatives}


def _is_empty(message: Message) -> bool:
    said = (message["content"] or "").strip() or message.get("reasoning_content")
    return not said and not message.get("tool_calls")


def _label(value: Any) -> str | None:
    return clean_text(value[:_MAX_LABEL]) if isinstance(value, str) else None


def _raw(given: dict[str, Any]) -> Any:
    """The server's message as it came; of one that is too large or too deep for a record, its beginning as text."""
    try:
        return plain_json(given, _RAW_LIMITS)
    except StrictJsonError:
        return clean_text(repr(given)[:_RAW_HEAD])


def _message(given: dict[str, Any], keep_reasoning: bool) -> Message:
    content = _content(given.get("content"))
    refusal = given.get("refusal")
    if content is None and isinstance(refusal, str):
        content = refusal
    reasoning = next((given[key] for key in ("reasoning_content", "reasoning") if _is_said(given.get(key))), "")
    if content and not keep_reasoning:
        thought, content = split_reasoning(content)
        reasoning = "\n".join(part for part in (reasoning, thought) if part)
    message: Message = {"role": "assistant", "content": content}
    calls = _calls(given)
    if calls:
        message["tool_calls"] = calls
    elif content is None:
        message["content"] = ""
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _content(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BadReplyError("the reply's content is neither text nor a list of parts")
    texts = [part if isinstance(part, str) else part.get("text") for part in value if isinstance(part, (str, dict))]
    return "".join(text for text in texts if isinstance(text, str))


def _calls(given: dict[str, Any]) -> list[ToolCallMessage]:
    calls = given.get("tool_calls")
    if calls is None:
        old = given.get("function_call")
        calls = [{"function": old}] if isinstance(old, dict) else []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise BadReplyError("the reply's tool_calls are not a list of calls")
    taken: set[str] = set()
    return [_call(call, number, taken) for number, call in enumerate(calls[:_MAX_CALLS])]


def _call(call: dict[str, Any], number: int, taken: set[str]) -> ToolCallMessage:
    function = call.get("function")
    fields = function if isinstance(function, dict) else call
    name, arguments = fields.get("name"), fields.get("arguments")
    text = arguments if isinstance(arguments, str) else _encode({} if arguments is None else arguments)
    given = call.get("id")
    call_id = given if isinstance(given, str) and given else f"call_{number}"
    while call_id in taken:
        call_id = f"{call_id}_{number}"
    taken.add(call_id)
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name if isinstance(name, str) else "", "arguments": text},
    }
