"""Workers on a Ray cluster: `on_ray`, its connection, and the calls of actors."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import factgym
from factgym.agents.cluster.driver import ClusterError, WorkerLostError, cluster_engine
from factgym.agents.cluster.worker import Worker
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import Engine
from factgym.core.env import Env
from factgym.core.errors import ConfigError, MissingExtraError

_REACH_SECONDS = 10.0
_MAX_REASON_CHARS = 300

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RayWorker:
    """An actor of the class `Worker`. ray: the module, connected."""

    ray: Any
    actor: Any

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method and return its result; Ray's errors are raised as ours."""
        errors = self.ray.exceptions
        try:
            reference = getattr(self.actor, method).remote(*args)
        except TypeError as error:
            raise ConfigError(f"a setting of the environment or the agent cannot be sent to workers: {error}") from None
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
            raise WorkerLostError(f"{type(error).__name__}: {reason}"[:_MAX_REASON_CHARS]) from error

    def kill(self) -> None:
        """End the actor."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(self.actor)


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

    @contextmanager
    def start_workers(env: Env[Any], limits: Limits) -> Iterator[tuple[Callable[[], _RayWorker], int]]:
        with connected(address, None if workers is None else math.ceil(workers * max(cpus_per_worker, 1))) as ray:
            capacity = _capacity(ray, address, cpus_per_worker, gpus_per_worker)
            if workers is not None and workers > capacity:
                _log.warning("the Ray cluster has room for %d of %d workers; the others wait", capacity, workers)
            reserved = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
            calls = {"max_concurrency": limits.concurrency + 1, "max_restarts": 0, "max_task_retries": 0}
            actor = ray.remote(**reserved, **calls)(Worker)
            yield lambda: _RayWorker(ray, actor.remote()), workers or capacity

    return cluster_engine("the Ray cluster", start_workers, agent, settings)


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
