"""The driver's side of a run with worker processes: the workers, and the jobs of those that are lost.

The episodes are played by `run_jobs_with`, which counts, records and stops them as in one process; here a job is a
call of a worker that has a free slot. The record of an episode is the result of that call: none is lost, none doubled.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import factgym
from factgym.agents.agent import Agent
from factgym.agents.cluster.worker import Recipe, recipe_of
from factgym.agents.rollout.engine import Keep, Limits, fail, run_jobs_with
from factgym.agents.rollout.jobs import Job, Progress
from factgym.agents.rollout.record import EncodedRecord, Log, record
from factgym.agents.runs.collect import Engine
from factgym.core.caching import gather_all
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, FactgymError

MAX_LOSSES = 3
"""Workers that a job may lose, the last of them alone, before it is recorded as an error; also the starts that a
worker may fail in a row."""

_CLOSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class ClusterError(FactgymError):
    """The cluster, not the run, is at fault; finished episodes are on disk."""


class WorkerLostError(Exception):
    """A worker is gone."""


class RemoteWorker(Protocol):
    """A `factgym.agents.cluster.worker.Worker` in another process: how calls travel there is all that differs."""

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method and return its result.

        Raises WorkerLostError where the worker is gone, ClusterError where the call itself failed, and ConfigError for a
        worker that cannot start or arguments that cannot be sent.
        """

    def kill(self) -> None:
        """End the process, whatever it does."""


@dataclass(slots=True, eq=False)
class _Slots:
    """A worker that is ready. free: of its `size` episodes at a time. lost: raises WorkerLostError when it is gone."""

    worker: RemoteWorker
    size: int
    free: int
    lost: asyncio.Future[None]


