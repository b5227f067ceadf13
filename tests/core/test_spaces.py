"""Spaces of text and of tool calls; what they sample is checked by jsonschema."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector.utils import batch_space, create_shared_memory
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from factgym.core.spaces import ActionSpace, UnicodeText, sample_schema


def _tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


BOUNDS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "integer", "minimum": 3},
    {"type": "integer", "minimum": -7, "maximum": -7},
    {"type": "integer", "maximum": -5},
    {"type": "integer", "maximum": 5},
    {"type": "integer", "minimum": 0.5, "maximum": 1.5},
    {"type": "number"},
    {"type": "number", "maximum": -2.5},
    {"type": "number", "minimum": 2.5},
    {"type": "number", "minimum": 0.25, "maximum": 0.25},
    {"type": "string"},
    {"type": "string", "minLength": 30},
    {"type": "string", "minLength": 2, "maxLength": 3},
    {"type": "string", "maxLength": 0},
    {"type": "string", "enum": ["a", "b"]},
    {"enum": ["a", 1, None]},
    {"type": "boolean"},
    {"type": "null"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "string"}, "minItems": 5},
    {"type": "array", "items": {"type": "string"}, "maxItems": 1},
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "boolean"}, "minItems": 1}]},
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}},
        "required": ["b"],
        "additionalProperties": False,
    },
]


@pytest.mark.parametrize("schema", BOUNDS, ids=str)
def test_samples_fit_their_schema(schema: dict[str, Any]) -> None:
    validator = Draft202012Validator(schema)
    rng = np.random.default_rng(0)
    for _ in range(200):
        value = sample_schema(schema, rng)
        assert validator.is_valid(value), value


def test_samples_vary() -> None:
    rng = np.random.default_rng(0)
    assert len({sample_schema({"type": "integer"}, rng) for _ in range(100)}) > 5
    assert {"a" in sample_schema(BOUNDS[-1], rng) for _ in range(50)} == {True, False}


@given(st.text())
def test_any_text_is_an_observation(text: str) -> None:
    assert text in UnicodeText()


@pytest.mark.parametrize("value", [None, 1, b"bytes", ["text"], np.array("text")])
def test_only_text_is_an_observation(value: Any) -> None:
    assert value not in UnicodeText()


@pytest.mark.parametrize("space", [UnicodeText(), ActionSpace(lambda: [_tool("t")])], ids=repr)
def test_samples_are_contained_and_follow_from_the_seed(space: Any) -> None:
    space.seed(3)
    first = [space.sample() for _ in range(20)]
    assert all(action in space for action in first)
    space.seed(3)
    assert [space.sample() for _ in range(20)] == first
    space.seed(4)
    assert [space.sample() for _ in range(20)] != first
    assert space.from_jsonable(space.to_jsonable(first)) == first


@pytest.mark.parametrize("action", ["", "text", {}, {"tool": "x"}, {"role": "assistant"}])
def test_every_kind_of_action_is_contained_well_formed_or_not(action: Any) -> None:
    assert action in ActionSpace(list)


@pytest.mark.parametrize("action", [None, 3, b"x", ["a"], ("tool", {})])
def test_other_types_are_no_action(action: Any) -> None:
    assert action not in ActionSpace(list)


def test_equality_is_by_kind_and_bound() -> None:
    assert UnicodeText() == UnicodeText() != ActionSpace(list)
    assert ActionSpace(list) == ActionSpace(lambda: [_tool("t")]) != UnicodeText()


def test_action_samples_follow_the_tools_that_are_open() -> None:
    available_tools = [_tool("first")]
    space = ActionSpace(lambda: available_tools, seed=0)
    assert {space.sample()["tool"] for _ in range(10)} == {"first"}
    available_tools = [_tool("second"), _tool("third")]
    assert {space.sample()["tool"] for _ in range(30)} == {"second", "third"}


@pytest.mark.parametrize("space", [UnicodeText(), ActionSpace(list)], ids=repr)
def test_vector_environments_can_batch_it_without_shared_memory(space: Any) -> None:
    batched: Any = batch_space(space, 2)
    assert len(batched.spaces) == 2
    assert not space.is_np_flattenable
    with pytest.raises(CustomSpaceError):
        create_shared_memory(space, 2)


@pytest.mark.parametrize("space", [UnicodeText(seed=1), ActionSpace(lambda: [_tool("t")], seed=1)], ids=repr)
def test_copies_and_pickles_keep_the_generator(space: Any) -> None:
    space.sample()
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert twin == space
        assert data_equivalence(twin.np_random.bit_generator.state, space.np_random.bit_generator.state, exact=True)


def test_a_pickled_action_space_leaves_its_environment_behind() -> None:
    class Owner:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def tools(self) -> list[dict[str, Any]]:
            return [_tool("t")]

    space = ActionSpace(Owner().tools, seed=1)
    twin = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(space))))
    assert [twin.sample() for _ in range(5)] == [space.sample() for _ in range(5)]
    assert copy.deepcopy(space).tools == space.tools
