"""Building, encoding and indexing a corpus over the machines of a Ray cluster: `factgym corpus build|encode|index … --ray ADDRESS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from factgym.agents.cluster.ray_workers import check_address, connected
from factgym.core.errors import DataError
from factgym.corpora.approximate import Cluster

if TYPE_CHECKING:
    from factgym.corpora.corpus import Passage
    from factgym.corpora.dense import Encoder, Vectors
    from factgym.corpora.encode import EncodeBlocks
    from factgym.corpora.late import LateEncoder, Rows

_RESTARTS = 3
"""Starts of a worker whose process or machine is lost; its block is encoded again."""


class _Worker:
    """An actor that has loaded the encoder."""

    def __init__(self, encoder: Encoder | LateEncoder) -> None:
        self._encoder = encoder

    def encode(self, passages: list[Passage]) -> Vectors | list[Rows]:
        return self._encoder.passages(passages)


@contextmanager
def encoding_on_ray(address: str, encoder: Encoder | LateEncoder) -> Iterator[EncodeBlocks]:
    """Give the function that encodes blocks on a cluster: a worker for each GPU, or for each CPU where there is none.

    address: "HOST:PORT", "auto" or "local". Blocks come back in order; a few for each worker are under way, so that memory
    does not grow with the corpus. Workers load the encoder by its name, or from the same path as here. Raises ConfigError
    for a cluster that cannot be reached, MissingExtraError without Ray.
    """
    check_address(address)
    with connected(address, None) as ray:
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        actor = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=_RESTARTS, max_task_retries=_RESTARTS)(
            _Worker
        )
        workers = [actor.remote(encoder) for _ in range(gpus or max(1, int(resources.get("CPU", 1))))]
        pool = ray.util.ActorPool(workers)

        def encode(blocks: Iterable[list[Passage]]) -> Iterator[Vectors | list[Rows]]:
            under_way = 0
            for block in blocks:
                pool.submit(lambda worker, block: worker.encode.remote(block), block)
                under_way += 1
                if under_way == 2 * len(workers):
                    yield pool.get_next()
                    under_way -= 1
            for _ in range(under_way):
                yield pool.get_next()

        yield encode


@contextmanager
def building_on_ray(address: str) -> Iterator[Cluster]:
    """Give maps over the parts of a build, run by a cluster; results in the order of completion.

    address: "HOST:PORT", "auto" or "local". The parts are written to the folder of the build, which all machines see under
    the same path. Parts of lost workers are made again. Raises ConfigError for a cluster that cannot be reached,
    MissingExtraError without Ray.
    """
    check_address(address)
    with connected(address, None) as ray:
        machines = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        alone = max(machines, default=1) or 1
        yield Cluster(partial(_run, ray, 1), partial(_run, ray, alone), max(1, sum(machines)))


def _run(ray: Any, cpus: int, function: Callable[[Any], Any], tasks: Iterator[Any]) -> Iterator[Any]:
    """Run a task on `cpus` CPUs of a machine each."""
    under_way = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)) // cpus)
    remote = ray.remote(num_cpus=cpus, max_retries=_RESTARTS)(function)
    pending: list[Any] = []
    try:
        for task in tasks:
            pending.append(remote.remote(task))
            if len(pending) == under_way:
                done, pending = ray.wait(pending)
                yield from ray.get(done)
        while pending:
            done, pending = ray.wait(pending)
            yield from ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise DataError(
            f"the cluster lost a part of the build ({type(error).__name__}). Start again: finished parts of "
            "a corpus are reused."
        ) from None
