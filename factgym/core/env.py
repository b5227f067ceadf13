"""The environment: a `gymnasium.Env` in which a policy talks, calls tools and submits.

A subclass says four things: what its tasks are (`load_tasks`), what the first messages are (`begin`), how a tool call
is answered (`answer`), and what the finished episode earned (`score`). The base class owns the rest: parsing, the
turn and length budgets, order, recording and determinism.

An instance is one episode slot and is cheap. The task set it plays from is immutable and shared, so that
`copy.deepcopy(env)` branches an episode.
"""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self

import gymnasium
import numpy as np

from factgym.core.action import CallError, ParsedAction, ToolCall, parse_action
from factgym.core.config import EnvConfig
from factgym.core.episode import Episode, Reply, Stop, TaskT, Turn
from factgym.core.errors import ConfigError, EpisodeOverError, did_you_mean
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.policy import PolicyError
from factgym.core.registry import EnvSpec
from factgym.core.report import RewardReport
from factgym.core.spaces import ActionSpace, UnicodeText
from factgym.core.task import TaskSet

_log = logging.getLogger(__name__)

RESET_OPTIONS = ("task",)

_MAX_FAULT_CHARS = 2000

_SHARED = frozenset({"config", "env_spec", "spec", "tasks"})
"""Attributes that a copy shares: immutable, and heavy where a configuration holds a user's own index."""


def _no_clock() -> float:
    return 0.0


