"""Tool calls read from a completion's text, in the dialects in which models write them.

`parse_text` reads the dialects in which models write calls. Most differ in their marks alone, which are tables
(`REASONING` and `MARKS` in `factgym.core.calls`, `_ELEMENTS`); after a mark there is JSON, a name with JSON or with tagged arguments, or a Python
call. It is one pass from left to right, so that a mark inside a call's JSON string, or anything inside reasoning, is
never taken for a call. The rules that are choices:

- Text in `<think>…</think>` and the like is reasoning, and so is Harmony's channel "analysis" up to `<|end|>`. A closing
  tag without an opening one ends reasoning that the prompt's template had opened: nothing before it is a call.
- The mark that closes a call may be missing (it is often the stop string). If a call's JSON is broken, everything up to
  the closing mark is given up with it: text that a policy copied from a document into a broken string must not run as a
  call. A mark that no call follows but another mark is a mention, not a call.
- A JSON object, also a broken one whose brackets are balanced, is one piece: marks inside it are text, so a quotation
  cannot become a call. So is the text of a tagged argument up to its closing tag; nothing in it is escaped, and the
  tool's schema gives it a type (`ToolCall.texts`).
- Objects without a mark count only if there is no call with one. Of several the last one that is a call wins, fenced ones
  first; objects inside broken ones do not count. An array of calls, Python calls in brackets, and a name before its
  arguments count without a mark only if they are the whole message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from factgym.core.calls import (
    ARGUMENT_KEYS,
    ENVELOPE_KEYS,
    MARKS,
    NAME,
    NAME_KEYS,
    PYTHON_NAME,
    REASONING,
    CallError,
    Item,
    ToolCall,
    arguments_from_text,
    bare_mark,
    call_error,
    call_from_object,
    checked_name,
    json_error,
    python_call,
    too_many_calls,
    trimmed_end,
    trimmed_text,
)
from factgym.core.errors import ConfigError
from factgym.core.strict_json import Limits, Reader, StrictJsonError, excerpt, skip_space

_ELEMENTS = "function|invoke"
"""Elements with a tool's name in the opening tag: Qwen3-Coder and Llama (`<function=NAME>`), Anthropic, MiniMax and
DeepSeek (`<invoke name="NAME">`)."""
_VALUES: Mapping[str, str] = {"parameter": "parameter", "param": "param", "arg_key": "arg_value"}
"""Elements of an argument in a call, by the first tag: Qwen, MiniMax and Anthropic; MiniCPM; GLM."""
_WORK_PER_CHAR, _MIN_WORK = 4, 256
"""Text that was read as JSON and is broken is read again from a later position: up to `_WORK_PER_CHAR` times the length
of the message in all, where an attempt counts for `_MIN_WORK` characters more. This keeps the parser linear."""
_MAX_OBJECTS = 256
"""Limit on the objects in prose that are read."""
_CALL, _CALL_END, _THINK = "<tool_call>", "</tool_call>", "<think>"


def _any(literals: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(literals, key=len, reverse=True)))


_THINK_END = _any(REASONING.values())
_NAME_CHARACTERS = "".join(map(chr, filter(lambda code: NAME.fullmatch(chr(code)), range(128))))
_NAMESPACE = r"(?:[a-z]{1,16}+:|｜DSML｜)?"
_TAG_END = rf"""[ \t]*+["']?(?P<name>{NAME.pattern}+)["']?[^<>\n]*+>"""
_ELEMENT_START = rf"<{_NAMESPACE}(?:{_ELEMENTS})(?:=|[ \t]++name[ \t]*+=)"
_ELEMENT = re.compile(rf"<(?P<kind>{_NAMESPACE}(?:{_ELEMENTS}))(?:=|[ \t]++name[ \t]*+=){_TAG_END}")
_NEXT_MARK = re.compile(
    f"(?P<mark>{_any(MARKS)}|{_ELEMENT_START})"
    f"|(?P<closer>{_any(end for end in MARKS.values() if end[0] == '<' and end != '</s>')}|{_THINK_END})"
)
_ARGUMENT = re.compile(
    rf"<{_NAMESPACE}(?P<kind>parameter|param)(?:=|[ \t]++name[ \t]*+=){_TAG_END}"
    r"|<(?P<key_kind>arg_key)>(?P<key>[^<>]*+)</arg_key>[ \t\r\n]*+<arg_value>"
)
_VALUE_ENDS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(
        rf"(?P<own></{_NAMESPACE}{end}>)|<{_NAMESPACE}{kind}[=> \t]|</{_NAMESPACE}(?:{_ELEMENTS})>"
        rf"|{_any(end for mark, end in MARKS.items() if mark[0] == '<')}|{_THINK_END}"
    )
    for kind, end in _VALUES.items()
}
"""Ends of an argument's text: its closing tag, or where that is missing the next argument, or the end of the call."""
_CLOSERS = re.compile(
    rf"(?:[ \t\r\n]*+(?:</{_NAMESPACE}(?:{_ELEMENTS}|parameter|param|arg_value)>|{_any(MARKS.values())}|<\|call\|>))*+"
)
_HARMONY = r"<\|(?:start|channel)\|>"
_HARMONY_HEADER = re.compile(
    r"(?P<header>[^<{]{0,64}+(?:<\|(?:start|channel|constrain)\|>[^<{]{0,64}+){0,4}+)(?:<\|message\|>|(?=\{))[ \t\r\n]*+"
)
_RECIPIENT = re.compile(rf"\bto=(?P<name>{NAME.pattern})")
_SEPARATOR = (
    r"(?:[ \t\r\n]|\[CALL_ID\]\w*+|\[ARGS\]|<\|tool_call_argument_begin\|>|<｜tool▁sep｜>|<tool_sep>|```(?:json)?+)*+"
)
_NAME_BEFORE_ARGUMENTS = re.compile(
    rf"(?:function<｜tool▁sep｜>|call:)?+(?P<name>{NAME.pattern}+)(?P<separator>{_SEPARATOR})(?:\((?=[{{\"]))?+"
)
_ARGUMENTS_START = re.compile(r"""[{"]|<(?:arg_key>|parameter[ =]|param )""")
_WHOLE_NAME = re.compile(r"(?P<name>[A-Za-z_][\w.-]*+(?::\d++)?+)[ \t\r\n]*+(?=\{)")
_HARMONY_WITHOUT_MARKS = re.compile(
    r"(?:assistant)?(?:commentary|analysis) to=functions\.(?P<name>[\w.-]++)[ \t]*+(?:json|code)?+[ \t\r\n]*+(?=\{)"
)
_LEADING = re.compile(r"(?:[ \t\r\n]|```(?:json|python)?+|functools(?=\[))*+")

