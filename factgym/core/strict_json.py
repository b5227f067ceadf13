r"""JSON as a policy writes it: RFC 8259, read strictly and in linear time, with errors that a model can act on.

The standard library's C scanner reads; this module adds the rules that it lacks: no duplicate keys, no NaN or Infinity
(nor a number that overflows to one), bounded depth and length of numbers. Looser than the RFC in one point: control
characters may be unescaped inside a string, because models write quotations that way and nothing is ambiguous about
them. Lone surrogates, raw or escaped (`\ud800`), become U+FFFD, so that every value can be written as UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from json import JSONDecodeError, JSONDecoder
from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, check_fields


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one action; all are counts of at least 1.

    max_chars: characters of the whole action, content and arguments together. max_depth: nesting of one JSON value
    (at most 200). max_calls: tool calls in one action. max_name_chars: characters of a tool name. max_number_chars:
    characters of one JSON number, sign included (at most 640). Raises ConfigError for a value out of range.
    """

    max_chars: AtLeastOne = 200_000
    # Above the ceilings the interpreter's own bounds (recursion; digits of an int) would apply first.
    max_depth: Annotated[int, Field(ge=1, le=200)] = 32
    max_calls: AtLeastOne = 16
    max_name_chars: AtLeastOne = 64
    max_number_chars: Annotated[int, Field(ge=1, le=640)] = 64

    def __post_init__(self) -> None:
        check_fields(self)


DEFAULT_LIMITS = Limits()

JsonErrorCode = Literal[
    "invalid_json", "duplicate_key", "not_a_number", "number_too_long", "too_deep", "too_long", "bad_shape"
]

_SURROGATE = re.compile("[\ud800-\udfff]")
_EXCERPT_CHARS = 80
_EXCERPT_AFTER = 24


class StrictJsonError(ValueError):
    """A value that is not JSON as this package takes it.

    message: bounded, without the prefix in which a caller names the text. position: a character offset, None where the
    value was no text.
    """

    def __init__(self, code: JsonErrorCode, message: str, position: int | None) -> None:
        super().__init__(message)
        self.code: JsonErrorCode = code
        self.message = message
        self.position = position


def clean_text(text: str) -> str:
    """Return the text with lone surrogates replaced by U+FFFD, one for one, so that offsets do not change."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def excerpt(text: str) -> str:
    """Return a quoted, escaped beginning of a text, at most 80 characters."""
    quoted = repr(text[:_EXCERPT_CHARS])
    return quoted if len(quoted) <= _EXCERPT_CHARS else quoted[: _EXCERPT_CHARS - 1] + "…"


def type_name(value: object) -> str:
    """Return the bounded name of a value's type."""
    return clean_text(type(value).__name__[:_EXCERPT_CHARS])


