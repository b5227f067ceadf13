r"""JSON as a policy writes it: RFC 8259, read strictly and in linear time, with errors that a model can act on.

The standard library's C scanner does the reading. Around it stand the rules that it lacks: no duplicate keys, no NaN
or Infinity (nor a number that overflows to one), bounded depth, bounded length of numbers.

One thing is looser than the RFC: control characters, newline and tab above all, may stand unescaped inside a string,
because models write quotations that way and nothing is ambiguous about them. Lone surrogates, raw or escaped (`\ud800`),
become U+FFFD, so that whatever was read can be written as UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from json import JSONDecodeError, JSONDecoder
from typing import Any, Literal, cast

from factgym.core.errors import ConfigError

_CEILINGS = {"max_depth": 200, "max_number_chars": 640}
"""Above these the interpreter's own bounds (recursion; digits of an int, at least 640) would speak first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one action; all are counts of at least 1.

    max_chars: characters of the whole action, content and arguments together. max_depth: nesting of one JSON value
    (at most 200). max_calls: tool calls in one action. max_name_chars: characters of a tool name. max_number_chars:
    characters of one JSON number, sign included (at most 640). Raises ConfigError for a value out of range.
    """

    max_chars: int = 200_000
    max_depth: int = 32
    max_calls: int = 16
    max_name_chars: int = 64
    max_number_chars: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            top = _CEILINGS.get(field.name)
            if type(value) is not int or value < 1 or (top is not None and value > top):
                bounds = f"from 1 to {top}" if top else "of at least 1"
                raise ConfigError(f"Limits.{field.name} must be a whole number {bounds}, not {value!r}")


DEFAULT_LIMITS = Limits()


JsonErrorCode = Literal[
    "invalid_json", "duplicate_key", "not_a_number", "number_too_long", "too_deep", "too_long", "bad_shape"
]

_SURROGATE = re.compile("[\ud800-\udfff]")
_EXCERPT_CHARS = 80


class StrictJsonError(ValueError):
    """A value that is not JSON as this package takes it.

    message: bounded, without the prefix that a caller adds to say which text it is about. position: a character
    offset, None where the value was no text.
    """

    def __init__(self, code: JsonErrorCode, message: str, position: int | None) -> None:
        super().__init__(message)
        self.code: JsonErrorCode = code
        self.message = message
        self.position = position


def clean_text(text: str) -> str:
    """The same text with lone surrogates replaced by U+FFFD, one for one, so that offsets stay."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def excerpt(text: str) -> str:
    """A quoted, escaped beginning of a text, at most 80 characters."""
    quoted = repr(text[:_EXCERPT_CHARS])
    return quoted if len(quoted) <= _EXCERPT_CHARS else quoted[: _EXCERPT_CHARS - 1] + "…"


def plain_json(value: object, limits: Limits = DEFAULT_LIMITS) -> Any:
    """A copy of `value` as plain JSON data; tuples become lists, instances of subclasses their base type.

    Raises StrictJsonError whose message names the path: too_deep (a value that contains itself, too), too_long
    (characters and values together above `max_chars`), not_a_number, number_too_long, duplicate_key, or bad_shape
    for a type that JSON lacks or a key that is no string.
    """
    return Copier(limits, limits.max_chars).copy(value)