@dataclass(slots=True)
class Driver:
    """The workers of one run. start: starts a process. location: where they run, for messages."""

    start: Callable[[], RemoteWorker]
    location: str
    recipe: Recipe
    env: Env[Any]
    agent: Agent
    limits: Limits
    ready: list[_Slots] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    last_loss: str = ""

    async def run(self, workers: int, jobs: Iterable[Job], keep: Keep, progress: Progress) -> None:
        """Play all jobs with this many workers at a time."""
        size, extra = divmod(self.limits.concurrency, workers)
        sizes = [size + (number < extra) for number in range(workers)]

        async def play(job: Job) -> tuple[EncodedRecord, bool]:
            episode, fatal = await self._play(job)
            for completion in episode.completions:
                progress.add_turn(completion)
            return episode, fatal

        playing = asyncio.ensure_future(run_jobs_with(play, jobs, keep, self.limits, progress))
        serving = asyncio.ensure_future(gather_all(self._serve(size) for size in sizes))
        try:
            await asyncio.wait((playing, serving), return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                serving.result()
                raise ClusterError(
                    f"no worker of {self.location} stayed alive until it was ready; the last: {self.last_loss}"
                )
            playing.result()
            await gather_all(self._close(slots) for slots in self.ready)
        finally:
            playing.cancel()
            serving.cancel()
            await asyncio.gather(playing, serving, return_exceptions=True)

    async def _serve(self, size: int) -> None:
        """Keep one worker ready, another where it is lost; ends where too many in a row are lost before."""
        failed_starts = 0
        while failed_starts < MAX_LOSSES:
            failed_starts += 1
            worker = self.start()
            try:
                await self._prepare(worker)
                failed_starts = 0
                slots = _Slots(worker, size, size, asyncio.get_running_loop().create_future())
                self.ready.append(slots)
                await self._notify()
                await slots.lost
            except WorkerLostError as error:
                self.last_loss = str(error)
                _log.warning("a worker was lost: %s", error)
            finally:
                worker.kill()

    async def _prepare(self, worker: RemoteWorker) -> None:
        """Let a worker build environment and agent, and refuse one whose are not those of the run."""
        version = await worker.call("version")
        if version != factgym.__version__:
            raise ConfigError(
                f"a worker of {self.location} has factgym {version}, and this is {factgym.__version__}: install the "
                f"same version on every machine"
            )
        answer = await worker.call("prepare", self.recipe, self.limits.episode_timeout)
        content = _content(answer, "a worker could not build the environment or the agent: ")
        if content["agent"] != self.agent.name:
            raise ConfigError(
                f"the run's agent is {self.agent.name!r}, and its workers were given {self.recipe.agent!r}"
            )
        if content["tasks"] != self.env.tasks.fingerprint():
            raise ConfigError(
                f"the tasks of {self.env.env_spec.id!r} are not the same on a worker: every machine needs the same "
                f"data at the same path"
            )

    async def _play(self, job: Job) -> tuple[EncodedRecord, bool]:
        """Play a job on a worker with a free slot, again where the worker is lost."""
        # A job that kills its worker is found by elimination: a loss counts against every job that was under way, and
        # the last attempt of each is alone on its worker, so that this loss is its own.
        reason = ""
        for losses in range(MAX_LOSSES):
            async with self._slot(alone=losses == MAX_LOSSES - 1) as slots:
                try:
                    outcome: tuple[EncodedRecord, bool] = _content(await slots.worker.call("play", job))
                    return outcome
                except WorkerLostError as error:
                    reason = str(error)
                    if slots in self.ready:
                        self.ready.remove(slots)
                        slots.lost.set_exception(error)
        env, log = copy.deepcopy(self.env), Log()
        env.reset(seed=job.seed, options={"task": job.index})
        message = f"{MAX_LOSSES} workers were lost while they played this episode; the last: {reason}"
        fail(env, log, "worker_lost", message)
        return EncodedRecord.of(record(env, self.agent.name, job, log)), False

    @asynccontextmanager
    async def _slot(self, alone: bool) -> AsyncIterator[_Slots]:
        """A slot of the worker with the most free slots, or all slots of a worker."""

        def choose() -> _Slots | None:
            fitting = (slots for slots in self.ready if slots.free >= (slots.size if alone else 1))
            return max(fitting, key=lambda slots: slots.free, default=None)

        async with self.changed:
            while (slots := choose()) is None:
                await self.changed.wait()
        number = slots.size if alone else 1
        slots.free -= number
        try:
            yield slots
        finally:
            slots.free += number
            await self._notify()

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def _close(self, slots: _Slots) -> None:
        """Let the agent release its resources; every episode is finished, so that a fault here loses nothing."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await slots.worker.call("close")
        except (TimeoutError, WorkerLostError, ClusterError) as error:
            _log.warning("a worker could not be closed: %s", error)


StartWorkers = Callable[[Env[Any], Limits], AbstractContextManager[tuple[Callable[[], RemoteWorker], int]]]
"""Prepare workers for an environment: yields a function that starts one worker process, and the number of workers."""


def cluster_engine(location: str, workers: StartWorkers, agent: str, settings: Mapping[str, Any] | None) -> Engine:
    """Return an engine for `collect(…, engine=…)` that plays on workers. agent, settings: each worker makes its own."""

    async def play(
        env: Env[Any],
        run_agent: Agent,
        jobs: Iterable[Job],
        keep: Keep,
        *,
        limits: Limits | None = None,
        progress: Progress | None = None,
    ) -> Progress:
        todo, limits, progress = list(jobs), limits or Limits(), progress or Progress(0)
        if todo:
            recipe = recipe_of(env, agent, settings or {})
            with workers(env, limits) as (start, number):
                driver = Driver(start, location, recipe, env, run_agent, limits)
                await driver.run(min(number, limits.concurrency, len(todo)), todo, keep, progress)
        return progress

    return play


def _content(answer: Any, context: str = "") -> Any:
    """The content of a worker's answer; an error of the worker is raised as the same error where it takes a text."""
    kind, content = answer
    if kind != "failed":
        return content
    name, text = content
    raise {"ConfigError": ConfigError, "DataError": DataError}.get(name, ClusterError)(f"{context}{text}")
