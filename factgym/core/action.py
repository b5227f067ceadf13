"""What a policy did this turn: the one parser of actions.

An action is a raw completion string (`factgym.core.action_text` lists the formats), an OpenAI assistant message, or a
dict `{"tool": ..., "arguments": ...}`. Whatever it holds, `parse_action` answers in time linear in a bounded length
and never raises: what cannot be read becomes a `CallError` in its place. Whether a tool exists and its arguments fit
is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from json import JSONEncoder
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # typeshed leaves the first out
from types import MappingProxyType
from typing import Any, cast

from factgym.core.action_text import Item, parse_text, visible_text
from factgym.core.calls import (
    CallError,
    ToolCall,
    arguments_from_text,
    call_error,
    call_from_object,
    checked_name,
    json_error,
    kind_of,
)
from factgym.core.messages import Message, ToolCallMessage
from factgym.core.strict_json import DEFAULT_LIMITS, Copier, Limits, StrictJsonError, clean_text, plain_json, type_name

HEAD_CHARS = 2_000
"""What the transcript keeps of a text that is too long."""

_MAX_ID_CHARS = 256
_MAX_SERVER_NAME_CHARS = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")

_ENCODER = JSONEncoder(ensure_ascii=False, allow_nan=False)
_PIECES = c_make_encoder and c_make_encoder(
    None, _ENCODER.default, encode_basestring, None, ": ", ", ", False, False, False
)
"""What `JSONEncoder.encode` makes anew for every value, which takes longer than most values do; None without C."""


def encode_json(value: object) -> str:
    """A value as JSON text, not escaped to ASCII. Raises TypeError or ValueError for what JSON has not, NaN among it."""
    if _PIECES is not None:
        try:
            return "".join(_PIECES(value, 0))
        except RecursionError:  # a value that holds itself, perhaps, which the whole encoder tells from a deep one
            pass
    return _ENCODER.encode(value)


def string_keyed(value: object) -> dict[str, object]:
    """The entries of a dict whose keys are strings; nothing for any other value."""
    if not issubclass(type(value), dict):
        return {}
    return {key: item for key, item in dict.items(cast(dict[object, object], value)) if type(key) is str}


def content_text(content: object, limits: Limits) -> str | CallError | None:
    """The text of a message's `content`: a string, None, or a list of parts, whose texts are joined without a gap.

    A joined text is cut at one character above `max_chars`, so that it reads as too long.
    """
    kind = type(content)
    if content is None:
        return None
    if issubclass(kind, str):
        return str.__str__(cast(str, content))
    if issubclass(kind, (list, tuple)):
        return _joined(_entries(content), limits)
    return call_error("bad_shape", f"The content of a message is a string or a list of parts, not {kind_of(content)}.")


def _entries(values: object) -> Iterator[object]:
    if issubclass(type(values), list):
        return list.__iter__(cast(list[object], values))
    return tuple.__iter__(cast(tuple[object, ...], values))


def _joined(parts: Iterator[object], limits: Limits) -> str:
    texts: list[str] = []
    budget = limits.max_chars + 1
    for part in islice(parts, limits.max_chars):
        text = part if issubclass(type(part), str) else string_keyed(part).get("text")
        if issubclass(type(text), str):
            texts.append(str.__str__(cast(str, text))[:budget])
            budget -= len(texts[-1])
            if not budget:
                break
    return "".join(texts)


def reasoning_text(message: Mapping[str, object], limits: Limits) -> str:
    """The reasoning that a server keeps apart, cut at `max_chars`."""
    for key in ("reasoning_content", "reasoning"):
        value = message.get(key)
        if issubclass(type(value), str):
            return clean_text(str.__str__(cast(str, value))[: limits.max_chars])
    return ""


def native_calls(
    calls: object, content: str, limits: Limits
) -> tuple[tuple[ToolCall | CallError, ...], list[ToolCallMessage]] | CallError:
    """The items of a message's `tool_calls` and the calls as the transcript keeps them, one for each item.

    The first call above `max_calls` is kept to be answered with an error; those after it are dropped.
    """
    if not issubclass(type(calls), (list, tuple)):
        return call_error("bad_shape", f"tool_calls must be a list, not {kind_of(calls)}.")
    reader = _NativeCalls(content, limits)
    for entry in islice(_entries(calls), limits.max_calls + 1):
        reader.read(entry)
    return tuple(reader.items), reader.transcript_calls


class _NativeCalls:
    """One list of calls under way; `offset` is where the next arguments begin in `message_text`."""

    __slots__ = ("copier", "items", "limits", "offset", "seen", "transcript_calls")

    def __init__(self, content: str, limits: Limits) -> None:
        self.limits = limits
        self.copier = Copier(limits, limits.max_chars - len(content))
        self.offset = len(content) + 1
        self.items: list[ToolCall | CallError] = []
        self.transcript_calls: list[ToolCallMessage] = []
        self.seen: set[str] = set()

    def read(self, entry: object) -> None:
        fields = string_keyed(entry)
        function = string_keyed(fields.get("function")) or fields
        call_id = self._id(fields.get("id"))
        text, arguments = self._arguments(function.get("arguments"))
        name = self._name(function.get("name"))
        self.items.append(replace(self._item(entry, name, text, arguments), id=call_id))
        self.transcript_calls.append(
            {"id": call_id, "type": "function", "function": {"name": _server_name(name), "arguments": text}}
        )
        self.offset += len(text) + 1

    def _item(
        self, entry: object, given: object, text: str, arguments: dict[str, Any] | StrictJsonError | None
    ) -> ToolCall | CallError:
        if len(self.items) >= self.limits.max_calls:
            message = f"Too many calls in one message: {self.limits.max_calls} are allowed; the rest were dropped."
            return call_error("too_many_calls", message, self.offset)
        if not issubclass(type(entry), dict):
            message = f"An entry of tool_calls is a dict with id, type and function, not {kind_of(entry)}."
            return call_error("bad_shape", message)
        name = checked_name(given, self.limits, None)
        if isinstance(name, CallError):
            return name
        if isinstance(arguments, StrictJsonError):
            return json_error(f"The arguments of {name} were not read", arguments, name=name)
        parsed = arguments_from_text(text, name, self.limits, self.offset) if arguments is None else arguments
        if isinstance(parsed, CallError):
            return parsed
        return ToolCall(name, parsed, None, self.offset, self.offset + len(text))

    def _id(self, given: object) -> str:
        call_id = (
            clean_text(str.__str__(cast(str, given))[: _MAX_ID_CHARS + 1]) if issubclass(type(given), str) else ""
        )
        number = len(self.items)
        while not 0 < len(call_id) <= _MAX_ID_CHARS or call_id in self.seen:
            call_id = f"call_{number}"
            number += 1
        self.seen.add(call_id)
        return call_id

    def _name(self, given: object) -> object:
        return clean_text(str.__str__(cast(str, given))) if issubclass(type(given), str) else given

    def _arguments(self, given: object) -> tuple[str, dict[str, Any] | StrictJsonError | None]:
        """The text that the transcript keeps, and the arguments: read, refused, or None where the text says them."""
        if given is None:
            return "{}", {}
        if issubclass(type(given), str):
            return self._argument_text(str.__str__(cast(str, given)))
        if not issubclass(type(given), dict):
            return "{}", StrictJsonError(
                "bad_shape", f"they must be a JSON text of an object, not {kind_of(given)}", None
            )
        before = self.copier.budget
        try:
            plain = self.copier.copy(given)
            text = encode_json(plain)
            # Escapes make the text longer than what was counted.
            self.copier.spend(max(0, len(text) - (before - self.copier.budget)))
        except StrictJsonError as error:
            return "{}", error
        return text, plain

    def _argument_text(self, text: str) -> tuple[str, StrictJsonError | None]:
        try:
            self.copier.spend(len(text))
        except StrictJsonError as error:
            return clean_text(text[:HEAD_CHARS]), error
        return clean_text(text), None


def _server_name(name: object) -> str:
    """A name that servers accept in a transcript; well-formed names stay as they are."""
    text = name[:_MAX_SERVER_NAME_CHARS] if isinstance(name, str) else ""
    return _NOT_IN_A_NAME.sub("_", text) or "invalid"


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
    fields: dict[str, object] = {}
    for key, value in dict.items(action):
        if type(key) is not str:
            message = f"An action has a key of type {type_name(key)}; keys must be strings."
            return _refused(call_error("bad_shape", message))
        fields[key] = value
    if "role" in fields or "tool_calls" in fields or ("content" in fields and not fields.keys() & {"name", "tool"}):
        return _from_message(fields, limits, tags, implicit)
    return _from_call_dict(fields, limits, implicit)


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
    parsed = native_calls(calls, clean_text(content or ""), limits)
    if isinstance(parsed, CallError):
        return _refused(parsed, clean_text(content or ""))
    transcript: Message = {"role": "assistant", "content": content if content is None else clean_text(content)}
    transcript["tool_calls"] = parsed[1]
    if reasoning:
        transcript["reasoning_content"] = reasoning
    return ParsedAction(parsed[0], visible_text(transcript["content"] or "", limits), True, transcript)
