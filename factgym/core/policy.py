"""What plays: a policy turns the messages so far into the next assistant message.

A *player* makes a policy for one episode of an environment; it may look at the environment (an oracle reads the gold
answer there), which a policy that came from outside never does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, cast, runtime_checkable

from factgym.core.action import parse_action
from factgym.core.errors import ConfigError, FactgymError, MissingExtraError
from factgym.core.messages import Message, ToolSchema, Usage


class Policy(Protocol):
    """`act` may be a plain or an async method; a returned string counts as the assistant's completion.

    A message may carry what the policy knows about its reply under "completion"; it goes into the record. `act` raises
    PolicyError for an infrastructure fault and ContextOverflowError when the prompt no longer fits.
    """

    def act(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message | str | Awaitable[Message | str]:
        """The next assistant message, given the messages so far and the tools that are open."""
        ...


@runtime_checkable
class Scoring(Protocol):
    """What a policy may have besides `act`: the log-probability of a reply that is given to it (teacher forcing)."""

    def score(self, messages: Sequence[Message], completion: str, *, given: str = "") -> float | Awaitable[float]:
        """The natural log-probability that the reply goes on with the text `completion` after it began with `given`.

        It is the sum over the tokens that hold `completion`, under the model's own distribution (temperature 1,
        nothing cut off); never above 0. Raises as `act` does, and ConfigError where the model cannot tell.
        """
        ...


class PolicyError(FactgymError):
    """A policy could not answer for a reason that says nothing about what it knows: the infrastructure failed.

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
    """What a policy raised, as one of the errors that it may raise.

    What it could not be made or loaded for is the user's to mend, and would stop every episode.
    """
    if isinstance(fault, (PolicyError, ContextOverflowError)):
        return fault
    if isinstance(fault, (ConfigError, MissingExtraError)):
        return PolicyError("configuration", str(fault), fatal=True)
    return PolicyError("agent", f"{type(fault).__name__}: {fault}")


class ContextOverflowError(FactgymError):
    """The prompt no longer fits the model's context. A limit of the policy's own: the episode ends and is scored."""


Script = Generator[Any, str, None]


class GeneratorPolicy:
    """A scripted policy: a generator that yields actions and receives the observation that follows each.

    An action is a completion, a message or a tool-call dict. The first message it is asked for starts the generator.
    """

    def __init__(self, actions: Script) -> None:
        self._actions = actions
        self._started = False

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The next action."""
        action = self._actions.send((messages[-1]["content"] or "") if self._started else None)  # type: ignore[arg-type]
        self._started = True
        return as_message(action)


Role = Literal["oracle", "honest", "baseline", "exploiter", "random"]


@dataclass(frozen=True, slots=True)
class ScriptedAgent:
    """A scripted agent of an environment family.

    role: "oracle" knows the gold; "honest" is the baseline that no exploiter may reach; "exploiter" goes for a hole
    in the reward. start(env, seed): a fresh policy for the episode that `env` has just been reset to.
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
    """A policy that an environment takes as an argument and lets play episodes of its own (an `Agent`)."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def policy(self) -> Any:
        """The model or object behind it; None for a scripted player."""
        ...

    @property
    def threads(self) -> int:
        """0 when `act` is async or answers at once; else it may take long, and is called in that many threads."""
        ...

    @property
    def start(self) -> Callable[[Any, int], Policy]:
        """`start(env, seed)`: a fresh policy for the episode that `env` has just been reset to."""
        ...

    @property
    def describe(self) -> Callable[[], Mapping[str, Any]]:
        """What identifies it, as JSON data; empty where it does not say."""
        ...

    @property
    def prepare(self) -> Callable[[], Awaitable[Any]]:
        """Awaited before it plays, so that what cannot be used is said at once and `describe` is complete."""
        ...

    @property
    def close(self) -> Callable[[], Awaitable[Any]]:
        """Gives back connections and memory."""
        ...


def policy_from(value: Any, env_id: str, settings: Mapping[str, Any] | None = None) -> AuxiliaryPolicy:
    """Who plays, from what a configuration holds: a text as in `--agent`, a agent, a model, anything with `act`.

    env_id: the environment whose episodes it is to play. settings: of a model that is named by text. Raises
    ConfigError for what is no policy.
    """
    from factgym.core.registry import policy_resolver

    return cast(AuxiliaryPolicy, policy_resolver()(value, env_id, settings))


async def call_policy(
    policy: Policy, messages: Sequence[Message], tools: Sequence[ToolSchema], blocking: bool = False
) -> Message:
    """The policy's reply as an assistant message, with its completion where it has one.

    blocking: call a plain `act` in a thread, so that the event loop goes on. Raises what the policy raises.
    """
    if blocking and not inspect.iscoroutinefunction(policy.act):
        reply = await asyncio.to_thread(policy.act, messages, tools)
    else:
        reply = policy.act(messages, tools)
    return as_message(await reply if inspect.isawaitable(reply) else reply)


def as_message(reply: object) -> Message:
    """A reply as an assistant message; a message stays as it is, and other forms of an action are written as one."""
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    if isinstance(reply, dict) and ("content" in reply or "tool_calls" in reply):
        whole: dict[str, Any] = {"role": "assistant", "content": None, **reply}
        return cast(Message, whole)
    return parse_action(reply).message


def add_usage(total: Usage, more: Usage | None) -> None:
    """Add the tokens of a reply to a sum; what neither knows stays unknown."""
    sums = cast(dict[str, int], total)
    for key, value in (more or {}).items():
        if isinstance(value, int):
            sums[key] = sums.get(key, 0) + value
