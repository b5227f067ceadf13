"""Fast tests of plain JSON data against a JSON Schema, for schemas that are checked a thousand times a second.

`jsonschema` walks a schema again for each value and builds an object for each keyword; here the walk is done once and
leaves a function for each object, array and condition. Errors are worded by `jsonschema` alone, which is asked where a
test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

Test = Callable[[Any], bool]
Kinds = frozenset[type]
"""Types that a value may have."""

_KINDS: Mapping[str, Kinds] = {
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({NoneType}),
}
_ALL_KINDS = frozenset().union(*_KINDS.values())
_NOTES = frozenset({"$schema", "$id", "$defs", "title", "description", "default"})
_SIZES = {"minLength": (str, 1), "maxLength": (str, -1), "minItems": (list, 1), "maxItems": (list, -1)}
"""Keyword of a length -> the type that it applies to, and 1 for a lower bound or -1 for an upper one."""
_BOUNDS = {"minimum": 1, "maximum": -1}


def schema_test(schema: Mapping[str, Any]) -> Test:
    """Compile a schema to a test that accepts nothing which the schema rejects.

    It rejects more in one point: 3.0 is no integer. Raises TypeError for a keyword, reference or constant that it does
    not know.
    """
    kinds, test = _compile(schema, schema)
    return lambda value: type(value) in kinds and (test is None or test(value))


def _compile(schema: Mapping[str, Any] | bool, root: Mapping[str, Any]) -> tuple[Kinds, Test | None]:
    """Return the types that a value may have, and the test of one that has; None where the type is all."""
    if isinstance(schema, bool):
        return (_ALL_KINDS if schema else frozenset()), None
    if "$ref" in schema:
        prefix, _, name = schema["$ref"].rpartition("/")
        if prefix != "#/$defs" or schema.keys() - _NOTES != {"$ref"}:
            raise TypeError(f"no fast test for the reference {schema!r:.200}")
        return _compile(root["$defs"][name], root)
    named = schema.get("type", tuple(_KINDS))
    kinds = frozenset().union(*(_KINDS[name] for name in ([named] if isinstance(named, str) else named)))
    tests = [test for build in (_choices, _sizes, _object, _array, _combined) if (test := build(schema, root))]
    keywords = {"type", "const", "enum", *_SIZES, *_BOUNDS, *_OBJECT, *_ARRAY, *_COMBINED}
    if unknown := schema.keys() - keywords - _NOTES:
        raise TypeError(f"no fast test for the keywords {', '.join(sorted(unknown))}")
    if len(tests) < 2:
        return kinds, (tests[0] if tests else None)

    return kinds, lambda value: all(test(value) for test in tests)


def _choices(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Test | None:
    if "const" not in schema and "enum" not in schema:
        return None
    choices = [schema["const"]] if "const" in schema else schema["enum"]
    if ("const" in schema and "enum" in schema) or not all(type(value) in (str, int, NoneType) for value in choices):
        raise TypeError(f"no fast test for the choices {schema!r:.200}")
    return lambda value: value in choices and type(value) is not bool  # True equals 1 in Python, and not in JSON


def _sizes(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Test | None:
    sizes = [(*_SIZES[keyword], schema[keyword]) for keyword in _SIZES if keyword in schema]
    bounds = [(_BOUNDS[keyword], schema[keyword]) for keyword in _BOUNDS if keyword in schema]
    if not sizes and not bounds:
        return None

    def test(value: Any) -> bool:
        kind = type(value)
        for applies, sign, limit in sizes:
            if kind is applies and sign * len(value) < sign * limit:
                return False
        if bounds and kind in (int, float):
            return all(sign * value >= sign * limit for sign, limit in bounds)
        return True

    return test


_OBJECT = ("properties", "required", "additionalProperties")


def _object(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Test | None:
    if not any(keyword in schema for keyword in _OBJECT):
        return None
    required = tuple(schema.get("required", ()))
    properties = {name: _compile(inner, root) for name, inner in schema.get("properties", {}).items()}
    other = _compile(schema.get("additionalProperties", True), root)

    def test(value: Any) -> bool:
        if type(value) is not dict:
            return True
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            kinds, inner = properties.get(name, other)
            if type(item) not in kinds or (inner is not None and not inner(item)):
                return False
        return True

    return test


_ARRAY = ("items", "prefixItems")


def _array(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Test | None:
    if not any(keyword in schema for keyword in _ARRAY):
        return None
    first = [_compile(inner, root) for inner in schema.get("prefixItems", ())]
    kinds, inner = _compile(schema.get("items", True), root)

    def test(value: Any) -> bool:
        if type(value) is not list:
            return True
        for (item_kinds, item_test), item in zip(first, value, strict=False):
            if type(item) not in item_kinds or (item_test is not None and not item_test(item)):
                return False
        for item in value[len(first) :] if first else value:
            if type(item) not in kinds or (inner is not None and not inner(item)):
                return False
        return True

    return test


_COMBINED = ("anyOf", "allOf", "not", "if", "then", "else")


def _combined(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Test | None:
    def compile_whole(inner: Mapping[str, Any] | bool) -> Test:
        kinds, test = _compile(inner, root)
        return lambda value: type(value) in kinds and (test is None or test(value))

    parts: list[Test] = [compile_whole(inner) for inner in schema.get("allOf", ())]
    if "anyOf" in schema:
        arms = [compile_whole(inner) for inner in schema["anyOf"]]
        parts.append(lambda value: any(arm(value) for arm in arms))
    if "not" in schema:
        refused = compile_whole(schema["not"])
        parts.append(lambda value: not refused(value))
    if "if" in schema:
        condition, then, otherwise = (compile_whole(schema.get(name, True)) for name in ("if", "then", "else"))
        parts.append(lambda value: (then if condition(value) else otherwise)(value))
    if not parts:
        return None
    return lambda value: all(part(value) for part in parts)
