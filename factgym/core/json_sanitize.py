"""Plain JSON data out of Python data: what a caller hands over is copied, checked and bounded before it is used.

A dict that a policy's client built may hold itself, hold numpy scalars or keys that are no strings, or share one list
a million times. The copy holds exact `dict`, `list`, `str`, `int`, `float`, `bool` and None, and can be written as
UTF-8. It reads values through the base classes only, so that no overridden method of a subclass runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Literal, cast

from factgym.core.limits import DEFAULT_LIMITS, Limits

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
    shown = repr(text[:_EXCERPT_CHARS])
    return shown if len(shown) <= _EXCERPT_CHARS else shown[: _EXCERPT_CHARS - 1] + "…"


def plain_json(value: object, limits: Limits = DEFAULT_LIMITS) -> Any:
    """A copy of `value` as plain JSON data; tuples become lists, instances of subclasses their base type.

    Raises StrictJsonError whose message names the path: too_deep (a value that contains itself, too), too_long
    (characters and values together above `max_chars`), not_a_number, number_too_long, duplicate_key, or bad_shape
    for a type that JSON lacks or a key that is no string.
    """
    return Copier(limits, limits.max_chars).copy(value)


class Copier:
    """Makes plain copies against one budget: `left` counts the characters and values that may still come."""

    __slots__ = ("left", "limits", "path")

    def __init__(self, limits: Limits, left: int) -> None:
        self.limits = limits
        self.left = left
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
        if amount > self.left:
            message = f"the message has more than {self.limits.max_chars} characters and values"
            raise StrictJsonError("too_long", message, None)
        self.left -= amount

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
        bits, most = value.bit_length(), self.limits.max_number_chars
        if bits > 3 * most - 6 and (bits > 4 * most or len(str(value)) > most):
            raise StrictJsonError("number_too_long", f"a number of more than {most} characters", None)
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
