"""Tool calls: as data, and read from a completion's text.

`call_from_object` alone knows which keys a call is written with. It knows nothing of tools: an unknown tool, or
arguments that fail a schema, are answered by `factgym.tools`.

`parse_text` reads tagged JSON, other tags, and JSON objects that are bare, fenced or in prose. It is one pass from left
to right, so that a tag inside a call's JSON string, or anything inside reasoning, is never taken for a call. The rules
that are choices:

- Text in `<think>…</think>` is reasoning. A `</think>` without an opening tag ends reasoning that the prompt's template
  had opened: nothing before it is a call.
- `<tool_call>` holds one JSON object, perhaps in a code fence. The closing tag may be missing (it is often the stop
  string). If the JSON is broken, everything up to the closing tag is given up with it: text that a policy copied from
  a document into a broken string must not run as a call. A `<tool_call>` that is followed by no JSON but by another
  tag of the kind is a mention of the tag, not a call.
- A JSON object, also a broken one whose brackets are balanced, is one piece: tags inside it are text, so a quotation
  cannot become a call.
- Bare objects count only if there is no tagged call. Of several the last one that is a call wins, fenced ones first;
  objects inside broken ones do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

from factgym.core.errors import ConfigError
from factgym.core.strict_json import (
    JsonErrorCode,
    Limits,
    Reader,
    StrictJsonError,
    excerpt,
    loads,
    skip_space,
    type_name,
)

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
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


# Not frozen: a frozen dataclass sets each field by a call, here once or more a step. Nothing changes one that is made.
@dataclass(slots=True)
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
        return call_error("bad_shape", f"A tool call is one JSON object {EXAMPLE}, not {kind_of(value)}.", start)
    name, arguments = value.get("name"), value.get("arguments")
    if (  # the usual form
        len(value) == 2
        and type(name) is str
        and type(arguments) is dict
        and len(name) <= limits.max_name_chars
        and _NAME.fullmatch(name)
    ):
        return ToolCall(name, arguments, None, start, end)
    if type(value.get("function")) is dict:
        value = value["function"]
    name_key = next(filter(value.__contains__, _NAME_KEYS), None)
    if name_key is None:
        return _implicit_call(value, implicit, start, end)
    name = checked_name(value[name_key], limits, start)
    if isinstance(name, CallError):
        return name
    argument_key = next(filter(value.__contains__, _ARGUMENT_KEYS), None)
    if argument_key is None and not value.keys() <= _ENVELOPE_KEYS:
        stray = next(key for key in value if key not in _ENVELOPE_KEYS)
        message = f'Put the arguments of {name} inside "arguments": {EXAMPLE}; {excerpt(stray)} stands beside it.'
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
    return call_error("bad_shape", f"The tool call names no tool: it is {content}. Write {EXAMPLE}.", start)


def checked_name(name: object, limits: Limits, position: int | None) -> str | CallError:
    """Return a tool name without white space around it, or the error bad_name."""
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


def arguments_from_text(text: str, name: str, limits: Limits, offset: int | None) -> dict[str, Any] | CallError:
    """Return arguments that came as a JSON text, which begins at `offset` of the message; a blank text means none."""
    if not text.strip():
        return {}
    try:
        value = loads(text, limits)
    except StrictJsonError as error:
        return json_error(f"The arguments of {name} are not valid JSON", error, offset=offset, name=name)
    if type(value) is dict:
        return value
    message = f"The arguments of {name} must be a JSON object, not {kind_of(value)}."
    return call_error("bad_shape", message, offset, name=name)


# Calls in text

_THINK, _THINK_END = "<think>", "</think>"
_CALL, _CALL_END, _CALL_TAG = "<tool_call>", "</tool_call>", "tool_call"
_WORK_PER_CHAR, _MIN_WORK = 4, 256
"""Text that was read as JSON and is broken is read again from a later position: up to `_WORK_PER_CHAR` times the length
of the message in all, where an attempt counts for `_MIN_WORK` characters more. This keeps the parser linear."""
_MAX_OBJECTS = 256
"""Limit on the objects in prose that are read."""

_OBJECT_START = re.compile(rf"[ \t\r\n]*+({_CALL})?[ \t\r\n]*+(?=\{{)")
_OBJECT_END = re.compile(rf"([ \t\r\n]*+{_CALL_END})?[ \t\r\n]*+\Z")
"""Around a message that is one JSON object, tagged or bare."""
_JSON_START = r'|\{[ \t\r\n]*+"'
_NEXT_CALL_TAG = re.compile(r"</?tool_call>|</think>")
_FENCE = re.compile(r"```[A-Za-z_]*[ \t\r\n]*+")
_FENCED_BEFORE = re.compile(r"```[A-Za-z_]*[ \t\r\n]*\Z")
_OBJECT_IN_PROSE = re.compile(r"""\{[ \t\r\n]*+["']""")
_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class TagSet(NamedTuple):
    """The tags that open something, compiled: `enders` match the end of a tag's text, which reasoning ends too.

    opener: of a tag or a JSON object. tag_opener: of a tag alone.
    """

    tools: Mapping[str, tuple[str, str]]
    opener: re.Pattern[str]
    tag_opener: re.Pattern[str]
    enders: Mapping[str, re.Pattern[str]]


@lru_cache(maxsize=64)
def tag_set(tags: tuple[tuple[str, tuple[str, str]], ...], calls: bool = True) -> TagSet:
    """Compile `tags` (tag, (tool, argument)). Raises ConfigError for a name that cannot be a tag."""
    for tag, _ in tags:
        if not _TAG_NAME.fullmatch(tag) or tag in ("think", _CALL_TAG):
            raise ConfigError(f"{tag!r} cannot be a tag for a tool: use letters, digits, _ or -, and no built-in tag")
    names = [*(tag for tag, _ in tags), *([_CALL_TAG] if calls else [])]
    opener = f"<(?:{'|'.join(['/?think', *names])})>"
    openers = re.compile(opener + (_JSON_START if calls else "")), re.compile(opener)
    return TagSet(dict(tags), *openers, {name: re.compile(f"</(?:{name}|think)>") for name in names})


def parse_text(text: str, limits: Limits, tags: TagSet, implicit: Mapping[str, str]) -> tuple[tuple[Item, ...], str]:
    """Return the calls and errors of a completion, at least one, and its free text.

    `text` holds no lone surrogates and at most `max_chars` characters.
    """
    reader = Reader(text, limits)
    # Nothing but one JSON object, tagged or bare: the most common forms, which need no scan.
    opening = _OBJECT_START.match(text)
    if opening is not None:
        try:
            value, end = reader.read(opening.end())
        except StrictJsonError:
            end = 0
        closing = _OBJECT_END.match(text, end) if end else None
        if closing is not None and (opening[1] or not closing[1]):
            first = opening.start(1) if opening[1] else opening.end()
            return (call_from_object(value, limits, implicit, first, closing.end(1) if closing[1] else end),), ""
    scan = _TextScan(text, limits, tags, implicit, reader)
    scan.run()
    if not scan.items:
        scan.read_bare_objects(skip_space(text, 0))
    return tuple(scan.items), scan.free_text


def visible_text(text: str, limits: Limits) -> str:
    """Return `text` without its reasoning."""
    scan = _TextScan(text, limits, tag_set((), calls=False), {}, Reader(text, limits))
    scan.run()
    return scan.free_text


class _TextScan:
    """One pass over a text: the items so far, and the ranges of free text between them.

    Every method that reads something at a position returns the position from which to go on, which is never before it.
    """

    __slots__ = (
        *("calls", "implicit", "items", "limits", "overflow", "ranges", "reader"),
        *("reasoning", "tags", "text", "unclosed", "work"),
    )

    def __init__(self, text: str, limits: Limits, tags: TagSet, implicit: Mapping[str, str], reader: Reader) -> None:
        self.text = text
        self.limits = limits
        self.tags = tags
        self.implicit = implicit
        self.reader = reader
        self.calls: list[Item | partial[Item]] = []
        """Tagged calls so far, evaluated when all is read: a `</think>` may still drop them."""
        self.items: list[Item] = []
        self.ranges: list[tuple[int, int]] = []
        self.overflow: int | None = None
        self.reasoning = False
        self.unclosed = False
        self.work = _WORK_PER_CHAR * len(text) + limits.max_calls * _MIN_WORK

    @property
    def free_text(self) -> str:
        """The text that is neither call nor reasoning."""
        return "".join([self.text[start:end] for start, end in self.ranges]).strip()

    def run(self) -> None:
        """Fill `items` with the tagged calls and `ranges` with the free text."""
        # A single left-to-right scan: the opener's regular expression finds the next tag or JSON object, and that element
        # is consumed whole. Positions never go back, so the time is linear but for the bounded rereads of `_MIN_WORK`.
        # text[start:position] is free text that is not in `ranges` yet.
        start = position = 0
        while (match := self._next_opening(position)) is not None:
            if match[0][0] == "{":
                position = self._skip_object(match.start())
            else:
                self._add_range(start, match.start())
                start = position = self._read_opening(match)
        self._add_range(start, len(self.text))
        self.items = [call() if isinstance(call, partial) else call for call in self.calls]
        if self.overflow is not None:
            self.items.append(too_many_calls(self.limits, self.overflow))

    def _next_opening(self, position: int) -> re.Match[str] | None:
        """The next tag or JSON object; of objects none any more where no work is left to read them: they are text."""
        opener = self.tags.opener if self.work > self.reader.wasted else self.tags.tag_opener
        return opener.search(self.text, position)

    def _add_range(self, start: int, end: int) -> None:
        """Count a range as free text."""
        if self.ranges and self.ranges[-1][1] == start:
            self.ranges[-1] = self.ranges[-1][0], end
        elif start < end:
            self.ranges.append((start, end))

    def _read_opening(self, match: re.Match[str]) -> int:
        """Read the call or reasoning that a match opens."""
        opening, end = match[0], match.end()
        if opening == _THINK_END:  # the template had opened the reasoning: all before it is no text of the policy
            self.calls.clear()
            self.ranges.clear()
            self.overflow = None
            self.reasoning = True
            return end
        if opening == _THINK:
            self.reasoning = True
            think_end = self.text.find(_THINK_END, end)
            self.unclosed = self.unclosed or think_end < 0
            return len(self.text) if think_end < 0 else think_end + len(_THINK_END)
        if len(self.calls) >= self.limits.max_calls or self.work <= self.reader.wasted:
            if self.overflow is None:
                self.overflow = match.start()
            return end
        return self._read_json_call(match) if opening == _CALL else self._read_tag_call(match)

    def _skip_object(self, start: int) -> int:
        """Pass over a JSON object, or text that is bracketed like one, so that tags in its strings are text."""
        end: int | None = None
        if self.reader.is_unclosed(start):
            self.work -= _MIN_WORK
        else:
            try:
                end = self.reader.read(start)[1]
            except StrictJsonError:
                end = self.reader.closing(start)
                # A scan to the end in vain is counted twice: there are two such scans at most of text of some length.
                self.work -= _MIN_WORK + (2 * (len(self.text) - start) if end is None else end - start)
        return start + 1 if end is None else end

    def _read_json_call(self, match: re.Match[str]) -> int:
        """Read a call written as JSON after its tag and return where to go on; what is broken becomes an error with its position."""
        text, start = self.text, match.start()
        position = self._skip_fence(match.end())
        if not text.startswith("{", position):
            following = _NEXT_CALL_TAG.search(text, match.end())
            if following is not None and following[0] == _CALL:
                self._add_range(*match.span())
                return match.end()
            content = excerpt(text[position : position + 20]) if position < len(text) else "the end of the message"
            message = f"{_CALL} must be followed by a JSON object {EXAMPLE} and {_CALL_END}; found {content}."
            return self._skip_broken(call_error("invalid_json", message, position), position)
        try:
            value, end = self.reader.read(position)
        except StrictJsonError as error:
            self.work -= _MIN_WORK
            return self._skip_broken(json_error(f"The JSON in {_CALL} is not valid", error), position)
        after = self._skip_fence(end)
        if text.startswith(_CALL_END, after):
            end = after + len(_CALL_END)
        else:
            following = _NEXT_CALL_TAG.search(text, after)
            if following is not None and following[0] == _CALL_END:
                extra = self.reader.error("invalid_json", "expected nothing after the JSON object", after, position)
                return self._skip_broken(json_error(f"The JSON in {_CALL} is not valid", extra), after)
        self.calls.append(partial(call_from_object, value, self.limits, self.implicit, start, end))
        return end

    def _skip_fence(self, position: int) -> int:
        position = skip_space(self.text, position)
        fence = _FENCE.match(self.text, position)
        return fence.end() if fence is not None else position

    def _skip_broken(self, error: CallError, position: int) -> int:
        """Record an error; the text up to the call's closing tag is given up with it."""
        self.calls.append(error)
        end = self.tags.enders[_CALL_TAG].search(self.text, position)
        if end is None:
            return len(self.text)
        return end.start() if end[0] == _THINK_END else end.end()

    def _read_tag_call(self, match: re.Match[str]) -> int:
        """Read a call written as a tag of the tool's own and return where to go on; an end of thoughts closes it, too."""
        tag = match[0][1:-1]
        tool, argument = self.tags.tools[tag]
        start, position = match.span()
        end = self.tags.enders[tag].search(self.text, position)
        stop = end.start() if end is not None else len(self.text)
        after = end.end() if end is not None and end[0] != _THINK_END else stop
        body = self.text[position:stop].strip()
        if body and (end is not None or self.tags.opener.search(self.text, position) is None):
            self.calls.append(ToolCall(tool, {argument: body}, None, start, after))
            return after
        problem = "is empty" if not body else "is not closed"
        message = f"<{tag}> {problem}: write <{tag}>{argument}</{tag}> to call {tool}."
        self.calls.append(call_error("bad_shape", message, start, name=tool))
        return after if not body else position

    def read_bare_objects(self, first: int) -> None:
        """Take the best of the objects in the free text, or say why there is none. first: start of the message."""
        # The maximum by (call > attempt > other object, fenced > bare); of equals the last.
        best: tuple[tuple[int, bool], Item, tuple[int, int]] | None = None
        objects = 0
        for start, stop in self.ranges:
            while objects < _MAX_OBJECTS:
                position = first
                if not (start <= first < stop and self.text.startswith("{", first)):
                    match = _OBJECT_IN_PROSE.search(self.text, start, stop)
                    if match is None:
                        break
                    position = match.start()
                objects += 1
                unclosed = stop == len(self.text) and self.reader.is_unclosed(position)
                end = stop if unclosed else self.reader.span(position, stop) or stop
                rank, item = self._read_bare_object(position, end)
                fit = rank, _FENCED_BEFORE.search(self.text, max(0, position - 32), position) is not None
                if best is None or fit >= best[0]:
                    best = fit, item, (position, end)
                start = end
        if best is None:
            self.items.append(self._missing_call())
            return
        _, item, (start, end) = best
        self.items.append(item)
        self.ranges = [
            part for a, b in self.ranges for part in ([(a, start), (end, b)] if a <= start and end <= b else [(a, b)])
        ]

    def _read_bare_object(self, start: int, end: int) -> tuple[int, Item]:
        """Return how well an object fits, and its item: 2 for a call, 1 for an attempt, 0 for any other object."""
        if (fault := self.reader.fault_within(start, end)) is not None:
            return 1, json_error("The JSON object in the message is not valid", fault)
        try:
            value, _ = Reader(self.text[start:end], self.limits).read(0)
        except StrictJsonError as error:
            return 1, json_error("The JSON object in the message is not valid", error, offset=start)
        item = call_from_object(value, self.limits, self.implicit, start, end)
        is_attempt = isinstance(value.get("function"), dict) or any(key in value for key in self.implicit)
        if any(isinstance(value.get(key), str) for key in _NAME_KEYS):
            has_arguments = any(key in value for key in _ARGUMENT_KEYS)
            is_attempt = is_attempt or has_arguments or value.keys() <= _ENVELOPE_KEYS
        return (0 if not is_attempt else 2 if isinstance(item, ToolCall) else 1), item

    def _missing_call(self) -> CallError:
        write = f"Write one call: {_CALL}{EXAMPLE}{_CALL_END}."
        if self.unclosed:
            return call_error("only_reasoning", f"{_THINK} was never closed, so no call was read. {write}")
        if self.free_text:
            return call_error("no_tool_call", f"The message holds no tool call. {write}")
        if self.reasoning:
            return call_error("only_reasoning", f"The message holds reasoning and nothing else. {write}")
        return call_error("empty", f"The message is empty. {write}")
