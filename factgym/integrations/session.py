"""An episode slot as a framework's adapter uses it, pools of slots, tasks as rows, and the oracle's episodes.

An adapter passes assistant messages or single tool calls, and receives messages, a reward and flat metrics. Parsing,
scoring and wording are the environment's."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from factgym.agents.resolve import scripted_agents
from factgym.core.action import encode_json, parse_action
from factgym.core.config import DATA_VARIABLE
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, Stop
from factgym.core.errors import ConfigError, DataError
from factgym.core.messages import Message, ToolSchema
from factgym.core.registry import list_envs, make, spec

MAX_METRICS = 100
MAX_NAME_CHARS = 64
TRAIN_SPLIT = "train"
EPISODE_OVER = "The episode is over; this call was not done."
"""Answer to a call after the end."""

_MAX_NUMBER = 1e300
_MAX_KEY_CHARS = 2 * MAX_NAME_CHARS
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]+")
_MAX_IDLE = 256


class Session:
    """An episode slot over `make(env_id, **config)`; raises the errors of `make`.

    `env` is the environment itself. No method raises for the content of a policy's message; before the first `start`,
    everything about an episode raises EpisodeOverError.
    """

    def __init__(self, env_id: str, **config: Any) -> None:
        self.env: Env[Any] = make(env_id, **config)

    def start(self, task: str | int | None = None, seed: int | None = None) -> list[Message]:
        """Start an episode of a task (its id or index), or of the task that `seed` chooses; return the first prompt."""
        self.env.reset(seed=seed, options=None if task is None else {"task": task})
        return self.env.policy_prompt()

    def tools(self) -> list[ToolSchema]:
        """Schemas of the tools that are open now."""
        return list(self.env.available_tools())

    def all_tools(self) -> list[ToolSchema]:
        """Schemas of every tool that this environment may open, for frameworks that need them before an episode."""
        return list(self.env.all_tools())

    def step(self, message: Message | Mapping[str, Any] | str) -> list[Message]:
        """Play one assistant message or completion; return the messages that answer it.

        After the end nothing is played: each call is answered with `EPISODE_OVER`, a text with one user message.
        """
        if self.done:
            calls = parse_action(message).message.get("tool_calls") or []
            if not calls:
                return [{"role": "user", "content": EPISODE_OVER}]
            return [{"role": "tool", "tool_call_id": call["id"], "content": EPISODE_OVER} for call in calls]
        answers: list[Message] = self.env.step(message)[4]["messages"]
        return answers

    async def step_async(self, message: Message | Mapping[str, Any] | str) -> list[Message]:
        """`step`; in a thread where the environment's steps may take long."""
        if self.env.slow_steps and not self.done:
            return await asyncio.to_thread(self.step, message)
        return self.step(message)

    def call(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """Play one tool call, for a framework that passes calls and no messages; return the tool's text.

        arguments: named values, or the JSON text that the policy wrote (spans count its characters).
        """
        return message_texts(self.step(self._call_message(name, arguments)))

    async def call_async(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """`call`; in a thread where the environment's steps may take long."""
        return message_texts(await self.step_async(self._call_message(name, arguments)))

    def _call_message(self, name: str, arguments: Mapping[str, Any] | str) -> Message:
        if isinstance(arguments, str):
            text = arguments
        else:
            try:
                text = encode_json(dict(arguments))
            except (TypeError, ValueError):
                # A value that is no JSON (NaN, an object of the framework's) becomes NaN, which the parser refuses.
                text = json.dumps(dict(arguments), default=lambda _: math.nan, skipkeys=True)
        call_id = f"call_{len(self.env.episode.turns)}"
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}],
        }

    def close(self, stop: Stop = "turn_limit") -> RewardReport:
        """Return the report; an episode that still runs is truncated by a limit of the framework's, and scored."""
        return self.report or self.env.truncate(stop)

    def fail(self, fault: str) -> RewardReport:
        """Return the report; an episode that still runs is ended by a fault of the infrastructure, and not scored."""
        return self.report or self.env.fail(fault)

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.env.episode.stop is not None

    @property
    def stop(self) -> Stop | None:
        """Reason for the end of the episode."""
        return self.env.episode.stop

    @property
    def task(self) -> str:
        """Id of the task being played."""
        return str(self.env.task.id)

    @property
    def messages(self) -> list[Message]:
        """The policy's current prompt: not always the whole transcript."""
        return self.env.policy_prompt()

    @property
    def report(self) -> RewardReport | None:
        """The reward report; None while the episode runs."""
        return self.env.episode.report

    @property
    def reward(self) -> float | None:
        """The report's total; None while the episode runs and where it could not be scored, never a zero for a fault."""
        return self.report.total if self.report else None

    @property
    def spans(self) -> tuple[SpanCredit, ...]:
        """The credits on character ranges of the policy's messages; empty while the episode runs."""
        return self.report.spans if self.report else ()

    def turn_rewards(self) -> list[float]:
        """Sum of the spans' credit for each of the policy's messages, in order; zeros while the episode runs."""
        credit: defaultdict[int, float] = defaultdict(float)
        for span in self.spans:
            credit[span.message] += span.value
        return [credit[turn.message] for turn in self.env.episode.turns]

    def metrics(self) -> dict[str, float]:
        """Every component and numeric metric of the episode under a plain name, finite, at most `MAX_METRICS`.

        Beside the report's: turns, error_turns (turns answered with an error), truncated and scored (0 or 1).
        """
        episode = self.env.episode
        metrics = flat_metrics(episode.report)
        metrics["turns"] = float(len(episode.turns))
        metrics["error_turns"] = float(sum([turn.error is not None for turn in episode.turns]))
        metrics["truncated"] = float(episode.stop not in (None, "submitted"))
        metrics["scored"] = float(episode.report is not None and episode.report.status == "scored")
        return metrics


