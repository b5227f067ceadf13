"""Integration with Inspect: `inspect eval factgym/claimcheck-multihop --model …`.

Inspect finds this module by its entry point, and in it a task for every environment, whose arguments are the
environment's settings. The solver plays in process, without Inspect's own tool execution and approval policies. A fault
of the infrastructure raises, so that Inspect can retry the sample; an episode without a score is in no mean."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import is_
from secrets import token_hex
from typing import Any

from pydantic import Field

import factgym
from factgym.core.action import encode_json
from factgym.core.env import Env
from factgym.core.episode import RewardReport, Stop
from factgym.core.errors import FactgymError
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.registry import list_envs, spec
from factgym.integrations.frameworks import framework_import, make_arguments, settings_of
from factgym.integrations.session import Session, SessionPool, play_oracle, rows

with framework_import("Inspect", "inspect", "inspect_ai"):
    from inspect_ai import Task, task
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        ModelOutput,
        get_model,
    )
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.tool import ToolCall, ToolInfo, ToolParams
    from inspect_ai.util import LimitExceededError, Store, StoreModel

__all__ = ["Played", "episode_reward", "play_episode", "task_of"]

PREFIX = "Played:"
"""Prefix of a finished episode's names in a store."""

REWARD = "reward"
"""The metric that is the environment's own total."""

MAX_ANSWER_CHARS = 2_000

_STOPS: Mapping[str, Stop] = {"message": "turn_limit", "turn": "turn_limit"}
"""Inspect's limit -> stop reason; any other limit is one of length."""

Ask = Callable[[list[ChatMessage], Sequence[ToolInfo]], Awaitable[ModelOutput]]


