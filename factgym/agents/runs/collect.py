"""A whole run, from the plan to the last line on disk: what `factgym eval` does, as a function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.order import jobs_of, task_order
from factgym.agents.rollout.progress import Progress
from factgym.agents.runs.manifest import manifest_of
from factgym.agents.runs.read import Run, read_run
from factgym.agents.runs.write import RunWriter
from factgym.core.env import Env
from factgym.core.errors import ConfigError

Engine = Callable[..., Awaitable[Progress]]
"""Plays jobs as `run_jobs` does; another one may spread them over machines."""


def collect(
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
) -> Run:
    """Play k episodes of each of n tasks (all of the split when n is None) and return the run on disk.

    Each finished episode is appended to `folder/episodes.jsonl` at once. resume: continue the run that is there;
    finished episodes are kept, and those that a fault of the infrastructure ended are played again. on_start gets the
    counters that a display can watch. Raises ConfigError, DataError, RunWriteError and RunAbortedError; whatever it
    raises, what was finished is on disk. Needs a thread without a running event loop; `collect_async` is for the others.
    """
    return asyncio.run(
        collect_async(
            env, agent, folder, n=n, k=k, seed=seed, limits=limits, resume=resume, on_start=on_start, engine=engine
        )
    )


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
) -> Run:
    """`collect`, within an event loop."""
    if k < 1 or (n is not None and n < 1):
        raise ConfigError(f"a run needs at least one task and one episode of each, not n={n}, k={k}")
    folder = Path(folder)
    order = task_order(len(env.tasks), n, seed)
    try:
        await agent.prepare()
        with RunWriter(folder, manifest_of(env, agent, len(order), k, seed), resume=resume) as writer:
            jobs = [job for one in jobs_of(order, k, seed) if (job := writer.remaining(one)) is not None]
            planned = len(order) * k
            progress = Progress(planned, before=planned - len(jobs))
            on_start(progress)
            await engine(env, agent, jobs, writer.add, limits=limits, progress=progress)
    finally:
        await agent.close()
    return read_run(folder)
