"""The driver's side of a run on a cluster: `on_ray`, which worker plays which jobs, and the jobs of lost workers.

Guided self-scheduling: chunks are large at first and shrink, so that workers are seldom idle, and a worker that is slow
or lost holds up little. A job is in one chunk at a time, and arriving records are counted against their chunk: none is
lost, none is doubled.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import importlib.util
import logging
import math
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.agents.cluster.worker import Event, Recipe, Worker, recipe_of
from factgym.agents.rollout.engine import Keep, Limits, RunAbortedError, fail
from factgym.agents.rollout.jobs import Job, Progress
from factgym.agents.rollout.record import Log, Record, record
from factgym.agents.runs.collect import Engine
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, FactgymError, MissingExtraError

MAX_LOSSES = 3
"""Workers that a job may lose, the last of them alone, before it is recorded as an error; also the starts that a
worker may fail in a row."""

_SUSPECTS = 4
"""Times the worker's concurrency: how many of a lost worker's jobs are suspected the first time."""

_REACH_SECONDS = 10.0
_CLOSE_SECONDS = 10.0
_MAX_REASON_CHARS = 300

_log = logging.getLogger(__name__)

_Key = tuple[int, int]
_Unfinished = dict[_Key, Job]


class ClusterError(FactgymError):
    """The cluster, not the run, is at fault; finished episodes are on disk."""


class _LostError(Exception):
    """A worker is gone."""


@dataclass(slots=True)
class Driver:
    """The state of one run on a cluster.

    ray: the module, connected. actor: the remote class of workers. todo: jobs in the order in which they are to be
    started. playing: of each busy worker its concurrency and its unfinished jobs. losses: workers lost with a job.
    """

    ray: Any
    actor: Any
    recipe: Recipe
    env: Env[Any]
    agent: Agent
    todo: deque[Job]
    keep: Keep
    limits: Limits
    progress: Progress
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    starting: set[asyncio.Task[Any]] = field(default_factory=set)
    playing: dict[int, tuple[int, _Unfinished]] = field(default_factory=dict)
    losses: Counter[_Key] = field(default_factory=Counter)
    last_loss: str = ""
    aborted: str | None = None

    async def run(self, workers: int) -> None:
        """Play all jobs with this many workers at a time."""
        failures: tuple[BaseException, ...] = ()
        share, extra = divmod(self.limits.concurrency, workers)
        try:
            async with asyncio.TaskGroup() as group:
                self.tasks = [
                    group.create_task(self._drive(number, share + (number < extra), workers))
                    for number in range(workers)
                ]
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

    async def _drive(self, number: int, share: int, workers: int) -> None:
        """Give one worker chunks while there are jobs; replace it where it is lost."""
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
            for task in self.starting:  # those that waited for a place in the cluster are no longer needed
                task.cancel()

    @asynccontextmanager
    async def _started_worker(self) -> AsyncIterator[Any]:
        worker = self.actor.remote()
        try:
            await self._prepare(worker)
            yield worker
            try:  # the agent releases its resources; every episode is finished, so a fault here loses nothing
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._result(worker.close.remote())
            except (TimeoutError, _LostError, ClusterError) as error:
                _log.warning("a worker could not be closed: %s", error)
        finally:
            with suppress(self.ray.exceptions.RayError):
                self.ray.kill(worker)

    async def _prepare(self, worker: Any) -> None:
        """Let a worker build environment and agent, and refuse one whose are not those of the run."""
        task = asyncio.current_task()
        assert task is not None
        self.starting.add(task)
        try:
            version = await self._result(worker.version.remote())
            if version != factgym.__version__:
                raise ConfigError(
                    f"a worker of the Ray cluster has factgym {version}, and this is {factgym.__version__}: install the "
                    f"same version on every machine"
                )
            try:
                reference = worker.prepare.remote(self.recipe)
            except TypeError as error:
                raise ConfigError(
                    f"a setting of the environment or the agent cannot be sent to workers: {error}"
                ) from None
            kind, content = await self._result(reference)
        finally:
            self.starting.discard(task)
        if kind == "failed":
            raise _error(content, "a worker could not build the environment or the agent: ")
        if content["agent"] != self.agent.name:
            raise ConfigError(f"the run's agent is {self.agent.name!r}, and on_ray was given {self.recipe.agent!r}")
        if content["tasks"] != self.env.tasks.fingerprint():
            raise ConfigError(
                f"the tasks of {self.env.env_spec.id!r} are not the same on a worker: every machine needs the same "
                f"data at the same path"
            )

    async def _result(self, reference: Any) -> Any:
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
            lines = [line.strip() for line in str(error).splitlines() if not line.startswith("\t")]
            reason = " ".join(lines).partition(" Some common causes")[0]
            raise _LostError(f"{type(error).__name__}: {reason}"[:_MAX_REASON_CHARS]) from error

    async def _play_chunk(self, worker: Any, number: int, share: int, workers: int) -> None:
        """Let the worker play a chunk. Raises _LostError, after its unfinished jobs are back in line."""
        unfinished = {(job.index, job.sample): job for job in self._next_chunk(share, workers)}
        limits = Limits(concurrency=share, episode_timeout=self.limits.episode_timeout, max_errors=0)
        self.playing[number] = (share, unfinished)
        self._count_running()
        try:
            with self._faults():
                stream = worker.play.options(num_returns="streaming").remote(list(unfinished.values()), limits)
                async for reference in stream:
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

    def _next_chunk(self, share: int, workers: int) -> list[Job]:
        """The next chunk: half of this worker's part of the remaining jobs, but enough to keep it busy.

        Jobs under suspicion are played at once or not at all, and in the end alone, so that a loss is theirs.
        """
        # Guided self-scheduling (Polychronopoulos and Kuck, 1987), with half of the share that they give: episodes
        # differ in length, so that the last chunks must be small. Invariant: a chunk has jobs of one number of losses.
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
        # A job that kills its worker is found by elimination: suspects are retried in smaller chunks, then alone.
        self.losses.update(list(unfinished)[: _SUSPECTS * share])
        for key, job in reversed(unfinished.items()):
            if self.losses[key] < MAX_LOSSES:
                self.todo.appendleft(job)
                continue
            env, log = copy.deepcopy(self.env), Log()
            env.reset(seed=job.seed, options={"task": job.index})
            message = f"{MAX_LOSSES} workers were lost while they played this episode; the last: {reason}"
            fail(env, log, "worker_lost", message)
            self._keep(record(env, self.agent.name, job, log))

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


def on_ray(
    address: str,
    agent: str,
    settings: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    cpus_per_worker: float = 1.0,
    gpus_per_worker: float = 0.0,
) -> Engine:
    """An engine for `collect(…, engine=…)` that spreads the episodes over a Ray cluster.

    address: "HOST:PORT" of the cluster, "auto" for the one that this machine belongs to, or "local" for one of its own
    on this machine, which ends with the run. Where the process is already connected to Ray, that connection is used.
    agent, settings: those that `find_agent` made the run's agent from; each worker makes its own. workers: processes;
    default as many as the cluster can hold, and never more than the concurrency or the jobs. cpus_per_worker,
    gpus_per_worker: reserved for each; a local model on a GPU needs gpus_per_worker=1, or a part of 1.

    `Limits.concurrency` is that of the whole run, shared out among the workers. The engine raises what `run_jobs`
    raises, ConfigError for a cluster that cannot do the run, and ClusterError where no worker stays alive. Raises
    ConfigError for an address that cannot be reached and MissingExtraError without Ray.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"a cluster needs at least 1 worker, not {workers}")
    for name, value in (("cpus_per_worker", cpus_per_worker), ("gpus_per_worker", gpus_per_worker)):
        if not 0 <= value < math.inf:
            raise ConfigError(f"{name} must be 0 or more, not {value}")
    check_address(address)

    async def play(
        env: Env[Any],
        run_agent: Agent,
        jobs: Iterable[Job],
        keep: Keep,
        *,
        limits: Limits | None = None,
        progress: Progress | None = None,
    ) -> Progress:
        todo, limits, progress = deque(jobs), limits or Limits(), progress or Progress(0)
        if not todo:
            return progress
        recipe = recipe_of(env, agent, settings or {})
        with connected(address, None if workers is None else math.ceil(workers * max(cpus_per_worker, 1))) as ray:
            capacity = _capacity(ray, address, cpus_per_worker, gpus_per_worker)
            if workers is not None and workers > capacity:
                _log.warning("the Ray cluster has room for %d of %d workers; the others wait", capacity, workers)
            reserved = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
            actor = ray.remote(**reserved, max_restarts=0, max_task_retries=0)(Worker)
            driver = Driver(ray, actor, recipe, env, run_agent, todo, keep, limits, progress)
            await driver.run(min(workers or capacity, limits.concurrency, len(todo)))
        return progress

    return play


