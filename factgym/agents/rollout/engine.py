"""Thousands of episodes at once in one process: workers that share an agent, each with an environment of its own.

An episode is handed to `keep` the moment it ends and is not held. Whatever stops the run (a cancelled task, an
interrupt, a fatal fault) stops it between episodes: those that are running are given up and can be played again.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.order import Job
from factgym.agents.rollout.play import Call, call_here, fail, play
from factgym.agents.rollout.progress import Progress
from factgym.agents.rollout.record import Log, Record, record
from factgym.core.env import Env
from factgym.core.errors import ConfigError, FactgymError

Keep = Callable[[Record], None]

_STEP_THREADS = 16


class RunAbortedError(FactgymError):
    """Every further episode would fail as those before; what was finished is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How a run is played; none of it changes what an episode is.

    concurrency: episodes at a time. episode_timeout: seconds, after which an episode is recorded as an error; None for
    no limit. max_errors: infrastructure errors in a row after which the run stops (0: never); default the larger of
    16 and the concurrency, so that one burst that hits every running episode does not end it.
    """

    concurrency: int = 64
    episode_timeout: float | None = None
    max_errors: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1, not {self.concurrency}")
        if self.episode_timeout is not None and not self.episode_timeout > 0:
            raise ConfigError(f"the episode timeout must be above 0 seconds, not {self.episode_timeout}")
        if self.max_errors is not None and self.max_errors < 0:
            raise ConfigError(f"max_errors must be 0 or more, not {self.max_errors}")

    @property
    def errors_in_row(self) -> int:
        """After how many errors in a row the run stops; 0 for never."""
        return max(16, self.concurrency + 1) if self.max_errors is None else self.max_errors


async def run_jobs(
    env: Env[Any],
    agent: Agent,
    jobs: Iterable[Job],
    keep: Keep,
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Progress:
    """Play every job and hand its record to `keep`, in the order in which they end.

    Raises RunAbortedError when a fault is fatal or errors come in a row, and what `keep` or a task that cannot be made
    raises. The agent is not closed.
    """
    failures: tuple[BaseException, ...] = ()
    with ExitStack() as stack:
        run = _Run(env, agent, iter(jobs), keep, limits or Limits(), progress or Progress(0), stack)
        try:
            async with asyncio.TaskGroup() as group:
                run.workers = [group.create_task(run.work()) for _ in range(run.limits.concurrency)]
        except BaseExceptionGroup as found:
            failures = found.exceptions
    if failures:
        raise failures[0]
    if run.aborted is not None:
        raise RunAbortedError(run.aborted)
    return run.progress


class _Run:
    """The state that the workers of one run share."""

    def __init__(
        self,
        env: Env[Any],
        agent: Agent,
        jobs: Iterator[Job],
        keep: Keep,
        limits: Limits,
        progress: Progress,
        stack: ExitStack,
    ) -> None:
        self.env = env
        self.agent = agent
        self.jobs = jobs
        self.keep = keep
        self.limits = limits
        self.progress = progress
        self.workers: list[asyncio.Task[None]] = []
        self.aborted: str | None = None
        self.act = _caller(stack, agent.threads)
        self.step = _caller(stack, _STEP_THREADS if env.slow_steps else 0)

    async def work(self) -> None:
        """Play jobs until there are no more."""
        env = None
        for job in self.jobs:
            env = env or copy.deepcopy(self.env)
            self.progress.running += 1
            try:
                found, fatal = await self._play(env, job)
            finally:
                self.progress.running -= 1
            if found["error"] is not None:
                env = None  # a thread that was given up may still hold the old one
            self.keep(found)
            self.progress.add(found)
            self._stop_on(found, fatal)
            await asyncio.sleep(0)  # a policy that never waits must not starve the display and the interrupt

    async def _play(self, env: Env[Any], job: Job) -> tuple[Record, bool]:
        log = Log()
        try:
            async with asyncio.timeout(self.limits.episode_timeout) as limit:
                return await play(env, self.agent, job, act=self.act, step=self.step, log=log)
        except asyncio.CancelledError:
            env.close()  # the thread of its step may wait for what nobody wants any more
            raise
        except TimeoutError:
            if not limit.expired():
                raise
            env.close()
            log.seconds = self.limits.episode_timeout or 0.0
            if env.slow_steps:  # a thread may still be changing this episode
                env, log = copy.deepcopy(self.env), Log(seconds=log.seconds)
                env.reset(seed=job.seed, options={"task": job.index})
            fail(env, log, "timeout", f"the episode took more than {self.limits.episode_timeout:g} seconds")
            return record(env, self.agent.name, job, log), False

    def _stop_on(self, found: Record, fatal: bool) -> None:
        allowed = self.limits.errors_in_row
        if self.aborted is None and found["error"] is not None:
            said = f"{found['error']['cause']}: {found['error']['message']}"
            if fatal:
                self._abort(f"the run was stopped: {said}")
            elif allowed and self.progress.errors_in_row >= allowed:
                self._abort(
                    f"the run was stopped after {self.progress.errors_in_row} errors in a row; the last: {said}"
                )

    def _abort(self, reason: str) -> None:
        self.aborted = reason
        for worker in self.workers:
            worker.cancel()


def _caller(stack: ExitStack, threads: int) -> Call:
    """How to call: on the loop, or in threads of its own that end with the run."""
    if not threads:
        return call_here
    pool = ThreadPoolExecutor(threads, thread_name_prefix="factgym")
    stack.callback(pool.shutdown, wait=False, cancel_futures=True)
    return _in_threads(pool)


def _in_threads(pool: Executor) -> Call:
    async def call(function: Callable[..., Any], *args: Any) -> Any:
        found = await asyncio.get_running_loop().run_in_executor(pool, function, *args)
        return await found if inspect.isawaitable(found) else found

    return call
