"""What a policy did this turn: the one parser of actions.

An action is a raw completion string (`factgym.core.action_text` lists the formats), an OpenAI assistant message, or a
dict `{"tool": ..., "arguments": ...}`. Whatever it holds, `parse_action` answers in time linear in a bounded length
and never raises: what cannot be read becomes a `CallError` in its place. Whether a tool exists and its arguments fit
is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from factgym.core.action_text import Item, parse_text, visible_text
from factgym.core.calls import CallError, ErrorCode, ToolCall, call_error, call_from_object, json_error
from factgym.core.json_sanitize import StrictJsonError, clean_text, plain_json, type_name
from factgym.core.limits import DEFAULT_LIMITS, Limits
from factgym.core.messages import Message
from factgym.core.openai_messages import HEAD_CHARS, content_text, encode_json, native_calls, reasoning_text

__all__ = [
    "DEFAULT_LIMITS",
    "CallError",
    "ErrorCode",
    "Item",
    "Limits",
    "Message",
    "ParsedAction",
    "ToolCall",
    "parse_action",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """An action as read.

    items: calls and errors in their order, never empty. text: the free text outside calls and reasoning. native: True
    for an assistant message with `tool_calls`. message: what to append to the transcript; it can be written as UTF-8
    and is bounded, and every native call in it has the id of the item that answers it.
    """

    items: tuple[Item, ...]
    text: str
    native: bool
    message: Message


def parse_action(
    action: object,
    *,
    limits: Limits = DEFAULT_LIMITS,
    tags: Mapping[str, tuple[str, str]] = _NOTHING,
    implicit: Mapping[str, str] = _NOTHING,
) -> ParsedAction:
    """Read an action; never raises for what `action` holds.

    tags: `<tag>text</tag>` calls a tool with one argument; tag -> (tool, argument). implicit: key -> tool; a JSON
    object that names no tool and holds that key is the arguments of the tool. An action above `limits.max_chars` is
    refused whole, and the transcript keeps its beginning. Raises ConfigError for a tag that cannot be one.
    """
    kind = type(action)
    if kind is str:
        return _from_text(cast(str, action), limits, tags, implicit, None)
    if issubclass(kind, dict):
        return _from_dict(cast(dict[object, object], action), limits, tags, implicit)
    if issubclass(kind, str):
        return _from_text(str.__str__(cast(str, action)), limits, tags, implicit, None)
    message = (
        f"An action is a string, an assistant message (a dict with role and content or tool_calls) or a dict with "
        f"tool and arguments, not {type_name(action)}. Client objects have .model_dump()."
    )
    return _refused(call_error("unsupported_action", message))


def _refused(error: CallError, content: str = "") -> ParsedAction:
    return ParsedAction((error,), "", False, {"role": "assistant", "content": content})


def _too_long(text: str, limits: Limits) -> ParsedAction:
    message = f"The message has more than {limits.max_chars} characters; it was not read. Write a shorter one."
    head = clean_text(text[: min(HEAD_CHARS, limits.max_chars)])
    return _refused(call_error("too_long", message), head)


def _from_text(
    text: str,
    limits: Limits,
    tags: Mapping[str, tuple[str, str]],
    implicit: Mapping[str, str],
    reasoning: str | None,
) -> ParsedAction:
    if len(text) > limits.max_chars:
        return _too_long(text, limits)
    text = clean_text(text)
    items, free = parse_text(text, limits, tags, implicit)
    message: Message = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
        first = items[0]
        if isinstance(first, CallError) and first.code == "empty":
            items = (
                call_error("only_reasoning", "The message holds reasoning and nothing else. Write one tool call."),
            )
    return ParsedAction(items, free, False, message)


def _from_dict(
    action: dict[object, object],
    limits: Limits,
    tags: Mapping[str, tuple[str, str]],
    implicit: Mapping[str, str],
) -> ParsedAction:
    if dict.__len__(action) > limits.max_chars:
        return _refused(call_error("too_long", f"The action is a dict of more than {limits.max_chars} entries."))
    known: dict[str, object] = {}
    for key, value in dict.items(action):
        if type(key) is not str:
            message = f"An action has a key of type {type_name(key)}; keys must be strings."
            return _refused(call_error("bad_shape", message))
        known[key] = value
    if "role" in known or "tool_calls" in known or ("content" in known and not known.keys() & {"name", "tool"}):
        return _from_message(known, limits, tags, implicit)
    return _from_call_dict(known, limits, implicit)


def _from_call_dict(action: dict[str, object], limits: Limits, implicit: Mapping[str, str]) -> ParsedAction:
    try:
        plain = plain_json(action, limits)
    except StrictJsonError as error:
        return _refused(json_error("The action is not plain JSON data", error))
    item = call_from_object(plain, limits, implicit)
    content = _tagged(plain if isinstance(item, CallError) else {"name": item.name, "arguments": item.arguments})
    if len(content) > limits.max_chars:  # escapes make the text longer than what was counted
        return _too_long(content, limits)
    if isinstance(item, CallError):
        return _refused(item, content)
    placed = ToolCall(item.name, item.arguments, None, 0, len(content))
    return ParsedAction((placed,), "", False, {"role": "assistant", "content": content})


def _tagged(value: Any) -> str:
    return f"<tool_call>\n{encode_json(value)}\n</tool_call>"


def _from_message(
    message: dict[str, object],
    limits: Limits,
    tags: Mapping[str, tuple[str, str]],
    implicit: Mapping[str, str],
) -> ParsedAction:
    role = message.get("role", "assistant")
    if not issubclass(type(role), str) or str.__str__(cast(str, role)) != "assistant":
        return _refused(call_error("unsupported_action", 'An action that is a message has the role "assistant".'))
    content = content_text(message.get("content"), limits)
    if isinstance(content, CallError):
        return _refused(content)
    if content is not None and len(content) > limits.max_chars:
        return _too_long(content, limits)
    reasoning = reasoning_text(message, limits)
    calls = message.get("tool_calls")
    if calls is None or (type(calls) in (list, tuple) and not calls):
        return _from_text(content or "", limits, tags, implicit, reasoning)
    found = native_calls(calls, clean_text(content or ""), limits)
    if isinstance(found, CallError):
        return _refused(found, clean_text(content or ""))
    kept: Message = {"role": "assistant", "content": content if content is None else clean_text(content)}
    kept["tool_calls"] = found[1]
    if reasoning:
        kept["reasoning_content"] = reasoning
    return ParsedAction(found[0], visible_text(kept["content"] or "", limits), True, kept)
