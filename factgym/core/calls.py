"""Tool calls as data.

`call_from_object` alone knows which keys a call is written with. It knows nothing of tools: an unknown tool, or
arguments that fail a schema, are answered by `factgym.tools`.
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

_MAX_MESSAGE_CHARS = 480
NAME_KEYS = ("name", "tool", "tool_name", "function")
ARGUMENT_KEYS = ("arguments", "args", "parameters")
ENVELOPE_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, "id", "type", "index"))
NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
_LEAKED_MARKS = re.compile(r"\A.*\bto=|[<\[|｜].*", re.DOTALL)
_MAX_PLACEHOLDER_CHARS = 64
_MAX_ENCODINGS = 2
"""How often arguments may be encoded as a JSON text once more."""
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


# Not frozen: a frozen dataclass sets each field by a call, here once or more a step. Nothing changes one that is made.
@dataclass(slots=True)
class ToolCall:
    """A well-formed call of some tool.

    name: letters, digits and `_ . : / -`. arguments: plain JSON data. id: the server's id of a native call, else
    None. start, end: the characters of `message_text(message)` that hold the call, its marks included. texts: whether
    the arguments are texts to which the tool's schema gives a type.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None
    start: int = 0
    end: int = 0
    texts: bool = False


@dataclass(frozen=True, slots=True)
class CallError:
    """A call that could not be read, described so that the policy can correct itself.

    code: stable, for programs. message: under 500 characters, for the policy; hostile text in it is escaped.
    position: a character offset in `message_text(message)`, where there is one. id, name: of the call, if any.
    """

    code: ErrorCode
    message: str
    position: int | None = None
    id: str | None = None
    name: str | None = None


Item = ToolCall | CallError


def call_error(code: ErrorCode, message: str, position: int | None = None, *, name: str | None = None) -> CallError:
    """Return a CallError with a bounded message."""
    if len(message) > _MAX_MESSAGE_CHARS:
        message = message[: _MAX_MESSAGE_CHARS - 1] + "…"
    return CallError(code, message, position, None, name)


def json_error(subject: str, error: StrictJsonError, *, offset: int | None = 0, name: str | None = None) -> CallError:
    """Return `error` as the policy reads it.

    subject: names the text that is wrong. offset: of that text in the message; None where it is not in the message.
    """
    position = None if offset is None or error.position is None else offset + error.position
    return call_error(error.code, f"{subject}: {error.message}.", position, name=name)


def too_many_calls(limits: Limits, position: int) -> CallError:
    """Return the error that answers all calls above the limit."""
    message = f"Too many calls in one message: {limits.max_calls} are allowed; the rest were dropped."
    return call_error("too_many_calls", message, position)


def kind_of(value: object) -> str:
    """Return the kind of a value, in JSON's words where JSON has it."""
    if value is None:
        return "null"
    return _KINDS.get(type(value)) or f"a value of type {type_name(value)}"


def call_from_object(
    value: Any, limits: Limits, implicit: Mapping[str, str], start: int = 0, end: int = 0
) -> ToolCall | CallError:
    """Return the call that a plain JSON object writes.

    The name is under "name", "tool", "tool_name" or "function" and the arguments, an object or a JSON text of one,
    under "arguments", "args" or "parameters"; both may be inside an object under "function". Without arguments the
    call has none. An object without a name that holds a key of `implicit` is the arguments of that tool.
    """
    if type(value) is not dict:
        return call_error("bad_shape", f"A tool call is one JSON object, not {kind_of(value)}.", start)
    name, arguments = value.get("name"), value.get("arguments")
    if (  # the usual form
        len(value) == 2
        and type(name) is str
        and type(arguments) is dict
        and len(name) <= limits.max_name_chars
        and NAME.fullmatch(name)
    ):
        return ToolCall(name, arguments, None, start, end)
    if type(value.get("function")) is dict:
        value = value["function"]
    name_key = next(filter(value.__contains__, NAME_KEYS), None)
    if name_key is None:
        return _implicit_call(value, implicit, start, end)
    name = checked_name(value[name_key], limits, start)
    if isinstance(name, CallError):
        return name
    argument_key = next(filter(value.__contains__, ARGUMENT_KEYS), None)
    if argument_key is None and not value.keys() <= ENVELOPE_KEYS:
        stray = next(key for key in value if key not in ENVELOPE_KEYS)
        message = f'Put the arguments of {name} inside the object "arguments"; {excerpt(stray)} is outside of it.'
        return call_error("bad_shape", message, start, name=name)
    arguments = value.get(argument_key) if argument_key else None
    if arguments is None:
        arguments = {}
    elif type(arguments) is str:
        arguments = arguments_from_text(arguments, name, limits, None)
    elif type(arguments) is not dict:
        message = f"The arguments of {name} must be a JSON object, not {kind_of(arguments)}."
        return call_error("bad_shape", message, start, name=name)
    return arguments if isinstance(arguments, CallError) else ToolCall(name, arguments, None, start, end)