def plain_json(value: object, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return a copy of `value` as plain JSON data; tuples become lists, instances of subclasses their base type.

    Raises StrictJsonError whose message names the path: too_deep (also for a value that contains itself), too_long
    (characters and values together above `max_chars`), not_a_number, number_too_long, duplicate_key, or bad_shape
    for a type that JSON lacks or a key that is no string.
    """
    return Copier(limits, limits.max_chars).copy(value)


class Copier:
    """Makes plain copies within a budget: the number of characters and values that may still be copied.

    Only the base types' own methods are called on values, so a subclass cannot run code or return other content.
    """

    # A depth-first walk. `path` holds one step for each open container: its length is the depth, and after a failure
    # it leads to the value at fault.

    __slots__ = ("budget", "limits", "path")

    def __init__(self, limits: Limits, budget: int) -> None:
        self.limits = limits
        self.budget = budget
        self.path: list[str | int] = []

    def copy(self, value: object) -> Any:
        """Return a plain copy; see `plain_json`."""
        self.path.clear()
        try:
            return self._copy(value)
        except StrictJsonError as error:
            if not self.path:
                raise
            steps = (f"[{step}]" if isinstance(step, int) else f".{step[:_EXCERPT_CHARS]}" for step in self.path)
            path = excerpt("".join(steps).removeprefix("."))
            raise StrictJsonError(error.code, f"at {path}: {error.message}", None) from None

    def spend(self, amount: int) -> None:
        """Subtract from the budget. Raises StrictJsonError too_long, and subtracts nothing, when it is too small."""
        if amount > self.budget:
            message = f"the message has more than {self.limits.max_chars} characters and values"
            raise StrictJsonError("too_long", message, None)
        self.budget -= amount

    def _copy(self, value: Any) -> Any:
        """Return a copy made of plain JSON types within the limits; each node and each character spends the budget."""
        kind = type(value)
        if issubclass(kind, str):
            text = str.__str__(value)
            self.spend(len(text) + 1)
            return clean_text(text)
        self.spend(1)
        if value is None or kind is bool:
            return value
        if issubclass(kind, (dict, list, tuple)):
            if len(self.path) >= self.limits.max_depth:
                message = f"nested deeper than {self.limits.max_depth} levels, or containing itself"
                raise StrictJsonError("too_deep", message, None)
            if issubclass(kind, dict):
                return self._copy_object(value)
            values = (list if issubclass(kind, list) else tuple).__iter__(value)
            return [self._copy_item(item, index) for index, item in enumerate(values)]
        if issubclass(kind, int):
            number = int.__int__(value)
            # Digits are counted only near the bound: an integer may be a megabyte long.
            bits, limit = number.bit_length(), self.limits.max_number_chars
            if bits > 3 * limit - 6 and (bits > 4 * limit or len(str(number)) > limit):
                raise StrictJsonError("number_too_long", f"a number of more than {limit} characters", None)
            return number
        if issubclass(kind, float):
            real = float.__float__(value)
            if not math.isfinite(real):
                raise StrictJsonError("not_a_number", f"{real} is no JSON number; use a finite number or null", None)
            return real
        raise StrictJsonError("bad_shape", f"a value of type {type_name(value)}, which JSON does not have", None)

    def _copy_object(self, values: dict[object, object]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in dict.items(values):
            if not issubclass(type(key), str):
                raise StrictJsonError("bad_shape", f"a key of type {type_name(key)}; keys must be strings", None)
            name = self._copy(key)
            result[name] = self._copy_item(value, name)
        if len(result) != dict.__len__(values):
            raise StrictJsonError("duplicate_key", "two keys that are the same text", None)
        return result

    def _copy_item(self, value: object, step: str | int) -> Any:
        self.path.append(step)
        copy = self._copy(value)
        self.path.pop()
        return copy


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string, or an unclosed one up to the end of the text: it always matches, so no character is read twice."""
_FLAT = re.compile(r'\{[^][{}"]*+(?:"[^"\\]*+"[^][{}"]*+)*+\}')
"""An object of one level, whose strings have no escapes: it needs no scan for depth."""

_BRACKETS = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_TOKENS = re.compile(rf"{_STRING}|[\[\]{{}}:]|-?[0-9][0-9eE.+-]*+|-?(?:NaN|Infinity)", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*+")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")

_PROBLEMS = (
    ("Expecting value", "expected a JSON value"),
    ("Expecting property name", "expected a key in double quotes"),
    ("Expecting ':'", "expected ':' after the key"),
    ("Expecting ','", "expected ',' or a closing bracket"),
    ("Unterminated string", "this string is never closed"),
    ("Invalid \\u", "expected four hexadecimal digits after \\u"),
    ("Invalid \\", "unknown escape; write a backslash itself as \\\\"),
)
"""Beginning of the scanner's message -> ours."""
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
    """Return the value of a JSON text, white space around it allowed.

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
    """Return the position of the next character that is no JSON white space."""
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]  # an empty match is a match


class Reader:
    """Reads JSON values inside a longer text, which must hold no lone surrogates."""

    __slots__ = ("_escapes", "_faults", "_scan", "_shallow", "_unclosed", "limits", "text", "wasted")

    def __init__(self, text: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self.text = text
        self.limits = limits
        self.wasted = 0
        """Characters read for values that were refused; a caller that tries many positions bounds it."""
        self._scan = _decoder(limits.max_number_chars).scan_once  # type: ignore[attr-defined]  # typeshed leaves it out
        # Few brackets cannot nest deeply: most texts need no scan for depth.
        self._shallow = text.count("{") + text.count("[") <= limits.max_depth
        self._escapes = "\\" in text and _SURROGATE_ESCAPE.search(text) is not None
        self._faults: dict[int, StrictJsonError] = {}  # start -> the value's fault
        self._unclosed: set[int] = set()  # brackets of which a scan to the end of the text found no partner

    def read(self, start: int) -> tuple[Any, int]:
        """Return the value that begins at `start`, and its end.

        Raises StrictJsonError with a position in the whole text and a message that counts from `start`.
        """
        if start in self._faults:
            raise self._faults[start]
        try:
            return self._read(start)
        except StrictJsonError as fault:
            self._faults[start] = fault
            raise

    def _read(self, start: int) -> tuple[Any, int]:
        """Return the value that starts at `start` and the position after it.

        `wasted` adds up the characters of failed attempts, so that a text with many false starts stays linear.
        """
        end = start
        if not self._shallow:
            # The scanner recurses as deep as the text nests, so depth is tested first.
            flat = _FLAT.match(self.text, start)
            end = flat.end() if flat else self.closing(start, self.limits.max_depth) or len(self.text)
        try:
            value, stop = self._scan(self.text, start)
        except JSONDecodeError as error:
            self.wasted += max(end, error.pos) - start
            raise self._syntax_error(error.msg, error.pos, start) from None
        except StopIteration as error:  # the position at which a value was expected
            self.wasted += max(end, error.value) - start
            raise self._syntax_error("Expecting value", error.value, start) from None
        except _RejectedError as error:
            self.wasted += len(self.text) - start
            position = _locate_fault(error.code, self.text, start, self.limits)
            raise self.error(error.code, error.message, position, start) from None
        except RecursionError:  # the caller's own stack was nearly full
            self.wasted += len(self.text) - start
            raise self._too_deep(start, start) from None
        return (plain_json(value, self.limits) if self._escapes else value), stop

    def span(self, start: int, stop: int) -> int | None:
        """Return the end of the brackets that open at `start`, valid JSON or not; None if not closed before `stop`."""
        # Bracket matching over tokens in which a string is one token, so that brackets inside strings do not count.
        depth = 0
        for match in _BRACKETS.finditer(self.text, start, stop):
            bracket = match[0][0]
            if bracket in "{[":
                depth += 1
            elif bracket != '"':
                depth -= 1
            if depth <= 0:
                return match.end()
        return None

    def fault_within(self, start: int, end: int) -> StrictJsonError | None:
        """Return the fault of the value read at `start` where it would be the same if the text ended at `end`."""
        fault = self._faults.get(start)
        within = fault is not None and fault.position is not None and fault.position + _EXCERPT_AFTER <= end
        return fault if within else None

    def is_unclosed(self, start: int) -> bool:
        """Whether a scan has shown that the bracket at `start` is never closed."""
        return start in self._unclosed

    def closing(self, start: int, max_depth: int | None = None) -> int | None:
        """Return the end of the brackets that open at `start`, valid JSON or not; None if they are never closed.

        A scan that finds no end is not repeated for the brackets that it leaves open: they are never closed either.
        Raises StrictJsonError where they nest deeper than `max_depth`.
        """
        # Bracket matching with a stack. Invariant: `still_open` holds the positions of the brackets read so far that have
        # no partner yet, and a bracket has the same partner in every scan that reads it outside of strings.
        if max_depth is None and start in self._unclosed:
            return None
        still_open: list[int] = []
        for match in _BRACKETS.finditer(self.text, start):
            bracket = match[0][0]
            if bracket in "{[":
                still_open.append(match.start())
                if max_depth is not None and len(still_open) > max_depth:
                    self.wasted += match.start() - start
                    raise self._too_deep(match.start(), start)
            elif bracket != '"':
                still_open.pop()
            if not still_open:
                return match.end()
        self._unclosed.update(still_open)
        return None

    def error(self, code: JsonErrorCode, problem: str, position: int, start: int) -> StrictJsonError:
        """Return `problem` with its location: line and column from `start`, and an escaped excerpt."""
        line = self.text.count("\n", start, position) + 1
        column = position - max(self.text.rfind("\n", start, position) + 1, start) + 1
        near = excerpt(self.text[max(start, position - 24) : position + _EXCERPT_AFTER])
        location = f"line {line}, column {column} (character {position - start})"
        return StrictJsonError(code, f"{problem}, at {location}, near {near}", position)

    def _syntax_error(self, cause: str, position: int, start: int) -> StrictJsonError:
        """Return the error in words that name the repair, the same for every Python version's decoder."""
        if cause.startswith("Illegal trailing comma"):  # Python 3.13 points at the comma, 3.12 at the next character
            cause, position = "Expecting value", skip_space(self.text, position + 1)
        character = self.text[position : position + 1]
        problem = next((message for prefix, message in _PROBLEMS if cause.startswith(prefix)), cause)
        if character in ("}", "]") and self.text[max(start, position - 80) : position].rstrip().endswith(","):
            problem = f"remove the trailing comma before {character!r}"
        elif cause.startswith("Expecting"):
            quoted = excerpt(character) if character else "the end of the text"
            problem += f", found {quoted}{_HINTS.get(character, '')}"
        return self.error("invalid_json", problem, position, start)

    def _too_deep(self, position: int, start: int) -> StrictJsonError:
        return self.error("too_deep", f"nested deeper than {self.limits.max_depth} levels", position, start)


class _RejectedError(Exception):
    """Raised by the scanner's hooks, which know the fault but not its position."""

    def __init__(self, code: JsonErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: JsonErrorCode = code
        self.message = message


@lru_cache(maxsize=16)
def _decoder(max_number_chars: int) -> JSONDecoder:
    def check_length(digits: str) -> str:
        if len(digits) > max_number_chars:
            message = f"a number of {len(digits)} characters, {max_number_chars} are allowed"
            raise _RejectedError("number_too_long", message)
        return digits

    def parse_float(digits: str) -> float:
        value = float(check_length(digits))
        if math.isinf(value):
            raise _RejectedError("not_a_number", f"the number {digits} is too large for a 64-bit float")
        return value

    def refuse_constant(name: str) -> Any:
        raise _RejectedError("not_a_number", f"{name} is no JSON number; write a finite number or null")

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            earlier: set[str] = set()
            for key, _ in pairs:
                if key in earlier:
                    raise _RejectedError("duplicate_key", f"the key {excerpt(key)} stands twice in one object")
                earlier.add(key)
        return result

    return JSONDecoder(
        object_pairs_hook=unique_keys,
        parse_int=lambda digits: int(check_length(digits)),
        parse_float=parse_float,
        parse_constant=refuse_constant,
        strict=False,
    )


def _locate_fault(code: JsonErrorCode, text: str, start: int, limits: Limits) -> int:
    """Return the first position from `start` that shows the fault; `start` itself if none does.

    One pass over the tokens, with a stack of the keys of each open object.
    """
    open_objects: list[set[str]] = []
    string: re.Match[str] | None = None
    for match in _TOKENS.finditer(text, start):
        token = match[0]
        if code != "duplicate_key":
            if token[0] != '"' and (
                len(token) > limits.max_number_chars if code == "number_too_long" else _is_infinite(token)
            ):
                return match.start()
            continue
        if token in ("{", "["):
            open_objects.append(set())
        elif token in ("}", "]") and open_objects:
            open_objects.pop()
        elif token == ":" and string is not None and open_objects:
            key = str(_decoder(1).raw_decode(string[0])[0]) if "\\" in string[0] else string[0][1:-1]
            if key in open_objects[-1]:
                return string.start()
            open_objects[-1].add(key)
        string = match if token[0] == '"' else None
    return start


def _is_infinite(token: str) -> bool:
    try:
        return not math.isfinite(float(token))
    except ValueError:
        return False


def in_json(target: str, text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """Return the range of a text in `text[start:end]`: plain, or escaped in either of the two usual ways, once or twice; or None."""
    end = len(text) if end is None else end
    for form in (
        target,
        _escaped_ascii(target),
        _escaped(target),
        _escaped_ascii(_escaped_ascii(target)),
        _escaped(_escaped(target)),
    ):
        position = text.find(form, start, end) if form else -1
        if position >= 0:
            return position, position + len(form)
    return None


def _escaped_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