_OBJECT_START = re.compile(rf"[ \t\r\n]*+({_CALL})?[ \t\r\n]*+(?=\{{)")
_OBJECT_END = re.compile(rf"([ \t\r\n]*+{_CALL_END})?[ \t\r\n]*+\Z")
"""Around a message that is one JSON object, tagged or bare."""
_JSON_START = r'\{[ \t\r\n]*+"'
_FENCE = re.compile(r"[ \t\r\n]*+(?:```[A-Za-z_]*+[ \t\r\n]*+)?+")
_FENCED_BEFORE = re.compile(r"```[A-Za-z_]*[ \t\r\n]*\Z")
_OBJECT_IN_PROSE = re.compile(r"""\{[ \t\r\n]*+["']""")
_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NEXT_OBJECT = re.compile(r"[ \t\r\n]*+[;,]?[ \t\r\n]*+(?=\{)")


class TagSet(NamedTuple):
    """The marks that open something, compiled.

    tools: tag -> (tool, argument). opener: of a mark or a JSON object. mark_opener: of a mark alone. enders: tag -> the
    end of its text, which the end of reasoning is too.
    """

    tools: Mapping[str, tuple[str, str]]
    opener: re.Pattern[str]
    mark_opener: re.Pattern[str]
    enders: Mapping[str, re.Pattern[str]]
    calls: bool = True