class Copier:
    """Makes plain copies against one budget: `budget` is the number of characters and values that may still come."""

    __slots__ = ("budget", "limits", "path")

    def __init__(self, limits: Limits, budget: int) -> None:
        self.limits = limits
        self.budget = budget
        self.path: list[str] = []
        """Where a failure lies, innermost step first."""

    def copy(self, value: object) -> Any:
        """A plain copy; see `plain_json`."""
        self.path = []
        try:
            return self._copy(value, 0)
        except StrictJsonError as error:
            if not self.path:
                raise
            where = excerpt("".join(reversed(self.path)).removeprefix("."))
            raise StrictJsonError(error.code, f"at {where}: {error.message}", None) from None

    def spend(self, amount: int) -> None:
        """Take from the budget. Raises StrictJsonError too_long when it does not suffice; what is left stays."""
        if amount > self.budget:
            message = f"the message has more than {self.limits.max_chars} characters and values"
            raise StrictJsonError("too_long", message, None)
        self.budget -= amount

    def _copy(self, value: object, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(cast(str, value))
        self.spend(1)
        if value is None or kind is bool:
            return value
        if kind is dict or issubclass(kind, dict):
            return self._object(cast(dict[object, object], value), depth + 1)
        if issubclass(kind, list):
            return self._array(list.__iter__(cast(list[object], value)), depth + 1)
        if issubclass(kind, tuple):
            return self._array(tuple.__iter__(cast(tuple[object, ...], value)), depth + 1)
        return self._scalar(value, kind)

    def _scalar(self, value: Any, kind: type) -> str | int | float:
        if issubclass(kind, int):
            return self._integer(int.__int__(value))
        if issubclass(kind, float):
            return self._float(float.__float__(value))
        if issubclass(kind, str):
            return self._text(str.__str__(value))
        raise StrictJsonError("bad_shape", f"a value of type {type_name(value)}, which JSON does not have", None)

    def _text(self, value: str) -> str:
        self.spend(len(value) + 1)
        return clean_text(value)

    def _integer(self, value: int) -> int:
        # Digits are counted only near the bound: an integer may be a megabyte long.
        bits, max_chars = value.bit_length(), self.limits.max_number_chars
        if bits > 3 * max_chars - 6 and (bits > 4 * max_chars or len(str(value)) > max_chars):
            raise StrictJsonError("number_too_long", f"a number of more than {max_chars} characters", None)
        return value

    def _float(self, value: float) -> float:
        if not math.isfinite(value):
            raise StrictJsonError("not_a_number", f"{value} is no JSON number; use a finite number or null", None)
        return value

    def _deeper(self, depth: int) -> None:
        if depth > self.limits.max_depth:
            raise StrictJsonError(
                "too_deep", f"nested deeper than {self.limits.max_depth} levels, or containing itself", None
            )

    def _array(self, values: Iterator[object], depth: int) -> list[Any]:
        self._deeper(depth)
        result: list[Any] = []
        for value in values:
            try:
                result.append(self._copy(value, depth))
            except StrictJsonError:
                self.path.append(f"[{len(result)}]")
                raise
        return result

    def _object(self, values: dict[object, object], depth: int) -> dict[str, Any]:
        self._deeper(depth)
        result: dict[str, Any] = {}
        for given, value in dict.items(values):
            key = self._key(given)
            try:
                result[key] = self._copy(value, depth)
            except StrictJsonError:
                self.path.append(f".{key[:_EXCERPT_CHARS]}")
                raise
        if len(result) != dict.__len__(values):
            raise StrictJsonError("duplicate_key", "two keys that are the same text", None)
        return result

    def _key(self, key: object) -> str:
        if type(key) is str:
            return self._text(key)
        if issubclass(type(key), str):
            return self._text(str.__str__(cast(str, key)))
        raise StrictJsonError("bad_shape", f"a key of type {type_name(key)}; keys must be strings", None)


def type_name(value: object) -> str:
    """The bounded name of a value's type."""
    return clean_text(type(value).__name__[:_EXCERPT_CHARS])


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string, or an unclosed one up to the end of the text: it always matches, so no character is looked at twice."""

_BRACKETS = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_TOKENS = re.compile(rf"{_STRING}|[\[\]{{}}:]|-?[0-9][0-9eE.+-]*+|-?(?:NaN|Infinity)", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*+")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")

_EXPECTED = (
    ("Expecting value", "expected a JSON value"),
    ("Expecting property name", "expected a key in double quotes"),
    ("Expecting ':'", "expected ':' after the key"),
    ("Expecting ','", "expected ',' or a closing bracket"),
    ("Unterminated string", "this string is never closed"),
    ("Invalid \\u", "expected four hexadecimal digits after \\u"),
    ("Invalid \\", "unknown escape; write a backslash itself as \\\\"),
)
_HINTS = {
    "'": "; JSON strings and keys take double quotes",
    "T": "; write true in lower case",
    "F": "; write false in lower case",
    "N": "; write null",
    "/": "; JSON has no comments",
    "#": "; JSON has no comments",
    "<": "; close every string, bracket and brace first",
    "": "; close every string, bracket and brace",
}


def loads(text: str, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The value of a JSON text, white space around it allowed.

    Raises StrictJsonError; its `position` is a character offset in `text`.
    """
    if len(text) > limits.max_chars:
        raise StrictJsonError("too_long", f"{len(text)} characters, {limits.max_chars} are allowed", None)
    text = clean_text(text)
    start = skip_space(text, 0)
    reader = Reader(text, limits)
    value, end = reader.read(start)
    end = skip_space(text, end)
    if end < len(text):
        raise reader.error("invalid_json", "expected nothing after the JSON value", end, start)
    return value


def skip_space(text: str, position: int) -> int:
    """The position of the next character that is no JSON white space."""
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]  # an empty match is a match


