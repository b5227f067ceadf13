"""One tool call, or what was wrong with it: the parts that every action format shares.

`call_from_object` is the single place that knows which keys a call is written with; it knows nothing of tools, so an
unknown tool or arguments that fail a schema are for `factgym.tools` to answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from factgym.core.strict_json import JsonErrorCode, Limits, StrictJsonError, excerpt, loads, type_name

ErrorCode = (
    JsonErrorCode
    | Literal["empty", "no_tool_call", "only_reasoning", "too_many_calls", "bad_name", "unsupported_action"]
)

EXAMPLE = '{"name": "TOOL", "arguments": {...}}'
_MAX_MESSAGE_CHARS = 480
_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "args", "parameters")
_ENVELOPE_KEYS = frozenset((*_NAME_KEYS, *_ARGUMENT_KEYS, "id", "type", "index"))
_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A well-formed call of some tool.

    name: letters, digits and `_ . : / -`. arguments: plain JSON data. id: the server's id of a native call, else
    None. start, end: the characters of `message_text(message)` that hold the call, its tags included.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class CallError:
    """A call that could not be read, told so that the policy can correct itself.

    code: stable, for programs. message: under 500 characters, for the policy; hostile text in it is escaped.
    position: a character offset in `message_text(message)`, where there is one. id, name: of the call, where known.
    """

    code: ErrorCode
    message: str
    position: int | None = None
    id: str | None = None
    name: str | None = None


def call_error(code: ErrorCode, message: str, position: int | None = None, *, name: str | None = None) -> CallError:
    """A CallError with a bounded message."""
    if len(message) > _MAX_MESSAGE_CHARS:
        message = message[: _MAX_MESSAGE_CHARS - 1] + "…"
    return CallError(code, message, position, None, name)


def json_error(subject: str, error: StrictJsonError, name: str | None = None) -> CallError:
    """`error` as the policy reads it; `subject` names the text that is wrong."""
    return call_error(error.code, f"{subject}: {error.message}.", error.position, name=name)


def looks_like_call(value: Mapping[str, Any], implicit: Mapping[str, str]) -> bool:
    """Whether a JSON object found in prose is meant as a call, and not just some object."""
    if isinstance(value.get("function"), dict) or any(key in value for key in implicit):
        return True
    if not any(isinstance(value.get(key), str) for key in _NAME_KEYS):
        return False
    return any(key in value for key in _ARGUMENT_KEYS) or value.keys() <= _ENVELOPE_KEYS


def call_from_object(
    value: object,
    limits: Limits,
    implicit: Mapping[str, str],
    start: int = 0,
    end: int = 0,
) -> ToolCall | CallError:
    """The call that a plain JSON object writes.

    The name stands under "name", "tool", "tool_name" or "function" and the arguments, an object or a JSON text of
    one, under "arguments", "args" or "parameters"; both may lie inside an object under "function". Without arguments
    the call has none. An object without a name that holds a key of `implicit` is the arguments of that tool.
    """
    if type(value) is not dict:
        return call_error("bad_shape", f"A tool call is one JSON object {EXAMPLE}, not {kind_of(value)}.", start)
    inner = value.get("function")
    if type(inner) is dict:
        value = inner
    name_key = _first(value, _NAME_KEYS)
    if name_key is None:
        tool = next((tool for key, tool in implicit.items() if key in value), None)
        if tool is None:
            return call_error("bad_shape", _nameless(value), start)
        return ToolCall(tool, value, None, start, end)
    name = checked_name(value[name_key], limits, start)
    if isinstance(name, CallError):
        return name
    argument_key = _first(value, _ARGUMENT_KEYS)
    if argument_key is None and not value.keys() <= _ENVELOPE_KEYS:
        stray = next(key for key in value if key not in _ENVELOPE_KEYS)
        message = f'Put the arguments of {name} inside "arguments": {EXAMPLE}; {excerpt(stray)} stands beside it.'
        return call_error("bad_shape", message, start, name=name)
    arguments = _arguments(value.get(argument_key) if argument_key else None, name, limits, start)
    if isinstance(arguments, CallError):
        return arguments
    return ToolCall(name, arguments, None, start, end)


def _first(value: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if key in value:
            return key
    return None


def _nameless(value: Mapping[str, Any]) -> str:
    keys = ", ".join(excerpt(key) for key in list(value)[:5])
    seen = f"an object with the keys {keys[:200]}" if keys else "an empty object"
    return f"The tool call names no tool: it is {seen}. Write {EXAMPLE}."


def checked_name(name: object, limits: Limits, position: int | None) -> str | CallError:
    """A tool name without white space around it, or the error bad_name."""
    if type(name) is not str:
        return call_error("bad_name", f"The tool name must be a string, not {kind_of(name)}.", position)
    if len(name) > limits.max_name_chars:
        message = f"The tool name has {len(name)} characters, {limits.max_name_chars} are allowed: {excerpt(name)}."
        return call_error("bad_name", message, position)
    name = name.strip()
    if not _NAME.fullmatch(name):
        message = f"The tool name {excerpt(name)} must be one or more letters, digits or any of _ . : / -"
        return call_error("bad_name", message, position)
    return name


def _arguments(given: object, name: str, limits: Limits, position: int | None) -> dict[str, Any] | CallError:
    if type(given) is dict:
        return given
    if given is None:
        return {}
    if type(given) is str:
        return arguments_from_text(given, name, limits, None)
    message = f"The arguments of {name} must be a JSON object, not {kind_of(given)}."
    return call_error("bad_shape", message, position, name=name)


def arguments_from_text(text: str, name: str, limits: Limits, offset: int | None) -> dict[str, Any] | CallError:
    """Arguments that came as a JSON text, which begins at `offset` of the message; a blank text means none."""
    if not text.strip():
        return {}
    try:
        value = loads(text, limits)
    except StrictJsonError as error:
        position = None if offset is None or error.position is None else offset + error.position
        moved = StrictJsonError(error.code, error.message, position)
        return json_error(f"The arguments of {name} are not valid JSON", moved, name=name)
    if type(value) is dict:
        return value
    message = f"The arguments of {name} must be a JSON object, not {kind_of(value)}."
    return call_error("bad_shape", message, offset, name=name)


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


def kind_of(value: object) -> str:
    """What a value is, in JSON's words where JSON has it."""
    if value is None:
        return "null"
    return _KINDS.get(type(value)) or f"a value of type {type_name(value)}"
