"""Playing one episode: the loop between a policy and an environment, and what becomes of each kind of fault.

A fault of the infrastructure ends the episode as an error with its cause and is never a score; a prompt that no longer
fits the model's context is a limit of the policy's, and the episode is scored as it stands.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar, cast

from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.rollout.completion import read_completion
from factgym.agents.rollout.order import Job
from factgym.agents.rollout.record import Act, Log, Record, record
from factgym.core.env import Env
from factgym.core.policy import ContextOverflowError, Policy, PolicyError, ScriptedAgent, as_policy_error

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_CAUSE_CHARS = 2000

Call = Callable[..., Awaitable[Any]]
"""`await call(function, *arguments)`: how the loop calls what may block, or may return an awaitable."""


async def call_here(function: Callable[..., Any], *args: Any) -> Any:
    """Call on the event loop, and wait where there is something to wait for."""
    found = function(*args)
    return await found if inspect.isawaitable(found) else found


async def _call_alone(function: Callable[..., Any], *args: Any) -> Any:
    """Call without an event loop around: an awaitable gets one of its own, so that this never suspends."""
    found = function(*args)
    return asyncio.run(_wait(found)) if inspect.isawaitable(found) else found


async def _wait(found: Any) -> Any:
    return await found


async def play(
    env: Env[Any], agent: Agent, job: Job, *, act: Call = call_here, step: Call = call_here, log: Log | None = None
) -> tuple[Record, bool]:
    """Play one task to its end. The record, and whether every other episode would meet the same fault.

    act, step: how the policy and the environment are called. Raises what `reset` raises (a task that does not exist
    or cannot be made); whatever the policy raises is recorded.
    """
    log = log if log is not None else Log()
    started = time.perf_counter()
    env.reset(seed=job.seed, options={"task": job.index})
    fatal = False
    try:
        policy = await _said(call_here, agent.start, env, job.seed)
        await _turns(env, policy, log, act, step)
    except ContextOverflowError:
        env.truncate("context_limit")
    except PolicyError as fault:
        fatal = fault.fatal
        fail(env, log, fault.cause, str(fault))
    except Exception as fault:  # noqa: BLE001 - a fault of ours is recorded as such, and the run goes on
        _log.exception("an episode of %s failed", env.env_spec.id)
        fail(env, log, "environment", f"{type(fault).__name__}: {fault}")
    if log.error is None and env.episode.stop == "error":
        log.error = {"cause": "environment", "message": _fault(env)}
    log.seconds = time.perf_counter() - started
    return record(env, agent.name, job, log), fatal


def fail(env: Env[Any], log: Log, cause: str, message: str) -> None:
    """End the episode as an error with its cause."""
    log.error = {"cause": cause, "message": message[:_MAX_CAUSE_CHARS]}
    env.fail(f"{cause}: {message}")


async def _turns(env: Env[Any], policy: Policy, log: Log, act: Call, step: Call) -> None:
    clock = env.clock = time.perf_counter
    while env.episode.stop is None:
        turn = Act(env.policy_prompt(), env.available_tools())
        before = clock()
        said = await _said(act, policy.act, turn.prompt, turn.tools)
        after = clock()
        turn.model_seconds = after - before
        turn.completion = read_completion(said)
        log.acts.append(turn)
        await step(env.step, said)
        turn.step_seconds = clock() - after
        turn.tool_seconds = env.episode.tool_seconds


async def _said(call: Call, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return await call(function, *args)
    except Exception as fault:
        known = as_policy_error(fault)
        if known is fault:
            raise
        if isinstance(known, PolicyError) and not known.fatal:
            _log.warning("the agent failed", exc_info=True)
        raise known from fault


def _fault(env: Env[Any]) -> str:
    report = env.episode.report
    return env.episode.fault or (report.error if report else None) or "unknown"


def play_episode(env: Env[Any], agent: ScriptedAgent, task: int, seed: int = 0) -> Record:
    """Let a scripted player play one task, without an event loop, and return the record."""
    found, _ = _now(play(env, agent_from_script(agent), Job(task, 0, seed), act=_call_alone))
    return found


def play_many(env: Env[Any], agent: ScriptedAgent, tasks: Sequence[int], seed: int = 0) -> Iterator[Record]:
    """Let a scripted player play tasks one after another."""
    for task in tasks:
        yield play_episode(env, agent, task, seed)


def run_policy(env: Env[Any], policy: Policy) -> None:
    """Let a policy act until the episode ends; `env` has just been reset. What the policy raises passes through."""
    _now(_turns(env, policy, Log(), _call_alone, call_here))


def _now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("the coroutine waited")