class Reader:
    """Reads JSON values that stand somewhere in a longer text, which must hold no lone surrogates."""

    __slots__ = ("_decode", "_escapes", "_shallow", "limits", "text", "wasted")

    def __init__(self, text: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self.text = text
        self.limits = limits
        self.wasted = 0
        """Characters looked at for values that were refused; whoever tries many places bounds it."""
        self._decode = _decoder(limits.max_number_chars).raw_decode
        # Few brackets cannot nest deeply: most texts need no scan for depth.
        self._shallow = text.count("{") + text.count("[") <= limits.max_depth
        self._escapes = "\\u" in text and _SURROGATE_ESCAPE.search(text) is not None

    def read(self, start: int) -> tuple[Any, int]:
        """The value that begins at `start`, and where it ends.

        Raises StrictJsonError with a position in the whole text and a message that counts from `start`.
        """
        looked = start if self._shallow else self._check_depth(start)
        try:
            value, end = self._decode(self.text, start)
        except JSONDecodeError as error:
            self.wasted += max(looked, error.pos) - start
            raise self._syntax_error(error.msg, error.pos, start) from None
        except _RejectedError as error:
            self.wasted += len(self.text) - start
            position = _locate(error.code, self.text, start, self.limits)
            raise self.error(error.code, error.message, position, start) from None
        except RecursionError:  # the caller's own stack was nearly full
            self.wasted += len(self.text) - start
            raise self._too_deep(start, start) from None
        return (plain_json(value, self.limits) if self._escapes else value), end

    def span(self, start: int, stop: int) -> int | None:
        """Where the brackets that open at `start` are balanced again, valid JSON or not; None if not before `stop`."""
        depth = 0
        for match in _BRACKETS.finditer(self.text, start, stop):
            kind = match[0][0]
            if kind in "{[":
                depth += 1
            elif kind != '"':
                depth -= 1
                if depth <= 0:
                    return match.end()
        return None

    def error(self, code: JsonErrorCode, problem: str, position: int, start: int) -> StrictJsonError:
        """`problem` with the place where it was seen: line and column from `start`, and an escaped excerpt."""
        line = self.text.count("\n", start, position) + 1
        column = position - max(self.text.rfind("\n", start, position) + 1, start) + 1
        near = excerpt(self.text[max(start, position - 24) : position + 24])
        location = f"line {line}, column {column} (character {position - start})"
        return StrictJsonError(code, f"{problem}, at {location}, near {near}", position)

    def _syntax_error(self, cause: str, position: int, start: int) -> StrictJsonError:
        if cause.startswith("Illegal trailing comma"):  # Python 3.13 points at the comma, 3.12 at what follows it
            cause, position = "Expecting value", skip_space(self.text, position + 1)
        character = self.text[position : position + 1]
        problem = next((ours for theirs, ours in _EXPECTED if cause.startswith(theirs)), cause)
        if character in ("}", "]") and self.text[max(start, position - 80) : position].rstrip().endswith(","):
            problem = f"remove the trailing comma before {character!r}"
        elif cause.startswith("Expecting"):
            problem += (
                f", found {excerpt(character) if character else 'the end of the text'}{_HINTS.get(character, '')}"
            )
        return self.error("invalid_json", problem, position, start)

    def _check_depth(self, start: int) -> int:
        """Where the brackets are balanced; before the scanner runs, because it recurses as deep as the text says."""
        depth = 0
        for match in _BRACKETS.finditer(self.text, start):
            kind = match[0][0]
            if kind in "{[":
                depth += 1
                if depth > self.limits.max_depth:
                    self.wasted += match.start() - start
                    raise self._too_deep(match.start(), start)
            elif kind != '"':
                depth -= 1
            if depth <= 0:
                return match.end()
        return len(self.text)

    def _too_deep(self, position: int, start: int) -> StrictJsonError:
        return self.error("too_deep", f"nested deeper than {self.limits.max_depth} levels", position, start)


class _RejectedError(Exception):
    """The scanner's hooks know what is wrong but not where."""

    def __init__(self, code: JsonErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: JsonErrorCode = code
        self.message = message


@lru_cache(maxsize=16)
def _decoder(max_number_chars: int) -> JSONDecoder:
    def check_length(digits: str) -> None:
        if len(digits) > max_number_chars:
            raise _RejectedError(
                "number_too_long", f"a number of {len(digits)} characters, {max_number_chars} are allowed"
            )

    def parse_int(digits: str) -> int:
        check_length(digits)
        return int(digits)

    def parse_float(digits: str) -> float:
        check_length(digits)
        value = float(digits)
        if math.isinf(value):
            raise _RejectedError("not_a_number", f"the number {digits} is too large for a 64-bit float")
        return value

    return JSONDecoder(
        object_pairs_hook=_unique,
        parse_int=parse_int,
        parse_float=parse_float,
        parse_constant=_refuse_constant,
        strict=False,
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _RejectedError("duplicate_key", f"the key {excerpt(twice)} stands twice in one object")
    return result


def _refuse_constant(name: str) -> Any:
    raise _RejectedError("not_a_number", f"{name} is no JSON number; write a finite number or null")


def _locate(code: JsonErrorCode, text: str, start: int, limits: Limits) -> int:
    """The first place after `start` that shows the fault; `start` itself if none does."""
    if code == "duplicate_key":
        places = _duplicate_keys(text, start)
    else:
        places = _tokens_that(_is_too_long(limits) if code == "number_too_long" else _is_infinite, text, start)
    return next(places, start)


def _tokens_that(fits: Callable[[str], bool], text: str, start: int) -> Iterator[int]:
    return (match.start() for match in _TOKENS.finditer(text, start) if match[0][0] != '"' and fits(match[0]))


def _is_too_long(limits: Limits) -> Callable[[str], bool]:
    return lambda token: len(token) > limits.max_number_chars


def _is_infinite(token: str) -> bool:
    if token[-1].isalpha():
        return True
    try:
        return math.isinf(float(token))
    except ValueError:
        return False


def _duplicate_keys(text: str, start: int) -> Iterator[int]:
    objects: list[set[str]] = []
    string: re.Match[str] | None = None
    for match in _TOKENS.finditer(text, start):
        kind = match[0][0]
        if kind in "{[":
            objects.append(set())
        elif kind in "}]" and objects:
            objects.pop()
        elif kind == ":" and string is not None and objects:
            key = _string_value(string[0])
            if key in objects[-1]:
                yield string.start()
            objects[-1].add(key)
        string = match if kind == '"' else None


def _string_value(token: str) -> str:
    return str(_decoder(1).raw_decode(token)[0]) if "\\" in token else token[1:-1]


def in_json(target: str, text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """The range of a text in `text[start:end]`: plain, or escaped in either of the two usual ways; None if neither."""
    for form in (target, json.dumps(target)[1:-1], json.dumps(target, ensure_ascii=False)[1:-1]):
        at = text.find(form, start, len(text) if end is None else end) if form else -1
        if at >= 0:
            return at, at + len(form)
    return None
