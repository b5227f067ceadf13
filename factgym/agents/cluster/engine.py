"""`on_ray`: from an address to an engine that `collect` can use in the place of `run_jobs`."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.cluster.connect import check_address, connected
from factgym.agents.cluster.recipe import recipe_of
from factgym.agents.cluster.spread import Spread
from factgym.agents.rollout.engine import Keep, Limits
from factgym.agents.rollout.jobs import Job, Progress
from factgym.core.env import Env
from factgym.core.errors import ConfigError

_log = logging.getLogger(__name__)


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
    gpus_per_worker: what Ray keeps for each; a local model on a GPU needs gpus_per_worker=1, or a part of 1.

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
        wanted = None if self.workers is None else math.ceil(self.workers * max(self.cpus, 1))
        with connected(self.address, wanted) as ray:
            count = min(self._count(ray), limits.concurrency, len(todo))
            options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_restarts": 0, "max_task_retries": 0}
            await Spread(ray, options, recipe, env, agent, todo, keep, limits, progress).run(count)
        return progress

    def _count(self, ray: Any) -> int:
        """How many workers: as asked for, or as many as there is room for."""
        has = ray.cluster_resources()
        needs = [(has.get(name, 0), need) for name, need in (("CPU", self.cpus), ("GPU", self.gpus)) if need]
        room = min((int(there // need) for there, need in needs), default=len(ray.nodes()))
        if not room:
            raise ConfigError(
                f"the Ray cluster at {self.address} has {has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs, and "
                f"a worker needs {self.cpus:g} and {self.gpus:g}: add a machine, or ask for less"
            )
        if self.workers is not None and self.workers > room:
            _log.warning("the Ray cluster has room for %d of %d workers; the others wait", room, self.workers)
        return self.workers or room
