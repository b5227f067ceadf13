"""Policies: a policy turns the messages so far into the next assistant message.

A scripted agent makes a policy for one episode of an environment. It may read the environment (an oracle reads the gold
answer there), which a policy from outside never does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

from factgym.core.action import parse_action
from factgym.core.errors import ConfigError, FactgymError, MissingExtraError
from factgym.core.messages import Message, ToolSchema, Usage


class Policy(Protocol):
    """`act` may be a plain or an async method; a returned string counts as the assistant's completion.

    A message may hold facts about the reply under "completion"; they go into the record. `act` raises PolicyError for
    an infrastructure fault and PromptRefusedError for a prompt that the model cannot or may not answer.
    """

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message | str | Awaitable[Message | str]:
        """Return the next assistant message, given the messages so far and the tools that are available."""


@runtime_checkable
class Scoring(Protocol):
    """An optional method of a policy: the log-probability of a given reply (teacher forcing)."""

    def score(self, messages: Sequence[Message], completion: str, *, given: str = "") -> float | Awaitable[float]:
        """Return the natural log-probability of the text `completion` after a reply that begins with `given`.

        The sum over the tokens of `completion`, under the model's own distribution (temperature 1, no truncation);
        never above 0. Raises as `act` does, and ConfigError where the model cannot compute it.
        """


class PolicyError(FactgymError):
    """The infrastructure behind a policy failed, which says nothing about the policy's abilities.

    The episode is recorded as an error with this cause, left out of every score, and played again on resume.
    cause: a short code such as "rate_limit", "connection" or "timeout". fatal: every other episode would meet the
    same fault (a wrong key, a model that does not exist), so that the run should stop at once.
    """

    def __init__(self, cause: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.cause = cause
        self.fatal = fatal

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cause, str(self)), {"fatal": self.fatal}


def as_policy_error(fault: Exception) -> FactgymError:
    """Return an exception of a policy as one of the errors that a policy may raise.

    A faulty configuration or a missing extra would stop every episode, so it is fatal.
    """
    if isinstance(fault, (PolicyError, PromptRefusedError)):
        return fault
    if isinstance(fault, (ConfigError, MissingExtraError)):
        return PolicyError("configuration", str(fault), fatal=True)
    return PolicyError("agent", f"{type(fault).__name__}: {fault}")


class PromptRefusedError(FactgymError):
    """A limit of the policy's own: the episode ends for the reason `stop` and is scored in its present state."""

    stop: ClassVar[Literal["context_limit", "content_filter"]]


class ContextOverflowError(PromptRefusedError):
    """The prompt no longer fits the model's context."""

    stop = "context_limit"


class ContentFilterError(PromptRefusedError):
    """The filter of the model's provider blocks the prompt."""

    stop = "content_filter"


Script = Generator[Any, str, None]


class GeneratorPolicy:
    """A scripted policy: a generator that yields actions and receives the observation that follows each.

    An action is a completion, a message or a tool-call dict. The first call of `act` starts the generator.
    """

    def __init__(self, actions: Script) -> None:
        self._actions = actions
        self._started = False

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """Return the next action."""
        action = self._actions.send((messages[-1]["content"] or "") if self._started else None)  # type: ignore[arg-type]
        self._started = True
        return as_message(action)


Role = Literal["oracle", "teacher", "honest", "baseline", "exploiter", "random"]


@dataclass(frozen=True, slots=True)
class ScriptedAgent:
    """A scripted agent of an environment family.

    role: "oracle" knows the gold; "teacher" reaches the gold answer only by actions that its observations justify;
    "honest" is the baseline that no exploiter may reach; "exploiter" attacks a weakness of the reward. start(env, seed): a fresh policy for the episode that `env` has just been reset to.
    """

    name: str
    role: Role
    summary: str
    start: Callable[[Any, int], Policy]

    @classmethod
    def from_script(cls, script: Callable[[str, Any], Script], *roles: Role) -> dict[str, ScriptedAgent]:
        """Make an agent for each role, named after it, of a generator function of (role, environment).

        The docstring of the function is the summary.
        """
        summary = inspect.getdoc(script) or ""
        return {role: cls(role, role, summary, partial(_start_script, script, role)) for role in roles}


def _start_script(script: Callable[[str, Any], Script], role: str, env: Any, seed: int) -> Policy:
    return GeneratorPolicy(script(role, env))


class AuxiliaryPolicy(Protocol):
    """A policy that an environment takes as an argument and lets play episodes of its own (an `Agent`).

    policy: the model or object behind it; None for a scripted agent. threads: 0 when `act` is async or answers at once;
    else it may take long, and is called in that many threads. start(env, seed): a fresh policy for the episode that
    `env` has just been reset to. describe: returns its identity as JSON data, empty where there is none. prepare:
    awaited before the first episode, so that faults show at once and `describe` is complete. close: releases
    connections and memory.
    """

    name: str
    policy: Any
    threads: int
    start: Callable[[Any, int], Policy]
    describe: Callable[[], Mapping[str, Any]]
    prepare: Callable[[], Awaitable[Any]]
    close: Callable[[], Awaitable[Any]]


def policy_from(value: Any, env_id: str, settings: Mapping[str, Any] | None = None) -> AuxiliaryPolicy:
    """Return the policy that a configuration holds: a text as in `--agent`, an agent, a model, anything with `act`.

    env_id: the environment whose episodes it is to play. settings: of a model that is named by text. Raises
    ConfigError for any other value.
    """
    from factgym.core.registry import policy_resolver

    return cast(AuxiliaryPolicy, policy_resolver()(value, env_id, settings))


async def call_policy(
    policy: Policy, messages: Sequence[Message], tools: Sequence[ToolSchema], blocking: bool = False
) -> Message:
    """Return the policy's reply as an assistant message, with its completion where it has one.

    blocking: call a plain `act` in a thread, so that the event loop goes on. Exceptions of the policy propagate.
    """
    if blocking and not inspect.iscoroutinefunction(policy.act):
        reply = await asyncio.to_thread(policy.act, messages, tools)
    else:
        reply = policy.act(messages, tools)
    return as_message(await reply if inspect.isawaitable(reply) else reply)


def as_message(reply: object) -> Message:
    """Return a reply as an assistant message; other forms of an action are written as one."""
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    if isinstance(reply, dict) and ("content" in reply or "tool_calls" in reply):
        return cast(Message, {"role": "assistant", "content": None, **reply})
    return parse_action(reply).message


def add_usage(total: Usage, more: Usage | None) -> None:
    """Add the tokens of a reply to a sum; counts that neither has stay absent."""
    sums = cast(dict[str, int], total)
    for key, value in (more or {}).items():
        if isinstance(value, int):
            sums[key] = sums.get(key, 0) + value