def _capacity(ray: Any, address: str, cpus: float, gpus: float) -> int:
    """As many workers as the cluster's resources allow. Raises ConfigError for none."""
    resources = ray.cluster_resources()
    needs = [(resources.get(name, 0), need) for name, need in (("CPU", cpus), ("GPU", gpus)) if need]
    capacity = min((int(available // need) for available, need in needs), default=len(ray.nodes()))
    if not capacity:
        raise ConfigError(
            f"the Ray cluster at {address} has {resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs, and "
            f"a worker needs {cpus:g} and {gpus:g}: add a machine, or ask for less"
        )
    return capacity


def check_address(address: str) -> None:
    """Refuse an impossible address. Raises ConfigError, and MissingExtraError without Ray.

    Ray itself tries an address that does not answer for many minutes, so it is tried with a plain connection first.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("--ray", "ray")
    if address.startswith("ray://"):
        raise ConfigError(
            f"{address} is an address of Ray Client, which does not stream results: start factgym on a machine of the "
            f"cluster with --ray auto, or hand it to the cluster with `ray job submit -- factgym eval … --ray auto`"
        )
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r:.80} is no address of a Ray cluster: give auto, local or HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from None


def _unreachable(address: str, reason: str) -> ConfigError:
    return ConfigError(
        f"there is no Ray cluster at {address} ({reason}): start one with `ray start --head`, whose output names the "
        f"address (by default port 6379), or try --ray local"
    )


@contextmanager
def connected(address: str, cpus: int | None) -> Iterator[Any]:
    """The module `ray`, connected to the cluster. A connection that this process already has is used and left open.

    cpus: of a "local" cluster, which ends with the block; default those of the machine. Raises ConfigError.
    """
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by the processes that Ray starts now
        options = {"num_cpus": cpus, "include_dashboard": False}
    sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"{error}"[:_MAX_REASON_CHARS]
        if address == "local":
            raise ConfigError(f"a Ray cluster could not be started here: {reason}") from error
        if address == "auto":
            raise _unreachable("auto", reason) from error
        raise ConfigError(
            f"the Ray cluster at {address} does not take this process ({reason}): it needs the same versions of Python "
            "and Ray, and where the cluster asks for a token, RAY_AUTH_MODE=token and that token (`ray get-auth-token`)"
        ) from error
    finally:  # Ray replaces the handler of SIGTERM
        if threading.current_thread() is threading.main_thread():
            with suppress(TypeError):  # a handler that was not set from Python cannot be put back
                signal.signal(signal.SIGTERM, sigterm)
    try:
        yield ray
    finally:
        ray.shutdown()
