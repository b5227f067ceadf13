"""The solver: an episode in process, with the model under evaluation; what it leaves in the sample's store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from inspect_ai.model import ChatMessage, ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo
from inspect_ai.util import LimitExceededError, StoreModel
from pydantic import Field

from factgym.core.episode import Episode, RewardReport, Stop, ToolResult
from factgym.core.messages import message_text
from factgym.integrations.inspect.messages import Talk, ToolInfos, said
from factgym.integrations.session import Session
from factgym.integrations.settings import keywords, settings_of

PLAYED = "Played:"
"""What the names of a finished episode begin with in a store."""

MAX_IDLE = 64
MAX_ANSWER_CHARS = 2_000

_STOPS: Mapping[str, Stop] = {"message": "turn_limit", "turn": "turn_limit"}
"""Inspect's limit -> our word for the stop; any other limit is one of length."""

Ask = Callable[[list[ChatMessage], Sequence[ToolInfo]], Awaitable[ModelOutput]]


class Played(StoreModel):
    """A finished episode, as the log's store keeps it under `Played:`. `sample.store_as(Played)` reads it.

    report: total, status, components, weights, gates, spans ([message, start, end, value] in the transcript), metrics.
    turn_rewards: what the spans credit to each message. calls: of each turn, the calls with tool, arguments and error.
    task_view: the task with its gold, for readers of the log.
    """

    env: str = ""
    task: str = ""
    stop: str | None = None
    answer: str = ""
    report: dict[str, Any] | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    turn_rewards: list[float] = Field(default_factory=list)
    calls: list[list[dict[str, Any]]] = Field(default_factory=list)
    task_view: dict[str, Any] = Field(default_factory=dict)


def arguments_of(env_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `make`. Where a setting is a list, one value is made one: `-T name=a` is a text, `a,b` a list."""
    many = {one.name for one in settings_of(env_id) if isinstance(one.default, (tuple, list))}
    listed = {key: [value] if key in many and isinstance(value, str) else value for key, value in settings.items()}
    return keywords(env_id, listed)


@solver
def play_episode(env: str, settings: dict[str, Any] | None = None) -> Solver:
    """Plays the sample's task of an environment with the model under evaluation."""
    arguments = arguments_of(env, settings or {})
    idle: list[Session] = []
    infos = ToolInfos()

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        session = idle.pop() if idle else Session(env, **arguments)
        await play_through(session, state, _ask, infos)
        if len(idle) < MAX_IDLE:
            idle.append(session)
        return state

    return solve


async def _ask(messages: list[ChatMessage], tools: Sequence[ToolInfo]) -> ModelOutput:
    return await get_model().generate(messages, tools=tools)


async def play_through(session: Session, state: TaskState, ask: Ask, infos: ToolInfos) -> None:
    """Play the sample's task to its end, and leave it in the state's store. Raises for a fault of the infrastructure."""
    session.env.reset(options={"task": str(state.metadata["task"])})
    talk = Talk(session.env)
    try:
        first = talk.begun(state.messages)
        if first is not None:
            state.messages = first
        await _turns(session, talk, state, ask, infos)
    except LimitExceededError as error:
        session.close(_STOPS.get(error.type, "length_limit"))
        raise
    except Exception as error:
        session.fail(f"{type(error).__name__}: {error}")
        raise
    finally:
        report = session.close("length_limit")  # what is still running was cancelled: by a limit of time
        _keep(session, report, state.store.set)
    if report.status == "error":
        raise RuntimeError(f"the environment failed: {report.error}")
    state.completed = True


async def _turns(session: Session, talk: Talk, state: TaskState, ask: Ask, infos: ToolInfos) -> None:
    env, episode = session.env, session.env.episode
    slow = env.slow_steps
    while episode.stop is None:
        output = await ask(talk.prompt(), infos.of(env.available_tools()))
        state.output = output
        if output.empty:
            raise RuntimeError(f"the model returned no message: {output.error}")
        if output.stop_reason == "model_length":
            session.close("context_limit")
            return
        message = output.message
        if slow:
            await session.say_async(said(message))
        else:
            env.step(said(message))
        for one in talk.answered(message):
            state.messages.append(one)


def _keep(session: Session, report: RewardReport, keep: Callable[[str, Any], None]) -> None:
    """Write the episode to a store at once: each field set through `Played` would validate all of it again."""
    env, episode = session.env, session.env.episode
    found = {
        "env": env.env_spec.versioned,
        "task": episode.task.id,
        "stop": episode.stop,
        "answer": _answer(episode),
        "report": report.to_dict(),
        "metrics": session.metrics(),
        "turn_rewards": session.turn_rewards(),
        "calls": [_calls(turn.results) for turn in episode.turns],
        "task_view": env.view_task(episode.task),
    }
    for name, value in found.items():
        keep(PLAYED + name, value)


def _calls(results: Sequence[ToolResult]) -> list[dict[str, Any]]:
    return [
        {"tool": result.tool, "arguments": result.arguments, "error": result.error_code}
        for result in results
        if result.tool
    ]


def _answer(episode: Episode[Any]) -> str:
    """What the policy said last."""
    turns = episode.turns
    return message_text(episode.messages[turns[-1].message]).strip()[:MAX_ANSWER_CHARS] if turns else ""
