"""JSON Schema from Python types and a Google-style docstring.

Covers what tool signatures need: str, int, float, bool, None, Literal, unions, lists, typed dicts, and `Annotated`
bounds (`Text`, `Number`, `Items`). Schemas are inlined (no `$ref`) and closed (`additionalProperties: false`), which
is what chat templates and strict tool calling want. Left out: recursive types, tuples, patterns, formats.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

JsonSchema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Bounds of a string, in characters."""

    types: ClassVar[tuple[str, ...]] = ("string",)
    min: int = 0
    max: int | None = None
    about: str = ""

    def keywords(self) -> JsonSchema:
        """As JSON Schema."""
        return _some(minLength=self.min or None, maxLength=self.max, description=self.about or None)


@dataclass(frozen=True, slots=True)
class Number:
    """Inclusive bounds of a number."""

    types: ClassVar[tuple[str, ...]] = ("integer", "number")
    min: float | None = None
    max: float | None = None
    about: str = ""

    def keywords(self) -> JsonSchema:
        """As JSON Schema."""
        return _some(minimum=self.min, maximum=self.max, description=self.about or None)


@dataclass(frozen=True, slots=True)
class Items:
    """Bounds of a list's length."""

    types: ClassVar[tuple[str, ...]] = ("array",)
    min: int = 0
    max: int | None = None
    about: str = ""

    def keywords(self) -> JsonSchema:
        """As JSON Schema."""
        return _some(minItems=self.min or None, maxItems=self.max, description=self.about or None)


def _some(**keywords: Any) -> JsonSchema:
    return {key: value for key, value in keywords.items() if value is not None}


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def type_schema(hint: Any) -> JsonSchema:
    """The schema of one type. Raises TypeError for a type that has none here."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *notes = get_args(hint)
        schema = type_schema(inner)
        for note in notes:
            schema |= _note_keywords(note, schema)
        return schema
    if origin in (Required, NotRequired):
        return type_schema(get_args(hint)[0])
    if origin is Literal:
        return _literal_schema(get_args(hint))
    if origin is list:
        return {"type": "array", "items": type_schema(get_args(hint)[0])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(arm) for arm in get_args(hint)]}
    if isinstance(hint, type) and hasattr(hint, "__required_keys__"):  # that of typing_extensions, too
        return _typed_dict_schema(hint)
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    raise TypeError(f"no JSON Schema for {hint!r}: use str, int, float, bool, Literal, list, a union or a TypedDict")


def _note_keywords(note: Any, schema: JsonSchema) -> JsonSchema:
    if isinstance(note, str):
        return {"description": note}
    if not isinstance(note, (Text, Number, Items)):
        raise TypeError(f"{note!r} is no bound of ours: annotate with Text, Number, Items or a description")
    if schema.get("type") not in note.types:
        raise TypeError(f"{note!r} does not bound {schema}: write it inside the union, or use the bound of that type")
    return note.keywords()


def _literal_schema(values: tuple[Any, ...]) -> JsonSchema:
    kinds = {type(value) for value in values}
    if not kinds <= _PLAIN.keys():
        raise TypeError(f"Literal{list(values)!r} holds a value that JSON does not have")
    # JSON Schema's enum does not tell 1 from 1.0, so the type stands beside it where there is one.
    return {"enum": list(values)} if len(kinds) > 1 else {"type": _PLAIN[kinds.pop()], "enum": list(values)}


def _typed_dict_schema(hint: Any) -> JsonSchema:
    fields = get_type_hints(hint, include_extras=True)
    return {
        "type": "object",
        "properties": {name: type_schema(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if _is_required(hint, name, field)],
        "additionalProperties": False,
    }


def _is_required(hint: Any, name: str, field: Any) -> bool:
    # `__required_keys__` is blind to NotRequired where annotations are strings (`from __future__ import annotations`).
    while get_origin(field) is Annotated:
        field = get_args(field)[0]
    if get_origin(field) in (Required, NotRequired):
        return get_origin(field) is Required
    return name in hint.__required_keys__


def parameters_schema(function: Callable[..., Any], skip: int = 0) -> JsonSchema:
    """The schema of a function's arguments, its first `skip` parameters left out.

    Descriptions come from the docstring's `Args:`; every parameter must have one. Raises TypeError otherwise.
    """
    hints = get_type_hints(function, include_extras=True)
    about = argument_docs(inspect.getdoc(function) or "")
    properties: JsonSchema = {}
    required: list[str] = []
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        name = parameter.name
        if name not in hints or name not in about:
            raise TypeError(f"parameter {name!r} of tool {function.__name__!r} needs a type and a line under 'Args:'")
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"parameter {name!r} of tool {function.__name__!r} cannot be passed by its name")
        properties[name] = type_schema(hints[name]) | {"description": about[name]}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def summary_text(doc: str) -> str:
    """A docstring up to its first section, as one paragraph."""
    return " ".join(re.split(r"\n\s*(?:Args|Returns|Raises):", doc)[0].split())


def argument_docs(doc: str) -> dict[str, str]:
    """Parameter name -> description, from the `Args:` section of a Google-style docstring."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", doc, re.MULTILINE)
    descriptions: dict[str, str] = {}
    name = ""
    for line in section[1].splitlines() if section else []:
        entry = re.match(r"    (\w+)(?: \([^)]*\))?:(?: (.*)|$)", line)
        if entry:
            name = entry[1]
            descriptions[name] = (entry[2] or "").strip()
        elif name and line.strip():
            descriptions[name] = f"{descriptions[name]} {line.strip()}".lstrip()
    return descriptions