def _implicit_call(value: dict[str, Any], implicit: Mapping[str, str], start: int, end: int) -> ToolCall | CallError:
    """Return the call of the tool that an object without a name is the arguments of."""
    tool = next((tool for key, tool in implicit.items() if key in value), None)
    if tool is not None:
        return ToolCall(tool, value, None, start, end)
    keys = ", ".join(excerpt(key) for key in list(value)[:5])
    content = f"an object with the keys {keys[:200]}" if keys else "an empty object"
    return call_error("bad_shape", f"The tool call names no tool: it is {content}.", start)


def checked_name(name: object, limits: Limits, position: int | None) -> str | CallError:
    """Return a tool name without white space around it, or the error bad_name."""
    if type(name) is not str:
        return call_error("bad_name", f"The tool name must be a string, not {kind_of(name)}.", position)
    if len(name) > limits.max_name_chars:
        message = f"The tool name has {len(name)} characters, {limits.max_name_chars} are allowed: {excerpt(name)}."
        return call_error("bad_name", message, position)
    # Servers leak the marks around a name into it: "search<|channel|>commentary", " to=functions.search".
    name = _LEAKED_MARKS.sub("", name).strip()
    if not NAME.fullmatch(name):
        message = f"The tool name {excerpt(name)} must be one or more letters, digits or any of _ . : / -"
        return call_error("bad_name", message, position)
    return name


def arguments_from_text(text: str, name: str, limits: Limits, offset: int | None) -> dict[str, Any] | CallError:
    """Return arguments that came as a JSON text, which begins at `offset` of the message; a blank text means none."""
    if not text.strip():
        return {}
    try:
        value = loads(text, limits)
        for _ in range(_MAX_ENCODINGS):
            if type(value) is str and value.lstrip().startswith(("{", '"')):
                value = loads(value, limits)
    except StrictJsonError as error:
        return json_error(f"The arguments of {name} are not valid JSON", error, offset=offset, name=name)
    if type(value) is dict:
        return value
    message = f"The arguments of {name} must be a JSON object, not {kind_of(value)}."
    return call_error("bad_shape", message, offset, name=name)


_PLACEHOLDER = re.compile(
    r"\s*(?:\.{3,}|…+|[<\[{‹⟦❴]{1,2}\s*(?:\.{3,}|…+|[A-Za-z][A-Za-z_ -]{0,40}+)\s*[>\]}]{1,2}"
    r"|(?i:your)(?:[ _](?i:tool|name|answer|query|question|claim|evidence|quote|text|reason|id|here))+)\s*"
)


