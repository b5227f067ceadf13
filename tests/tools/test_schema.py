"""Schemas from signatures. The oracle is pydantic in strict mode: both must accept and reject the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import jsonschema
import numpy as np
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from factgym.core.spaces import sample_schema
from factgym.tools.schema import Items, Number, Text, argument_docs, parameters_schema, summary_text, type_schema
from factgym.tools.toolbox import Tool


class Inner(TypedDict):
    name: Annotated[str, Text(1, 5)]
    count: NotRequired[Annotated[int, Number(0, 3)]]


class Outer(TypedDict, total=False):
    inner: Required[Inner]
    many: list[Inner]
    label: Literal["a", "b"] | None


class PydanticInner(typing_extensions.TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]
    name: Annotated[str, Field(min_length=1, max_length=5)]
    count: NotRequired[Annotated[int, Field(ge=0, le=3)]]


class PydanticOuter(typing_extensions.TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]
    inner: Required[PydanticInner]
    many: list[PydanticInner]
    label: Literal["a", "b"] | None


TYPES: list[tuple[Any, Any]] = [
    (str, str),
    (int, int),
    (float, float),
    (bool, bool),
    (None | str, None | str),
    (int | str, int | str),
    (Literal["a", "b"], Literal["a", "b"]),
    (list[int], list[int]),
    (list[list[str]], list[list[str]]),
    (list[str | None], list[str | None]),
    (Annotated[str, Text(2, 4)], Annotated[str, Field(min_length=2, max_length=4)]),
    (Annotated[str, Text(max=0)], Annotated[str, Field(max_length=0)]),
    (Annotated[int, Number(-2, 2)], Annotated[int, Field(ge=-2, le=2)]),
    (Annotated[int, Number(min=1)], Annotated[int, Field(ge=1)]),
    (Annotated[float, Number(0, 1)], Annotated[float, Field(ge=0, le=1)]),
    (
        Annotated[list[Annotated[int, Number(0)]], Items(1, 2)],
        Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=2)],
    ),
    (
        Annotated[str, Text(1)] | Annotated[list[str], Items(max=2)],
        Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(max_length=2)],
    ),
    (Inner, PydanticInner),
    (Outer, PydanticOuter),
    (list[Outer], list[PydanticOuter]),
]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 1.5])
    | st.sampled_from(["a", "b", "", "ab", "é🙂", "abcdef"])
    | st.text(max_size=6)
)
KEYS = st.sampled_from(["name", "count", "inner", "many", "label", "other"])
VALUES = st.recursive(
    SCALARS, lambda some: st.lists(some, max_size=3) | st.dictionaries(KEYS, some, max_size=3), max_leaves=8
)


def tool_of(hint: Any) -> Tool:
    parameters = {"type": "object", "properties": {"x": type_schema(hint)}, "required": ["x"]}
    return Tool("t", "", parameters, print, str)


def near(schema: dict[str, Any], seed: int, other: Any, at: int) -> Any:
    """A value that fits, with one of its parts perhaps replaced: most random values fail in the same dull way."""
    value = sample_schema(schema, np.random.default_rng(seed))
    holder: list[Any] = [value]
    places: list[tuple[Any, Any]] = [(holder, 0)]
    for box, key in places:
        inside = box[key]
        entries = inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        places += [(inside, name) for name, _ in entries]
    box, key = places[at % len(places)]
    box[key] = other
    return holder[0]


@pytest.mark.parametrize(("ours", "theirs"), TYPES, ids=lambda hint: str(hint)[:60])
def test_our_schemas_accept_what_pydantic_accepts(ours: Any, theirs: Any) -> None:
    tool = tool_of(ours)
    schema = tool.parameters["properties"]["x"]
    adapter = TypeAdapter(theirs)

    @settings(max_examples=80, deadline=None)
    @given(VALUES, st.integers(0, 1000), st.integers(0, 30), st.booleans())
    def agree(value: Any, seed: int, at: int, alone: bool) -> None:
        value = value if alone else near(schema, seed, value, at)
        try:
            adapter.validate_python(value, strict=True)
            accepted = True
        except ValidationError:
            accepted = False
        assert (tool.check({"x": value}) is None) == accepted, value

    agree()


@pytest.mark.parametrize(
    ("value", "fits"), [(1, True), (2, True), (3, False), (True, False), (1.0, False), ("1", False)]
)
def test_a_literal_number_is_only_itself(value: Any, fits: bool) -> None:
    """Pydantic takes True for Literal[1], so it is no oracle here."""
    assert (tool_of(Literal[1, 2]).check({"x": value}) is None) == fits


@pytest.mark.parametrize(("ours", "theirs"), TYPES, ids=lambda hint: str(hint)[:60])
def test_samples_of_a_schema_are_accepted_by_pydantic(ours: Any, theirs: Any) -> None:
    schema = type_schema(ours)
    jsonschema.Draft202012Validator.check_schema(schema)
    adapter = TypeAdapter(theirs)
    rng = np.random.default_rng(0)
    for _ in range(50):
        adapter.validate_python(sample_schema(schema, rng), strict=True)


def test_schemas_are_flat_closed_and_described() -> None:
    assert type_schema(Outer) == {
        "type": "object",
        "properties": {
            "inner": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": 5},
                    "count": {"type": "integer", "minimum": 0, "maximum": 3},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "many": {"type": "array", "items": type_schema(Inner)},
            "label": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
        },
        "required": ["inner"],
        "additionalProperties": False,
    }
    assert type_schema(Annotated[str, "What it is."]) == {"type": "string", "description": "What it is."}
    assert type_schema(Annotated[str, Text(1, about="A word.")]) == {
        "type": "string",
        "minLength": 1,
        "description": "A word.",
    }
    assert type_schema(Literal["a", 1]) == {"enum": ["a", 1]}


@pytest.mark.parametrize(
    "hint",
    [
        Any,
        object,
        dict,
        dict[str, int],
        list,
        tuple[int, int],
        set[str],
        bytes,
        complex,
        Literal[b"x"],
        "str",
        [int],
        Annotated[int, Text(1)],
        Annotated[str, Number(1)],
        Annotated[str, Items(1)],
        Annotated[int | None, Number(1)],
        Annotated[int, ...],
        list[Any],
    ],
    ids=str,
)
def test_a_type_without_a_schema_is_a_type_error(hint: Any) -> None:
    with pytest.raises(TypeError):
        type_schema(hint)


def lookup(
    desk: object,
    query: Annotated[str, Text(1, 9)],
    k: int = 3,
    *,
    kind: Literal["a", "b"] | None = None,
) -> str:
    """Find something, over
    two lines.

    And a second paragraph.

    Args:
        query: What to find: a word,
            or two words.
        k (int): How many.

        kind:
            Which kind.

    Returns:
        text: Not a parameter.
    """
    return ""


def test_a_signature_becomes_a_schema() -> None:
    assert parameters_schema(lookup, skip=1) == {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 9,
                "description": "What to find: a word, or two words.",
            },
            "k": {"type": "integer", "description": "How many.", "default": 3},
            "kind": {
                "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}],
                "description": "Which kind.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_the_description_is_the_docstring_up_to_its_sections() -> None:
    assert summary_text(lookup.__doc__ or "") == "Find something, over two lines. And a second paragraph."
    assert summary_text("One line.") == "One line."
    assert summary_text("") == ""


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("", {}),
        ("No section.", {}),
        ("Text.\n\nArgs:\n    a: One.\n", {"a": "One."}),
        ("Text.\n\nArgs:\n    a: One.", {"a": "One."}),
        (
            "Args:\n    a: One.\n    b: Two\n        more: of it.\n\nRaises:\n    c: no.",
            {"a": "One.", "b": "Two more: of it."},
        ),
    ],
)
def test_argument_docs(doc: str, expected: dict[str, str]) -> None:
    assert argument_docs(doc) == expected


def without_type(desk, x):  # type: ignore[no-untyped-def]
    """Do.

    Args:
        x: It.
    """


def without_doc(desk: object, x: int) -> None:
    """Do."""


def with_rest(desk: object, *x: int) -> None:
    """Do.

    Args:
        x: It.
    """


def with_keywords(desk: object, **x: int) -> None:
    """Do.

    Args:
        x: It.
    """


def positional(desk: object, x: int, /) -> None:
    """Do.

    Args:
        x: It.
    """


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (without_type, "parameter 'x' of tool 'without_type' needs a type and a line under 'Args:'"),
        (without_doc, "parameter 'x' of tool 'without_doc' needs a type and a line under 'Args:'"),
        (with_rest, "parameter 'x' of tool 'with_rest' cannot be passed by its name"),
        (with_keywords, "parameter 'x' of tool 'with_keywords' cannot be passed by its name"),
        (positional, "parameter 'x' of tool 'positional' cannot be passed by its name"),
    ],
)
def test_a_signature_that_cannot_be_a_tool_is_a_type_error(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        parameters_schema(function, skip=1)
