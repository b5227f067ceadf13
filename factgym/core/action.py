"""The parser of actions: one policy turn as tool calls and errors.

An action is a completion string (`factgym.core.dialects` lists the formats), an OpenAI assistant message, or a dict
`{"tool": ..., "arguments": ...}`. `parse_action` takes time linear in a bounded length and never raises for an action's
content: a call that cannot be read becomes a `CallError` in its place. Whether a tool exists and its arguments fit is
not decided here.

Values may be instances of hostile subclasses, so only the base types' own methods are called on them
(`str.__str__(value)`, `dict.items(value)`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from json import JSONEncoder
from types import MappingProxyType
from typing import Any

from factgym.core.calls import (
    CallError,
    ErrorCode,
    Item,
    ToolCall,
    arguments_from_text,
    call_error,
    call_from_object,
    checked_name,
    json_error,
    kind_of,
    too_many_calls,
)
from factgym.core.dialects import parse_text, tag_set, visible_text
from factgym.core.messages import Message, ToolCallMessage
from factgym.core.strict_json import DEFAULT_LIMITS, Copier, Limits, StrictJsonError, clean_text, plain_json, type_name

HEAD_CHARS = 2_000
"""The transcript keeps this many characters of a text that is too long."""

_MAX_ID_CHARS = 256
_MAX_SERVER_NAME_CHARS = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")

_ENCODER = JSONEncoder(ensure_ascii=False, allow_nan=False)


def encode_json(value: object) -> str:
    """Return a value as JSON text, not escaped to ASCII. Raises TypeError or ValueError for data that is not JSON."""
    return _ENCODER.encode(value)


@dataclass(slots=True)  # not frozen, as `ToolCall` is not
class ParsedAction:
    """A parsed action.

    items: calls and errors in their order, at least one. text: the free text outside calls and reasoning. native: True
    for an assistant message with `tool_calls`. message: to append to the transcript; it can be written as UTF-8 and is
    bounded, and every native call in it has the id of the item that answers it.
    """

    items: tuple[Item, ...]
    text: str
    native: bool
    message: Message


_NO_TAGS: Mapping[str, Any] = MappingProxyType({})


def parse_action(
    action: object,
    *,
    limits: Limits = DEFAULT_LIMITS,
    tags: Mapping[str, tuple[str, str]] = _NO_TAGS,
    implicit: Mapping[str, str] = _NO_TAGS,
) -> ParsedAction:
    """Parse an action; never raises for its content.

    tags: `<tag>text</tag>` calls a tool with one argument; tag -> (tool, argument). implicit: key -> tool; a JSON
    object that names no tool and holds that key is the arguments of the tool. An action above `limits.max_chars` is
    refused whole, and the transcript keeps its beginning. Raises ConfigError for a tag that cannot be written.
    """
    return ActionParser(tags, implicit, limits).parse(action)


def _refused(code: ErrorCode, message: str, content: str = "") -> ParsedAction:
    return _single(call_error(code, message), content)


def _single(item: Item, content: str = "") -> ParsedAction:
    return ParsedAction((item,), "", False, {"role": "assistant", "content": content})


class ActionParser:
    """`parse_action` under one set of tags and limits. Immutable. Raises ConfigError for a tag that cannot be written."""

    __slots__ = ("implicit", "limits", "tags")

    def __init__(
        self,
        tags: Mapping[str, tuple[str, str]] = _NO_TAGS,
        implicit: Mapping[str, str] = _NO_TAGS,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.tags, self.implicit, self.limits = tag_set(tuple(tags.items())), implicit, limits

    def parse(self, action: Any) -> ParsedAction:
        """Parse a completion, an assistant message or a call; never raises, whatever the action.

        Methods of `str` and `dict` are called on the types themselves: a subclass may override them.
        """
        if issubclass(type(action), str):
            return self._parse_completion(str.__str__(action))
        if not issubclass(type(action), dict):
            message = (
                f"An action is a string, an assistant message (a dict with role and content or tool_calls) or a dict "
                f"with tool and arguments, not {type_name(action)}. Client objects have .model_dump()."
            )
            return _refused("unsupported_action", message)
        if dict.__len__(action) > self.limits.max_chars:
            return _refused("too_long", f"The action is a dict of more than {self.limits.max_chars} entries.")
        fields: dict[str, Any] = {}
        for key, value in dict.items(action):
            if type(key) is not str:
                return _refused("bad_shape", f"An action has a key of type {type_name(key)}; keys must be strings.")
            fields[key] = value
        if "role" in fields or "tool_calls" in fields or ("content" in fields and not fields.keys() & {"name", "tool"}):
            return self._parse_message(fields)
        return self._parse_call(fields)

    def _too_long(self, text: str) -> ParsedAction:
        message = f"The message has more than {self.limits.max_chars} characters; it was not read. Write a shorter one."
        return _refused("too_long", message, clean_text(text[: min(HEAD_CHARS, self.limits.max_chars)]))

    def _parse_completion(self, text: str, reasoning: str = "") -> ParsedAction:
        if len(text) > self.limits.max_chars:
            return self._too_long(text)
        if not text.isascii():
            text = clean_text(text)
        items, free = parse_text(text, self.limits, self.tags, self.implicit)
        message: Message = {"role": "assistant", "content": text}
        if reasoning:
            message["reasoning_content"] = reasoning
            if isinstance(items[0], CallError) and items[0].code == "empty":
                only = "The message holds reasoning and nothing else. Write one tool call."
                items = (call_error("only_reasoning", only),)
        return ParsedAction(items, free, False, message)

    def _parse_call(self, fields: dict[str, Any]) -> ParsedAction:
        """Parse a tool-call dict; the transcript gets the call as tagged JSON."""
        try:
            plain = plain_json(fields, self.limits)
        except StrictJsonError as error:
            return _single(json_error("The action is not plain JSON data", error))
        item = call_from_object(plain, self.limits, self.implicit)
        call = plain if isinstance(item, CallError) else {"name": item.name, "arguments": item.arguments}
        content = f"<tool_call>\n{encode_json(call)}\n</tool_call>"
        if len(content) > self.limits.max_chars:  # escapes make the text longer than the counted value
            return self._too_long(content)
        return _single(item if isinstance(item, CallError) else replace(item, end=len(content)), content)

    def _parse_message(self, fields: dict[str, Any]) -> ParsedAction:
        """Return the parsed form of an assistant message: its native calls, or else its text.

        Subclasses of built-in types are read through the base type's own methods: a hostile `__str__` is never called.
        """
        role = fields.get("role", "assistant")
        if not issubclass(type(role), str) or str.__str__(role) != "assistant":
            return _refused("unsupported_action", 'An action that is a message has the role "assistant".')
        content = _content_text(fields.get("content"), self.limits)
        if isinstance(content, CallError):
            return _single(content)
        if content is not None and len(content) > self.limits.max_chars:
            return self._too_long(content)
        # The reasoning that a server keeps apart.
        texts = (fields.get(key) for key in ("reasoning_content", "reasoning"))
        text = next((text for text in texts if issubclass(type(text), str)), "")
        reasoning = clean_text(str.__str__(text)[: self.limits.max_chars])
        calls = fields.get("tool_calls")
        if calls is None or (type(calls) in (list, tuple) and not calls):
            return self._parse_completion(content or "", reasoning)
        cleaned = None if content is None else clean_text(content)
        if not issubclass(type(calls), (list, tuple)):
            return _refused("bad_shape", f"tool_calls must be a list, not {kind_of(calls)}.", cleaned or "")
        reader = _NativeCalls(cleaned or "", self.limits)
        # The first call above the limit is kept, to be answered with an error; those after it are dropped.
        for entry in islice(_entries(calls), self.limits.max_calls + 1):
            reader.read(entry)
        transcript: Message = {"role": "assistant", "content": cleaned, "tool_calls": reader.transcript_calls}
        if reasoning:
            transcript["reasoning_content"] = reasoning
        return ParsedAction(tuple(reader.items), visible_text(cleaned or "", self.limits), True, transcript)


def _entries(values: Any) -> Iterator[Any]:
    return (list if issubclass(type(values), list) else tuple).__iter__(values)


def _string_keyed(value: Any) -> dict[str, Any]:
    """Return the entries of a dict whose keys are strings; nothing for any other value."""
    if not issubclass(type(value), dict):
        return {}
    return {key: item for key, item in dict.items(value) if type(key) is str}


def _content_text(content: Any, limits: Limits) -> str | CallError | None:
    """Return the text of a message's `content`: a string, None, or a list of parts, whose texts are joined.

    A joined text is cut at one character above `max_chars`, so that it counts as too long.
    """
    if content is None:
        return None
    if issubclass(type(content), str):
        return str.__str__(content)
    if not issubclass(type(content), (list, tuple)):
        message = f"The content of a message is a string or a list of parts, not {kind_of(content)}."
        return call_error("bad_shape", message)
    texts: list[str] = []
    budget = limits.max_chars + 1
    for part in islice(_entries(content), limits.max_chars):
        text = part if issubclass(type(part), str) else _string_keyed(part).get("text")
        if issubclass(type(text), str) and budget:
            texts.append(str.__str__(text)[:budget])
            budget -= len(texts[-1])
    return "".join(texts)


class _NativeCalls:
    """The items of a message's `tool_calls`, and the calls as the transcript keeps them, one for each item.

    offset: start of the next arguments in `message_text`.
    """

    __slots__ = ("copier", "ids", "items", "limits", "offset", "transcript_calls")

    def __init__(self, content: str, limits: Limits) -> None:
        self.limits = limits
        self.copier = Copier(limits, limits.max_chars - len(content))
        self.offset = len(content) + 1
        self.items: list[ToolCall | CallError] = []
        self.transcript_calls: list[ToolCallMessage] = []
        self.ids: set[str] = set()

    def read(self, entry: Any) -> None:
        fields = _string_keyed(entry)
        function = _string_keyed(fields.get("function")) or fields
        call_id = self._unique_id(fields.get("id"))
        text, arguments = self._read_arguments(function.get("arguments"))
        name = function.get("name")
        if issubclass(type(name), str):
            name = clean_text(str.__str__(name))
        item = self._item(entry, name, text, arguments)
        self.items.append(replace(item, id=call_id))
        # Servers accept a narrow set of names in a transcript; well-formed names stay as they are.
        name = item.name if isinstance(item, ToolCall) else name
        server_name = _NOT_IN_A_NAME.sub("_", name[:_MAX_SERVER_NAME_CHARS]) if isinstance(name, str) else ""
        self.transcript_calls.append(
            {"id": call_id, "type": "function", "function": {"name": server_name or "invalid", "arguments": text}}
        )
        self.offset += len(text) + 1

    def _item(
        self, entry: Any, name: object, text: str, arguments: dict[str, Any] | StrictJsonError | None
    ) -> ToolCall | CallError:
        """Return the call of an entry, or the error that answers it; checks go from the outer shape inwards."""
        if len(self.items) >= self.limits.max_calls:
            return too_many_calls(self.limits, self.offset)
        if not issubclass(type(entry), dict):
            message = f"An entry of tool_calls is a dict with id, type and function, not {kind_of(entry)}."
            return call_error("bad_shape", message)
        checked = checked_name(name, self.limits, None)
        if isinstance(checked, CallError):
            return checked
        if isinstance(arguments, StrictJsonError):
            return json_error(f"The arguments of {checked} were not read", arguments, name=checked)
        if arguments is None:
            parsed = arguments_from_text(text, checked, self.limits, self.offset)
            if isinstance(parsed, CallError):
                return parsed
            arguments = parsed
        return ToolCall(checked, arguments, None, self.offset, self.offset + len(text))

    def _unique_id(self, value: Any) -> str:
        """Return the server's id, or one of ours where it is missing, too long or given twice."""
        call_id = clean_text(str.__str__(value)[: _MAX_ID_CHARS + 1]) if issubclass(type(value), str) else ""
        number = len(self.items)
        while not 0 < len(call_id) <= _MAX_ID_CHARS or call_id in self.ids:
            call_id = f"call_{number}"
            number += 1
        self.ids.add(call_id)
        return call_id

    def _read_arguments(self, value: Any) -> tuple[str, dict[str, Any] | StrictJsonError | None]:
        """Return the transcript's text of the arguments, and the arguments: a dict, an error, or None for a text."""
        if value is None:
            return "{}", {}
        if issubclass(type(value), str):
            text = str.__str__(value)
            try:
                self.copier.spend(len(text))
            except StrictJsonError as error:
                return clean_text(text[:HEAD_CHARS]), error
            return clean_text(text), None
        if not issubclass(type(value), dict):
            message = f"they must be a JSON text of an object, not {kind_of(value)}"
            return "{}", StrictJsonError("bad_shape", message, None)
        before = self.copier.budget
        try:
            plain = self.copier.copy(value)
            text = encode_json(plain)
            # Escapes make the text longer than the counted value.
            self.copier.spend(max(0, len(text) - (before - self.copier.budget)))
        except StrictJsonError as error:
            return "{}", error
        return text, plain
