"""A quick yes: closures compiled from a schema that recognise valid arguments.

`jsonschema` decides what is wrong and says so, but spends most of an environment step on saying that nothing is. A
compiled check answers True only for what `jsonschema` would accept; whatever else it meets (a rejected value, a
keyword that it does not know) it leaves to `jsonschema`. The tests compare the two on generated values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

_NOTES = frozenset({"description", "title", "default", "$schema", "$id", "examples"})


class Unsupported(Exception):  # noqa: N818 - a schema that is left to jsonschema, not an error
    """The schema uses a keyword that has no compiled form."""


def compile_accept(schema: Mapping[str, Any]) -> Check:
    """A function that is True only for instances which the schema accepts. Never raises, neither here nor there."""
    try:
        return _compile(schema)
    except Unsupported:
        return _never


def _never(value: Any) -> bool:
    return False


def _compile(schema: Mapping[str, Any]) -> Check:
    if "anyOf" in schema:
        _only(schema, {"anyOf"})
        arms = [_compile(arm) for arm in schema["anyOf"]]
        return lambda value: any(arm(value) for arm in arms)
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _COMPILERS:
        raise Unsupported
    return _COMPILERS[kind](schema)


def _only(schema: Mapping[str, Any], supported: set[str]) -> None:
    if not schema.keys() <= supported | _NOTES:
        raise Unsupported


def _string(schema: Mapping[str, Any]) -> Check:
    if "enum" in schema:
        _only(schema, {"type", "enum"})
        allowed = frozenset(value for value in schema["enum"] if isinstance(value, str))
        return lambda value: type(value) is str and value in allowed
    _only(schema, {"type", "minLength", "maxLength"})
    lower, upper = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
    return lambda value: type(value) is str and lower <= len(value) <= upper


def _integer(schema: Mapping[str, Any]) -> Check:
    _only(schema, {"type", "minimum", "maximum"})
    lower, upper = schema.get("minimum", float("-inf")), schema.get("maximum", float("inf"))
    return lambda value: type(value) is int and lower <= value <= upper


def _number(schema: Mapping[str, Any]) -> Check:
    _only(schema, {"type", "minimum", "maximum"})
    lower, upper = schema.get("minimum", float("-inf")), schema.get("maximum", float("inf"))
    return lambda value: type(value) in (int, float) and lower <= value <= upper


def _boolean(schema: Mapping[str, Any]) -> Check:
    _only(schema, {"type"})
    return lambda value: type(value) is bool


def _null(schema: Mapping[str, Any]) -> Check:
    _only(schema, {"type"})
    return lambda value: value is None


def _array(schema: Mapping[str, Any]) -> Check:
    _only(schema, {"type", "items", "minItems", "maxItems"})
    item = _compile(schema["items"])
    lower, upper = schema.get("minItems", 0), schema.get("maxItems", float("inf"))
    return lambda value: type(value) is list and lower <= len(value) <= upper and all(map(item, value))


def _object(schema: Mapping[str, Any]) -> Check:
    _only(schema, {"type", "properties", "required", "additionalProperties"})
    if schema.get("additionalProperties") is not False:
        raise Unsupported
    checks = {name: _compile(inner) for name, inner in schema.get("properties", {}).items()}
    required = tuple(schema.get("required", ()))

    def accept(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, inner in value.items():
            check = checks.get(name)
            if check is None or not check(inner):
                return False
        return True

    return accept


_COMPILERS: dict[str, Callable[[Mapping[str, Any]], Check]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "array": _array,
    "object": _object,
}
