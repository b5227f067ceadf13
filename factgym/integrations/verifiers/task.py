"""A task of verifiers' around one of ours: its data on the wire, its state, its tool server, its end and its score.

Our own harness plays in process and leaves the finished episode in the state. Another harness sees the tools through MCP
and leaves the calls, in order; the episode is played again from them."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated, Any, Literal

import verifiers.v1 as vf
from pydantic import Field, WithJsonSchema

import factgym
from factgym.core.messages import ToolSchema
from factgym.integrations.frameworks import make_arguments
from factgym.integrations.session import Session, SessionPool, play_oracle

INFO = "factgym"
"""Key of the episode in `trace.info`: env, task, stop, report (with its spans), metrics, turn_rewards."""

SHORTFALL = 0.1
"""Share of the reward that an oracle may miss where a corpus bounds the claims that can be supported."""

MAX_SESSIONS = 512
_SPARE_TURNS = 8


@cache
def _session_pool(env_id: str, settings: str) -> SessionPool:
    return SessionPool(env_id, make_arguments(env_id, json.loads(settings)))


class FactData(vf.TaskData):
    """One row. env: the id. settings: plain settings that are not the environment's defaults. task: the task's id."""

    env: str
    settings: dict[str, Any] = Field(default_factory=dict)
    task: str
    max_turns: int

    def open(self) -> Session:
        """Return a session at the start of this task; `pool.release` takes it back."""
        session = self.pool.acquire()
        session.env.reset(options={"task": self.task})
        return session

    @property
    def pool(self) -> SessionPool:
        """Sessions of the same environment and settings."""
        return _session_pool(self.env, json.dumps(self.settings, sort_keys=True) if self.settings else "{}")


class FactState(vf.State):
    """key: of the rollout. actions: the tool calls so far, name and arguments. result: the finished episode."""

    key: str = ""
    task: dict[str, Any] = Field(default_factory=dict)
    actions: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)
    result: dict[str, Any] | None = None


def episode_result(session: Session) -> dict[str, Any]:
    """Return a finished episode as JSON data."""
    report, env = session.close(), session.env
    return {
        "factgym": factgym.__version__,
        "env": env.env_spec.versioned,
        "task": session.task,
        "stop": env.episode.stop,
        "report": report.to_dict(),
        "metrics": session.metrics(),
        "turn_rewards": session.turn_rewards(),
    }


def replay(data: FactData, state: FactState) -> Session:
    """Return a session of the task after the calls in `state`."""
    session = data.open()
    for name, arguments in state.actions:
        session.call(name, arguments)
    return session


class FactToolsConfig(vf.ToolsetConfig):
    """env: the id; empty for `RolloutTools`, which has it from the task. settings: those that are not defaults."""

    env: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)


class FactTools(vf.Toolset[FactToolsConfig, FactState]):
    """The tools under their own names. One call is one turn of the environment's."""

    TOOL_PREFIX = None

    def __init__(self, config: FactToolsConfig) -> None:
        super().__init__(config)
        self._sessions: OrderedDict[str, tuple[int, Session]] = OrderedDict()
        """Rollout's key -> number of calls played, session; the least recently used first."""

    async def setup(self) -> None:
        """Load the corpus and the indexes, once."""
        if self.config.env:
            self.template = Session(self.config.env, **make_arguments(self.config.env, self.config.settings))
            self.template.start(0)

    def register(self, mcp: Any) -> None:
        """Register every tool that the environment may open, with the environment's own schema."""
        for schema in self.template.all_tools():
            function = schema["function"]
            mcp.add_tool(
                self._with_state(self._tool(schema)),
                name=function["name"],
                description=function.get("description") or None,
                structured_output=False,
            )

    def _tool(self, schema: ToolSchema) -> Callable[..., Awaitable[str]]:
        """A function whose parameters carry the schema's entries; the environment checks the values."""
        name, parameters = schema["function"]["name"], schema["function"]["parameters"]
        required, properties = parameters.get("required", ()), parameters.get("properties", {})
        defaults = {key: value.get("default") for key, value in properties.items() if key not in required}

        async def call(**arguments: Any) -> str:
            # The server fills in defaults; the environment gets the arguments that the policy wrote.
            written = {key: value for key, value in arguments.items() if key not in defaults or value != defaults[key]}
            return await self._call(name, written)

        call.__name__ = name
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    key,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=defaults.get(key) if key in defaults else inspect.Parameter.empty,
                    annotation=Annotated[Any, WithJsonSchema(value)],
                )
                for key, value in properties.items()
            ],
            return_annotation=str,
        )
        return call

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        state = self.state
        played, session = self._sessions.pop(state.key, (-1, self.template))
        if played != len(state.actions):  # another process played the last calls, or the session was dropped
            session = replay(FactData.model_validate(state.task), state)
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.popitem(last=False)
        text = await session.call_async(name, arguments)
        if state.result is None:
            state.actions.append((name, arguments))
            self._sessions[state.key] = len(state.actions), session
        if session.done and state.result is None:
            state.result = episode_result(session)
            self._sessions.pop(state.key, None)
        return text


