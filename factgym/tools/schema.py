"""JSON Schema of a tool's arguments, from the types of its signature and a Google-style docstring.

pydantic reads the types: str, int, float, bool, None, Literal, unions, lists, typed dicts, and bounds as in
`Annotated[str, Field(min_length=1)]`. Its schemas are reduced to what chat templates and strict tool calling take:
inlined (no `$ref`), closed (`additionalProperties: false`), without titles, keywords in a fixed order. A typed dict is
one of `typing_extensions` (pydantic's rule before Python 3.12).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NotRequired, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from typing_extensions import TypedDict

JsonSchema = dict[str, Any]

_STRICT = ConfigDict(strict=True, extra="forbid")
_BOUNDS = {
    **dict.fromkeys(("minLength", "maxLength"), ("string",)),
    **dict.fromkeys(("minimum", "maximum"), ("integer", "number")),
    **dict.fromkeys(("minItems", "maxItems"), ("array",)),
}
"""Keyword of a bound -> the types that it applies to."""
_KEYWORDS = (
    *("type", "enum", "anyOf", "items", "properties", "required", "additionalProperties"),
    *(*_BOUNDS, "description"),
)
"""Keywords of our schemas, in the order in which they are written."""
_REWRITTEN = {"$ref", "$defs", "title", "const", "default"}


def parameters_schema(function: Callable[..., Any], skip: int = 0) -> tuple[JsonSchema, Callable[[Any], bool] | None]:
    """Return the schema of a function's arguments without the first `skip`, and a fast test of arguments.

    The test accepts nothing that the schema rejects; it is None where pydantic is laxer than JSON Schema.
    Descriptions come from the docstring's `Args:`; every parameter must have one. Raises TypeError otherwise, and for
    types without a schema.
    """
    hints = get_type_hints(function, include_extras=True)
    about = argument_docs(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        name = parameter.name
        if name not in hints or name not in about:
            raise TypeError(f"parameter {name!r} of tool {function.__name__!r} needs a type and a line under 'Args:'")
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"parameter {name!r} of tool {function.__name__!r} cannot be passed by its name")
        hint = Annotated[hints[name], Field(description=about[name])]  # type: ignore[valid-type]  # made at run time
        fields[name] = hint if parameter.default is parameter.empty else NotRequired[hint]
        if parameter.default not in (parameter.empty, None):
            defaults[name] = parameter.default
    arguments = TypedDict("arguments", fields)  # type: ignore[misc]  # a typed dict made at run time
    arguments.__pydantic_config__ = _STRICT  # type: ignore[attr-defined]
    schema, adapter = type_schema(arguments)
    for name, default in defaults.items():
        schema["properties"][name]["default"] = default
    # pydantic takes True for Literal[1].
    is_exact = all(isinstance(value, str) for value in _literals(schema))
    return schema, adapter.validator.isinstance_python if is_exact else None


def type_schema(hint: Any) -> tuple[JsonSchema, TypeAdapter[Any]]:
    """Return the schema of one type, and pydantic's adapter. Raises TypeError for a type that has none here."""
    try:
        adapter = TypeAdapter(hint)
        schema = adapter.json_schema()
        return _simplify(schema, schema.get("$defs", {})), adapter
    except (PydanticSchemaGenerationError, PydanticUserError, RuntimeError) as error:
        raise TypeError(f"no JSON Schema for {hint!r}: {error}") from error


def _simplify(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    """Reduce pydantic's schema to `_KEYWORDS`, recursively."""
    if "$ref" in schema:
        # The docstring of a typed dict describes the type, not this use of it.
        target = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**{key: value for key, value in target.items() if key != "description"}, **schema}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    kind = schema.get("type")
    # A keyword that is dropped or does not apply would make the schema accept more than the type: it is refused.
    if (
        not schema.keys() & {"type", "enum", "anyOf"}
        or schema.keys() - {*_KEYWORDS, *_REWRITTEN}
        or any(kind not in _BOUNDS.get(keyword, (kind,)) for keyword in schema)
        or not all(isinstance(value, (str, int, float, type(None))) for value in schema.get("enum", ()))
    ):
        raise TypeError(f"no JSON Schema for {schema!r:.200}: use str, int, float, bool, Literal, list or TypedDict")
    if kind == "object":
        if "properties" not in schema:
            raise TypeError("no JSON Schema for a dict without named keys: use a TypedDict")
        properties = {name: _simplify(inner, definitions) for name, inner in schema["properties"].items()}
        schema = {"required": [], **schema, "properties": properties, "additionalProperties": False}
    if kind == "array":
        schema = {**schema, "items": _simplify(schema["items"], definitions)}
    if "anyOf" in schema:
        schema = {**schema, "anyOf": [_simplify(arm, definitions) for arm in schema["anyOf"]]}
    return {keyword: schema[keyword] for keyword in _KEYWORDS if keyword in schema}


def compact_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema of types, names and choices alone: no descriptions, defaults, bounds nor required names."""
    keywords = ("type", "enum", "anyOf", "items", "properties")
    compact = {keyword: schema[keyword] for keyword in keywords if schema.get(keyword)}
    if "items" in compact:
        compact["items"] = compact_schema(compact["items"])
    if "anyOf" in compact:
        compact["anyOf"] = [compact_schema(arm) for arm in compact["anyOf"]]
    if compact.get("type") == "object":
        compact["properties"] = {name: compact_schema(inner) for name, inner in schema["properties"].items()}
    return compact


def _literals(schema: JsonSchema) -> Iterator[Any]:
    yield from schema.get("enum", ())
    items = [schema["items"]] if "items" in schema else []
    for inner in (*schema.get("anyOf", ()), *schema.get("properties", {}).values(), *items):
        yield from _literals(inner)


def summary_text(doc: str) -> str:
    """Return a docstring up to its first section, as one paragraph."""
    return " ".join(re.split(r"\n[ \t]*+(?:Args|Returns|Raises):", doc)[0].split())


def argument_docs(doc: str) -> dict[str, str]:
    """Return parameter name -> description, from the `Args:` section of a Google-style docstring."""
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
