"""Schemas from signatures: `jsonschema`, which is the arbiter, and pydantic's fast test accept the same arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Required

import jsonschema
import numpy as np
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

import factgym
from factgym.core.errors import ToolError
from factgym.core.fast_schema import schema_test
from factgym.core.spaces import fit_value, sample_schema
from factgym.envs.claimcheck.env import TOOLBOX
from factgym.rewards.seva.output import VERDICT_SCHEMA
from factgym.tools.schema import argument_docs, parameters_schema, summary_text, type_schema
from factgym.tools.toolbox import Tool


class Inner(typing_extensions.TypedDict):
    """Text of a type, which is no part of a schema."""

    name: Annotated[str, Field(min_length=1, max_length=5)]
    count: NotRequired[Annotated[int, Field(ge=0, le=3)]]


class Outer(typing_extensions.TypedDict, total=False):
    inner: Required[Inner]
    many: list[Inner]
    label: Literal["a", "b"] | None


TYPES: list[Any] = [
    *(str, int, float, bool, None | str, int | str, Literal["a", "b"], Literal["a"]),
    *(list[int], list[list[str]], list[str | None]),
    Annotated[str, Field(min_length=2, max_length=4)],
    Annotated[str, Field(max_length=0)],
    Annotated[int, Field(ge=-2, le=2)],
    Annotated[int, Field(ge=1)],
    Annotated[float, Field(ge=0, le=1)],
    Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=2)],
    Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(max_length=2)],
    *(Inner, Outer, list[Outer]),
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
    """A tool with one argument x of this type."""

    def function(state: object, x: Any) -> None:
        """Do.

        Args:
            x: It.
        """

    function.__annotations__["x"] = hint
    parameters, accepts = parameters_schema(function, skip=1)
    return Tool("t", "", parameters, print, str, accepts=accepts)


def mutate(schema: dict[str, Any], seed: int, replacement: Any, index: int) -> Any:
    """A value that fits, with one of its parts perhaps replaced: most random values fail in the same dull way."""
    holder: list[Any] = [sample_schema(schema, np.random.default_rng(seed))]
    parts: list[tuple[Any, Any]] = [(holder, 0)]
    for container, key in parts:
        value = container[key]
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        parts += [(value, name) for name, _ in entries]
    container, key = parts[index % len(parts)]
    container[key] = replacement
    return holder[0]


@pytest.mark.parametrize("hint", TYPES, ids=lambda hint: str(hint)[:60])
def test_the_schema_and_pydantic_accept_the_same_values(hint: Any) -> None:
    tool = tool_of(hint)
    schema = tool.parameters["properties"]["x"]
    assert tool.accepts is not None

    @given(VALUES, st.integers(0, 1000), st.integers(0, 30), st.booleans())
    def agree(value: Any, seed: int, index: int, is_random: bool) -> None:
        value = value if is_random else mutate(schema, seed, value, index)
        assert tool.accepts is not None
        is_valid = jsonschema.Draft202012Validator(tool.parameters).is_valid({"x": value})
        assert not tool.accepts({"x": value}) or is_valid, value
        # Only a JSON text of a list or an object is valid after fitting and not before.
        fitted = fit_value(tool.parameters, {"x": value})
        assert tool.accepts(fitted) or not is_valid, value
        assert is_valid or not tool.accepts(fitted) or fitted != {"x": value}, value
        assert not is_valid or fitted == {"x": value}, value

    agree()


@pytest.mark.parametrize(
    ("value", "fits"), [(1, True), (2, True), (3, False), (True, False), (1.0, True), (1.5, False), ("1", False)]
)
def test_a_literal_number_is_only_itself(value: Any, fits: bool) -> None:
    """Pydantic takes True for Literal[1], so it is not asked."""
    fitted = tool_of(Literal[1, 2]).fit({"x": value})
    assert isinstance(fitted, dict) == fits
    assert not fits or repr(fitted) == repr({"x": int(value)})


@pytest.mark.parametrize("hint", TYPES, ids=lambda hint: str(hint)[:60])
def test_samples_of_a_schema_are_accepted_by_pydantic(hint: Any) -> None:
    schema, adapter = type_schema(hint)
    jsonschema.Draft202012Validator.check_schema(schema)
    accepts = tool_of(hint).accepts
    assert accepts is not None
    rng = np.random.default_rng(0)
    for _ in range(50):
        value = sample_schema(schema, rng)
        adapter.validate_python(value, strict=True)
        assert accepts({"x": value})


ARGUMENTS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            **{"query": st.text(max_size=4) | VALUES, "k": st.integers(-1, 12) | VALUES, "page": VALUES, "id": VALUES},
            "claims": VALUES
            | st.lists(
                st.fixed_dictionaries(
                    {
                        "claim": st.just("a claim") | st.just("x" * 4001) | VALUES,
                        "status": st.sampled_from(["supported", "partially_supported", 1]),
                    },
                    optional={
                        "evidence_ids": st.lists(st.sampled_from(["E1", "", "x" * 81]), max_size=18) | VALUES,
                        "quote": st.just("q") | st.lists(st.just("q"), max_size=9) | VALUES,
                        **{"unsupported_span": VALUES, "reason": st.text(max_size=3), "other": VALUES},
                    },
                ),
                max_size=3,
            ),
            "final_verdict": st.sampled_from(["supported", "no"]),
            "evidence_used": st.lists(st.just("E1"), max_size=2) | VALUES,
        },
    ),
)


@settings(max_examples=5 * settings.default.max_examples)
@given(ARGUMENTS, st.sampled_from(TOOLBOX.tools))
def test_pydantic_accepts_only_what_the_schema_of_a_tool_accepts(arguments: Any, tool: Tool) -> None:
    assert tool.accepts is not None
    if tool.accepts(arguments):
        assert jsonschema.Draft202012Validator(tool.parameters).is_valid(arguments)


@pytest.mark.parametrize("tool", TOOLBOX.tools, ids=lambda tool: tool.name)
def test_every_sampled_call_is_accepted_without_jsonschema(tool: Tool) -> None:
    space = factgym.make("claimcheck").action_space
    space.seed(0)
    calls = [call for call in (space.sample() for _ in range(400)) if call["tool"] == tool.name]
    assert len(calls) > 20
    assert tool.accepts is not None and all(map(tool.accepts, (call["arguments"] for call in calls)))


def test_a_tool_with_a_schema_of_its_own_is_checked_by_jsonschema() -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^a+$"}}}
    tool = Tool("t", "", parameters, print, str)
    assert tool.fit({"x": "aa"}) == {"x": "aa"}
    assert isinstance(tool.fit({"x": "b"}), ToolError)


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "3", "3"),
        (str, '"late fees"', '"late fees"'),
        (str, "null", "null"),
        (int, "3", 3),
        (int, " 3.0 ", 3),
        (int, "three", "three"),
        (int, "3.5", 3.5),
        (int, "true", "true"),
        (float, "3", 3),
        (float, "1e999", "1e999"),
        (bool, "True", True),
        (bool, "false", False),
        (str | None, "null", None),
        (str | None, "None", None),
        (str | None, "x", "x"),
        (int | str, "3", 3),
        (int | str, "3 km", "3 km"),
        (list[str], '["a", "b"]', ["a", "b"]),
        (list[str] | str, '["a", "b"]', ["a", "b"]),
        (list[int], "[1.0, 2]", [1, 2]),
        (list[int], "[1,", "[1,"),
        (list[str], "a", "a"),
        (Literal["a", "b"], "a", "a"),
        (Literal[1, 2], "2", 2),
    ],
)
def test_a_tagged_text_has_the_type_that_its_schema_names(hint: Any, text: str, value: Any) -> None:
    """As vLLM's `coerce_to_schema_type` does, but that a number that is no integer stays one, for the error to name."""
    fitted = fit_value(tool_of(hint).parameters, {"x": text}, texts=True)
    assert repr(fitted) == repr({"x": value})


