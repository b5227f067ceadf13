"""`@tool` and the toolbox: validated calls, and errors as data.

A tool is a typed function whose first parameter is the state of the episode and whose other parameters are the
arguments that a policy passes. It returns data; the `render` function that is registered with it turns the data into
text. A tool refuses a call by raising `ToolError`, which becomes the error of the result; any other exception is a fault
of the program and passes through to the environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from factgym.core.calls import ToolCall, find_placeholder
from factgym.core.episode import ToolResult
from factgym.core.errors import ConfigError, ToolError, did_you_mean
from factgym.core.messages import ToolSchema
from factgym.core.spaces import fit_value
from factgym.core.untrusted import neutralise
from factgym.tools.schema import JsonSchema, compact_schema, parameters_schema, summary_text

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MAX_QUOTED_CHARS = 160
_MAX_ERRORS = 8
"""Schema errors of one call that are compared for the most relevant one."""


@dataclass(frozen=True)
class Tool:
    """A function over an episode's state, the schema of its arguments, and the rendering of its result.

    accepts: a fast test that accepts no arguments which the schema rejects; None leaves all to `jsonschema`.
    ends_episode: whether a successful call ends the episode. brief: the description in a compact schema, by default the
    first sentence. delimits: `render` takes the data and the code of the episode's delimiters (`core.untrusted`).
    """

    name: str
    description: str
    parameters: JsonSchema
    function: Callable[..., Any]
    render: Callable[..., str]
    tags: tuple[str, ...] = ()
    ends_episode: bool = False
    accepts: Callable[[Any], bool] | None = None
    brief: str = ""
    delimits: bool = False

    @cached_property
    def schema(self) -> ToolSchema:
        """The tool in the OpenAI form."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @cached_property
    def brief_schema(self) -> ToolSchema:
        """The same with a short description and a compact schema; calls are checked as ever."""
        description = self.brief or self.description[: self.description.find(". ") + 1] or self.description
        function = {"name": self.name, "description": description, "parameters": compact_schema(self.parameters)}
        return {"type": "function", "function": function}

    @cached_property
    def _validator(self) -> Validator:
        validator = _validator_class()
        validator.check_schema(self.parameters)
        return validator(self.parameters)

    def fit(self, arguments: dict[str, Any], texts: bool = False) -> dict[str, Any] | ToolError:
        """Return arguments as the function takes them (`factgym.core.spaces.fit_value`), or the error of others."""
        if texts or self.accepts is None or not self.accepts(arguments):
            arguments = fit_value(self.parameters, arguments, texts)
            if not self._validator.is_valid(arguments):
                return _schema_error(self, arguments)
        placeholder = find_placeholder(arguments)
        if placeholder is None:
            return arguments
        return ToolError("placeholder", f"{placeholder!r} in the arguments of {self.name!r} is a placeholder.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tool:
        return self


@cache
def _validator_class() -> type[Validator]:
    """JSON Schema, but that the items of a list of the wrong size are skipped: hostile lists cost no error for each."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    check_items = Draft202012Validator.VALIDATORS["items"]

    def items(validator: Any, schema: Any, instance: Any, parent: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(instance, list) and len(instance) <= parent.get("maxItems", math.inf):
            yield from islice(check_items(validator, schema, instance, parent), _MAX_ERRORS)

    extended: type[Validator] = extend(Draft202012Validator, {"items": items})  # type: ignore[no-untyped-call]
    return extended


def _schema_error(tool: Tool, arguments: Mapping[str, Any]) -> ToolError:
    """Describe the most relevant schema error in one bounded sentence, with the nearest parameter for a misspelt one."""
    from jsonschema.exceptions import best_match

    error = best_match(islice(tool._validator.iter_errors(arguments), _MAX_ERRORS))
    if error.validator == "additionalProperties":
        extra = sorted(set(error.instance) - set(error.schema["properties"]))[0][:_MAX_QUOTED_CHARS]
        detail = f"{extra!r} is not a parameter.{did_you_mean(extra, error.schema['properties'])}"
    elif error.validator in ("maxLength", "minLength", "maxItems", "minItems"):
        unit = "characters" if error.validator.endswith("Length") else "items"
        bound = "at least {} are needed" if error.validator.startswith("min") else "at most {} are allowed"
        detail = f"has {len(error.instance)} {unit}; {bound.format(error.validator_value)}"
    else:
        detail = error.message
        if len(detail) > 2 * _MAX_QUOTED_CHARS:  # the value comes first and the reason last
            detail = f"{detail[:_MAX_QUOTED_CHARS]} … {detail[-_MAX_QUOTED_CHARS:]}"
    path = error.json_path
    if len(path) > _MAX_QUOTED_CHARS:
        path = path[:_MAX_QUOTED_CHARS] + "…"
    return ToolError("invalid_arguments", f"Arguments of {tool.name!r} do not fit its schema at {path}: {detail}", path)


def tool(
    *,
    render: Callable[..., str],
    name: str | None = None,
    tags: Sequence[str] = (),
    ends_episode: bool = False,
    brief: str = "",
    delimits: bool = False,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed, documented function; its first parameter is the state and is not part of the schema."""

    def decorate(function: Callable[..., Any]) -> Tool:
        parameters, accepts = parameters_schema(function, skip=1)
        return Tool(
            name=name or function.__name__,
            description=summary_text(function.__doc__ or ""),
            parameters=parameters,
            function=function,
            render=render,
            tags=tuple(tags),
            ends_episode=ends_episode,
            accepts=accepts,
            brief=brief,
            delimits=delimits,
        )

    return decorate


@dataclass(frozen=True)
class Toolbox:
    """An ordered set of tools. Immutable and shared between episodes. Raises ConfigError for two tools of one name."""

    tools: tuple[Tool, ...]
    _by_name: dict[str, Tool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {tool.name: tool for tool in self.tools})
        if len(self._by_name) != len(self.tools):
            raise ConfigError(f"two tools have one name: {', '.join(tool.name for tool in self.tools)}")

    def schemas(self, names: Collection[str] | None = None, style: str = "full") -> Sequence[ToolSchema]:
        """The OpenAI schemas of the tools of these names, in the toolbox's order; of all for None.

        style: "brief" for compact ones; "mini" for none, as the prompt names the tools.
        """
        if style == "mini":
            return ()
        if names is None:
            return self._brief_schemas if style == "brief" else self._full_schemas
        tools = [tool for tool in self.tools if tool.name in names]
        return [tool.brief_schema if style == "brief" else tool.schema for tool in tools]

    @cached_property
    def _full_schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema for tool in self.tools)

    @cached_property
    def _brief_schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.brief_schema for tool in self.tools)

    @cached_property
    def ends_episode(self) -> frozenset[str]:
        """Names of the tools of which a successful call ends the episode."""
        return frozenset(tool.name for tool in self.tools if tool.ends_episode)

    def call(self, state: Any, call: ToolCall, names: Collection[str] | None = None) -> ToolResult:
        """Validate a call of one of these tools and do it.

        Never raises for a bad call; an exception of the tool other than ToolError passes through.
        """
        tool = self._by_name.get(call.name)
        if tool is None or (names is not None and call.name not in names):
            options = [tool.name for tool in self.tools if names is None or tool.name in names]
            name = call.name[:_MAX_QUOTED_CHARS]
            message = f"There is no tool {name!r} here.{did_you_mean(name, options)} Tools: {', '.join(options)}."
            return failed(call, ToolError("unknown_tool", message))
        arguments = tool.fit(call.arguments, call.texts)
        if isinstance(arguments, ToolError):
            return failed(call, arguments)
        try:
            data = tool.function(state, **arguments)
        except ToolError as refusal:
            return failed(call, refusal.with_traceback(None))
        text = tool.render(data, state.nonce) if tool.delimits else tool.render(data)
        return ToolResult(text, tool.name, arguments, None, call.id, data)


def failed(call: ToolCall, error: ToolError) -> ToolResult:
    """The result of a call that was not done."""
    text = neutralise(f"Error ({error.code}): {error.message}")
    return ToolResult(text, call.name[:_MAX_QUOTED_CHARS], call.arguments, error, call.id)
