"""The environment: a `gymnasium.Env` in which a policy talks, calls tools and submits.

A subclass supplies its tasks (`load_tasks`), the first messages (`initial_messages`), its tools (a `toolbox` that works
on `state`, or methods of its own) and the score of a finished episode (`score`). The base class owns the rest: parsing,
the turn and length budgets, order, recording and determinism.

An instance is one episode slot and is cheap. The task set it plays from is immutable and shared, so that
`copy.deepcopy(env)` branches an episode.
"""

from __future__ import annotations

import copy
import logging
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self

import gymnasium
import numpy as np

from factgym.core.action import ActionParser, ParsedAction
from factgym.core.calls import CallError, ToolCall
from factgym.core.config import EnvConfig
from factgym.core.episode import Episode, RewardReport, SpanCredit, Stop, TaskT, ToolResult, Turn
from factgym.core.errors import ConfigError, EpisodeOverError, ToolError, did_you_mean
from factgym.core.messages import Message, ToolSchema, message_text
from factgym.core.policy import PolicyError
from factgym.core.prompts import prompt_hash
from factgym.core.registry import EnvSpec
from factgym.core.spaces import ActionSpace, UnicodeText, example_call, fit_value
from factgym.core.tasks import TaskSet
from factgym.core.untrusted import NO_NONCE, cut_delimited, neutralise, nonce_of

_log = logging.getLogger(__name__)

RESET_OPTIONS = ("task",)

_MAX_FAULT_CHARS = 2000
_FORM_ERRORS = frozenset({"empty", "no_tool_call", "only_reasoning", "invalid_json", "bad_shape", "bad_name"})
"""Codes of messages that were no well-formed call: the answer says how a call is written."""
_CALL_NUMBER = re.compile(r":\d+\Z")

_SHARED = frozenset({"config", "env_spec", "spec", "tasks"})
"""Attributes that a copy shares: immutable, and heavy where a configuration holds a user's own index."""


