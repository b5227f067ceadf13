"""The driver's side of a run on a cluster: `on_ray`, the workers, and the jobs of those that are lost.

The episodes are played by `run_jobs_with`, which counts, records and stops them as in one process; here a job is a
call of a worker that has a free slot. The record of an episode is the result of that call: none is lost, none doubled.
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
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.agents.cluster.worker import Recipe, Worker, recipe_of
from factgym.agents.rollout.engine import Keep, Limits, Outcome, fail, run_jobs_with
from factgym.agents.rollout.jobs import Job, Progress
from factgym.agents.rollout.record import Log, record
from factgym.agents.runs.collect import Engine
from factgym.core.caching import gather_all
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, FactgymError, MissingExtraError

MAX_LOSSES = 3
"""Workers that a job may lose, the last of them alone, before it is recorded as an error; also the starts that a
worker may fail in a row."""

_REACH_SECONDS = 10.0
_CLOSE_SECONDS = 10.0
_MAX_REASON_CHARS = 300

_log = logging.getLogger(__name__)


class ClusterError(FactgymError):
    """The cluster, not the run, is at fault; finished episodes are on disk."""


class _LostError(Exception):
    """A worker is gone."""


@dataclass(slots=True, eq=False)
class _Slots:
    """A worker that is ready. free: of its `size` episodes at a time. lost: raises _LostError when it is gone."""

    worker: Any
    size: int
    free: int
    lost: asyncio.Future[None]


@dataclass(slots=True)
class Driver:
    """The workers of one run. ray: the module, connected. actor: the remote class of workers."""

    ray: Any
    actor: Any
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
        playing = asyncio.ensure_future(run_jobs_with(self._play, jobs, keep, self.limits, progress))
        serving = asyncio.ensure_future(gather_all(self._serve(size) for size in sizes))
        try:
            await asyncio.wait((playing, serving), return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                serving.result()
                raise ClusterError(
                    f"no worker of the Ray cluster stayed alive until it was ready; the last: {self.last_loss}"
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
            worker = self.actor.remote()
            try:
                await self._prepare(worker)
                failed_starts = 0
                slots = _Slots(worker, size, size, asyncio.get_running_loop().create_future())
                self.ready.append(slots)
                await self._notify()
                await slots.lost
            except _LostError as error:
                self.last_loss = str(error)
                _log.warning("a worker was lost: %s", error)
            finally:
                with suppress(self.ray.exceptions.RayError):
                    self.ray.kill(worker)

    async def _prepare(self, worker: Any) -> None:
        """Let a worker build environment and agent, and refuse one whose are not those of the run."""
        version = await self._result(worker.version.remote())
        if version != factgym.__version__:
            raise ConfigError(
                f"a worker of the Ray cluster has factgym {version}, and this is {factgym.__version__}: install the "
                f"same version on every machine"
            )
        try:
            reference = worker.prepare.remote(self.recipe, self.limits.episode_timeout)
        except TypeError as error:
            raise ConfigError(
                f"a setting of the environment or the agent cannot be sent to workers: {error}"
            ) from None
        content = await self._content(reference, "a worker could not build the environment or the agent: ")
        if content["agent"] != self.agent.name:
            raise ConfigError(f"the run's agent is {self.agent.name!r}, and on_ray was given {self.recipe.agent!r}")
        if content["tasks"] != self.env.tasks.fingerprint():
            raise ConfigError(
                f"the tasks of {self.env.env_spec.id!r} are not the same on a worker: every machine needs the same "
                f"data at the same path"
            )

    async def _play(self, job: Job) -> Outcome:
        """Play a job on a worker with a free slot, again where the worker is lost."""
        # A job that kills its worker is found by elimination: a loss counts against every job that was under way, and
        # the last attempt of each is alone on its worker, so that this loss is its own.
        reason = ""
        for losses in range(MAX_LOSSES):
            async with self._slot(alone=losses == MAX_LOSSES - 1) as slots:
                try:
                    outcome: Outcome = await self._content(slots.worker.play.remote(job))
                    return outcome
                except _LostError as error:
                    reason = str(error)
                    if slots in self.ready:
                        self.ready.remove(slots)
                        slots.lost.set_exception(error)
        env, log = copy.deepcopy(self.env), Log()
        env.reset(seed=job.seed, options={"task": job.index})
        message = f"{MAX_LOSSES} workers were lost while they played this episode; the last: {reason}"
        fail(env, log, "worker_lost", message)
        return record(env, self.agent.name, job, log), False

    @asynccontextmanager
    async def _slot(self, alone: bool) -> AsyncIterator[_Slots]:
        """A slot of the worker that has most free ones, or all slots of a worker."""

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
                await self._result(slots.worker.close.remote())
        except (TimeoutError, _LostError, ClusterError) as error:
            _log.warning("a worker could not be closed: %s", error)

    async def _content(self, reference: Any, context: str = "") -> Any:
        """The content of a worker's answer; an error of the worker is raised as the same error where it takes a text."""
        kind, content = await self._result(reference)
        if kind != "failed":
            return content
        name, text = content
        raise {"ConfigError": ConfigError, "DataError": DataError}.get(name, ClusterError)(f"{context}{text}")

    async def _result(self, reference: Any) -> Any:
        """The result of a call, Ray's errors as ours: _LostError where the worker is gone."""
        errors = self.ray.exceptions
        try:
            return await reference
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
        todo, limits, progress = list(jobs), limits or Limits(), progress or Progress(0)
        if not todo:
            return progress
        recipe = recipe_of(env, agent, settings or {})
        with connected(address, None if workers is None else math.ceil(workers * max(cpus_per_worker, 1))) as ray:
            capacity = _capacity(ray, address, cpus_per_worker, gpus_per_worker)
            if workers is not None and workers > capacity:
                _log.warning("the Ray cluster has room for %d of %d workers; the others wait", capacity, workers)
            reserved = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
            calls = {"max_concurrency": limits.concurrency + 1, "max_restarts": 0, "max_task_retries": 0}
            actor = ray.remote(**reserved, **calls)(Worker)
            driver = Driver(ray, actor, recipe, env, run_agent, limits)
            await driver.run(min(workers or capacity, limits.concurrency, len(todo)), todo, keep, progress)
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
