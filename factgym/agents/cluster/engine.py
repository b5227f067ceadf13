"""`on_ray`: from the address of a Ray cluster to an engine that `collect` can use in place of `run_jobs`.

Ray itself tries an address that does not answer for many minutes, so it is tried with a plain connection first; errors
name the address and the remedy.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.cluster.driver import Driver
from factgym.agents.cluster.worker import recipe_of
from factgym.agents.rollout.engine import Keep, Limits
from factgym.agents.rollout.jobs import Job, Progress
from factgym.core.env import Env
from factgym.core.errors import ConfigError, MissingExtraError

_log = logging.getLogger(__name__)

_REACH_SECONDS = 10.0
_MAX_REASON_CHARS = 300


def check_address(address: str) -> None:
    """Refuse an impossible address. Raises ConfigError, and MissingExtraError without Ray."""
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
        f"address (port 6379 unless told otherwise), or try --ray local"
    )


def _refused(address: str, reason: str) -> ConfigError:
    if address == "local":
        return ConfigError(f"a Ray cluster could not be started here: {reason}")
    if address == "auto":
        return _unreachable("auto", reason)
    return ConfigError(
        f"the Ray cluster at {address} does not take this process ({reason}): it needs the same versions of Python and "
        f"Ray, and where the cluster asks for a token, RAY_AUTH_MODE=token and that token (`ray get-auth-token`)"
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
    with _own_sigterm():
        _connect(ray, address, cpus)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str, cpus: int | None) -> None:
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by the processes that Ray starts now
        options = {"num_cpus": cpus, "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(address, f"{error}"[:_MAX_REASON_CHARS]) from error


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore this process's handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            with suppress(TypeError):  # a handler that was not set from Python cannot be put back
                signal.signal(signal.SIGTERM, before)


def on_ray(
    address: str,
    agent: str,
    settings: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    cpus_per_worker: float = 1.0,
    gpus_per_worker: float = 0.0,
) -> RayEngine:
    """An engine for `collect(…, engine=…)` that spreads the episodes over a Ray cluster.

    address: "HOST:PORT" of the cluster, "auto" for the one that this machine belongs to, or "local" for one of its own
    on this machine, which ends with the run. Where the process is already connected to Ray, that connection is used.
    agent, settings: those that `find_agent` made the run's agent from; each worker makes its own. workers: processes;
    default as many as the cluster has room for, and never more than the concurrency or the jobs. cpus_per_worker,
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
    return RayEngine(address, agent, dict(settings or {}), workers, cpus_per_worker, gpus_per_worker)


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Plays jobs as `run_jobs` does, on a cluster; made by `on_ray`."""

    address: str
    agent: str
    settings: Mapping[str, Any]
    workers: int | None
    cpus: float
    gpus: float

    async def __call__(
        self,
        env: Env[Any],
        agent: Agent,
        jobs: Iterable[Job],
        keep: Keep,
        *,
        limits: Limits | None = None,
        progress: Progress | None = None,
    ) -> Progress:
        """Play every job on the workers and hand its record to `keep` here, in the order in which they arrive."""
        todo, limits, progress = list(jobs), limits or Limits(), progress or Progress(0)
        if not todo:
            return progress
        recipe = recipe_of(env, self.agent, self.settings)
        cpus = None if self.workers is None else math.ceil(self.workers * max(self.cpus, 1))
        with connected(self.address, cpus) as ray:
            count = min(self._worker_count(ray), limits.concurrency, len(todo))
            options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_restarts": 0, "max_task_retries": 0}
            await Driver(ray, options, recipe, env, agent, todo, keep, limits, progress).run(count)
        return progress

    def _worker_count(self, ray: Any) -> int:
        """The number of workers: as set, or as many as the cluster has room for."""
        resources = ray.cluster_resources()
        needs = [(resources.get(name, 0), need) for name, need in (("CPU", self.cpus), ("GPU", self.gpus)) if need]
        room = min((int(available // need) for available, need in needs), default=len(ray.nodes()))
        if not room:
            raise ConfigError(
                f"the Ray cluster at {self.address} has {resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs, and "
                f"a worker needs {self.cpus:g} and {self.gpus:g}: add a machine, or ask for less"
            )
        if self.workers is not None and self.workers > room:
            _log.warning("the Ray cluster has room for %d of %d workers; the others wait", room, self.workers)
        return self.workers or room
