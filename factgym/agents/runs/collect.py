"""A whole run, from the plan to the last line on disk: `factgym eval` as a function; and its manifest."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import platform
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import factgym
from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Job, Progress, jobs_of, task_order
from factgym.agents.runs.read import Run, read_run
from factgym.agents.runs.write import RunWriter
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.secrets import REDACTED, is_secret, redact_text

P = ParamSpec("P")
T = TypeVar("T")

Engine = Callable[..., Awaitable[Progress]]
"""Plays jobs as `run_jobs` does; another may spread them over machines."""


def _in_new_loop(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return asyncio.run(function(*args, **kwargs))

    return call


async def collect_async(
    env: Env[Any],
    agent: Agent,
    folder: str | Path,
    *,
    n: int | None = None,
    k: int = 1,
    seed: int = 0,
    limits: Limits | None = None,
    resume: bool = False,
    on_start: Callable[[Progress], None] = lambda _: None,
    engine: Engine = run_jobs,
    jobs: Sequence[Job] | None = None,
) -> Run:
    """Play k episodes of each of n tasks (all of the split when n is None) and return the run on disk.

    Each finished episode is appended to `folder/episodes.jsonl` at once. resume: continue the run in the folder;
    finished episodes stay, and those that a fault of the infrastructure ended are played again. on_start gets the
    counters for a display. jobs: these episodes, instead of those that n, k and seed give. Raises ConfigError, DataError, RunWriteError and RunAbortedError; whatever it raises,
    finished episodes are on disk. `collect` is the same for a thread without a running event loop.
    """
    if k < 1 or (n is not None and n < 1):
        raise ConfigError(f"a run needs at least one task and one episode of each, not n={n}, k={k}")
    folder = Path(folder)
    if jobs is None:
        planned = list(jobs_of(task_order(len(env.tasks), n, seed), k, seed))
    else:
        planned = list(jobs)
        k = max((job.sample for job in planned), default=0) + 1
    tasks = len({job.index for job in planned})
    try:
        await agent.prepare()
        with RunWriter(folder, manifest_of(env, agent, tasks, k, seed), resume=resume) as writer:
            remaining = [job for plan in planned if (job := writer.remaining(plan)) is not None]
            total = len(planned)
            progress = Progress(total, before=total - len(remaining), notice=agent.notice)
            on_start(progress)
            try:
                await engine(env, agent, remaining, writer.add, limits=limits, progress=progress)
            finally:  # a server's abilities are discovered while it is played
                writer.describe_agent(json_value(dict(agent.describe())))
    finally:
        await agent.close()
    return read_run(folder)


collect = _in_new_loop(collect_async)


def manifest_of(env: Env[Any], agent: Agent, n: int, k: int, seed: int) -> dict[str, Any]:
    """The settings of a run. Two runs whose manifests agree (but for the agent) can be compared.

    n: tasks. k: episodes of each.
    """
    auxiliary_policies = {name: json_value(policy) for name, policy in env.auxiliary_policies().items()}
    return {
        "env": env.env_spec.id,
        "version": env.env_spec.version,
        "agent": agent.name,
        "agent_details": json_value(dict(agent.describe())),
        "n": n,
        "k": k,
        "seed": seed,
        "config": {name: _setting(name, getattr(env.config, name)) for name in type(env.config).model_fields},
        "factgym": factgym.__version__,
        "python": platform.python_version(),
        "reward_bounds": list(env.reward_bounds),
        "fingerprints": {"tasks": env.tasks.fingerprint()},
        "prompts": env.prompt_hashes(),
        "caveats": env.warnings(),
        **({"guests": auxiliary_policies} if auxiliary_policies else {}),
    }


def _setting(name: str, value: Any) -> Any:
    """A named value as JSON data: redacted where the name is that of a secret."""
    return REDACTED if is_secret(name, value) else json_value(value)


def json_value(value: Any) -> Any:
    """A value as JSON data; an object by its type's name, with its fingerprint where it has one.

    Values that look like a secret, or whose name does, are redacted at any depth.
    """
    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _setting(str(key), item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _setting(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name} {value.fingerprint()}" if callable(getattr(value, "fingerprint", None)) else name
