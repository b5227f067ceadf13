"""Fast tests of plain JSON data against a JSON Schema, for schemas that are checked a thousand times a second.

`jsonschema` walks a schema again for each value and builds an object for each keyword; here the walk is done once and
leaves a function for each object, array and condition. Errors are worded by `jsonschema` alone, which is asked where a
test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from operator import ge, le
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
_LIMITS: Mapping[str, tuple[Kinds, Callable[[Any], Any], Callable[[Any, Any], bool]]] = {
    "minLength": (_KINDS["string"], len, ge),
    "maxLength": (_KINDS["string"], len, le),
    "minItems": (_KINDS["array"], len, ge),
    "maxItems": (_KINDS["array"], len, le),
    "minimum": (_KINDS["number"], lambda value: value, ge),
    "maximum": (_KINDS["number"], lambda value: value, le),
}
"""Keyword of a limit -> the types that it applies to, the measure, and its comparison with the limit."""


def schema_test(schema: Mapping[str, Any]) -> Test:
    """Compile a schema to a test that accepts nothing which the schema rejects.

    It rejects more in one point: 3.0 is no integer. Raises TypeError for a keyword, reference or constant that it does
    not know.
    """
    kinds, test = _compile(schema, schema)
    return lambda value: type(value) in kinds and (test is None or test(value))


def _compile(schema: Mapping[str, Any] | bool, root: Mapping[str, Any]) -> tuple[Kinds, Test | None]:
    """Return the types that a value may have, and a test of such values; None where the type is all."""
    if isinstance(schema, bool):
        return (_ALL_KINDS if schema else frozenset()), None
    if "$ref" in schema:
        prefix, _, name = schema["$ref"].rpartition("/")
        if prefix != "#/$defs" or schema.keys() - _NOTES != {"$ref"}:
            raise TypeError(f"no fast test for the reference {schema!r:.200}")
        return _compile(root["$defs"][name], root)
    named = schema.get("type", tuple(_KINDS))
    kinds = frozenset().union(*(_KINDS[name] for name in ([named] if isinstance(named, str) else named)))
    if unknown := schema.keys() - _NOTES - {"type", "const", "enum", *_LIMITS, *_OBJECT, *_ARRAY, *_COMBINED}:
        raise TypeError(f"no fast test for the keywords {', '.join(sorted(unknown))}")
    kinds &= _kinds_of_choices(schema)
    tests = [
        *_choices(schema),
        *_limits(schema, kinds),
        *_object(schema, root),
        *_array(schema, root),
        *_combined(schema, root),
    ]
    return kinds, (reduce(_both, tests) if tests else None)


def _both(first: Test, second: Test) -> Test:
    return lambda value: first(value) and second(value)


def _either(first: Test, second: Test) -> Test:
    return lambda value: first(value) or second(value)


def _choices(schema: Mapping[str, Any]) -> Iterator[Test]:
    """Yield the test of `const` or `enum`; only texts, integers and null: other values equal across JSON's types."""
    if "const" not in schema and "enum" not in schema:
        return
    choices = [schema["const"]] if "const" in schema else schema["enum"]
    if ("const" in schema and "enum" in schema) or not all(type(value) in (str, int, NoneType) for value in choices):
        raise TypeError(f"no fast test for the choices {schema!r:.200}")
    yield frozenset(choices).__contains__


def _kinds_of_choices(schema: Mapping[str, Any]) -> Kinds:
    """Return the types of the choices, of which bool is none: True equals 1 in Python, and not in JSON."""
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    return _ALL_KINDS if choices is None else frozenset(map(type, choices))


def _limits(schema: Mapping[str, Any], given: Kinds) -> Iterator[Test]:
    """Yield the tests of limits. given: the types that a value has."""

    def limited(kinds: Kinds, measure: Callable[[Any], Any], fits: Callable[[Any, Any], bool], limit: Any) -> Test:
        return lambda value: type(value) not in kinds or fits(measure(value), limit)

    for keyword, (kinds, measure, fits) in _LIMITS.items():
        limit = schema.get(keyword)
        if limit is None:
            continue
        if given <= kinds and keyword == "minimum":
            yield partial(le, limit)
        elif given <= kinds and keyword in ("minLength", "minItems") and limit == 1:
            yield bool  # not empty
        else:
            yield limited(kinds, measure, fits, limit)


_FEW = 4
"""Properties of an open object that are looked up one by one, rather than every member of the object."""

_OBJECT = ("properties", "required", "additionalProperties")


def _object(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Test]:
    """Yield the test of an object's keywords: required names, then each member by its own schema or that of the others."""
    if not any(keyword in schema for keyword in _OBJECT):
        return
    required = frozenset(schema.get("required", ()))
    properties = {name: _compile(inner, root) for name, inner in schema.get("properties", {}).items()}
    other = _compile(schema.get("additionalProperties", True), root)
    if other == (_ALL_KINDS, None) and len(properties) < _FEW:
        yield _named_members(required, properties)
    else:
        yield _all_members(required, properties, other)


def _named_members(required: frozenset[str], properties: Mapping[str, tuple[Kinds, Test | None]]) -> Test:
    def test(value: Any) -> bool:
        if type(value) is not dict:
            return True
        for name, (kinds, inner) in properties.items():
            if name in value:
                item = value[name]
                if type(item) not in kinds or (inner is not None and not inner(item)):
                    return False
        return value.keys() >= required

    return test


def _all_members(
    required: frozenset[str], properties: Mapping[str, tuple[Kinds, Test | None]], other: tuple[Kinds, Test | None]
) -> Test:
    def test(value: Any) -> bool:
        if type(value) is not dict:
            return True
        for name, item in value.items():
            kinds, inner = properties.get(name, other)
            if type(item) not in kinds or (inner is not None and not inner(item)):
                return False
        return value.keys() >= required

    return test


_ARRAY = ("items", "prefixItems")


def _array(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Test]:
    """Yield the test of an array's keywords: its first items by position (`prefixItems`), the others by `items`."""
    if not any(keyword in schema for keyword in _ARRAY):
        return
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

    yield test


_COMBINED = ("anyOf", "allOf", "not", "if", "then", "else")


def _combined(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Test]:
    """Yield the tests of schemas that are joined: all, any, none, and one of two by a condition."""

    def compiled(inner: Mapping[str, Any] | bool) -> Test:
        kinds, test = _compile(inner, root)
        if test is not None and kinds == _ALL_KINDS:
            return test
        return lambda value: type(value) in kinds and (test is None or test(value))

    def conditional(condition: Test, then: Test, otherwise: Test | None) -> Test:
        if otherwise is None:
            return lambda value: not condition(value) or then(value)
        return lambda value: then(value) if condition(value) else otherwise(value)

    yield from map(compiled, schema.get("allOf", ()))
    if "anyOf" in schema:
        yield reduce(_either, map(compiled, schema["anyOf"]))
    if "not" in schema:
        refused = compiled(schema["not"])
        yield lambda value: not refused(value)
    if "if" in schema:
        condition, then = compiled(schema["if"]), compiled(schema.get("then", True))
        yield conditional(condition, then, compiled(schema["else"]) if "else" in schema else None)
