"""Search on a Ray cluster: an index whose shards are replicas of Ray Serve, behind `factgym serve retrieval --ray ADDRESS`.

A shard is a range of a corpus's positions. Every replica opens the corpus at the same path (a shared folder, or a copy on
each machine), and its pages that it reads are those of its range; scores are computed with the statistics of the whole
corpus, so the merged ranking is that of one machine. Placing replicas and restarting lost replicas is Ray Serve's.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from factgym.agents.cluster.ray_workers import check_address, connected
from factgym.core.errors import ConfigError, FactgymError
from factgym.corpora.index import Hit, build_index, check_index, check_request
from factgym.corpora.store import StoredCorpus
from factgym.integrations.frameworks import framework_import

with framework_import("search on a Ray cluster", "ray-serve", "ray.serve"):
    from ray import serve
    from ray.exceptions import RayError

RETRY_SECONDS = 120.0
"""How long a query waits for a shard that has lost its replicas."""

_APPLICATION = "factgym-retrieval"
_log = logging.getLogger(__name__)


class Shard:
    """A replica: the index over its part of the corpus."""

    def __init__(self, path: str, index: str, options: dict[str, Any], number: int, shards: int) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see `factgym.cli.serve`: replicas share a machine's cores
        corpus = StoredCorpus(path)
        whole: Any = build_index(corpus, index, **options)
        self._fingerprint: str = whole.fingerprint()
        if shards > 1 and not hasattr(whole, "shard"):
            raise ConfigError(f"{path} has no vectors: run `factgym corpus encode {path}` first, or take --shards 1")
        total = len(corpus)
        part = (total * number // shards, total * (number + 1) // shards)
        self._index = whole if shards == 1 else whole.shard(*part)

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """Return the hits of this part."""
        return self._index.search(queries, k)  # type: ignore[no-any-return]

    def fingerprint(self) -> str:
        """Return the fingerprint of the index over the whole corpus."""
        return self._fingerprint


class RayIndex:
    """The index over all shards; an `Index`, safe in threads. replicas: of each shard, which share a batch's queries.

    A call whose replica is lost is made again, for `RETRY_SECONDS`. Raises the error of the index, or RayError after that.
    """

    def __init__(self, shards: Sequence[Any], replicas: int) -> None:
        self._shards, self._replicas = shards, replicas

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first; equal scores fall in corpus order."""
        check_request(queries, k)
        size = -(-len(queries) // self._replicas) or 1
        parts = [list(queries[start : start + size]) for start in range(0, len(queries), size)]
        calls = [[(shard, part, shard.search.remote(part, k)) for shard in self._shards] for part in parts]
        results: list[list[Hit]] = []
        for call in calls:
            answers = [_result(shard.search, response, part, k) for shard, part, response in call]
            # Shards follow the corpus, and sorting is stable.
            for rankings in zip(*answers, strict=True):
                hits = [Hit(*hit) for ranking in rankings for hit in ranking]
                results.append(sorted(hits, key=lambda hit: -hit.score)[:k])
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex: that of the index on one machine."""
        shard = self._shards[0]
        return str(_result(shard.fingerprint, shard.fingerprint.remote()))


def _result(method: Any, response: Any, *arguments: Any) -> Any:
    """Return the answer of a shard's method; made again where its replica is lost."""
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return response.result(timeout_s=max(deadline - time.monotonic(), 1))
        except (RayError, TimeoutError) as error:
            # A fault of the index itself arrives as a task error that also has the type of the fault.
            if isinstance(error, FactgymError | ValueError | TypeError) or time.monotonic() > deadline:
                raise
            _log.warning("a replica is lost (%s); asking another", type(error).__name__)
            time.sleep(0.2)
            response = method.remote(*arguments)


@contextmanager
def ray_index(
    address: str, corpus: Path, index: str = "bm25", *, shards: int = 1, replicas: int = 1, **options: Any
) -> Iterator[RayIndex]:
    """Deploy the shards of a corpus on disk and give the index over them; they are removed with the end of the block.

    address: "HOST:PORT", "auto" or "local". index: "bm25", "dense" or "late" (without a base) with vectors on disk, and with
    a single shard any that has a name; options: its own. shards: parts of the corpus; replicas: of each. Raises ConfigError where the cluster cannot
    be reached or a shard cannot open its part.
    """
    check_index(index, **options)
    if shards > 1 and (index not in ("bm25", "dense", "late") or "base" in options):
        raise ConfigError(f"{index} cannot be divided: take --shards 1, with as many --replicas as you like")
    StoredCorpus(corpus)
    check_address(address)
    with connected(address, None) as ray:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if shards * replicas > cpus:
            raise ConfigError(
                f"{shards} shards with {replicas} replicas need {shards * replicas} CPUs: the cluster has {cpus}"
            )
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING"})
        handles = []
        try:
            for number in range(shards):
                deployment = serve.deployment(Shard, name=f"shard-{number}", num_replicas=replicas)
                bound = deployment.bind(str(corpus.absolute()), index, options, number, shards)
                handles.append(serve.run(bound, name=f"{_APPLICATION}-{number}", route_prefix=None))
            yield RayIndex(handles, replicas)
        except RuntimeError as error:
            raise ConfigError(f"the shards could not be deployed: {' '.join(str(error).split())[-400:]}") from error
        finally:
            for number in range(len(handles)):
                serve.delete(f"{_APPLICATION}-{number}")