def test_schemas_are_flat_closed_and_described() -> None:
    inner = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 5},
            "count": {"type": "integer", "minimum": 0, "maximum": 3},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert type_schema(Outer)[0] == {
        "type": "object",
        "properties": {
            "inner": inner,
            "many": {"type": "array", "items": inner},
            "label": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
        },
        "required": ["inner"],
        "additionalProperties": False,
    }
    assert type_schema(Annotated[str, Field(min_length=1, description="A word.")])[0] == {
        "type": "string",
        "minLength": 1,
        "description": "A word.",
    }
    assert type_schema(Literal["a", 1])[0] == {"enum": ["a", 1]}


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
        [int],
        Annotated[int, Field(min_length=1)],
        Annotated[str, Field(ge=1)],
        Annotated[str, Field(pattern="a")],
        list[Any],
    ],
    ids=str,
)
def test_a_type_without_a_schema_is_a_type_error(hint: Any) -> None:
    with pytest.raises(TypeError):
        type_schema(hint)


def lookup(
    state: object,
    query: Annotated[str, Field(min_length=1, max_length=9)],
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
    assert parameters_schema(lookup, skip=1)[0] == {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 9,
                "description": "What to find: a word, or two words.",
            },
            "k": {"type": "integer", "description": "How many.", "default": 3},
            "kind": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}], "description": "Which kind."},
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


