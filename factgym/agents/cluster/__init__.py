"""A run over the machines of a Ray cluster: the engine of `factgym eval … --ray ADDRESS`.

Placing processes, starting them again and moving data is Ray's; the run is ours: the driver (the process
that was called) hands out chunks of jobs and alone writes the run; each worker, a Ray actor, builds its own
environment and agent from a recipe and plays its chunk with the ordinary `run_jobs`. Episodes stream back as each
ends, so that a killed driver loses only the episodes under way. A worker that is lost, with or without its
machine, has its unfinished jobs played by another.

No key travels: a worker reads its own environment variables. With "local", workers inherit those of the driver; on
other clusters they are those of the shell that called `ray start`.
"""

from factgym.agents.cluster.driver import ClusterError, on_ray

__all__ = ["ClusterError", "on_ray"]