class RolloutTools(FactTools):
    """`FactTools` of a single rollout; its environment is the task's."""

    async def setup_task(self, task: FactData) -> None:
        """Open the task."""
        self.template = task.open()


class FactTaskConfig(vf.TaskConfig):
    """tool_server: for harnesses other than ours, one process for all rollouts of a worker, or one for each rollout."""

    tool_server: Literal["shared", "rollout"] = "shared"


class FactTask(vf.Task[FactData, FactState, FactTaskConfig]):
    """Sets up, finishes and scores one of our tasks. The environment's own score is the one reward, every component and
    numeric metric a named metric; scoring reads `trace.info` alone and never raises."""

    @property
    def key(self) -> str:
        """The environment and the task: unique in a taskset, the same in every run."""
        return f"{self.data.env}:{self.data.task}"

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Put the rollout's key and task into its state, where a shared tool server reads them."""
        trace.state.key = trace.id
        data = self.data
        trace.state.task = {"env": data.env, "settings": data.settings, "task": data.task, "max_turns": data.max_turns}

    @classmethod
    def toolsets(cls, config: FactTaskConfig) -> list[vf.Toolset]:
        """A server of the rollout's own, where the configuration has one."""
        return [RolloutTools(FactToolsConfig())] if config.tool_server == "rollout" else []

    @vf.stop
    async def episode_over(self, trace: vf.Trace) -> bool:
        """Whether the environment has ended the episode: no model turn is spent after that."""
        return trace.state.result is not None

    @vf.stop
    async def too_many_turns(self, trace: vf.Trace) -> bool:
        """Whether another harness takes too many turns without calling a tool."""
        return bool(trace.num_turns >= 2 * self.data.max_turns + _SPARE_TURNS)

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Put the episode into `trace.info`. Raises for a fault of the infrastructure: that is no score of zero."""
        result = trace.state.result
        if result is None:  # a harness that saw the tools only; a text in its last message is the policy's answer
            session = replay(self.data, trace.state)
            last = trace.assistant_messages[-1] if trace.assistant_messages else None
            if last is not None and not last.tool_calls and last.content and not session.done:
                session.step(last.content)
            result = episode_result(session)
            self.data.pool.release(session)
        report = result["report"]
        if report["status"] == "error":
            raise RuntimeError(report["error"] or "the environment failed")
        trace.info[INFO] = result

    @vf.reward
    async def reward(self, trace: vf.Trace) -> dict[str, float]:
        """The environment's own total; empty for an episode without a score."""
        report = (trace.info.get(INFO) or {}).get("report") or {}
        total = report.get("total")
        return {} if total is None else {"reward": float(total)}

    @vf.metric
    async def components(self, trace: vf.Trace) -> dict[str, float]:
        """Every component and numeric metric, turns, error_turns, truncated and scored."""
        return dict((trace.info.get(INFO) or {}).get("metrics") or {})

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Whether the oracle earns the highest reward, or all but `SHORTFALL` of its distance to doing nothing.

        None where the environment has no oracle, or where another policy's answers bound the oracle's reward.
        """
        session = self.data.open()
        empty, highest = self.data.open().close().total, session.env.reward_bounds[1]
        if session.env.auxiliary_policies() or await asyncio.to_thread(play_oracle, session.env) is None:
            self.data.pool.release(session)
            return None
        earned = session.reward
        self.data.pool.release(session)
        if earned is None or empty is None:
            return False
        return bool(highest - earned <= SHORTFALL * (highest - empty))


if __name__ == "__main__":
    # verifiers starts a tool server as `python -m MODULE` with its configuration in VF_CONFIG; it warns of a shared
    # server whose class has `setup_task`, so that the two kinds are two classes.
    config = FactToolsConfig.model_validate_json(os.environ.get("VF_CONFIG", "{}"))
    (FactTools if config.env else RolloutTools).run()