@lru_cache(maxsize=64)
def tag_set(tags: tuple[tuple[str, tuple[str, str]], ...], calls: bool = True) -> TagSet:
    """Compile `tags` (tag, (tool, argument)). Raises ConfigError for a name that cannot be a tag."""
    reserved = {*REASONING, *MARKS}
    for tag, _ in tags:
        if not _TAG_NAME.fullmatch(tag) or f"<{tag}>" in reserved:
            raise ConfigError(f"{tag!r} cannot be a tag for a tool: use letters, digits, _ or -, and no built-in tag")
    marks = [f"(?P<think>{_any(REASONING)})", f"(?P<think_end>{_THINK_END})", f"(?P<harmony>{_HARMONY})"]
    if tags:
        marks.append(f"(?P<tag>{_any(f'<{tag}>' for tag, _ in tags)})")
    if calls:
        marks += [f"(?P<mark>{_any(MARKS)})", r"(?P<late_mark>\[ARGS\])", f"(?P<element>{_ELEMENT_START})"]
    openers = "|".join([*marks, f"(?P<object>{_JSON_START})"]) if calls else "|".join(marks)
    enders = {tag: re.compile(f"(?P<own></{tag}>)|{_THINK_END}") for tag, _ in tags}
    return TagSet(dict(tags), re.compile(openers), re.compile("|".join(marks)), enders, calls)


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
        scan.read_unmarked()
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
        """Marked calls so far, evaluated when all is read: the end of reasoning may still drop them."""
        self.items: list[Item] = []
        self.ranges: list[tuple[int, int]] = []
        self.overflow: int | None = None
        self.reasoning = False
        self.unclosed = ""
        self.work = _WORK_PER_CHAR * len(text) + limits.max_calls * _MIN_WORK

    @property
    def free_text(self) -> str:
        """The text that is neither call nor reasoning."""
        return "".join([self.text[start:end] for start, end in self.ranges]).strip()

    def run(self) -> None:
        """Fill `items` with the marked calls and `ranges` with the free text."""
        # A single left-to-right scan: the opener's regular expression finds the next mark or JSON object, and that element
        # is consumed whole. Positions never go back, so the time is linear but for the bounded rereads of `_MIN_WORK`.
        # text[start:position] is free text that is not in `ranges` yet.
        start = position = 0
        while (match := self._next_opening(position)) is not None:
            if match.lastgroup == "object":
                position = self._skip_object(match.start())
            else:
                self._add_range(start, match.start())
                start = position = self._read_opening(match)
        self._add_range(start, len(self.text))
        self.items = [call() if isinstance(call, partial) else call for call in self.calls]
        if self.overflow is not None:
            self.items.append(too_many_calls(self.limits, self.overflow))

    def _next_opening(self, position: int) -> re.Match[str] | None:
        """The next mark or JSON object; of objects none any more where no work is left to read them: they are text."""
        opener = self.tags.opener if self.work > self.reader.wasted else self.tags.mark_opener
        return opener.search(self.text, position)

    def _add_range(self, start: int, end: int) -> None:
        """Count a range as free text."""
        if self.ranges and self.ranges[-1][1] == start:
            self.ranges[-1] = self.ranges[-1][0], end
        elif start < end:
            self.ranges.append((start, end))

    def _read_opening(self, match: re.Match[str]) -> int:
        """Read the call or reasoning that a match opens."""
        kind, start, end = match.lastgroup, *match.span()
        if kind == "think_end":  # the template had opened the reasoning: all before it is no text of the policy
            self.calls.clear()
            self.ranges.clear()
            self.overflow = None
            self.reasoning = True
            return end
        if kind == "think":
            return self._skip_reasoning(end, match[0], REASONING[match[0]])
        if kind == "harmony":
            return self._read_harmony(match)
        if self._is_full(start):
            return end
        if kind == "tag":
            return self._read_tag_call(match)
        if kind == "mark":
            return self._read_mark(match)
        return self._read_element(match) if kind == "element" else self._read_late_mark(match)

    def _is_full(self, position: int) -> bool:
        """Whether no more calls are read; the first of them is at `position`."""
        if len(self.calls) < self.limits.max_calls and self.work > self.reader.wasted:
            return False
        if self.overflow is None:
            self.overflow = position
        return True

    def _add_call(self, item: Item | partial[Item], start: int) -> None:
        if not self._is_full(start):
            self.calls.append(item)

    def _skip_reasoning(self, position: int, mark: str, closer: str) -> int:
        self.reasoning = True
        end = self.text.find(closer, position)
        if end < 0:
            self.unclosed = self.unclosed or mark
            return len(self.text)
        return end + len(closer)

    def _skip_object(self, start: int) -> int:
        """Pass over a JSON object, or text that is bracketed like one, so that marks in its strings are text."""
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

    def _read_harmony(self, match: re.Match[str]) -> int:
        """Read the header of a Harmony message, and the message where it is a call or reasoning."""
        header = _HARMONY_HEADER.match(self.text, match.start())
        if header is None:
            return match.end()
        recipient = _RECIPIENT.search(header["header"])
        if recipient is not None and recipient["name"] != "assistant" and self.tags.calls:
            if self._is_full(match.start()):
                return header.end()
            return self._read_arguments(match.start(), recipient["name"], header.end(), "<|call|>")
        if not header[0].rstrip().endswith("<|message|>"):
            return match.end()
        # Only an end mark ends a message, so a draft with its marks inside reasoning does not run.
        if "<|channel|>analysis" in header["header"]:
            return self._skip_reasoning(header.end(), "<|channel|>analysis", "<|end|>")
        return header.end()

    def _read_mark(self, match: re.Match[str]) -> int:
        """Read what follows a mark: JSON, a name with arguments, Python calls, or other marks."""
        text, mark, start = self.text, match[0], match.start()
        closer = MARKS[mark]
        position = self._skip_fence(match.end())
        following = self.tags.mark_opener.match(text, position)
        if following is not None and following.lastgroup in ("mark", "element"):
            return position
        list_start = skip_space(text, position + 1) if text.startswith("[", position) else position
        if text.startswith("{", list_start):
            return self._read_objects(start, list_start, mark)
        named = _NAME_BEFORE_ARGUMENTS.match(text, position)
        if named is not None and _ARGUMENTS_START.match(text, named.end()):
            return self._read_arguments(start, named["name"], named.end(), closer)
        if named is not None and text.startswith(closer, named.end()):  # GLM 4.7 without arguments
            self._add_call(partial(self._call, named["name"], {}, start, named.end() + len(closer)), start)
            return named.end() + len(closer)
        if PYTHON_NAME.match(text, position):
            if (python := self._python_calls(position, len(text))) is None:
                message = f"The call after {bare_mark(mark)} is not a name with keyword arguments in parentheses."
                return self._skip_broken(call_error("invalid_json", message, position), position, closer)
            for call in python[0]:
                self._add_call(call, start)
            return self._skip_closers(python[1])
        following = _NEXT_MARK.search(text, match.end())
        if following is not None and following.lastgroup == "mark":
            self._add_range(*match.span())
            return match.end()
        content = excerpt(text[position : position + 20]) if position < len(text) else "the end of the message"
        message = f"{bare_mark(mark)} must be followed by a JSON object; found {content}."
        return self._skip_broken(call_error("invalid_json", message, position), position, closer)

    def _read_late_mark(self, match: re.Match[str]) -> int:
        """Read a call of which the mark before the name is missing."""
        start = match.start()
        before = self.text[max(0, start - self.limits.max_name_chars) : start]
        name = before[len(before.rstrip(_NAME_CHARACTERS)) :]
        if not name or not self.ranges or self.ranges[-1][1] != start:
            return match.end()
        start -= len(name)
        self.ranges[-1] = self.ranges[-1][0], max(start, self.ranges[-1][0])
        return self._read_arguments(start, name, self._skip_fence(match.end()), "</s>")

    def _read_objects(self, start: int, position: int, mark: str) -> int:
        """Read the calls after a mark, JSON objects one after another or in an array; a broken one becomes an error."""
        text, closer = self.text, MARKS[mark]
        while True:
            try:
                value, end = self.reader.read(position)
            except StrictJsonError as error:
                self.work -= _MIN_WORK
                return self._skip_broken(
                    json_error(f"The JSON in {bare_mark(mark)} is not valid", error), position, closer
                )
            after = self._skip_fence(end)
            after = skip_space(text, after + 1) if text.startswith("]", after) else after
            following = None if text.startswith(closer, after) else _NEXT_OBJECT.match(text, end)
            if text.startswith(closer, after):
                end = after + len(closer)
            elif following is None:
                next_mark = _NEXT_MARK.search(text, after)
                if next_mark is not None and next_mark[0] == closer:
                    extra = self.reader.error("invalid_json", "expected nothing after the JSON object", after, position)
                    return self._skip_broken(
                        json_error(f"The JSON in {bare_mark(mark)} is not valid", extra), after, closer
                    )
                end = max(end, after) if text[after - 1 : after] == "]" else end
            self._add_call(partial(call_from_object, value, self.limits, self.implicit, start, end), start)
            if following is None:
                return self._skip_closers(end)
            start = position = following.end()

    def _read_element(self, match: re.Match[str]) -> int:
        """Read a call whose tool is named in a tag."""
        element = _ELEMENT.match(self.text, match.start())
        if element is None:
            self._add_range(*match.span())
            return match.end()
        closer = f"</{element['kind']}>"
        position = self._skip_fence(element.end())
        if element[0].endswith("/>"):
            self._add_call(partial(self._call, element["name"], {}, *element.span()), match.start())
            return element.end()
        return self._read_arguments(match.start(), element["name"], position, closer)

    def _read_arguments(self, start: int, name: str, position: int, closer: str) -> int:
        """Read the arguments of a named tool at `position`: a JSON object, its JSON text, or tagged texts."""
        text = self.text
        if text[position : position + 1] in ("{", '"'):
            try:
                arguments, end = self.reader.read(position)
            except StrictJsonError as error:
                self.work -= _MIN_WORK
                error_item = json_error(f"The arguments of {excerpt(name)} are not valid JSON", error)
                return self._skip_broken(error_item, position, closer)
            end = self._skip_fence(end)
            if text.startswith(")", end):
                end = skip_space(text, end + 1)
        else:
            arguments, end = {}, position
            while (argument := _ARGUMENT.match(text, end)) is not None:
                value_end = _VALUE_ENDS[argument["kind"] or argument["key_kind"]].search(text, argument.end())
                stop = value_end.start() if value_end is not None else len(text)
                key, value = argument["name"] or argument["key"].strip(), text[argument.end() : stop]
                if key in arguments:
                    message = f"The arguments of {excerpt(name)} have {excerpt(key)} twice."
                    return self._skip_broken(call_error("duplicate_key", message, argument.start()), stop, closer)
                is_closed = value_end is not None and value_end["own"] is not None
                arguments[key] = trimmed_text(value if is_closed else value.rstrip())
                end = skip_space(text, value_end.end() if value_end is not None and is_closed else stop)
            is_empty = not arguments and not text.startswith(closer, end)
            if is_empty or text[end : end + 1] not in ("", "<", "[", "◁", "`"):
                message = f"The arguments of {excerpt(name)} are neither a JSON object nor tagged texts."
                return self._skip_broken(call_error("bad_shape", message, end), end, closer)
        if text.startswith(closer, end):
            end += len(closer)
        is_tagged = text[position : position + 1] == "<"
        self._add_call(partial(self._call, name, arguments, start, end, is_tagged), start)
        return self._skip_closers(end)

    def _call(self, name: str, arguments: Any, start: int, end: int, texts: bool = False) -> Item:
        """Return the call of a tool whose name and arguments were read apart."""
        checked = checked_name(name, self.limits, start)
        if isinstance(checked, CallError):
            return checked
        if type(arguments) is str:
            arguments = arguments_from_text(arguments, checked, self.limits, None)
        return arguments if isinstance(arguments, CallError) else ToolCall(checked, arguments, None, start, end, texts)

    def _python_calls(self, position: int, stop: int) -> tuple[list[partial[Item]], int] | None:
        """Return calls as Python writes them, in brackets or one, and their end; None for any other text."""
        text = self.text
        is_list = text.startswith("[", position)
        calls: list[partial[Item]] = []
        position += is_list
        while (call := python_call(text, position, stop)) is not None:
            name, arguments, start, position = call
            calls.append(partial(self._call, name, arguments, start, position))
            position = skip_space(text, position)
            if not text.startswith((",", ";"), position) and is_list:
                break
            position += text.startswith((",", ";"), position)
        if is_list and not text.startswith("]", position):
            return None
        return (calls, position + is_list) if calls else None

    def _skip_fence(self, position: int) -> int:
        return _FENCE.match(self.text, position).end()  # type: ignore[union-attr]  # an empty match is a match

    def _skip_closers(self, position: int) -> int:
        """Return the position after marks that close calls; they are no text of the policy."""
        return _CLOSERS.match(self.text, position).end()  # type: ignore[union-attr]  # an empty match is a match

    def _skip_broken(self, error: CallError, position: int, closer: str) -> int:
        """Record an error; the text up to the call's closing mark is given up with it."""
        self._add_call(error, position)
        end = _closer_or_thought(closer).search(self.text, position)
        if end is None:
            return len(self.text)
        return end.end() if end[0] == closer else end.start()

    def _read_tag_call(self, match: re.Match[str]) -> int:
        """Read a call written as a tag of the tool's own and return where to go on; an end of thoughts closes it, too."""
        tag = match[0][1:-1]
        tool, argument = self.tags.tools[tag]
        start, position = match.span()
        end = self.tags.enders[tag].search(self.text, position)
        stop = end.start() if end is not None else len(self.text)
        after = end.end() if end is not None and end["own"] else stop
        body = self.text[position:stop].strip()
        if body and (end is not None or self.tags.opener.search(self.text, position) is None):
            self.calls.append(ToolCall(tool, {argument: body}, None, start, after))
            return after
        problem = "is empty" if not body else "is not closed"
        message = f"The tag {tag} {problem}: put the {argument} between the opening and the closing tag to call {tool}."
        self.calls.append(call_error("bad_shape", message, start, name=tool))
        return after if not body else position

    def read_unmarked(self) -> None:
        """Take a call without a mark from the free text, or say why there is none."""
        texts = [(start, stop) for start, stop in self.ranges if not self.text[start:stop].isspace()]
        if len(texts) == 1 and (items := self._whole_message(*texts[0])):
            self.items, self.ranges = items[: self.limits.max_calls], []
            if len(items) > self.limits.max_calls:
                self.items.append(too_many_calls(self.limits, texts[0][0]))
            return
        self._read_bare_objects(skip_space(self.text, 0))

    def _whole_message(self, start: int, stop: int) -> list[Item]:
        """Return the calls that a text is from its start to its end: an array of them, Python calls, or name and JSON."""
        text = self.text
        start = _LEADING.match(text, start).end()  # type: ignore[union-attr]  # an empty match is a match
        stop = trimmed_end(text, start, stop)
        items: list[Item] = []
        if (python := self._python_calls(start, stop)) is not None and python[1] == stop:
            return [call() for call in python[0]]
        if text.startswith("[", start):
            position = skip_space(text, start + 1)
            while text.startswith("{", position):
                try:
                    value, end = self.reader.read(position)
                except StrictJsonError:
                    return []
                items.append(call_from_object(value, self.limits, self.implicit, position, end))
                position = skip_space(text, end)
                position = skip_space(text, position + 1) if text.startswith(",", position) else position
            is_array = text.startswith("]", position) and position + 1 == stop
            return items if is_array and all(isinstance(item, ToolCall) for item in items) else []
        harmony = max(text.rfind("assistantcommentary to=", start, stop), start)
        named = _WHOLE_NAME.match(text, start) or _HARMONY_WITHOUT_MARKS.match(text, harmony)
        if named is None:
            return []
        try:
            arguments, end = self.reader.read(named.end())
        except StrictJsonError:
            return []
        is_attempt = any(key in arguments for key in (*self.implicit, *NAME_KEYS))
        return [] if end != stop or is_attempt else [self._call(named["name"], arguments, start, end)]

    def _read_bare_objects(self, first: int) -> None:
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
        if any(isinstance(value.get(key), str) for key in NAME_KEYS):
            has_arguments = any(key in value for key in ARGUMENT_KEYS)
            is_attempt = is_attempt or has_arguments or value.keys() <= ENVELOPE_KEYS
        return (0 if not is_attempt else 2 if isinstance(item, ToolCall) else 1), item

    def _missing_call(self) -> CallError:
        if self.unclosed:
            return call_error(
                "only_reasoning", f"The reasoning ({bare_mark(self.unclosed)}) was never closed, so no call was read."
            )
        if self.free_text:
            return call_error("no_tool_call", "The message holds no tool call.")
        if self.reasoning:
            return call_error("only_reasoning", "The message holds reasoning and nothing else.")
        return call_error("empty", "The message is empty.")


@lru_cache(maxsize=64)
def _closer_or_thought(closer: str) -> re.Pattern[str]:
    return re.compile(f"{re.escape(closer)}|{_THINK_END}")
