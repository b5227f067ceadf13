"""Spaces for text and for tool calls, and values that fit the schemas of tools: samples, examples, and corrections.

Gymnasium's `Text` admits a fixed character set only, and asynchronous vector environments read its shared memory
once and then return constants. A space of our own is refused there with a clear error instead: pass
`vector_kwargs={"shared_memory": False}`.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from gymnasium import Space

from factgym.core.messages import ToolSchema
from factgym.core.strict_json import StrictJsonError, loads

_ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:!?'\"()-äéñß中文🙂"


_JSON_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", type(None): "null"}

ValueT = TypeVar("ValueT")


class _JsonSpace(Space[ValueT]):
    """A space of values that are JSON already and have no array form."""

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def to_jsonable(self, sample_n: Iterable[ValueT]) -> list[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[ValueT]:
        return list(sample_n)


class UnicodeText(_JsonSpace[str]):
    """Every string."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: None = None, probability: None = None) -> str:
        """A short random text."""
        size = int(self.np_random.integers(0, 40))
        return "".join(_ALPHABET[int(i)] for i in self.np_random.integers(0, len(_ALPHABET), size))

    def contains(self, x: Any) -> bool:
        """Whether x is a string."""
        return isinstance(x, str)

    def __repr__(self) -> str:
        return "UnicodeText()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText)


class ActionSpace(_JsonSpace[Any]):
    """The actions of a policy: a completion string, an assistant message, or a tool-call dict.

    Everything of these types is contained, malformed or not, because the environment answers it. `sample` returns a
    tool-call dict that fits the schema of one of `tools()`. A copy shares the callable `tools`; a pickle, which a
    vector environment sends to its workers, holds the current schemas without the environment behind them.
    """

    def __init__(
        self, tools: Callable[[], Sequence[ToolSchema]], seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)
        self.tools = tools

    def __deepcopy__(self, memo: dict[int, Any]) -> ActionSpace:
        return _action_space(type(self), self.tools, copy.deepcopy(self._np_random, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return _action_space, (type(self), list(self.tools()), self._np_random)

    def sample(self, mask: None = None, probability: None = None) -> dict[str, Any]:
        """A tool call whose arguments fit the tool's schema."""
        tools = self.tools()
        function = tools[int(self.np_random.integers(len(tools)))]["function"]
        return {"tool": function["name"], "arguments": sample_schema(function["parameters"], self.np_random)}

    def contains(self, x: Any) -> bool:
        """Whether x is of one of the three kinds of action."""
        return isinstance(x, (str, dict))

    def __repr__(self) -> str:
        return "ActionSpace()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace)


def _action_space(
    cls: type[ActionSpace], tools: Callable[[], Sequence[ToolSchema]] | list[ToolSchema], rng: Any
) -> ActionSpace:
    space = cls(tools if callable(tools) else lambda: tools)
    space._np_random = rng
    return space


def sample_schema(schema: dict[str, Any], rng: np.random.Generator) -> Any:
    """Return a random value that fits a schema of the subset that `factgym.tools.schema` writes."""
    # Descent along the schema: every branch that is drawn fits, so nothing is rejected.
    if "enum" in schema:
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    if "anyOf" in schema:
        return sample_schema(schema["anyOf"][int(rng.integers(len(schema["anyOf"])))], rng)
    match schema["type"]:
        case "object":
            required = schema.get("required", [])
            names = [name for name in schema["properties"] if name in required or rng.random() < 0.5]
            return {name: sample_schema(schema["properties"][name], rng) for name in names}
        case "array":
            size = _sample_integer(schema.get("minItems", 0), schema.get("maxItems"), 2, rng)
            return [sample_schema(schema["items"], rng) for _ in range(size)]
        case "string":
            size = _sample_integer(schema.get("minLength", 0), schema.get("maxLength"), 20, rng)
            return "".join(_ALPHABET[int(i)] for i in rng.integers(0, len(_ALPHABET), size))
        case "integer":
            return _sample_integer(schema.get("minimum"), schema.get("maximum"), 10, rng)
        case "number":
            maximum = schema.get("maximum")
            minimum = schema.get("minimum", 0.0 if maximum is None or maximum >= 0 else maximum - 1.0)
            return float(rng.uniform(minimum, minimum + 1.0 if maximum is None else maximum))
        case "boolean":
            return bool(rng.integers(2))
        case _:
            return None


def example_call(tools: Iterable[ToolSchema]) -> str:
    """Return a call that can be played, of the first tool that looks something up or asks, or how a call is written."""
    for function in (tool["function"] for tool in tools):
        properties, required = function["parameters"].get("properties", {}), function["parameters"].get("required", ())
        text = "Who said this, and when?" if "questions" in required else "opening hours"
        arguments = {
            name: [text] if "array" in schema_types(properties[name]) else text
            for name in required
            if name in ("query", "query_list", "queries", "questions")
        }
        if arguments and len(arguments) == len(required):
            call = json.dumps({"name": function["name"], "arguments": arguments})
            return f"for example <tool_call>{call}</tool_call>"
    return 'a JSON object with the keys "name" and "arguments", an object, in tags named tool_call'


def schema_types(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the types that a schema allows; none where it names no type."""
    if "anyOf" in schema:
        return set().union(*map(schema_types, schema["anyOf"]))
    named = schema.get("type", [])
    return {named} if isinstance(named, str) else set(named)


def fit_value(schema: Mapping[str, Any], value: Any, texts: bool = False) -> Any:
    """Return a value in the type that its schema names, where it is written otherwise and there is no doubt; else as it is.

    3.0 is an integer, as in JSON Schema 2020-12 (section 4.2.3), and a list or an object may be a JSON text of it. With
    `texts`, a text may be of any type that is not a string, also with Python's names of constants.
    """
    arms = schema.get("anyOf") or [schema]
    types = schema_types(schema)
    if isinstance(value, str) and types and (texts or "string" not in types):
        try:
            read = loads(_JSON_CONSTANTS.get(value.strip(), value))
        except StrictJsonError:
            return value
        kind = (
            "object" if isinstance(read, dict) else "array" if isinstance(read, list) else _JSON_TYPES.get(type(read))
        )
        is_number = kind in ("integer", "number") and types & {"integer", "number"}
        if not (is_number or kind in types) or not (texts or kind in ("object", "array")):
            return value
        value = read
    if type(value) is float and value.is_integer() and "integer" in types and "number" not in types:
        return int(value)
    if isinstance(value, list):
        items: Mapping[str, Any] = next((arm["items"] for arm in arms if "items" in arm), {})
        return [fit_value(items, item) for item in value]
    if isinstance(value, dict):
        properties: Mapping[str, Any] = next((arm["properties"] for arm in arms if "properties" in arm), {})
        return {key: fit_value(properties.get(key, {}), item, texts) for key, item in value.items()}
    return value


def _sample_integer(minimum: float | None, maximum: float | None, width: int, rng: np.random.Generator) -> int:
    """Return an integer from `minimum` (0 where that is allowed) to `maximum`, at most `width` above its start."""
    start = math.ceil(minimum) if minimum is not None else min(0, math.floor(maximum or 0))
    stop = start + width if maximum is None else min(math.floor(maximum), start + width)
    return start + int(rng.integers(0, stop - start + 1))
