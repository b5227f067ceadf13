"""Agents: an agent starts a policy for each episode of a run.

Scripted agents, models and a user's own class become the same type. A policy from outside never sees the environment,
only its messages and tools.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy, ScriptedAgent

StartPolicy = Callable[[Any, int], Policy]
"""`start(env, seed)`: a policy for the episode that `env` has just been reset to."""


@runtime_checkable
class Model(Policy, Protocol):
    """A policy for many episodes at once: an endpoint, a local model, an ensemble of these, a user's own.

    A model is itself a policy, for requests outside of episodes; `start` returns the policy of one episode, whose
    random choices follow from `seed`.
    """

    def start(self, seed: int) -> Policy:
        """The policy of one episode."""
        ...

    def describe(self) -> dict[str, Any]:
        """The model and its settings, as JSON data for the manifest; never a secret."""
        ...

    async def close(self) -> None:
        """Give back connections and memory."""
        ...


def _no_notice() -> str | None:
    return None


async def _do_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of a run.

    describe: JSON data that identifies the agent in the manifest. prepare: awaited before a run, so that an unusable
    agent fails at once and `describe` is complete. threads: 0 when `act` is async or answers at once; else it may
    take long, and is called in that many threads besides the event loop (1: never twice at a time). policy: the model
    or object behind it; None for a scripted agent. secrets: texts of its settings that no record may hold. notice:
    returns a line for a display while the agent waits for its server, else None.
    """

    name: str
    start: StartPolicy
    describe: Callable[[], Mapping[str, Any]] = dict
    prepare: Callable[[], Awaitable[Any]] = _do_nothing
    close: Callable[[], Awaitable[Any]] = _do_nothing
    threads: int = 0
    policy: Any = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    notice: Callable[[], str | None] = _no_notice


def agent_from_script(agent: ScriptedAgent) -> Agent:
    """A scripted agent as an agent of runs."""
    return Agent(agent.name, agent.start, lambda: {"kind": "scripted", "role": agent.role})


def agent_from_model(name: str, model: Model, *, threads: int = 0) -> Agent:
    """A model as an agent: it sees messages and tools only. A model's own async `prepare()` is used where it has one."""
    prepare = getattr(model, "prepare", _do_nothing)
    notice = getattr(model, "notice", _no_notice)
    return Agent(
        name, lambda env, seed: model.start(seed), model.describe, prepare, model.close, threads, model, notice=notice
    )


def agent_with_rules(name: str, model: Model, rules: str = "") -> Agent:
    """The agent of a model; rules are appended to its instructions unless they are empty."""
    threads = getattr(model, "threads", 0)  # without the attribute, a model answers at once or is async
    return agent_from_model(name, WithRules(model, rules) if rules else model, threads=threads)


class AgentModel:
    """An agent that ignores the environment, as a model."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.threads, self.prepare = agent.threads, agent.prepare

    def start(self, seed: int) -> Policy:
        """The policy of one episode."""
        return self._agent.start(None, seed)

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        """The next message, outside of episodes."""
        return self.start(0).act(messages, tools)

    def describe(self) -> dict[str, Any]:
        """The agent's name and description."""
        return {"agent": self._agent.name, **self._agent.describe()}

    async def close(self) -> None:
        """Close the agent."""
        await self._agent.close()


def model_path(model: Model) -> str:
    """The path or name of a model, for the command of an external trainer. Empty where its description has none."""
    path = model.describe().get("model")
    return path if isinstance(path, str) else ""


async def call_optional(owner: Any, name: str) -> None:
    """Call a method that the object may have, plain or async."""
    method = getattr(owner, name, None)
    if callable(method):
        result = method()
        if inspect.isawaitable(result):
            await result


class WithRules:
    """A model whose system message ends with rules. Nothing is learned: with other rules it is another verifier."""

    def __init__(self, model: Model, rules: str) -> None:
        self.model, self.rules, self.close = model, rules, model.close
        self.prepare = partial(call_optional, model, "prepare")
        self.notice = getattr(model, "notice", _no_notice)

    def start(self, seed: int) -> Policy:
        """The policy of one episode."""
        return _RulesPolicy(self.model.start(seed), self.rules)

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        """The next message, by the model's own policy."""
        return _RulesPolicy(self.model, self.rules).act(messages, tools)

    def describe(self) -> dict[str, Any]:
        """The model, and the rules by their hash."""
        return {**self.model.describe(), "rules_sha256": hashlib.sha256(self.rules.encode()).hexdigest()}


@dataclass(frozen=True, slots=True)
class _RulesPolicy:
    """The policy of one episode with rules. Replies record the sent messages, which the transcript does not hold."""

    policy: Policy
    rules: str

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        sent = with_rules(messages, self.rules)
        reply = self.policy.act(sent, tools)
        if not inspect.isawaitable(reply):
            return _with_sent(reply, sent)

        async def wait() -> Message:
            return _with_sent(await reply, sent)

        return wait()


def with_rules(messages: Sequence[Message], rules: str) -> list[Message]:
    """The messages with the rules at the end of the system message, which is added where there is none."""
    messages = list(messages)
    if messages and messages[0]["role"] == "system":
        messages[0] = {**messages[0], "content": f"{messages[0]['content'] or ''}\n\n{rules}".strip()}
        return messages
    return [{"role": "system", "content": rules}, *messages]


def _with_sent(reply: Any, sent: list[Message]) -> Message:
    message: dict[str, Any] = {"role": "assistant", "content": reply} if isinstance(reply, str) else dict(reply)
    completion = message.get("completion")
    message["completion"] = {"sent": sent, **(completion if isinstance(completion, dict) else {})}
    return cast(Message, message)
