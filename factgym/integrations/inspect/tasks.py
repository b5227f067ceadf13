"""Inspect's view of an environment: a solver that plays the episode in process, a scorer, and a task for each environment."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from secrets import token_hex
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ModelOutput, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo
from inspect_ai.util import LimitExceededError, Store, StoreModel
from pydantic import Field

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.core.episode import Episode, RewardReport, Stop, ToolResult
from factgym.core.errors import FactgymError
from factgym.core.messages import message_text
from factgym.core.registry import spec
from factgym.integrations.inspect.messages import Talk, ToolInfos, chat_message, said
from factgym.integrations.session import Session, rows
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


REWARD = "reward"
"""The metric that is the environment's own total."""


def metric_names(session: Session) -> list[str]:
    """The reward and every metric of an episode, whether the policy does nothing or all that is right.

    Inspect wants them before the first episode. Plays the first task; a metric that an episode lacks is not in its mean.
    """
    session.start(0)
    session.close()
    found = dict.fromkeys([REWARD, *session.metrics()])
    oracle = next((one for one in scripted_agents(session.env.env_spec.id).values() if one.role == "oracle"), None)
    if oracle is not None:
        session.start(0)
        policy = oracle.start(session.env, 0)
        while not session.done:
            action: Any = policy.act(session.messages, session.tools())
            session.say(action)
        found.update(dict.fromkeys(session.metrics()))
    return list(found)


@scorer(metrics=[{"*": [mean(), stderr()]}])
def episode_reward(names: list[str] | None = None) -> Scorer:
    """The environment's own score of the episode that the solver played: its total, components and numeric metrics.

    names: of the metrics, so that every score has all of them; those of the episode by default. Reads the store alone,
    so that `inspect score LOG --scorer factgym/episode_reward` scores an old log.
    """

    async def score(state: TaskState, target: Target) -> Score:
        return score_of(state.store, names)

    return score


def score_of(store: Store, names: Sequence[str] | None = None) -> Score:
    """The score of the episode in a store; unscored where the environment gave none, or where there is no episode."""
    kept = {name: store.get(PLAYED + name) for name in ("report", "metrics", "answer", "stop", "turn_rewards")}
    report, answer = kept["report"], kept["answer"]
    if report is None or report["total"] is None:
        why = "the episode was not played by factgym's solver" if report is None else report["error"]
        return Score.unscored(reason="scoring_failed", answer=answer, explanation=why)
    values, stop = {REWARD: report["total"], **kept["metrics"]}, kept["stop"]
    return Score(
        value={name: float(values.get(name, math.nan)) for name in names or values},
        answer=answer,
        explanation=f"stop: {stop}",
        metadata={"stop": stop, "turn_rewards": kept["turn_rewards"], "report": report},
    )


@cache
def task_of(env_id: str) -> Callable[..., Task]:
    """The registered task of an environment, `factgym/<env_id>`: its arguments are the environment's plain settings.

    An argument or a value that the environment does not take raises Inspect's PrerequisiteError, which its command
    shows as one line.
    """
    entry = spec(env_id)

    def made(**settings: Any) -> Task:
        try:
            return _task(entry.id, settings)
        except FactgymError as error:
            raise PrerequisiteError(f"factgym/{entry.id}: {error}") from error

    kinds = inspect.Parameter
    given = [
        kinds(one.name, kinds.KEYWORD_ONLY, default=one.default, annotation=one.hint) for one in settings_of(entry.id)
    ]
    # Inspect drops an argument that a task has no name for with a warning; the last parameter has them refused.
    every = [*given, kinds("settings", kinds.VAR_KEYWORD)]
    made.__name__ = entry.id.replace("-", "_")
    made.__qualname__ = made.__name__
    made.__doc__ = entry.summary
    made.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    registered: Callable[..., Task] = task(name=entry.id)(made)
    return registered


def _task(env_id: str, settings: Mapping[str, Any]) -> Task:
    arguments = arguments_of(env_id, settings)
    session = Session(env_id, **arguments)
    names = metric_names(session)
    return Task(
        dataset=MemoryDataset(list(_samples(env_id, arguments)), name=env_id),
        solver=play_episode(env_id, dict(settings)),
        scorer=episode_reward(names),
        metrics={name: [mean(), stderr()] for name in names},
        name=env_id,
        version=session.env.env_spec.version,
        metadata={
            "factgym": factgym.__version__,
            "env": session.env.env_spec.versioned,
            "tasks": session.env.tasks.fingerprint(),
            "prompts": session.env.prompt_hashes(),
        },
    )


def _samples(env_id: str, arguments: Mapping[str, Any]) -> Iterator[Sample]:
    for row in rows(env_id, arguments):
        yield Sample(
            id=row["task"],
            input=[chat_message(message, {}, token_hex(11)) for message in row["prompt"]],
            metadata={"env": row["env"], "task": row["task"], "index": row["index"]},
        )
