"""A task of verifiers' around one of ours: its data on the wire, its state, how it is finished and scored.

Two ways lead here. Our own harness plays in process and leaves the finished episode in the state. Another harness sees
the tools through MCP and leaves what was called, in order; the episode is played again from that."""

from __future__ import annotations

import inspect
import json
import os
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

import verifiers.v1 as vf
from pydantic import Field, WithJsonSchema

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.core.messages import ToolSchema
from factgym.integrations.session import Session
from factgym.integrations.settings import keywords

INFO = "factgym"
"""Where `trace.info` keeps the episode: env, task, stop, report (with its spans), metrics, turn_rewards."""

MAX_IDLE = 64
"""Sessions that are kept for each environment and its settings: making one costs as much as a short episode."""

SHORTFALL = 0.1
"""What an oracle may leave unearned where a corpus bounds what can be supported, as a share."""

_SPARE_TURNS = 8

_idle: defaultdict[tuple[str, str], list[Session]] = defaultdict(list)


class FactData(vf.TaskData):
    """One row. env: the id. settings: plain settings that are not the environment's defaults. task: the task's id."""

    env: str
    settings: dict[str, Any] = Field(default_factory=dict)
    task: str
    max_turns: int

    def open(self) -> Session:
        """A session at the start of this task; `release` takes it back when it is done with."""
        idle = _idle[self._slot]
        session = idle.pop() if idle else Session(self.env, **keywords(self.env, self.settings))
        session.env.reset(options={"task": self.task})
        return session

    def release(self, session: Session) -> None:
        """Keep a session for another episode of the same settings."""
        idle = _idle[self._slot]
        if len(idle) < MAX_IDLE:
            idle.append(session)

    @property
    def _slot(self) -> tuple[str, str]:
        return self.env, json.dumps(self.settings, sort_keys=True) if self.settings else ""


class FactState(vf.State):
    """key: of the rollout. actions: the tool calls so far, name and arguments. result: the finished episode."""

    key: str = ""
    task: dict[str, Any] = Field(default_factory=dict)
    actions: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)
    result: dict[str, Any] | None = None


def result_of(session: Session) -> dict[str, Any]:
    """A finished episode as JSON data."""
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


def replayed(data: FactData, state: FactState) -> Session:
    """The session of `data` after the calls in `state`."""
    session = data.open()
    for name, arguments in state.actions:
        session.call(name, arguments)
    return session


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


class OwnTools(FactTools):
    """`FactTools` that learns its environment from the rollout's task."""

    async def setup_task(self, task: FactData) -> None:
        """Build what the task needs."""
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
        """Tell a shared tool server, which never sees a task, whose calls it answers."""
        trace.state.key = trace.id
        data = self.data
        trace.state.task = {"env": data.env, "settings": data.settings, "task": data.task, "max_turns": data.max_turns}

    @classmethod
    def toolsets(cls, config: FactTaskConfig) -> list[vf.Toolset]:
        """A server of the rollout's own, where that is wanted."""
        return [OwnTools(FactToolsConfig())] if config.tool_server == "rollout" else []

    @vf.stop
    async def episode_over(self, trace: vf.Trace) -> bool:
        """Whether the environment has ended the episode: no model turn is spent after that."""
        return trace.state.result is not None

    @vf.stop
    async def too_many_turns(self, trace: vf.Trace) -> bool:
        """Whether a harness of somebody else's goes on and on without calling a tool."""
        return bool(trace.num_turns >= 2 * self.data.max_turns + _SPARE_TURNS)

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Put the episode into `trace.info`. Raises where the infrastructure failed: that is no score of zero."""
        result = trace.state.result or self._played_again(trace)
        report = result["report"]
        if report["status"] == "error":
            raise RuntimeError(report["error"] or "the environment failed")
        trace.info[INFO] = result

    def _played_again(self, trace: vf.Trace) -> dict[str, Any]:
        """The episode of a harness that saw the tools only; what it said last, where that was text, is its answer."""
        session = replayed(self.data, trace.state)
        last = trace.assistant_messages[-1] if trace.assistant_messages else None
        if last is not None and not last.tool_calls and last.content and not session.done:
            session.say(last.content)
        result = result_of(session)
        self.data.release(session)
        return result

    @vf.reward
    async def reward(self, trace: vf.Trace) -> dict[str, float]:
        """The environment's own total; nothing where it was not scored."""
        total = _report(trace).get("total")
        return {} if total is None else {"reward": float(total)}

    @vf.metric
    async def components(self, trace: vf.Trace) -> dict[str, float]:
        """Every component and numeric metric, turns, errors, truncated and scored."""
        found = trace.info.get(INFO) or {}
        return dict(found.get("metrics") or {})

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Whether the oracle earns the highest reward, or all but `SHORTFALL` of what doing nothing leaves to earn.

        None where the environment has no oracle, or where another policy's answers bound what it can earn.
        """
        oracle = next((one for one in scripted_agents(self.data.env).values() if one.role == "oracle"), None)
        session = self.data.open()
        if oracle is None or session.env.auxiliary_policies():
            self.data.release(session)
            return None
        nothing = self.data.open().close().total
        policy = oracle.start(session.env, 0)
        while not session.done:
            action: Any = policy.act(session.messages, session.tools())
            await session.say_async(action)
        earned, most = session.reward, session.env.reward_bounds[1]
        self.data.release(session)
        if earned is None or nothing is None:
            return False
        return bool(most - earned <= SHORTFALL * (most - nothing))


def _report(trace: vf.Trace) -> Mapping[str, Any]:
    found = trace.info.get(INFO) or {}
    report: Mapping[str, Any] = found.get("report") or {}
    return report


if __name__ == "__main__":
    # verifiers starts a tool server as `python -m MODULE` with its configuration in VF_CONFIG; it warns of a shared
    # server whose class has `setup_task`, so that the two kinds are two classes.
    config = FactToolsConfig.model_validate_json(os.environ.get("VF_CONFIG", "{}"))
    (FactTools if config.env else OwnTools).run()
