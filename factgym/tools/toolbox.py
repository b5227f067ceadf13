"""`@tool` and the toolbox: validated calls, and errors as data.

A tool is a typed function whose first parameter is the *desk* that it works on (an environment's per-episode state)
and whose other parameters are what a policy may say. It returns data; how that reads is said in one place, the
`render` function that is registered with it. A tool refuses a call by raising `Refusal`, which becomes a `ToolError`;
whatever else it raises is a fault of ours and is left to the environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from factgym.core.action import ToolCall
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.messages import ToolSchema
from factgym.tools.accept import compile_accept
from factgym.tools.schema import JsonSchema, parameters_schema, summary_text
from factgym.tools.untrusted import neutralise

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_SHOWN = 160
_MAX_ERRORS = 8
"""Errors of one call that are weighed against each other for the one that is told."""


class Refusal(Exception):  # noqa: N818 - an answer, not an error of the program
    """Raised inside a tool: the call was well formed but cannot be done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ToolError:
    """Why a call was not done. `path` is a JSON path into the arguments where one is to blame."""

    code: str
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: `data` or `error`, and `text`, the rendering for a policy."""

    tool: str
    text: str
    data: Any = None
    error: ToolError | None = None


@dataclass(frozen=True)
class Tool:
    """One tool: a function over a desk, the schema of its arguments, and how its result reads."""

    name: str
    description: str
    parameters: JsonSchema
    function: Callable[..., Any]
    render: Callable[[Any], str]
    tags: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> ToolSchema:
        """The tool in the OpenAI form."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @cached_property
    def _accept(self) -> Callable[[Any], bool]:
        return compile_accept(self.parameters)

    @cached_property
    def _validator(self) -> Validator:
        validator = _validator_class()
        validator.check_schema(self.parameters)
        return validator(self.parameters)

    def check(self, arguments: Mapping[str, Any]) -> ToolError | None:
        """What is wrong with the arguments by the schema, or None."""
        if self._accept(arguments) or self._validator.is_valid(arguments):
            return None
        return _explain(self, arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tool:
        return self


@cache
def _validator_class() -> type[Validator]:
    """JSON Schema as we mean it: 3.0 is no integer, and a list of the wrong size is not looked into.

    Both keep what reaches a tool simple; the second keeps hostile lists from costing an error for every item.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    every_item = Draft202012Validator.VALIDATORS["items"]

    def items(validator: Any, schema: Any, instance: Any, parent: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(instance, list) and len(instance) <= parent.get("maxItems", math.inf):
            yield from islice(every_item(validator, schema, instance, parent), _MAX_ERRORS)

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    found: type[Validator] = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {"items": items}, type_checker=checker
    )
    return found


def _explain(tool: Tool, arguments: Mapping[str, Any]) -> ToolError:
    from jsonschema.exceptions import best_match

    worst = best_match(islice(tool._validator.iter_errors(arguments), _MAX_ERRORS))
    if worst.validator == "additionalProperties":
        extra = sorted(set(worst.instance) - set(worst.schema["properties"]))[0]
        detail = f"{extra[:_SHOWN]!r} is not a parameter.{did_you_mean(extra[:_SHOWN], worst.schema['properties'])}"
    elif worst.validator in ("maxLength", "minLength", "maxItems", "minItems"):
        unit = "characters" if worst.validator.endswith("Length") else "items"
        bound = "at least" if worst.validator.startswith("min") else "at most"
        detail = f"has {len(worst.instance)} {unit}; {bound} {worst.validator_value} are needed"
        detail = detail.replace("are needed", "are allowed") if bound == "at most" else detail
    else:
        detail = worst.message
        if len(detail) > 2 * _SHOWN:  # the value comes first and the reason last
            detail = f"{detail[:_SHOWN]} … {detail[-_SHOWN:]}"
    path = worst.json_path if len(worst.json_path) <= _SHOWN else worst.json_path[:_SHOWN] + "…"
    return ToolError(
        "invalid_arguments", f"Arguments of {tool.name!r} do not fit its schema at {path}: {detail}", path
    )


def tool(
    *, render: Callable[[Any], str], name: str | None = None, tags: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed, documented function; its first parameter is the desk and is not part of the schema."""

    def decorate(function: Callable[..., Any]) -> Tool:
        return Tool(
            name=name or function.__name__,
            description=summary_text(function.__doc__ or ""),
            parameters=parameters_schema(function, skip=1),
            function=function,
            render=render,
            tags=tuple(tags),
        )

    return decorate


@dataclass(frozen=True)
class Toolbox:
    """An ordered set of tools. Immutable and shared between episodes."""

    tools: tuple[Tool, ...]
    _by_name: dict[str, Tool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {one.name: one for one in self.tools})
        if len(self._by_name) != len(self.tools):
            raise ConfigError(f"two tools have one name: {', '.join(one.name for one in self.tools)}")

    def schemas(self, available_tools: Collection[str] | None = None) -> list[ToolSchema]:
        """The OpenAI schemas of the tools that are open, in order."""
        return [one.schema for one in self.tools if available_tools is None or one.name in available_tools]

    def call(self, desk: Any, call: ToolCall, available_tools: Collection[str] | None = None) -> ToolResult:
        """Validate a call and do it. Never raises for a bad call; what a tool itself raises passes through."""
        found = self._by_name.get(call.name)
        names = [one.name for one in self.tools if available_tools is None or one.name in available_tools]
        if found is None or found.name not in names:
            listed = ", ".join(names)
            return failed(
                call.name[:_SHOWN],
                ToolError(
                    "unknown_tool",
                    f"There is no tool {call.name[:_SHOWN]!r} here.{did_you_mean(call.name[:_SHOWN], names)} "
                    f"Tools: {listed}.",
                ),
            )
        wrong = found.check(call.arguments)
        if wrong is not None:
            return failed(found.name, wrong)
        try:
            data = found.function(desk, **call.arguments)
        except Refusal as refusal:
            return failed(found.name, ToolError(refusal.code, str(refusal)))
        return ToolResult(found.name, found.render(data), data)


def failed(name: str, error: ToolError) -> ToolResult:
    """The result of a call that was not done."""
    return ToolResult(name, neutralise(f"Error ({error.code}): {error.message}"), error=error)