def find_placeholder(value: Any) -> str | None:
    """Return the first text in a JSON value that stands for another one, such as "…", "<query>" or "YOUR ANSWER"."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_PLACEHOLDER_CHARS and _PLACEHOLDER.fullmatch(value) else None
    if not isinstance(value, (dict, list)):
        return None
    items = value.values() if isinstance(value, dict) else value
    return next((text for item in items if (text := find_placeholder(item)) is not None), None)


# How models write calls in text

REASONING: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
}
"""Marks around reasoning: Qwen, DeepSeek and most others; Seed; MiniMax; Mistral; Kimi-VL; Command; Gemma 4."""
MARKS: Mapping[str, str] = {
    "<tool_call>": "</tool_call>",
    "<tool_calls>": "</tool_calls>",
    "<function_call>": "</function_call>",
    "<function_calls>": "</function_calls>",
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<seed:tool_call>": "</seed:tool_call>",
    "<longcat_tool_call>": "</longcat_tool_call>",
    "<TOOLCALL>": "</TOOLCALL>",
    "<|tool_call|>": "<|/tool_call|>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    "<|tool_call_begin|>": "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>": "<｜tool▁call▁end｜>",
    "<｜DSML｜function_calls>": "</｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>": "</｜DSML｜tool_calls>",
    "<|START_ACTION|>": "<|END_ACTION|>",
    "<|action_start|><|plugin|>": "<|action_end|>",
    "<|python_tag|>": "<|eom_id|>",
    "[TOOL_CALLS]": "</s>",
    "```tool_code": "```",
}
"""Marks around calls: Hermes, Qwen, GLM and Granite; Hunyuan; Granite 20B; Anthropic and OLMo; MiniMax; Seed; LongCat;
Nemotron; Phi-4-mini and Granite 3.0; LFM2; Kimi K2; DeepSeek V3 and V3.2; Command; InternLM; Llama; Mistral; Gemma 3."""

_FINAL_MARKS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|call|>", "<|endoftext|>", "</s>", "```")
PYTHON_NAME = re.compile(rf"\[?+[ \t\r\n]*+(?:print\()?+(?P<name>{NAME.pattern}+)\([ \t\r\n]*+")
_PYTHON_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')|(?P<key>[A-Za-z_]\w*+)[ \t]*+=(?!=)|(?P<end>\))"""
    r"""|(?P<space>[ \t\r\n]++)|-?\d[\d.eE+-]*+|(?:True|False|None|true|false|null)\b|[\[\]{}:,]""",
    re.DOTALL,
)
_PYTHON_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_PYTHON_QUOTES = re.compile(r"""\\(?P<escaped>.)|(?P<quote>")""", re.DOTALL)


def python_call(text: str, position: int, stop: int) -> tuple[str, str, int, int] | None:
    """Return a call with keyword arguments as Python writes it: name, JSON text of the arguments, start, and end."""
    head = PYTHON_NAME.match(text, position, stop)
    if head is None:
        return None
    parts, position = ["{"], head.end()
    while (token := _PYTHON_TOKEN.match(text, position, stop)) is not None:
        position, kind = token.end(), token.lastgroup
        if kind == "end":
            if parts[-1] == ",":
                parts.pop()
            return head["name"], "".join([*parts, "}"]), head.start("name"), position
        if kind == "key":
            parts.append(f'"{token["key"]}":')
        elif kind == "string":
            parts.append(f'"{_PYTHON_QUOTES.sub(_json_escape, token[0][1:-1])}"')
        elif kind != "space":
            parts.append(_PYTHON_CONSTANTS.get(token[0], token[0]))
    return None


def _json_escape(match: re.Match[str]) -> str:
    """Return what a quotation mark or an escape in a Python string is in a JSON string."""
    return "'" if match["escaped"] == "'" else match[0] if match["escaped"] else '\\"'


def trimmed_end(text: str, start: int, stop: int) -> int:
    """Return the end of a text without white space and the marks with which models end a message."""
    size = -1
    while size != stop:
        size, stop = stop, start + len(text[start:stop].rstrip())
        stop -= next((len(mark) for mark in _FINAL_MARKS if text.endswith(mark, start, stop)), 0)
    return stop


def bare_mark(mark: str) -> str:
    """Return a mark as errors name it: a policy that copies the error must not write a call."""
    return mark.strip("<>[]|｜`")


def trimmed_text(text: str) -> str:
    """Return a tagged text without the line breaks next to its tags, and a single line without spaces around it."""
    text = re.sub(r"\A\r?\n|\r?\n[ \t]*\Z", "", text)
    return text if "\n" in text else text.strip()