def without_type(state, x):  # type: ignore[no-untyped-def]
    """Do.

    Args:
        x: It.
    """


def without_doc(state: object, x: int) -> None:
    """Do."""


def with_rest(state: object, *x: int) -> None:
    """Do.

    Args:
        x: It.
    """


def with_keywords(state: object, **x: int) -> None:
    """Do.

    Args:
        x: It.
    """


def positional(state: object, x: int, /) -> None:
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


VERDICT = {
    "evidence_alignment": [{"claim_span": "in May", "source_span": "NOT_FOUND", "status": "not_found"}],
    "reasoning_chain": [
        {
            "claim_part": "in May",
            "source_evidence": "in June",
            "judgment": "not_supported",
            "explanation": "The source has June.",
        }
    ],
    "label": "Not Attributable",
    "confidence": 0.5,
    "error_type": "temporal_shift",
    "fix_suggestion": "Write June.",
}
REPLACEMENTS = (None, True, 0, 0.5, 1, 2, "", "x", "NOT_FOUND", "Attributable", "fabrication", [], {}, ["x"], "y" * 501)


@given(data=st.data())
def test_the_test_of_a_published_schema_agrees_with_jsonschema(data: st.DataObject) -> None:
    """Of verdicts in which up to three values were replaced, added or left out, conditions included."""
    verdict = copy.deepcopy(VERDICT)
    for _ in range(data.draw(st.integers(0, 3))):
        inner = [verdict, *verdict.get("evidence_alignment", ()), *verdict.get("reasoning_chain", ())]
        target = data.draw(st.sampled_from([value for value in inner if isinstance(value, dict)]))
        key = data.draw(st.sampled_from([*target, "error_type", "other"]))
        if data.draw(st.booleans()):
            target.pop(key, None)
        elif key not in ("evidence_alignment", "reasoning_chain"):
            target[key] = data.draw(st.sampled_from(REPLACEMENTS))
    expected = jsonschema.Draft202012Validator(VERDICT_SCHEMA).is_valid(verdict)
    assert schema_test(VERDICT_SCHEMA)(verdict) == expected


NAMES = ("a", "b", "it's", 'q"\\n')
CHOICES = st.sampled_from((None, 0, 1, "", "x", "a'b\\"))
VALUES = st.recursive(
    CHOICES | st.sampled_from((True, False, 0.5, 2, "xyz")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)
BOUNDS = ("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum")
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
        "enum": st.lists(CHOICES, min_size=1, max_size=3, unique=True),
        **{bound: st.integers(0, 3) for bound in BOUNDS},
    },
) | st.builds(lambda value: {"const": value}, CHOICES)


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    names = st.sampled_from(NAMES)
    optional = {
        "type": st.sampled_from((*TYPES[:2], [*TYPES])),
        "properties": st.dictionaries(names, inner, max_size=3),
        "required": st.lists(names, max_size=2, unique=True),
        **dict.fromkeys(("additionalProperties", "items", "not", "if", "then", "else"), inner),
        **dict.fromkeys(("prefixItems", "anyOf", "allOf"), several),
    }
    return st.fixed_dictionaries({}, optional=optional)


@settings(max_examples=10 * settings.default.max_examples)
@given(
    schema=st.recursive(st.booleans() | LEAVES, _larger, max_leaves=8).filter(
        lambda schema: schema not in (True, False)
    ),
    values=st.lists(VALUES, min_size=1, max_size=5),
)
def test_the_test_of_any_schema_agrees_with_jsonschema(schema: dict[str, Any], values: list[Any]) -> None:
    validator = jsonschema.Draft202012Validator(
        {"$defs": {"inner": schema}, "properties": {"x": {"$ref": "#/$defs/inner"}}}
    )
    test, inner = schema_test(validator.schema), schema_test(schema)
    for value in values:
        expected = validator.is_valid({"x": value})
        assert inner(value) == test({"x": value}) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "x"},
        {"enum": [True]},
        {"$ref": "#/elsewhere"},
        {"properties": {"x": {"uniqueItems": True}}},
    ],
)
def test_a_schema_without_a_fast_test_is_a_type_error(schema: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="no fast test"):
        schema_test(schema)
