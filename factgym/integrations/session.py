"""An episode slot as a framework's adapter uses it, tasks as rows, and the lengths of episodes in tokens.

An adapter passes assistant messages or single tool calls, and receives messages, a reward and flat metrics. Parsing,
scoring and wording are the environment's."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from factgym.agents.resolve import scripted_agents
from factgym.core.action import encode_json, parse_action
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit, Stop, Turn
from factgym.core.errors import ConfigError, DataError
from factgym.core.messages import Message, ToolSchema
from factgym.core.registry import list_envs, make

MAX_METRICS = 100
MAX_NAME_CHARS = 64
OVER = "The episode is over; this call was not done."

_MOST = 1e300
_LONGEST_KEY = 2 * MAX_NAME_CHARS
_MAX_PREFIXES = 100
_MAX_NAMES = 1000
_names: dict[str, dict[Any, str]] = {}
"""Prefix -> key -> the plain name: what has been made once and is looked up after every episode."""
_NO_NUMBERS = frozenset({str, list, tuple, type(None)})
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]+")


class Session:
    """An episode slot over `make(env_id, **config)`; raises what `make` raises.

    `env` is the environment itself. Nothing here raises for what a policy said; before the first `start` everything
    about an episode raises EpisodeOverError.
    """

    def __init__(self, env_id: str, **config: Any) -> None:
        self.env: Env[Any] = make(env_id, **config)

    def start(self, task: str | int | None = None, seed: int | None = None) -> list[Message]:
        """Start an episode of a task (its id or index), or of one that `seed` chooses; what the policy sees first."""
        self.env.reset(seed=seed, options=None if task is None else {"task": task})
        return self.env.policy_prompt()

    def tools(self) -> list[ToolSchema]:
        """Schemas of the tools that are open now."""
        return list(self.env.available_tools())

    def all_tools(self) -> list[ToolSchema]:
        """Schemas of every tool that this environment may open, for frameworks that want them before an episode."""
        return list(self.env.all_tools())

    def say(self, message: Message | Mapping[str, Any] | str) -> list[Message]:
        """Play one assistant message or completion; the messages that answer it.

        After the end nothing is played: each call in it is answered with that, and a text with one user message.
        """
        env = self.env
        if env.episode.stop is not None:
            return self._refused(message)
        new: list[Message] = env.step(message)[4]["messages"]
        return new

    async def say_async(self, message: Message | Mapping[str, Any] | str) -> list[Message]:
        """`say`; in a thread where the environment's steps may take long."""
        if self.env.slow_steps and not self.done:
            return await asyncio.to_thread(self.say, message)
        return self.say(message)

    def call(self, name: str, arguments: Mapping[str, Any] | str, content: str | None = None) -> str:
        """Play one tool call, for a framework that passes calls and no messages; the tool's text.

        arguments: named values, or the JSON text that the policy wrote (its characters are what spans count).
        """
        return _text_of(self.say(self._call_message(name, arguments, content)))

    async def call_async(self, name: str, arguments: Mapping[str, Any] | str, content: str | None = None) -> str:
        """`call`; in a thread where the environment's steps may take long."""
        return _text_of(await self.say_async(self._call_message(name, arguments, content)))

    def _call_message(self, name: str, arguments: Mapping[str, Any] | str, content: str | None) -> Message:
        text = arguments if isinstance(arguments, str) else _json_text(arguments)
        place = f"call_{len(self.env.episode.turns)}"
        return {
            "role": "assistant",
            "content": content,
            "tool_calls": [{"id": place, "type": "function", "function": {"name": name, "arguments": text}}],
        }

    def _refused(self, message: Message | Mapping[str, Any] | str) -> list[Message]:
        calls = parse_action(message).message.get("tool_calls") or []
        if not calls:
            return [{"role": "user", "content": OVER}]
        return [{"role": "tool", "tool_call_id": call["id"], "content": OVER} for call in calls]

    def close(self, stop: Stop = "turn_limit") -> RewardReport:
        """The report; an episode that still runs is ended for a limit of the framework's, and scored as it stands."""
        return self.report or self.env.truncate(stop)

    def fail(self, fault: str) -> RewardReport:
        """The report; an episode that still runs is ended by a fault of the infrastructure, and is not scored."""
        return self.report or self.env.fail(fault)

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.env.episode.stop is not None

    @property
    def stop(self) -> Stop | None:
        """Why the episode ended."""
        return self.env.episode.stop

    @property
    def task(self) -> str:
        """The id of the task being played."""
        return str(self.env.task.id)

    @property
    def messages(self) -> list[Message]:
        """What the policy sees now."""
        return self.env.policy_prompt()

    @property
    def report(self) -> RewardReport | None:
        """What the episode earned; None while it runs."""
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
        """What the spans credit to each of the policy's messages, in their order; zeros while the episode runs."""
        episode = self.env.episode
        found = [0.0] * len(episode.turns)
        if episode.report is None or not episode.report.spans:
            return found
        places = {turn.message: number for number, turn in enumerate(episode.turns)}
        for span in episode.report.spans:
            place = places.get(span.message)
            if place is not None:
                found[place] += span.value
        return found

    def metrics(self) -> dict[str, float]:
        """Every component and numeric metric of the episode under a plain name, finite, at most `MAX_METRICS`.

        Beside the report's: turns, errors (turns that were answered with one), truncated and scored (0 or 1).
        """
        episode = self.env.episode
        found = flat_metrics(episode.report)
        found["turns"] = float(len(episode.turns))
        found["errors"] = float(_count_errors(episode.turns))
        found["truncated"] = float(episode.stop not in (None, "submitted"))
        found["scored"] = float(episode.report is not None and episode.report.status == "scored")
        return found


