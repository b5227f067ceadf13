"""Agents: an agent starts a policy for each episode of a run.

Scripted agents, models and a user's own class become the same type. A policy from outside never sees the environment,
only its messages and tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

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


async def _do_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of a run.

    describe: JSON data that identifies the agent in the manifest. prepare: awaited before a run, so that an unusable
    agent fails at once and `describe` is complete. threads: 0 when `act` is async or answers at once; else it may
    take long, and is called in that many threads besides the event loop (1: never twice at a time). policy: the model
    or object behind it; None for a scripted agent.
    """

    name: str
    start: StartPolicy
    describe: Callable[[], Mapping[str, Any]] = dict
    prepare: Callable[[], Awaitable[Any]] = _do_nothing
    close: Callable[[], Awaitable[Any]] = _do_nothing
    threads: int = 0
    policy: Any = None


def agent_from_script(agent: ScriptedAgent) -> Agent:
    """A scripted agent as an agent of runs."""
    return Agent(agent.name, agent.start, lambda: {"kind": "scripted", "role": agent.role})


def agent_from_model(name: str, model: Model, *, threads: int = 0) -> Agent:
    """A model as an agent: it sees messages and tools only. A model's own async `prepare()` is used where it has one."""
    prepare = getattr(model, "prepare", _do_nothing)
    return Agent(name, lambda env, seed: model.start(seed), model.describe, prepare, model.close, threads, model)
