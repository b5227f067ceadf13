"""A run over worker processes: the engines of `factgym eval … --workers N` and `… --ray ADDRESS`.

Placing processes and moving data is multiprocessing's or Ray's; the run is ours: the driver (the process that was called)
hands out jobs and alone writes the run; each worker builds its own environment and agent from a recipe and plays as many
jobs at a time as it has slots. Episodes come back as each ends, so that a killed driver loses only the episodes under
way. A worker that is lost, with or without its machine, has its unfinished jobs played by another.

No key travels: a worker reads its own environment variables. On this machine workers inherit those of the driver; on
other clusters they are those of the shell that called `ray start`.
"""

from factgym.agents.cluster.driver import ClusterError
from factgym.agents.cluster.processes import on_processes
from factgym.agents.cluster.ray_workers import on_ray

__all__ = ["ClusterError", "on_processes", "on_ray"]
