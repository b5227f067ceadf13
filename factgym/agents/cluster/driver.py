"""The driver's side of a run on a cluster: which worker plays which jobs, and the jobs of lost workers.

Guided self-scheduling: chunks are large at first and shrink, so that workers are seldom idle, and a worker that is slow
or lost holds up little. A job is in one chunk at a time, and arriving records are counted against their chunk: none is
lost, none is doubled.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.agents.cluster.worker import Event, Recipe, Worker
from factgym.agents.rollout.engine import Keep, Limits, RunAbortedError, fail
from factgym.agents.rollout.jobs import Job, Progress
from factgym.agents.rollout.record import Log, Record, record
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, FactgymError

MAX_LOSSES = 3
"""Workers that a job may lose, the last of them alone, before it is recorded as an error; also the starts that a
worker may fail in a row."""

_SUSPECTS = 4
"""Times the worker's concurrency: how many of a lost worker's jobs are suspected the first time."""

_CLOSE_SECONDS = 10.0
_MAX_REASON_CHARS = 300

_log = logging.getLogger(__name__)

_Key = tuple[int, int]
_Unfinished = dict[_Key, Job]


class ClusterError(FactgymError):
    """The cluster, not the run, is at fault; finished episodes are on disk."""


class _LostError(Exception):
    """A worker is gone."""


class Driver:
    """The state of one run on a cluster. jobs: in the order in which they are to be started."""

    def __init__(
        self,
        ray: Any,
        options: dict[str, Any],
        recipe: Recipe,
        env: Env[Any],
        agent: Agent,
        jobs: Sequence[Job],
        keep: Keep,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self.ray = ray
        self.actor = ray.remote(**options)(Worker)
        self.recipe = recipe
        self.env = env
        self.agent = agent
        self.todo = deque(jobs)
        self.keep = keep
        self.limits = limits
        self.progress = progress
        self.tasks: list[asyncio.Task[None]] = []
        self.starting: set[asyncio.Task[Any]] = set()
        self.playing: dict[int, tuple[int, _Unfinished]] = {}
        self.losses: Counter[_Key] = Counter()
        self.last_loss = ""
        self.aborted: str | None = None

    async def run(self, workers: int) -> None:
        """Play all jobs with this many workers at a time."""
        failures: tuple[BaseException, ...] = ()
        share, extra = divmod(self.limits.concurrency, workers)
        try:
            async with asyncio.TaskGroup() as group:
                self.tasks = [group.create_task(self._work(i, share + (i < extra), workers)) for i in range(workers)]
        except BaseExceptionGroup as error:
            failures = error.exceptions
        finally:
            self.progress.running = 0
        if failures:
            raise failures[0]
        if self.aborted is not None:
            raise RunAbortedError(self.aborted)
        if self.todo:
            raise ClusterError(
                f"no worker of the Ray cluster stayed alive until it was ready; the last: {self.last_loss}"
            )

    async def _work(self, number: int, share: int, workers: int) -> None:
        """Keep one worker at work; where it is lost, another takes its place."""
        failed_starts = 0
        while self.todo and failed_starts < MAX_LOSSES:
            failed_starts += 1
            try:
                async with self._started_worker() as worker:
                    failed_starts = 0
                    while self.todo:
                        await self._play_chunk(worker, number, share, workers)
            except _LostError as error:
                self.last_loss = str(error)
                _log.warning("a worker was lost: %s", error)
        if not self.todo and not self.playing:
            for task in self.starting:  # those that waited for room in the cluster are no longer needed
                task.cancel()

    @asynccontextmanager
    async def _started_worker(self) -> AsyncIterator[Any]:
        worker = self.actor.remote()
        try:
            await self._start(worker)
            yield worker
            await self._close(worker)
        finally:
            with suppress(self.ray.exceptions.RayError):
                self.ray.kill(worker)

    async def _close(self, worker: Any) -> None:
        """Let the agent give back what it holds. Every episode is done, so that a fault here ends nothing."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._answer(worker.close.remote())
        except (TimeoutError, _LostError, ClusterError) as error:
            _log.warning("a worker could not be closed: %s", error)

    async def _start(self, worker: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.starting.add(task)
        try:
            version = await self._answer(worker.version.remote())
            if version != factgym.__version__:
                raise ConfigError(
                    f"a worker of the Ray cluster has factgym {version}, and this is {factgym.__version__}: install the "
                    f"same version on every machine"
                )
            self._check(await self._answer(self._send(worker.prepare, self.recipe)))
        finally:
            self.starting.discard(task)

    def _send(self, method: Any, *args: Any) -> Any:
        try:
            return method.remote(*args)
        except TypeError as error:
            raise ConfigError(
                f"a setting of the environment or the agent cannot be sent to workers: {error}"
            ) from None

    def _check(self, event: Event) -> None:
        """Refuse a worker whose environment or agent is not that of the run."""
        kind, content = event
        if kind == "failed":
            raise _error(content, "a worker could not build the environment or the agent: ")
        if content["agent"] != self.agent.name:
            raise ConfigError(f"the run's agent is {self.agent.name!r}, and on_ray was given {self.recipe.agent!r}")
        if content["tasks"] != self.env.tasks.fingerprint():
            raise ConfigError(
                f"the tasks of {self.env.env_spec.id!r} are not the same on a worker: every machine needs the same "
                f"data at the same path"
            )

    async def _answer(self, reference: Any) -> Any:
        """A worker's answer."""
        with self._faults():
            return await reference

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Ray's errors as ours: _LostError where a worker is gone."""
        errors = self.ray.exceptions
        try:
            yield
        except errors.RayTaskError as error:
            raise ClusterError(f"a worker failed: {error}") from error
        except errors.RayError as error:
            if getattr(error, "actor_init_failed", False) or isinstance(error, errors.RuntimeEnvSetupError):
                raise ConfigError(
                    f"a worker could not start: every machine needs the same Python and factgym "
                    f"{factgym.__version__}. Ray says: {error}"
                ) from error
            raise _LostError(_one_line(error)) from error

    async def _play_chunk(self, worker: Any, number: int, share: int, workers: int) -> None:
        """Let the worker play a chunk. Raises _LostError, after its unfinished jobs are back in line."""
        jobs = self._take(share, workers)
        unfinished = {(job.index, job.sample): job for job in jobs}
        limits = Limits(concurrency=share, episode_timeout=self.limits.episode_timeout, max_errors=0)
        self.playing[number] = (share, unfinished)
        self._count_running()
        try:
            with self._faults():
                async for reference in worker.play.options(num_returns="streaming").remote(jobs, limits):
                    for event in await reference:
                        self._receive(event, unfinished)
            if unfinished:
                raise _LostError("it stopped before its jobs were done")
        except _LostError as error:
            self._give_back(unfinished, share, str(error))
            raise
        finally:
            del self.playing[number]
            self._count_running()

    def _take(self, share: int, workers: int) -> list[Job]:
        """The next chunk: half of this worker's part of the rest, but enough to keep it busy.

        Jobs under suspicion are played at once or not at all, and in the end alone, so that a loss is theirs.
        """
        remaining = len(self.todo)
        idle = max(workers - len(self.playing), 1)
        size = max(-(-remaining // (2 * workers)), min(share, -(-remaining // idle)))
        losses = self._losses_of(self.todo[0])
        if losses:
            size = 1 if losses >= MAX_LOSSES - 1 else min(size, share)
        chunk = [self.todo.popleft()]
        while len(chunk) < size and self._losses_of(self.todo[0]) == losses:
            chunk.append(self.todo.popleft())
        return chunk

    def _losses_of(self, job: Job) -> int:
        return self.losses[job.index, job.sample]

    def _give_back(self, unfinished: _Unfinished, share: int, reason: str) -> None:
        """Put the jobs of a lost worker back in line, under suspicion where they may have been started.

        Jobs are started in order, so that those being played are among the first, behind those that had ended and
        whose records were still on the way.
        """
        self.losses.update(list(unfinished)[: _SUSPECTS * share])
        for key, job in reversed(unfinished.items()):
            if self.losses[key] < MAX_LOSSES:
                self.todo.appendleft(job)
            else:
                self._keep(self._lost_record(job, reason))

    def _lost_record(self, job: Job, reason: str) -> Record:
        env, log = copy.deepcopy(self.env), Log()
        env.reset(seed=job.seed, options={"task": job.index})
        fail(
            env,
            log,
            "worker_lost",
            f"{MAX_LOSSES} workers were lost while they played this episode; the last: {reason}",
        )
        return record(env, self.agent.name, job, log)

    def _receive(self, event: Event, unfinished: _Unfinished) -> None:
        kind, content = event
        if kind == "stopped":
            self._abort(content)
        elif kind == "failed":
            raise _error(content)
        elif unfinished.pop((content["index"], content["sample"]), None) is not None:
            self._count_running()
            self._keep(content)

    def _keep(self, episode: Record) -> None:
        self.keep(episode)
        self.progress.add(episode)
        reason = self.limits.abort_reason(episode, self.progress.errors_in_row)
        if reason is not None:
            self._abort(reason)

    def _abort(self, reason: str) -> None:
        if self.aborted is None:
            self.aborted = reason
            for task in self.tasks:
                task.cancel()

    def _count_running(self) -> None:
        self.progress.running = sum(min(share, len(unfinished)) for share, unfinished in self.playing.values())


def _error(content: tuple[str, str], context: str = "") -> FactgymError:
    """An error of a worker as the same error here, where its class takes a text."""
    name, text = content
    kind = {"ConfigError": ConfigError, "DataError": DataError}.get(name, ClusterError)
    return kind(f"{context}{text}")


def _one_line(error: Exception) -> str:
    """Ray's message about a loss, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if not line.startswith("\t")]
    return f"{type(error).__name__}: {' '.join(lines).partition(' Some common causes')[0]}"[:_MAX_REASON_CHARS]