class Env(gymnasium.Env[str, Any], Generic[TaskT]):
    """Base of all environments; `make` builds them.

    The reward is 0 until the episode ends and then the report's total, or 0 with `info["reward"].status` not "scored"
    when an infrastructure fault ended it.
    """

    Config: ClassVar[type[EnvConfig]] = EnvConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """`<tag>text</tag>` in a completion -> (tool, argument)."""
    implicit: ClassVar[Mapping[str, str]] = {}
    """Key of a bare JSON object -> the tool that it submits to."""
    parser: ClassVar[ActionParser] = ActionParser()
    """Of `tags` and `implicit`, made with the class."""
    task_set: ClassVar[TaskSet[Any] | None] = None
    """The tasks of an environment that has the same in every configuration."""
    prompt: ClassVar[str] = ""
    """The instructions of an environment that has no prompt files."""
    rubric: ClassVar[Any] = None
    """The reward of an environment whose configuration has no `rubric`."""
    presets: ClassVar[Mapping[str, Any]] = {}
    """Published rewards by name, as rubrics, for an audit to compare."""
    toolbox: ClassVar[Any] = None
    """A `factgym.tools.toolbox.Toolbox`; None where `available_tools` and `call_tool` are the environment's own."""
    strategies: ClassVar[str | None] = None
    """`"module:attribute"` of the `StrategySpace` that `factgym audit --search` composes its strategies of."""
    nonce: str = NO_NONCE
    """The code of the delimiters around untrusted text in this episode, drawn from the environment's id and the task's."""
    state: Any
    """The state of the episode that the tools work on (an `EpisodeState`); `initial_messages` sets it."""
    action_space: ActionSpace
    clock: Callable[[], float] | None = None
    """Set by an engine to time the tools; environments themselves know no time."""
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's declaration

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.parser = ActionParser(cls.tags, cls.implicit)

    def __init__(self, env_spec: EnvSpec, config: EnvConfig, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise ConfigError(f"render_mode is 'ansi' or None, not {render_mode!r}")
        self.env_spec = env_spec
        self.config = config
        self.render_mode = render_mode
        self.tasks: TaskSet[TaskT] = self.load_tasks()
        self.observation_space = UnicodeText()
        self.action_space = ActionSpace(self.checked_tools)
        self._episode: Episode[TaskT] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for name, value in vars(self).items():
            setattr(new, name, value if name in _SHARED else copy.deepcopy(value, memo))
        new.action_space.tools = new.checked_tools
        return new

    def __getstate__(self) -> dict[str, Any]:
        # A task is pickled as its index in the task set, and that by its arguments or, as `task_set`, by its class.
        episode = self._episode
        state = {**vars(self), "_episode": episode and replace(episode, task=None)}  # type: ignore[arg-type]
        if self.tasks is self.task_set:
            del state["tasks"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "tasks" not in state and self.task_set is not None:
            self.tasks = self.task_set
        if self._episode is not None:
            self._episode.task = self.tasks[self._episode.index]
        self.action_space.tools = self.checked_tools

    def load_tasks(self) -> TaskSet[TaskT]:
        """Return the shared task set of this configuration; by default `task_set`."""
        if self.task_set is None:
            raise NotImplementedError(f"{type(self).__name__} has neither a task_set nor load_tasks()")
        return self.task_set

    @abstractmethod
    def initial_messages(self, task: TaskT) -> list[Message]:
        """Set up the episode's own state and return its first messages."""

    @abstractmethod
    def score(self) -> RewardReport:
        """Score the finished episode."""

    @property
    def open_tools(self) -> Sequence[str] | None:
        """Names of the tools of `toolbox` that may be called now; None for all."""
        return None

    def available_tools(self) -> Sequence[ToolSchema]:
        """Schemas of the tools that may be called now."""
        if self.toolbox is None:
            return ()
        schemas: Sequence[ToolSchema] = self.toolbox.schemas(self.open_tools, self.config.prompt)
        return schemas

    def checked_tools(self) -> Sequence[ToolSchema]:
        """Full schemas of the tools that may be called now: calls are checked by these where the policy sees brief schemas."""
        return self.available_tools() if self.toolbox is None else self.toolbox.schemas(self.open_tools)

    def all_tools(self) -> Sequence[ToolSchema]:
        """Schemas of every tool that may be open at some stage, for frameworks that want them before an episode."""
        return self.available_tools()

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Do a call, and `finish` the episode if the call ends it.

        An override may raise ToolError for a call that it refuses; it raises nothing else for a policy's fault.
        """
        if self.toolbox is None:
            raise ToolError("unknown_tool", "There are no tools here.")
        toolbox, state = self.toolbox, self.state
        state.turn, state.nonce = len(self.episode.turns), self.nonce
        result: ToolResult = toolbox.call(state, call, self.open_tools)
        if result.error is None and result.tool in toolbox.ends_episode:
            self.finish()
        return result

    @property
    def slow_steps(self) -> bool:
        """Whether a step may take long (a dense index, a server behind a tool), so that engines keep it off the loop."""
        return False

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The lowest and the highest reward of an episode."""
        return 0.0, 1.0

    def rubrics(self) -> tuple[Mapping[str, Any], str]:
        """The rewards that an audit compares, by name, and the name of the environment's own.

        Each is a `factgym.rewards.rubric.Rubric` over the components and `metrics["gates"]` of a report. By default
        `presets`, and the configuration's `rubric` where it has one, as "NAME (own)" if it differs from the preset.
        """
        rubric = getattr(self.config, "rubric", self.rubric)
        if rubric is None:
            return {}, ""
        name = rubric.name if self.presets.get(rubric.name, rubric) == rubric else f"{rubric.name} (own)"
        return {**self.presets, name: rubric}, name

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> Any:
        """Ask a person who plays for a submission, part by part; None where there is no such form.

        ask(question, options): returns the person's answer, one of `options` unless there are none.
        """
        return None

    def gold_lines(self) -> list[str]:
        """Return the gold of the task, line by line, for a person who has played it."""
        return []

    def warnings(self) -> list[str]:
        """Return warnings to print beside every result of this configuration, a sentence each."""
        return []

    def auxiliary_policies(self) -> dict[str, Any]:
        """Return the other policies that this configuration asks, purpose -> JSON data for manifests; none by default."""
        return {}

    def view_task(self, task: TaskT) -> dict[str, Any]:
        """Return a task with its gold as JSON data, for records and viewers; never shown to a policy."""
        return {"id": task.id}

    def prompt_hashes(self) -> dict[str, str]:
        """Return name -> SHA-256 of every prompt that this configuration uses."""
        return {"prompt": prompt_hash(self.prompt)} if self.prompt else {}

    @property
    def stage(self) -> str:
        """The stage of the protocol that the episode has reached."""
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

    @property
    def submission(self) -> ToolResult | None:
        """The result of the call that ended the episode; None when no call did."""
        turns = self._episode.turns if self._episode is not None else []
        if self.toolbox is None or not turns:
            return None
        ending = (r for r in turns[-1].results if r.error is None and r.tool in self.toolbox.ends_episode)
        return next(ending, None)

    def report(
        self,
        components: Mapping[str, float],
        gates: Mapping[str, float] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> RewardReport:
        """Combine scored components under the environment's rubric; the total is credited to the last message."""
        rubric = getattr(self.config, "rubric", self.rubric)
        report: RewardReport = rubric.report(components, gates or {}, metrics=metrics or {})
        if not self.episode.turns or not report.total:
            return report
        index = self.episode.turns[-1].message
        credit = SpanCredit(index, 0, len(message_text(self.episode.messages[index])), report.total)
        return replace(report, spans=(credit,))

    def policy_prompt(self) -> list[Message]:
        """The chat messages that a policy sees now."""
        return list(self.episode.messages)

    def finish(self, stop: Stop = "submitted") -> None:
        """End the episode; the first reason holds."""
        if self.episode.stop is None:
            self.episode.stop = stop

    def truncate(self, stop: Stop) -> RewardReport:
        """End a running episode from outside, at a limit of the policy's; it is scored in its present state.

        Raises EpisodeOverError when it is over already.
        """
        if self.episode.stop is not None:
            raise EpisodeOverError(f"the episode is over ({self.episode.stop})")
        self.finish(stop)
        return self._close()

    def fail(self, fault: str) -> RewardReport:
        """End a running episode from outside because the infrastructure failed; it is not scored."""
        self._record_fault(fault)
        return self._close()

    def _record_fault(self, fault: str) -> None:
        self.episode.fault = fault[:_MAX_FAULT_CHARS]
        self.episode.stop = "error"

    def _close(self) -> RewardReport:
        """Score the episode and record the report; a fault gives a report without a score."""
        episode = self.episode
        if episode.fault is not None:
            report = RewardReport(None, status="error", error=episode.fault)
        else:
            try:
                report = self.score()
            except Exception as fault:  # noqa: BLE001 - a fault of ours must never read as a score of zero
                if isinstance(fault, PolicyError):  # of a policy that the environment asks: no traceback of ours
                    _log.info("an episode of %s was not scored: %s", self.env_spec.id, fault)
                else:
                    _log.exception("scoring an episode of %s failed", self.env_spec.id)
                episode.stop = "error"
                report = RewardReport(None, status="error", error=f"{type(fault).__name__}: {fault}"[:_MAX_FAULT_CHARS])
        episode.report = report
        return report

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        seed: chooses the task, here and in the unseeded resets that follow. options: `{"task": id or index}` chooses
        it by name. Raises ConfigError for options or tasks that do not exist.
        """
        self._seed(seed)
        for key in options or ():
            if key not in RESET_OPTIONS:
                raise ConfigError(f"reset has no option {key!r}.{did_you_mean(str(key), RESET_OPTIONS)}")
        index = self._task_index((options or {}).get("task"))
        task = self.tasks[index]
        self._episode = None
        self.nonce = nonce_of(self.env_spec.id, task.id)
        first = self.initial_messages(task)
        obs = _observation(first)
        self._episode = episode = Episode(task, index, list(first), chars=len(obs))
        return obs, self._info(episode, first, None)

    def _seed(self, seed: int | None) -> None:
        """Seed the generator, which is made when it is first drawn from: an episode of a named task needs none."""
        if type(seed) is int and seed >= 0:
            self._np_random, self._np_random_seed = None, seed
        else:
            super().reset(seed=seed)

    @property
    def np_random(self) -> np.random.Generator:
        """Gymnasium's generator of this environment, seeded by `reset`."""
        if self._np_random is None and self._np_random_seed is not None:
            super().reset(seed=self._np_random_seed)
        return super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        gymnasium.Env.np_random.fset(self, value)  # type: ignore[attr-defined]

    def _task_index(self, requested: Any) -> int:
        """Return the index of a task given by id or index; a random one for None."""
        size = len(self.tasks)
        if not size:
            raise ConfigError(f"{self.env_spec.id!r} has no tasks in this configuration")
        if requested is None:
            return int(self.np_random.integers(size))
        if isinstance(requested, str):
            return self.tasks.index_of(requested)
        if isinstance(requested, (int, np.integer)) and not isinstance(requested, bool) and 0 <= requested < size:
            return int(requested)
        raise ConfigError(f"there is no task {requested!r:.80}: give an id or an index from 0 to {size - 1}")

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action. Never raises for the content of the action.

        Raises EpisodeOverError when no episode is running.
        """
        episode = self.episode
        if episode.stop is not None:
            raise EpisodeOverError(f"the episode is over ({episode.stop}): call reset() to start another")
        parsed = self.parser.parse(action)
        messages, turns = episode.messages, episode.turns
        message_index = len(messages)
        messages.append(parsed.message)
        clock = self.clock
        started = clock() if clock is not None else 0.0
        results = self.tool_results(parsed)
        if clock is not None:
            episode.tool_seconds = clock() - started
        config = self.config
        if len(results) > 1 or len(results[0].text) > config.max_observation_chars:
            results = _truncate(results, config.max_observation_chars)
        if episode.stop is None and len(turns) + 1 >= config.max_turns:
            episode.stop = "turn_limit"
        new = self.result_messages(results, parsed.native)
        obs = _observation(new)
        messages.extend(new)
        turn = Turn(message_index, tuple(results), obs)
        turns.append(turn)
        episode.chars += len(obs) + len(message_text(parsed.message))
        if episode.stop is None and episode.chars > config.max_episode_chars:
            episode.stop = "length_limit"
        info = self._info(episode, new, turn.error)
        if episode.stop is None:
            return obs, 0.0, False, False, info
        info["reward"] = report = self._close()
        terminated = self.episode.stop == "submitted"
        return obs, report.total or 0.0, terminated, not terminated, info

    def tool_results(self, parsed: ParsedAction) -> list[ToolResult]:
        """Answer each item of an action in order; at least one result."""
        results: list[ToolResult] = []
        episode = self.episode
        for item in parsed.items:
            if episode.stop is not None:
                text = "The episode is over; this call was not done."
                results.append(ToolResult(text, error=ToolError("episode_over", text), call_id=item.id))
            elif isinstance(item, CallError):
                text = neutralise(f"Error ({item.code}): {item.message}")
                if item.code in _FORM_ERRORS:
                    text += f" Write {self.example_call()}."
                results.append(ToolResult(text, error=ToolError(item.code, item.message), call_id=item.id))
            else:
                results.append(self._call_safely(item))
        return results

    def example_call(self) -> str:
        """Return an example of a call that may be made now and does not end the episode, or how a call is written."""
        return example_call(self.checked_tools())

    def _resolved(self, call: ToolCall) -> ToolCall:
        """Return a call with the plain name of its tool, and with typed arguments where they are texts.

        Models put namespaces before names, "functions.search", and numbers behind them, ":0".
        """
        tools = {tool["function"]["name"]: tool["function"] for tool in (*self.all_tools(), *self.checked_tools())}
        bare = _CALL_NUMBER.sub("", call.name)
        name = next((name for name in (call.name, bare, re.split("[.:/]", bare)[-1]) if name in tools), call.name)
        arguments = call.arguments
        if call.texts and name in tools:
            arguments = fit_value(tools[name]["parameters"], arguments, texts=True)
        return replace(call, name=name, arguments=arguments, texts=False)

    def _call_safely(self, call: ToolCall) -> ToolResult:
        # A refusal is data for the policy. Any other exception is a fault of the infrastructure: it ends the episode
        # unscored, and is never a zero.
        if call.texts or not call.name.isidentifier():
            call = self._resolved(call)
        name = call.name[:80]
        try:
            return self.call_tool(call)
        except ToolError as refusal:
            text = neutralise(f"Error ({refusal.code}): {refusal.message}")
            return ToolResult(text, name, call.arguments, refusal.with_traceback(None), call.id)
        except Exception as fault:  # noqa: BLE001 - the boundary to indexes, servers and users' tools
            _log.exception("tool %r of %s failed", name, self.env_spec.id)
            self._record_fault(f"{type(fault).__name__}: {fault}")
            error = ToolError("infrastructure", "the tool failed.")
            return ToolResult("Error (infrastructure): the tool failed.", name, error=error, call_id=call.id)

    def result_messages(self, results: Sequence[ToolResult], native: bool) -> list[Message]:
        """Write results as chat messages: one "tool" message for each native call, or one "user" message for all."""
        episode = self.episode
        texts = [result.text for result in results]
        if episode.stop is None:
            texts[-1] += f"\n(turns left: {self.config.max_turns - len(episode.turns) - 1})"
        if native and all(result.call_id is not None for result in results):
            return [
                {"role": "tool", "tool_call_id": result.call_id or "", "content": text}
                for result, text in zip(results, texts, strict=True)
            ]
        wrapped = "\n</tool_response>\n<tool_response>\n".join(texts)
        return [{"role": "user", "content": f"<tool_response>\n{wrapped}\n</tool_response>"}]

    def _info(self, episode: Episode[TaskT], new: list[Message], error: str | None) -> dict[str, Any]:
        return {
            "messages": list(map(dict, new)),
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
        return turns[-1].observation if turns else _observation(self._episode.messages)


def _observation(messages: Sequence[Message]) -> str:
    """Return the text of some messages."""
    if len(messages) == 1:
        return messages[0]["content"] or ""
    return "\n\n".join([message["content"] or "" for message in messages])


def _truncate(results: Sequence[ToolResult], limit: int) -> list[ToolResult]:
    """Cut the texts to `limit` characters together: equal shares, and the spare characters of short texts in order."""
    if sum([len(result.text) for result in results]) <= limit:
        return list(results)
    fair = limit // len(results)
    spare = limit - sum(min(len(result.text), fair) for result in results)
    truncated = []
    for result in results:
        extra = min(max(len(result.text) - fair, 0), spare)
        spare -= extra
        cut = len(result.text) - (fair + extra)
        if cut > 0:
            head, closing = cut_delimited(result.text, fair + extra)
            cut = len(result.text) - len(head)
            result = replace(result, text=f"{head}… [cut: {cut} more characters]{closing}")
        truncated.append(result)
    return truncated
