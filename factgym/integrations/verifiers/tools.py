"""The environment's tools as one shared MCP server, for harnesses other than ours: `python -m` runs it.

One process serves every rollout of a worker. A rollout's state is its calls so far; a session that is not in memory any
more is played again from them.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import verifiers.v1 as vf
from pydantic import Field, WithJsonSchema

from factgym.core.messages import ToolSchema
from factgym.integrations.session import Session
from factgym.integrations.settings import keywords
from factgym.integrations.verifiers.task import FactData, FactState, replayed, result_of

MAX_SESSIONS = 512


class FactToolsConfig(vf.ToolsetConfig):
    """env: the id; empty for `OwnTools`, which is told its task. settings: those that are not defaults."""

    env: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)


class FactTools(vf.Toolset[FactToolsConfig, FactState]):
    """The tools under their own names. One call is one turn of the environment's."""

    TOOL_PREFIX = None

    def __init__(self, config: FactToolsConfig) -> None:
        super().__init__(config)
        self._sessions: OrderedDict[str, tuple[int, Session]] = OrderedDict()

    async def setup(self) -> None:
        """Build what is heavy, once."""
        if self.config.env:
            self.template = Session(self.config.env, **keywords(self.config.env, self.config.settings))
            self.template.start(0)

    def register(self, mcp: Any) -> None:
        """Every tool that the environment may open, with the environment's own schema."""
        for schema in self.template.all_tools():
            function = schema["function"]
            mcp.add_tool(
                self._with_state(self._tool(schema)),
                name=function["name"],
                description=function.get("description") or None,
                structured_output=False,
            )

    def _tool(self, schema: ToolSchema) -> Callable[..., Awaitable[str]]:
        name, parameters = schema["function"]["name"], schema["function"]["parameters"]

        async def call(**arguments: Any) -> str:
            return await self._call(name, _given(arguments, parameters))

        call.__name__ = name
        call.__signature__ = _signature(parameters)  # type: ignore[attr-defined]
        return call

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        state = self.state
        session = self._session(state)
        text = await session.call_async(name, arguments)
        if state.result is None:
            state.actions.append((name, arguments))
            self._sessions[state.key] = len(state.actions), session
        if session.done and state.result is None:
            state.result = result_of(session)
            self._sessions.pop(state.key, None)
        return text

    def _session(self, state: FactState) -> Session:
        played, session = self._sessions.pop(state.key, (-1, self.template))
        if played != len(state.actions):
            session = replayed(FactData.model_validate(state.task), state)
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session


def _signature(parameters: dict[str, Any]) -> inspect.Signature:
    """A signature whose parameters carry the schema's own entries; what fits them is the environment's to say."""
    required = parameters.get("required", ())
    found = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name in required else schema.get("default"),
            annotation=Annotated[Any, WithJsonSchema(schema)],
        )
        for name, schema in parameters.get("properties", {}).items()
    ]
    return inspect.Signature(found, return_annotation=str)


def _given(arguments: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that were left out, and that the server has filled in with their defaults."""
    required = parameters.get("required", ())
    default = {
        name: one.get("default") for name, one in parameters.get("properties", {}).items() if name not in required
    }
    return {name: value for name, value in arguments.items() if name not in default or value != default[name]}


if __name__ == "__main__":
    FactTools.run()
