"""Tool calls in a completion's text: tagged JSON, other tags, and JSON objects that stand bare, fenced or in prose.

One pass from left to right, so that a tag inside a call's JSON string, or anything inside reasoning, is never taken
for a call. The rules that are choices:

- What lies in `<think>…</think>` is reasoning. A `</think>` without an opening tag ends reasoning that the prompt's
  template had opened: nothing before it is a call.
- `<tool_call>` holds one JSON object, perhaps in a code fence. The closing tag may be missing (it is often the stop
  string). If the JSON is broken, everything up to the closing tag is given up with it: text that a policy copied from
  a document into a broken string must not run as a call. A `<tool_call>` that is followed by no JSON but by another
  tag of the kind is a mention of the tag, not a call.
- A JSON object, broken ones too if their brackets are balanced, is one piece: tags inside it are text, so a quotation
  cannot become a call.
- Bare objects count only if there is no tagged call. Of several the last one that is a call wins, fenced ones first;
  objects inside broken ones do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from factgym.core.calls import EXAMPLE, CallError, ToolCall, call_error, call_from_object, json_error, looks_like_call
from factgym.core.errors import ConfigError
from factgym.core.strict_json import Limits, Reader, StrictJsonError, excerpt, skip_space

Item = ToolCall | CallError

_THINK, _THINK_END = "<think>", "</think>"
_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_CALL_TAG = "tool_call"
_WORK_PER_CHAR, _LEAST_WORK = 4, 256
"""What was looked at as JSON and turned out broken is looked at again from a later place: up to this many times the
length of the message, an attempt counting for `_LEAST_WORK` characters more."""

_MAX_OBJECTS = 256
"""Objects in prose that are looked at; a policy that writes more has lost its way."""

_JSON_START = r'|\{[ \t\r\n]*+"'
_NEXT_CALL_TAG = re.compile(r"</?tool_call>|</think>")
_FENCE = re.compile(r"```[A-Za-z_]*[ \t\r\n]*+")
_FENCED_BEFORE = re.compile(r"```[A-Za-z_]*[ \t\r\n]*\Z")
_OBJECT_IN_PROSE = re.compile(r"""\{[ \t\r\n]*+["']""")
_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class TagSet:
    """The tags that open something, compiled: `enders` finds the end of a tag's text, which reasoning ends too."""

    tools: Mapping[str, tuple[str, str]]
    opener: re.Pattern[str]
    enders: Mapping[str, re.Pattern[str]]


@lru_cache(maxsize=64)
def tag_set(tags: tuple[tuple[str, tuple[str, str]], ...], calls: bool = True) -> TagSet:
    """The compiled form of `tags` (tag, (tool, argument)). Raises ConfigError for a name that cannot be a tag."""
    for tag, _ in tags:
        if not _TAG_NAME.fullmatch(tag) or tag in ("think", _CALL_TAG):
            raise ConfigError(f"{tag!r} cannot be a tag for a tool: use letters, digits, _ or -, and no built-in tag")
    names = [*(tag for tag, _ in tags), *([_CALL_TAG] if calls else [])]
    opener = re.compile(f"<(?:{'|'.join(['/?think', *names])})>" + (_JSON_START if calls else ""))
    return TagSet(dict(tags), opener, {name: re.compile(f"</(?:{name}|think)>") for name in names})


def parse_text(
    text: str, limits: Limits, tags: Mapping[str, tuple[str, str]], implicit: Mapping[str, str]
) -> tuple[tuple[Item, ...], str]:
    """The calls of a completion, never none, and its free text.

    `text` holds no lone surrogates and at most `max_chars` characters.
    """
    scan = _Scan(text, limits, tag_set(tuple(tags.items())), implicit)
    first = skip_space(text, 0)
    if text.startswith("{", first) and scan.whole_object(first):
        return tuple(scan.items), ""
    scan.run()
    if not scan.items:
        scan.bare_objects(first)
    return tuple(scan.items), scan.free_text()


def visible_text(text: str, limits: Limits) -> str:
    """`text` without its reasoning."""
    scan = _Scan(text, limits, tag_set((), calls=False), {})
    scan.run()
    return scan.free_text()


class _Scan:
    """One text under way: the items so far, and the ranges of free text between them."""

    __slots__ = (
        "implicit",
        "items",
        "limits",
        "overflow",
        "ranges",
        "reader",
        "reasoning",
        "tags",
        "text",
        "unclosed",
        "work",
    )

    def __init__(self, text: str, limits: Limits, tags: TagSet, implicit: Mapping[str, str]) -> None:
        self.text = text
        self.limits = limits
        self.tags = tags
        self.implicit = implicit
        self.reader = Reader(text, limits)
        self.items: list[Item] = []
        self.ranges: list[tuple[int, int]] = []
        self.overflow: int | None = None
        self.reasoning = False
        self.unclosed = False
        self.work = _WORK_PER_CHAR * len(text) + limits.max_calls * _LEAST_WORK

    def free_text(self) -> str:
        """What is neither call nor reasoning."""
        if len(self.ranges) == 1:
            start, end = self.ranges[0]
            return self.text[start:end].strip()
        return "".join(self.text[start:end] for start, end in self.ranges).strip()

    def whole_object(self, first: int) -> bool:
        """Take the text as one JSON object and nothing else, if it is one."""
        try:
            value, end = self.reader.read(first)
        except StrictJsonError:
            return False
        if skip_space(self.text, end) != len(self.text):
            return False
        self.items.append(call_from_object(value, self.limits, self.implicit, first, end))
        return True

    def run(self) -> None:
        """Fill `items` with the tagged calls and `ranges` with the free text."""
        text, search = self.text, self.tags.opener.search
        position = 0
        while (match := search(text, position)) is not None:
            self._keep(position, match.start())
            position = self._opened(match)
        self._keep(position, len(text))
        if self.overflow is not None:
            message = f"Too many calls in one message: {self.limits.max_calls} are allowed; the rest were dropped."
            self.items.append(call_error("too_many_calls", message, self.overflow))

    def _keep(self, start: int, end: int) -> None:
        """Count a range as free text."""
        if self.ranges and self.ranges[-1][1] == start:
            self.ranges[-1] = self.ranges[-1][0], end
        elif start < end:
            self.ranges.append((start, end))

    def _opened(self, match: re.Match[str]) -> int:
        """Deal with what a tag opens; the position from which to go on."""
        tag = match[0]
        if tag[0] == "{":
            return self._opaque_object(match.start())
        if tag == _THINK_END:
            self.items.clear()
            self.ranges.clear()
            self.overflow = None
            self.reasoning = True
            return match.end()
        if tag == _THINK:
            return self._skip_reasoning(match.end())
        if len(self.items) >= self.limits.max_calls or self.work <= self.reader.wasted:
            if self.overflow is None:
                self.overflow = match.start()
            return match.end()
        return self._json_call(match) if tag == _CALL else self._tag_call(match)

    def _opaque_object(self, start: int) -> int:
        """Pass over a JSON object, or what is bracketed like one, so that tags in its strings stay text."""
        end: int | None = None
        if self.work > self.reader.wasted:
            try:
                end = self.reader.read(start)[1]
            except StrictJsonError:
                self.work -= _LEAST_WORK
                end = self.reader.span(start, len(self.text))
                self.work -= (len(self.text) if end is None else end) - start
        end = start + 1 if end is None else end
        self._keep(start, end)
        return end

    def _skip_reasoning(self, start: int) -> int:
        self.reasoning = True
        end = self.text.find(_THINK_END, start)
        if end < 0:
            self.unclosed = True
            return len(self.text)
        return end + len(_THINK_END)

    def _json_call(self, match: re.Match[str]) -> int:
        text = self.text
        start = match.start()
        at = self._skip_fence(match.end())
        if not text.startswith("{", at):
            return self._no_object(match, at)
        try:
            value, end = self.reader.read(at)
        except StrictJsonError as error:
            self.work -= _LEAST_WORK
            return self._broken(json_error(f"The JSON in {_CALL} is not valid", error), at)
        after = self._skip_fence(end)
        if text.startswith(_CALL_END, after):
            end = after + len(_CALL_END)
        else:
            following = _NEXT_CALL_TAG.search(text, after)
            if following is not None and following[0] == _CALL_END:
                extra = self.reader.error("invalid_json", "expected nothing after the JSON object", after, at)
                return self._broken(json_error(f"The JSON in {_CALL} is not valid", extra), after)
        self.items.append(call_from_object(value, self.limits, self.implicit, start, end))
        return end

    def _skip_fence(self, position: int) -> int:
        position = skip_space(self.text, position)
        if self.text.startswith("```", position):
            position = _FENCE.match(self.text, position).end()  # type: ignore[union-attr]  # it starts with a fence
        return position

    def _no_object(self, match: re.Match[str], at: int) -> int:
        following = _NEXT_CALL_TAG.search(self.text, match.end())
        if following is not None and following[0] == _CALL:
            self._keep(*match.span())
            return match.end()
        excerpted = excerpt(self.text[at : at + 20]) if at < len(self.text) else "the end of the message"
        message = f"{_CALL} must be followed by a JSON object {EXAMPLE} and {_CALL_END}; found {excerpted}."
        return self._broken(call_error("invalid_json", message, at), at)

    def _broken(self, error: CallError, at: int, tag: str = _CALL_TAG) -> int:
        self.items.append(error)
        end = self.tags.enders[tag].search(self.text, at)
        if end is None:
            return len(self.text)
        return end.start() if end[0] == _THINK_END else end.end()

    def _tag_call(self, match: re.Match[str]) -> int:
        tag = match[0][1:-1]
        tool, argument = self.tags.tools[tag]
        start, at = match.span()
        end = self.tags.enders[tag].search(self.text, at)
        stop = end.start() if end is not None else len(self.text)
        after = end.end() if end is not None and end[0] != _THINK_END else stop
        body = self.text[at:stop].strip()
        if body and (end is not None or self.tags.opener.search(self.text, at) is None):
            self.items.append(ToolCall(tool, {argument: body}, None, start, after))
            return after
        problem = "is empty" if not body else "is not closed"
        message = f"<{tag}> {problem}: write <{tag}>{argument}</{tag}> to call {tool}."
        self.items.append(call_error("bad_shape", message, start, name=tool))
        return after if not body else at

    def bare_objects(self, first: int) -> None:
        """Take the best of the objects that stand in the free text, or say why there is none."""
        best: tuple[tuple[int, bool], Item, tuple[int, int]] | None = None
        looked_at = 0
        for start, stop in self.ranges:
            while looked_at < _MAX_OBJECTS and (at := self._object_start(start, stop, first)) is not None:
                looked_at += 1
                end = self.reader.span(at, stop)
                rank, item = self._bare(at, stop if end is None else end)
                fit = rank, _FENCED_BEFORE.search(self.text, max(0, at - 32), at) is not None
                if best is None or fit >= best[0]:
                    best = fit, item, (at, stop if end is None else end)
                start = stop if end is None else end
        if best is None:
            self.items.append(self._nothing_found())
        else:
            self.items.append(best[1])
            self._cut(*best[2])

    def _object_start(self, start: int, stop: int, first: int) -> int | None:
        if start <= first < stop and self.text.startswith("{", first):
            return first
        match = _OBJECT_IN_PROSE.search(self.text, start, stop)
        return match.start() if match is not None else None

    def _bare(self, start: int, end: int) -> tuple[int, Item]:
        """The item of one object and how well it fits: 2 for a call, 1 for an attempt, 0 for something else."""
        reader = Reader(self.text[start:end], self.limits)
        try:
            value, _ = reader.read(0)
        except StrictJsonError as error:
            position = None if error.position is None else start + error.position
            moved = StrictJsonError(error.code, error.message, position)
            return 1, json_error("The JSON object in the message is not valid", moved)
        item = call_from_object(value, self.limits, self.implicit, start, end)
        if not looks_like_call(value, self.implicit):
            return 0, item
        return (2 if isinstance(item, ToolCall) else 1), item

    def _cut(self, start: int, end: int) -> None:
        index = next(i for i, (a, b) in enumerate(self.ranges) if a <= start and end <= b)
        a, b = self.ranges[index]
        self.ranges[index : index + 1] = [(a, start), (end, b)]

    def _nothing_found(self) -> CallError:
        write = f"Write one call: {_CALL}{EXAMPLE}{_CALL_END}."
        if self.unclosed:
            return call_error("only_reasoning", f"{_THINK} was never closed, so no call was read. {write}")
        if self.free_text():
            return call_error("no_tool_call", f"The message holds no tool call. {write}")
        if self.reasoning:
            return call_error("only_reasoning", f"The message holds reasoning and nothing else. {write}")
        return call_error("empty", f"The message is empty. {write}")