class SessionPool:
    """Sessions of one environment and its settings, each reused by later episodes.

    Making a session costs as much as a short episode.
    """

    def __init__(self, env_id: str, config: Mapping[str, Any] | None = None) -> None:
        self.env_id, self.config = env_id, dict(config or {})
        self._idle: list[Session] = []

    def acquire(self) -> Session:
        """Return an idle session, or a new session. Raises the errors of `make`."""
        return self.idle() or Session(self.env_id, **self.config)

    def idle(self) -> Session | None:
        """Return an idle session; None where there is none of the environment that is now registered under the id."""
        try:
            session = self._idle.pop()
        except IndexError:
            return None
        return session if session.env.env_spec is spec(self.env_id) else None

    def release(self, session: Session) -> None:
        """Keep a session for another episode."""
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(session)


def flat_metrics(report: RewardReport | None) -> dict[str, float]:
    """Components and numeric metrics of a report, flat: letters, digits and underscores, components first."""
    metrics: dict[str, float] = {}
    if report is not None:
        for values in (report.components, report.metrics):
            _add_metrics(metrics, "", values)
    return dict(islice(metrics.items(), MAX_METRICS))


def _add_metrics(metrics: dict[str, float], prefix: str, values: Mapping[Any, Any]) -> None:
    for key, value in values.items():
        if type(value) in (float, int, bool):
            name = _metric_name(f"{prefix}{key}"[:_MAX_KEY_CHARS])
            if -_MAX_NUMBER < value < _MAX_NUMBER:
                metrics.setdefault(name, float(value))
        elif not prefix and isinstance(value, Mapping):
            _add_metrics(metrics, f"{key}_", value)


@lru_cache(maxsize=10_000)
def _metric_name(key: str) -> str:
    return _NOT_IN_A_NAME.sub("_", key).strip("_")[:MAX_NAME_CHARS] or "unnamed"