class Env(gymnasium.Env[str, Any], Generic[TaskT]):
    """Base of all environments; `make` builds them.

    Observations are text; actions are a completion string, an assistant message or a tool-call dict. The reward is 0
    until the episode ends and then the report's total, or 0 with `info["reward"].status` not "scored" when an
    infrastructure fault ended it.
    """

    Config: ClassVar[type[EnvConfig]] = EnvConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """`<tag>text</tag>` in a completion -> (tool, argument)."""
    implicit: ClassVar[Mapping[str, str]] = {}
    """Key of a bare JSON object -> the tool that it submits to."""
    action_space: ActionSpace
    clock: Callable[[], float] = staticmethod(_no_clock)
    """What an engine sets to time the tools; environments themselves know no time."""
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(self, env_spec: EnvSpec, config: EnvConfig, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise ConfigError(f"render_mode is 'ansi' or None, not {render_mode!r}")
        self.env_spec = env_spec
        self.config = config
        self.render_mode = render_mode
        self.tasks: TaskSet[TaskT] = self.load_tasks()
        self.observation_space = UnicodeText()
        self.action_space = ActionSpace(self.available_tools)
        self._episode: Episode[TaskT] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for name, value in vars(self).items():
            setattr(new, name, value if name in _SHARED else copy.deepcopy(value, memo))
        new.action_space.tools = new.available_tools
        return new

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.action_space.tools = self.available_tools

    @abstractmethod
    def load_tasks(self) -> TaskSet[TaskT]:
        """The shared task set of this configuration."""

    @abstractmethod
    def initial_messages(self, task: TaskT) -> list[Message]:
        """Set up the episode's own state and return its first messages."""

    @abstractmethod
    def available_tools(self) -> Sequence[ToolSchema]:
        """Schemas of the tools that may be called now."""

    @abstractmethod
    def call_tool(self, call: ToolCall) -> Reply:
        """Do a call. Calls `self.finish()` when it ends the episode; never raises for what a policy said."""

    @abstractmethod
    def score(self) -> RewardReport:
        """What the finished episode earned."""

    def all_tools(self) -> Sequence[ToolSchema]:
        """Schemas of every tool that may be open at some stage, for frameworks that want them before an episode."""
        return self.available_tools()

    @property
    def slow_steps(self) -> bool:
        """Whether a step may take long (a dense index, a server behind a tool), so that engines keep it off the loop."""
        return False

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward that an episode can earn."""
        return 0.0, 1.0

    def rubrics(self) -> tuple[Mapping[str, Any], str]:
        """The rewards that an audit compares, by name, and the name of the environment's own; none by default.

        Each is a `factgym.rewards.rubric.Rubric` over the components and `metrics["gates"]` of a report.
        """
        return {}, ""

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> Any:
        """A submission asked for part by part, for a person who plays; None where there is no such form.

        ask(what, options): the person's answer, one of `options` unless there are none.
        """
        return None

    def gold_lines(self) -> list[str]:
        """What is true of the task, line by line, for a person who has played it."""
        return []

    def warnings(self) -> list[str]:
        """What must be said beside every result of this configuration, a sentence each."""
        return []

    def auxiliary_policies(self) -> dict[str, Any]:
        """The other policies that this configuration asks, by what for, as JSON data for manifests; none by default."""
        return {}

    def view_task(self, task: TaskT) -> dict[str, Any]:
        """A task with its gold as JSON data, for records and viewers; never shown to a policy."""
        return {"id": task.id}

    def prompt_hashes(self) -> dict[str, str]:
        """Name -> SHA-256 of every prompt that this configuration uses."""
        return {}

    @property
    def stage(self) -> str:
        """Where in its protocol the episode is."""
        return "done" if self._episode is not None and self._episode.stop else "play"

    @property
    def episode(self) -> Episode[TaskT]:
        """The running or just finished episode. Raises EpisodeOverError before the first `reset`."""
        if self._episode is None:
            raise EpisodeOverError("there is no episode yet: call reset() first")
        return self._episode

    @property
    def task(self) -> TaskT:
        """The task being played."""
        return self.episode.task

    def policy_prompt(self) -> list[Message]:
        """The chat messages that a policy sees now."""
        return list(self.episode.messages)

    def finish(self, stop: Stop = "submitted") -> None:
        """End the episode; the first reason holds."""
        if self.episode.stop is None:
            self.episode.stop = stop

    def truncate(self, stop: Stop) -> RewardReport:
        """End a running episode from outside, at a limit of the policy's; it is scored as it stands.

        Raises EpisodeOverError when it is over already.
        """
        if self.episode.stop is not None:
            raise EpisodeOverError(f"the episode is over ({self.episode.stop})")
        self.finish(stop)
        return self._close()

    def fail(self, fault: str) -> RewardReport:
        """End a running episode from outside because the infrastructure failed; it is not scored."""
        self.episode.fault = fault[:_MAX_FAULT_CHARS]
        self.episode.stop = "error"
        return self._close()

    def _close(self) -> RewardReport:
        report = self.episode.report = self._final_report()
        return report

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        seed: chooses the task, here and in the unseeded resets that follow. options: `{"task": id or index}` chooses
        it by name. Raises ConfigError for options or tasks that do not exist.
        """
        super().reset(seed=seed)
        index = self._choose(options or {})
        task = self.tasks[index]
        self._episode = None
        first = self.initial_messages(task)
        obs = "\n\n".join(message["content"] or "" for message in first)
        self._episode = Episode(task, index, list(first), chars=len(obs))
        return obs, self._info(first, None)

    def _choose(self, options: Mapping[str, Any]) -> int:
        for key in options:
            if key not in RESET_OPTIONS:
                raise ConfigError(f"reset has no option {key!r}.{did_you_mean(str(key), RESET_OPTIONS)}")
        wanted = options.get("task")
        size = len(self.tasks)
        if not size:
            raise ConfigError(f"{self.env_spec.id!r} has no tasks in this configuration")
        if wanted is None:
            return int(self.np_random.integers(size))
        if isinstance(wanted, str):
            return self.tasks.index_of(wanted)
        if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool) and 0 <= wanted < size:
            return int(wanted)
        raise ConfigError(f"there is no task {wanted!r:.80}: give an id or an index from 0 to {size - 1}")

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action. Never raises for what the action holds.

        Raises EpisodeOverError when no episode is running.
        """
        episode = self.episode
        if episode.stop is not None:
            raise EpisodeOverError(f"the episode is over ({episode.stop}): call reset() to start another")
        parsed = parse_action(action, tags=self.tags, implicit=self.implicit)
        place = len(episode.messages)
        episode.messages.append(parsed.message)
        started = self.clock()
        said = self._replies(parsed)
        episode.tool_seconds = self.clock() - started
        replies = _fit(said, self.config.max_observation_chars)
        if episode.stop is None and len(episode.turns) + 1 >= self.config.max_turns:
            episode.stop = "turn_limit"
        new = self._tool_messages(replies, parsed.native)
        obs = "\n\n".join(message["content"] or "" for message in new)
        episode.messages.extend(new)
        episode.turns.append(Turn(place, replies, obs))
        episode.chars += len(obs) + len(message_text(parsed.message))
        if episode.stop is None and episode.chars > self.config.max_episode_chars:
            episode.stop = "length_limit"
        return self._outcome(obs, new)

    def _outcome(self, obs: str, new: list[Message]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        episode = self.episode
        info = self._info(new, episode.turns[-1].error)
        if episode.stop is None:
            return obs, 0.0, False, False, info
        info["reward"] = report = self._close()
        terminated = episode.stop == "submitted"
        return obs, report.total or 0.0, terminated, not terminated, info

    def _replies(self, parsed: ParsedAction) -> list[Reply]:
        replies: list[Reply] = []
        for item in parsed.items:
            if self.episode.stop is not None:
                replies.append(
                    Reply("The episode is over; this call was not done.", error="episode_over", call_id=item.id)
                )
            elif isinstance(item, CallError):
                replies.append(Reply(f"Error ({item.code}): {item.message}", error=item.code, call_id=item.id))
            else:
                replies.append(self._answer_safely(item))
        return replies

    def _answer_safely(self, call: ToolCall) -> Reply:
        try:
            return self.call_tool(call)
        except Exception as fault:  # noqa: BLE001 - the boundary to indexes, servers and users' tools
            _log.exception("tool %r of %s failed", call.name[:80], self.env_spec.id)
            self.episode.fault = f"{type(fault).__name__}: {fault}"[:_MAX_FAULT_CHARS]
            self.episode.stop = "error"
            return Reply(
                "Error (infrastructure): the tool failed.", call.name[:80], error="infrastructure", call_id=call.id
            )

    def _final_report(self) -> RewardReport:
        if self.episode.fault is not None:
            return RewardReport(None, status="error", error=self.episode.fault)
        try:
            return self.score()
        except Exception as fault:  # noqa: BLE001 - a fault of ours must never read as a score of zero
            if isinstance(fault, PolicyError):  # of a policy that the environment asks: nothing of ours to trace
                _log.info("an episode of %s was not scored: %s", self.env_spec.id, fault)
            else:
                _log.exception("scoring an episode of %s failed", self.env_spec.id)
            self.episode.stop = "error"
            return RewardReport(None, status="error", error=f"{type(fault).__name__}: {fault}"[:_MAX_FAULT_CHARS])

    def _tool_messages(self, replies: Sequence[Reply], native: bool) -> list[Message]:
        left = self.config.max_turns - len(self.episode.turns) - 1
        note = f"\n(turns left: {left})" if self.episode.stop is None else ""
        texts = [reply.text for reply in replies]
        texts[-1] += note
        if native and all(reply.call_id is not None for reply in replies):
            return [
                {"role": "tool", "tool_call_id": reply.call_id or "", "content": text}
                for reply, text in zip(replies, texts, strict=True)
            ]
        wrapped = "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in texts)
        return [{"role": "user", "content": wrapped}]

    def _info(self, new: list[Message], error: str | None) -> dict[str, Any]:
        episode = self.episode
        return {
            "messages": [message.copy() for message in new],
            "tools": list(self.available_tools()),
            "stage": self.stage,
            "error": error,
            "task": episode.task.id,
            "turns_left": self.config.max_turns - len(episode.turns),
        }

    def render(self) -> str | None:
        """The last observation, in mode "ansi"."""
        if self.render_mode is None or self._episode is None:
            return None
        turns = self._episode.turns
        return turns[-1].observation if turns else "\n\n".join(m["content"] or "" for m in self._episode.messages)


def _fit(replies: Sequence[Reply], limit: int) -> tuple[Reply, ...]:
    """The replies with texts that together keep `limit` characters; each may keep its equal share of that."""
    fair = limit // len(replies)
    spare = limit - sum(min(len(reply.text), fair) for reply in replies)
    fitted = []
    for reply in replies:
        extra = min(max(len(reply.text) - fair, 0), spare)
        spare -= extra
        kept = fair + extra
        cut = len(reply.text) - kept
        if cut > 0:
            reply = replace(reply, text=f"{reply.text[:kept]}… [cut: {cut} more characters]")
        fitted.append(reply)
    return tuple(fitted)