def _count_errors(turns: Sequence[Turn]) -> int:
    return sum(turn.error is not None for turn in turns)


def flat_metrics(report: RewardReport | None) -> dict[str, float]:
    """The components and the numeric metrics of a report, flat: letters, digits and underscores, components first."""
    found: dict[str, float] = {}
    if report is not None:
        _add_numbers(found, "", (report.components, report.metrics))
    return dict(islice(found.items(), MAX_METRICS)) if len(found) > MAX_METRICS else found


def _add_numbers(found: dict[str, float], prefix: str, several: Sequence[Mapping[Any, Any]]) -> None:
    known = _names.get(prefix)
    if known is None:
        known = _names.setdefault(prefix, {}) if len(_names) < _MAX_PREFIXES and len(prefix) < _LONGEST_KEY else {}
    for values in several:
        for key, value in values.items():
            kind = type(value)
            if kind is float or kind is int or kind is bool:
                name = known.get(key) or _plain_name(known, prefix, key)
                if -_MOST < value < _MOST and name not in found:
                    found[name] = value if kind is float else float(value)
            elif not prefix and kind not in _NO_NUMBERS and (kind is dict or isinstance(value, Mapping)):
                _add_numbers(found, f"{key}_", (value,))


def _plain_name(known: dict[Any, str], prefix: str, key: Any) -> str:
    name = _NOT_IN_A_NAME.sub("_", f"{prefix}{key}"[:_LONGEST_KEY]).strip("_")[:MAX_NAME_CHARS] or "unnamed"
    if len(known) < _MAX_NAMES and type(key) is str and len(key) < _LONGEST_KEY:
        known[key] = name
    return name


def rows(
    env_id: str,
    config: Mapping[str, Any] | None = None,
    *,
    limit: int | None = None,
    start: int = 0,
    prompts: bool = True,
) -> Iterator[dict[str, Any]]:
    """The tasks of `make(env_id, **config)` as JSON rows, for frameworks that iterate over a data set; without any gold.

    Each: env (id with version), task (id), index, with `prompts` the first messages as "prompt", and hops where the tasks
    have a number of hops, within which HRPO compares. limit, start: which ones. Raises what `make` raises.
    """
    session = Session(env_id, **(config or {}))
    size = len(session.env.tasks)
    for index in range(start, size if limit is None else min(size, start + limit)):
        row: dict[str, Any] = {"env": session.env.env_spec.versioned, "index": index}
        if prompts:
            row["prompt"] = session.start(index)
        task = session.env.tasks[index]
        hops = {"hops": task.hops} if hasattr(task, "hops") else {}
        yield {**row, "task": task.id, **hops}


def self_contained() -> list[str]:
    """The ids of the environments that can be made without any argument, and so without any file."""
    return [env_id for env_id in list_envs() if _can_be_made(env_id)]


def _can_be_made(env_id: str) -> bool:
    try:
        make(env_id)
    except (ConfigError, DataError):
        return False
    return True


def _text_of(messages: Sequence[Message]) -> str:
    return "\n\n".join(message["content"] or "" for message in messages)


def _json_text(arguments: Mapping[str, Any]) -> str:
    """As JSON; what is none (NaN, an object of the framework's) becomes NaN, which the environment's parser refuses."""
    try:
        return encode_json(dict(arguments))
    except (TypeError, ValueError):
        return json.dumps(dict(arguments), default=lambda _: math.nan, skipkeys=True)


_FRAME = 8
"""Tokens that a template puts around a message, about."""


@dataclass(frozen=True, slots=True)
class EpisodeTokens:
    """Tokens of the longest of some episodes that the oracle played: of its prompt, and of all that follows."""

    prompt: int
    completion: int


def episode_tokens(
    env_id: str, count: Callable[[str], int], config: Mapping[str, Any] | None = None, *, tasks: int = 16
) -> EpisodeTokens:
    """How long episodes are: what a bound on an episode has to hold at least.

    count: tokens of a text. The oracle goes the shortest way; twice its length is a fair beginning. The completion is 0
    where there is no oracle.
    """
    env = make(env_id, **(config or {}))
    oracle = next((one for one in scripted_agents(env.env_spec.id).values() if one.role == "oracle"), None)
    longest = EpisodeTokens(0, 0)
    for index in range(min(tasks, len(env.tasks))):
        env.reset(options={"task": index})
        first = len(env.episode.messages)
        policy = oracle.start(env, 0) if oracle is not None else None
        while policy is not None and env.episode.stop is None:
            action: Any = policy.act(env.policy_prompt(), env.available_tools())
            env.step(action)
        said = env.episode.messages if policy is None else env.episode.messages[:-1]  # what is said after the end
        sizes = [_tokens(count, part) for part in (said[:first], said[first:])]
        longest = EpisodeTokens(max(longest.prompt, sizes[0]), max(longest.completion, sizes[1]))
    return longest


def _tokens(count: Callable[[str], int], messages: Sequence[Message]) -> int:
    texts = []
    for message in messages:
        calls = [
            f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", [])
        ]
        texts.append("\n".join([message["content"] or "", *calls]))
    return sum(count(text) + _FRAME for text in texts)
