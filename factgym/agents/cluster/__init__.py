"""A run over the machines of a Ray cluster: the engine of `factgym eval … --ray ADDRESS`.

Placing processes and moving data is Ray's; the run is ours: the driver (the process that was called) hands out jobs and
alone writes the run; each worker, a Ray actor, builds its own environment and agent from a recipe and plays as many
jobs at a time as it has slots. Episodes come back as each ends, so that a killed driver loses only the episodes under
way. A worker that is lost, with or without its machine, has its unfinished jobs played by another.

No key travels: a worker reads its own environment variables. With "local", workers inherit those of the driver; on
other clusters they are those of the shell that called `ray start`.
"""

from factgym.agents.cluster.driver import ClusterError, on_ray

__all__ = ["ClusterError", "on_ray"]