def rows(
    env_id: str,
    config: Mapping[str, Any] | None = None,
    *,
    limit: int | None = None,
    start: int = 0,
    prompts: bool = True,
    indices: Sequence[int] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the tasks of `make(env_id, **config)` as JSON rows, for frameworks that iterate over a data set; no gold.

    Each: env (id with version), task (id), index, with `prompts` the first messages as "prompt", and hops where the tasks
    have a number of hops, within which HRPO compares. limit, start: of the tasks. indices: these tasks instead. Raises
    the errors of `make`.
    """
    session = Session(env_id, **(config or {}))
    size = len(session.env.tasks)
    end = size if limit is None else min(size, start + limit)
    for index in range(start, end) if indices is None else indices:
        row: dict[str, Any] = {"env": session.env.env_spec.versioned, "index": index}
        if prompts:
            row["prompt"] = session.start(index)
        task = session.env.tasks[index]
        hops = {"hops": task.hops} if hasattr(task, "hops") else {}
        yield {**row, "task": task.id, **hops}


def training_config(env_id: str, config: Mapping[str, Any] | None = None, *, strict: bool = True) -> dict[str, Any]:
    """Return settings of an environment, with its training split where they name none.

    strict: raise ConfigError where there are evaluation splits only; else the environment's own default is used. An
    environment with one set of tasks has no splits, and its settings are unchanged.
    """
    entry, values = spec(env_id), dict(config or {})
    if values.get("split") is not None or entry.kwargs.get("split") is not None:
        return values
    chosen = {name: value for name, value in values.items() if name != "split"}
    splits = entry.load().Config.build(env_id, {**entry.kwargs, **chosen}).splits
    if TRAIN_SPLIT in splits:
        return {**chosen, "split": TRAIN_SPLIT}
    if splits and strict:
        raise ConfigError(
            f"{env_id} has evaluation tasks only with these settings (split {', '.join(map(repr, splits))}): choose "
            f"another environment to train on, or name the split to train on it all the same (split={splits[0]!r})"
        )
    return values


def self_contained() -> list[str]:
    """Ids of the environments that can be made without any argument, and so without any file.

    What FACTGYM_DATA names does not count: on another machine it is not there.
    """
    env_ids = []
    data = os.environ.pop(DATA_VARIABLE, None)
    try:
        for env_id in list_envs():
            with suppress(ConfigError, DataError):
                make(env_id)
                env_ids.append(env_id)
    finally:
        if data is not None:
            os.environ[DATA_VARIABLE] = data
    return env_ids


def message_texts(messages: Sequence[Message]) -> str:
    """The messages' texts, with an empty line between two."""
    return "\n\n".join(message["content"] or "" for message in messages)


def play_oracle(env: Env[Any]) -> list[Any] | None:
    """Play the started episode to its end with the scripted oracle; return its actions, None without an oracle."""
    oracle = next((agent for agent in scripted_agents(env.env_spec.id).values() if agent.role == "oracle"), None)
    if oracle is None:
        return None
    policy = oracle.start(env, 0)
    actions: list[Any] = []
    while env.episode.stop is None:
        actions.append(policy.act(env.policy_prompt(), env.available_tools()))
        env.step(actions[-1])
    return actions


_TEMPLATE_TOKENS = 8
"""Tokens that a chat template puts around a message, about."""


@dataclass(frozen=True, slots=True)
class EpisodeTokens:
    """Length of the oracle's longest episode in tokens: of its prompt, and of everything after it."""

    prompt: int
    completion: int


def episode_tokens(
    env_id: str,
    count: Callable[[str], int],
    config: Mapping[str, Any] | None = None,
    *,
    tasks: int = 16,
    prompt: Callable[[Sequence[Message], Sequence[ToolSchema]], int] | None = None,
) -> EpisodeTokens:
    """Measure episodes: a lower bound for limits on an episode's length.

    count: tokens of a text. prompt: tokens of the first messages with the schemas of all tools, as a chat template
    renders them; by default the messages and the schemas as JSON. The oracle goes the shortest way; a limit of twice
    its length is a fair start. The completion is 0 where there is no oracle.
    """
    env = make(env_id, **(config or {}))
    tools = list(env.all_tools())
    schemas = count(json.dumps(tools)) if tools and prompt is None else 0
    longest = EpisodeTokens(0, 0)
    for index in range(min(tasks, len(env.tasks))):
        env.reset(options={"task": index})
        first = len(env.episode.messages)
        # The answer to the oracle's last action is not part of the episode.
        messages = env.episode.messages if play_oracle(env) is None else env.episode.messages[:-1]
        opening, completion = messages[:first], _count_tokens(count, messages[first:])
        length = prompt(opening, tools) if prompt is not None else _count_tokens(count, opening) + schemas
        longest = EpisodeTokens(max(longest.prompt, length), max(longest.completion, completion))
    return longest


def _count_tokens(count: Callable[[str], int], messages: Sequence[Message]) -> int:
    total = 0
    for message in messages:
        functions = [call["function"] for call in message.get("tool_calls", [])]
        calls = [f"{function['name']} {function['arguments']}" for function in functions]
        total += count("\n".join([message["content"] or "", *calls])) + _TEMPLATE_TOKENS
    return total