class Played(StoreModel):
    """A finished episode, as the log's store keeps it under `Played:`. `sample.store_as(Played)` reads it.

    report: total, status, components, weights, gates, spans ([message, start, end, value] in the transcript), metrics.
    turn_rewards: the spans' credit for each message. calls: of each turn, the calls with tool, arguments and error.
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


# Messages and tools, from chat dicts to Inspect's types and back.


def assistant_message(message: ChatMessageAssistant) -> dict[str, Any]:
    """Return an assistant message of Inspect's as a chat dict, with arguments as JSON text again.

    A call that Inspect could not parse has Inspect's complaint as its arguments, which is no JSON: the environment
    refuses it in its own words.
    """
    content = message.content
    converted: dict[str, Any] = {"role": "assistant", "content": content}
    if not isinstance(content, str):
        converted["content"] = "".join(part.text for part in content if part.type == "text")
        if reasoning := "\n".join(part.reasoning for part in content if part.type == "reasoning"):
            converted["reasoning_content"] = reasoning
    calls = []
    for call in message.tool_calls or []:
        if call.parse_error is not None:
            arguments = str(call.parse_error)
        else:
            try:
                arguments = encode_json(call.arguments)
            except ValueError:  # NaN, which Inspect reads and the environment refuses
                arguments = json.dumps(call.arguments)
        calls.append({"id": call.id, "type": "function", "function": {"name": call.function, "arguments": arguments}})
    if calls:
        converted["tool_calls"] = calls
    return converted


def chat_message(message: Message, functions: Mapping[str, str], message_id: str) -> ChatMessage:
    """Return a chat dict as Inspect's message. functions: names of the called tools, by the ids of the calls."""
    content, role = message["content"] or "", message["role"]
    if role == "tool":
        call_id = message.get("tool_call_id", "")
        return ChatMessageTool(id=message_id, content=content, tool_call_id=call_id, function=functions.get(call_id))
    if role == "system":
        return ChatMessageSystem(id=message_id, content=content)
    if role == "user":
        return ChatMessageUser(id=message_id, content=content)
    calls = [
        ToolCall(id=call["id"], function=call["function"]["name"], arguments=json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or []
    ]
    return ChatMessageAssistant(id=message_id, content=content, tool_calls=calls or None)


def tool_info(schema: ToolSchema) -> ToolInfo:
    """Return a tool's schema as Inspect sends it to providers; keywords that its type has no field for are dropped."""
    function = schema["function"]
    return ToolInfo(
        name=function["name"],
        description=function.get("description") or "",
        parameters=ToolParams.model_validate(function["parameters"]),
    )


class Transcript:
    """The episode's messages as Inspect's, each converted once: additions of a provider go back to it unchanged."""

    def __init__(self, env: Env[Any]) -> None:
        self._env = env
        self._messages: Sequence[Message] = env.episode.messages
        self._isolated = type(env).policy_prompt is not Env.policy_prompt
        self._chats: list[ChatMessage] = []
        self._functions: dict[str, str] = {}
        self._id = token_hex(8)  # once: Inspect's own ids, and the system's randomness, take longer than a turn

    def start(self, sample: Sequence[ChatMessage]) -> list[ChatMessage] | None:
        """Return the first messages; None where they equal the sample's own, which are then used as they are."""
        for index, message in enumerate(self._messages):
            chat = sample[index] if index < len(sample) else None
            if chat is None or chat.content != message["content"] or chat.role != message["role"]:
                chat = self._convert(index)
            self._chats.append(chat)
        unchanged = len(sample) == len(self._chats) and all(map(is_, sample, self._chats))
        return None if unchanged else self._chats.copy()

    def extend(self, reply: ChatMessageAssistant) -> list[ChatMessage]:
        """Return the policy's message as the transcript has it, and the environment's answers."""
        first = len(self._chats)
        # The environment may give calls other ids, by which their results name them.
        played, sampled = self._messages[first].get("tool_calls") or (), reply.tool_calls or ()
        self._functions.update((call["id"], call["function"]["name"]) for call in played)
        if [call["id"] for call in played] != [call.id for call in sampled]:
            calls = [replace(call, id=own["id"]) for call, own in zip(sampled, played, strict=False)]
            reply = reply.model_copy(update={"tool_calls": calls})
        self._chats.append(reply)
        self._chats += [self._convert(index) for index in range(first + 1, len(self._messages))]
        return self._chats[first:]

    def prompt(self) -> list[ChatMessage]:
        """Return the policy's current prompt: not always the whole transcript."""
        if not self._isolated:
            return self._chats.copy()
        chat_of = {id(message): chat for message, chat in zip(self._messages, self._chats, strict=True)}
        prompt = []
        for message in self._env.policy_prompt():
            chat = chat_of.get(id(message))
            if chat is None:  # a copy of a message, or one that is not in the transcript
                index = next((index for index, other in enumerate(self._messages) if other == message), None)
                new_id = token_hex(11)
                chat = chat_message(message, self._functions, new_id) if index is None else self._chats[index]
            prompt.append(chat)
        return prompt

    def _convert(self, index: int) -> ChatMessage:
        return chat_message(self._messages[index], self._functions, f"{self._id}{index:06x}")


class ToolInfos:
    """The environment's tools as Inspect's, each converted once."""

    def __init__(self) -> None:
        self._infos: list[tuple[ToolSchema, ToolInfo]] = []

    def of(self, schemas: Sequence[ToolSchema]) -> tuple[ToolInfo, ...]:
        """Return the tools of the schemas."""
        tools = []
        for schema in schemas:
            info = next((info for converted, info in self._infos if converted is schema or converted == schema), None)
            if info is None:
                info = tool_info(schema)
                self._infos.append((schema, info))
            tools.append(info)
        return tuple(tools)


# The solver plays the episode and leaves it in the sample's store.


def task_arguments(env_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for `make`. A list setting takes a single value too: `-T name=a` is a text, `a,b` a list."""
    lists = {setting.name for setting in settings_of(env_id) if isinstance(setting.default, (tuple, list))}
    values = {key: [value] if key in lists and isinstance(value, str) else value for key, value in settings.items()}
    return make_arguments(env_id, values)


@solver
def play_episode(env: str, settings: dict[str, Any] | None = None) -> Solver:
    """Play the sample's task of an environment with the model under evaluation."""
    pool = SessionPool(env, task_arguments(env, settings or {}))
    infos = ToolInfos()

    async def ask(messages: list[ChatMessage], tools: Sequence[ToolInfo]) -> ModelOutput:
        return await get_model().generate(messages, tools=tools)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        session = pool.acquire()
        await play_sample(session, state, ask, infos)
        pool.release(session)
        return state

    return solve


async def play_sample(session: Session, state: TaskState, ask: Ask, infos: ToolInfos) -> None:
    """Play the sample's task to its end, and store the episode. Raises for a fault of the infrastructure."""
    session.env.reset(options={"task": str(state.metadata["task"])})
    try:
        await _play_turns(session, state, ask, infos)
    except LimitExceededError as error:
        session.close(_STOPS.get(error.type, "length_limit"))
        raise
    except Exception as error:
        session.fail(f"{type(error).__name__}: {error}")
        raise
    finally:
        report = session.close("length_limit")  # an episode that still runs was cancelled: by a limit of time
        _store(session, report, state.store)
    if report.status == "error":
        raise RuntimeError(f"the environment failed: {report.error}")
    state.completed = True


async def _play_turns(session: Session, state: TaskState, ask: Ask, infos: ToolInfos) -> None:
    env, episode = session.env, session.env.episode
    transcript = Transcript(env)
    first = transcript.start(state.messages)
    if first is not None:
        state.messages = first
    while episode.stop is None:
        output = await ask(transcript.prompt(), infos.of(env.available_tools()))
        state.output = output
        if output.empty:
            raise RuntimeError(f"the model returned no message: {output.error}")
        if output.stop_reason == "model_length":
            session.close("context_limit")
            return
        reply = output.message
        await session.step_async(assistant_message(reply))
        for message in transcript.extend(reply):
            state.messages.append(message)


def _store(session: Session, report: RewardReport, store: Store) -> None:
    """Write the episode field by field: each field set through `Played` would validate all of it again."""
    env, episode = session.env, session.env.episode
    last = message_text(episode.messages[episode.turns[-1].message]) if episode.turns else ""
    calls = [
        [
            {"tool": result.tool, "arguments": result.arguments, "error": result.error_code}
            for result in turn.results
            if result.tool
        ]
        for turn in episode.turns
    ]
    store.set(f"{PREFIX}env", env.env_spec.versioned)
    store.set(f"{PREFIX}task", episode.task.id)
    store.set(f"{PREFIX}stop", episode.stop)
    store.set(f"{PREFIX}answer", last.strip()[:MAX_ANSWER_CHARS])
    store.set(f"{PREFIX}report", report.to_dict())
    store.set(f"{PREFIX}metrics", session.metrics())
    store.set(f"{PREFIX}turn_rewards", session.turn_rewards())
    store.set(f"{PREFIX}calls", calls)
    store.set(f"{PREFIX}task_view", env.view_task(episode.task))


# The scorer reads the store alone.


def metric_names(session: Session) -> list[str]:
    """Return the reward and every metric of an episode without actions and of the oracle's, on the first task.

    Inspect needs them before the first episode; a metric that an episode lacks is not in its mean.
    """
    session.start(0)
    session.close()
    names = dict.fromkeys([REWARD, *session.metrics()])
    session.start(0)
    if play_oracle(session.env) is not None:
        names.update(dict.fromkeys(session.metrics()))
    return list(names)


@scorer(metrics=[{"*": [mean(), stderr()]}])
def episode_reward(names: list[str] | None = None) -> Scorer:
    """Score the episode that the solver played: its total, components and numeric metrics, as the environment has them.

    names: of the metrics, so that every score has all of them; those of the episode by default. Reads the store alone,
    so that `inspect score LOG --scorer factgym/episode_reward` scores an old log.
    """

    async def score(state: TaskState, target: Target) -> Score:
        return score_of(state.store, names)

    return score


def score_of(store: Store, names: Sequence[str] | None = None) -> Score:
    """Return the score of the episode in a store; unscored where it has no total, or where there is no episode."""
    report, answer, stop = (store.get(PREFIX + name) for name in ("report", "answer", "stop"))
    if report is None or report["total"] is None:
        reason = "the episode was not played by factgym's solver" if report is None else report["error"]
        return Score.unscored(reason="scoring_failed", answer=answer, explanation=reason)
    values = {REWARD: report["total"], **store.get(f"{PREFIX}metrics")}
    return Score(
        value={name: float(values.get(name, math.nan)) for name in names or values},
        answer=answer,
        explanation=f"stop: {stop}",
        metadata={"stop": stop, "turn_rewards": store.get(f"{PREFIX}turn_rewards"), "report": report},
    )


@cache
def task_of(env_id: str) -> Callable[..., Task]:
    """Return the registered task of an environment, `factgym/<env_id>`; its arguments are the environment's settings.

    An argument or a value that the environment does not take raises Inspect's PrerequisiteError, which its command
    shows as one line.
    """
    entry = spec(env_id)

    def make_task(**settings: Any) -> Task:
        try:
            arguments = task_arguments(entry.id, settings)
            session = Session(entry.id, **arguments)
            env, names = session.env, metric_names(session)
            samples = [
                Sample(
                    id=row["task"],
                    input=[chat_message(message, {}, token_hex(11)) for message in row["prompt"]],
                    metadata={"env": row["env"], "task": row["task"], "index": row["index"]},
                )
                for row in rows(entry.id, arguments)
            ]
        except FactgymError as error:
            raise PrerequisiteError(f"factgym/{entry.id}: {error}") from error
        return Task(
            dataset=MemoryDataset(samples, name=entry.id),
            solver=play_episode(entry.id, dict(settings)),
            scorer=episode_reward(names),
            metrics={name: [mean(), stderr()] for name in names},
            name=entry.id,
            version=entry.version,
            metadata={
                "factgym": factgym.__version__,
                "env": entry.versioned,
                "tasks": env.tasks.fingerprint(),
                "prompts": env.prompt_hashes(),
            },
        )

    parameters = [
        inspect.Parameter(
            setting.name, inspect.Parameter.KEYWORD_ONLY, default=setting.default, annotation=setting.hint
        )
        for setting in settings_of(entry.id)
    ]
    # Inspect drops an argument without a parameter, with a warning; the last parameter passes it on, to be refused.
    parameters.append(inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD))
    make_task.__name__ = make_task.__qualname__ = entry.id.replace("-", "_")
    make_task.__doc__ = entry.summary
    make_task.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    registered: Callable[..., Task] = task(name=entry.id)(make_task)
    return registered


for _env_id in list_envs():
    task_of(_env_id)
