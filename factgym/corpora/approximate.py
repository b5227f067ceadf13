"""Approximate indexes over the vectors of a stored corpus: built by FAISS, tuned to a recall, measured beside exact search.

    CORPUS/dense-approximate/index.faiss      FAISS's own file
    CORPUS/dense-approximate/manifest.json    kind, parameter, recall, the checksum of the vectors

An index chooses candidates by compressed vectors; the vectors on disk rescore them, so a hit has its exact score and only
recall is lost.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError, MissingExtraError, install_command
from factgym.corpora.dense import load_faiss
from factgym.corpora.mapped_files import atomic_folder, pad_file, write_manifest
from factgym.corpora.store import StoredCorpus
from factgym.corpora.stored_dense import (
    APPROXIMATE,
    APPROXIMATE_KIND,
    APPROXIMATE_VERSION,
    DENSE,
    INDEX,
    ScalarCodes,
    StoredDense,
    approximate_candidates,
    open_vectors,
    stored_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factgym.corpora.cooccurrence.building import Run
    from factgym.corpora.dense import Vectors

EXACT_UP_TO = 100_000
"""Passages up to which exact search takes some ten milliseconds, so that an approximate index is not worth its losses."""

SAMPLE = 300
"""Queries on which recall is measured."""
DEPTH = 10
"""recall@DEPTH is what an index is tuned to."""

_QUERY_WORDS = 12
_LINKS = 32
_CONSTRUCTION = 100
_PER_CENTROID = 64
"""Vectors for each centroid that k-means sees; FAISS's default of 256 takes four times as long for little."""
_ITERATIONS = 10
_CODEBOOK = 39 * 256
"""Vectors that FAISS asks for to train a code book of 256 entries."""
_ADDED = 65_536
"""Vectors that are converted to single precision at a time."""
PART = 262_144
"""Vectors that a task of a cluster adds."""


class Cluster(NamedTuple):
    """Where tasks run: `run` gives one of the `cpus` to each, `run_alone` all of a machine."""

    run: Run
    run_alone: Run
    cpus: int


class Kind(NamedTuple):
    """An index: its name for `faiss.index_factory`, the parameter of its search, and candidates for each hit."""

    factory: str
    parameter: str
    refine: int


KINDS = {
    "sq8": Kind("SQ8", "", 2),
    "ivf": Kind("IVF{lists},SQ8", "nprobe", 2),
    "hnsw": Kind("HNSW{links}_SQ8", "efSearch", 2),
    "ivf-pq": Kind("IVF{lists},PQ{parts}", "nprobe", 30),
}
"""Scalar quantizer of 8 bits; inverted file; navigable graph; inverted file with product quantizer."""
ON_GPU = ("ivf", "ivf-pq")
"""Those that FAISS trains and fills on GPUs."""


class Measured(NamedTuple):
    """A setting of an index. recall, recall_1: of the exact search's first 10 and first. milliseconds: of a single query."""

    name: str
    value: int
    recall_1: float
    recall: float
    milliseconds: float
    bytes: int


def check_gpu(kind: str) -> None:
    """Raise ConfigError where FAISS has no GPU, and for a kind of index that it does not build on one; MissingExtraError."""
    if kind not in ON_GPU:
        raise ConfigError(f"--gpu builds {' and '.join(ON_GPU)}, not {kind}: leave it out")
    try:
        gpus = load_faiss().get_num_gpus()
    except MissingExtraError:
        raise MissingExtraError("--gpu", "gpu") from None
    if not gpus:
        raise ConfigError(
            f"--gpu: FAISS has no GPU here. With one from NVIDIA: pip uninstall -y faiss-cpu && {install_command('gpu')}"
        )


def sample_queries(dense: StoredDense) -> Vectors:
    """Return vectors of queries drawn from the corpus: the first words of passages, which are evenly spaced."""
    corpus = dense.corpus
    positions = np.linspace(0, len(corpus) - 1, min(SAMPLE, len(corpus))).astype(int)
    texts = [
        " ".join(f"{p.title} {p.text}".split()[:_QUERY_WORDS]) or "?" for p in map(corpus.read, positions.tolist())
    ]
    return dense.encoder.queries(texts)


def measure_exact(dense: StoredDense, queries: Vectors, clock: Callable[[], float]) -> tuple[list[list[int]], Measured]:
    """Return the positions of the first hits of each query by exact search, and its time and size; clock: seconds."""
    started = clock()
    timed = queries[:20]
    for i in range(len(timed)):
        dense.search_vectors(timed[i : i + 1], DEPTH)
    milliseconds = 1000 * (clock() - started) / len(timed)
    hits = [[position for position, _ in row] for row in dense.search_vectors(queries, DEPTH)]
    return hits, Measured("exact", 0, 1.0, 1.0, milliseconds, dense.folder.records[DENSE.file].bytes)


def build_approximate(
    dense: StoredDense,
    kind: str,
    *,
    clock: Callable[[], float],
    recall: float = 0.95,
    replace: bool = False,
    report: Callable[[Measured], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
    cluster: Cluster | None = None,
    gpu: bool = False,
) -> Measured:
    """Build the index `kind` beside the vectors and tune it to `recall` of the exact search's first 10 hits.

    dense: the exact search. clock: seconds, for the times that are reported. report: receives the exact search and every
    setting that was tried. cluster: trains, and adds parts of the vectors that are merged here; its machines see the corpus
    under the same path. gpu: trains and adds on this machine's GPUs. Returns the setting that is stored: the cheapest
    which reaches `recall`, or the best. Raises ConfigError for an unknown kind, as `check_gpu`, and where an index exists
    and `replace` is False.
    """
    if kind not in KINDS:
        raise ConfigError(f"no approximate index {kind[:40]!r} (known: {', '.join(KINDS)})")
    if not 0 < recall <= 1:
        raise ConfigError(f"recall is above 0 and at most 1, not {recall}")
    if kind == "ivf-pq" and len(dense.corpus) < _CODEBOOK:
        raise ConfigError(f"ivf-pq needs {_CODEBOOK:,} passages for its code books: take ivf, or search exactly")
    if gpu:
        check_gpu(kind)
    faiss = load_faiss()
    factory = _factory(kind, len(dense.corpus), dense.dimension)
    with atomic_folder(dense.corpus.path / APPROXIMATE, replace=replace) as folder:
        index = (
            _build_on_gpus(dense.rows, factory, progress) if gpu else _build(dense, factory, folder, cluster, progress)
        )
        faiss.write_index(index, str(folder / INDEX))
        size = pad_file(folder / INDEX)
        if not KINDS[kind].parameter:
            index = ScalarCodes(index, folder / INDEX, size, 0, len(dense.corpus))
        queries = sample_queries(dense)
        exact, measured = measure_exact(dense, queries, clock)
        report(measured)
        best = _tune(dense, index, KINDS[kind], queries, exact, recall, size, clock, report)
        meta = {
            "vectors": dense.folder.records[DENSE.file].sha256,
            "factory": factory,
            "parameter": KINDS[kind].parameter,
            "value": best.value,
            "refine": KINDS[kind].refine,
            "recall@10": round(best.recall, 4),
        }
        write_manifest(folder, APPROXIMATE_KIND, APPROXIMATE_VERSION, meta, {INDEX: size})
    return best


def _factory(kind: str, count: int, dimension: int) -> str:
    # FAISS asks for 39 vectors for each centroid; 4 √n lists is its rule for up to a million vectors.
    lists = max(1, min(int(4 * math.sqrt(count)), count // 39))
    parts = max(part for part in range(1, max(1, dimension // 8) + 1) if dimension % part == 0)
    return KINDS[kind].factory.format(lists=lists, links=_LINKS, parts=parts)


def _build_on_gpus(rows: NDArray[np.float16], factory: str, progress: Callable[[str], None]) -> Any:
    """Train and fill an index of inverted lists on all GPUs, which share the vectors; return FAISS's index of the CPU."""
    faiss = load_faiss()
    options = faiss.GpuMultipleClonerOptions()
    options.shard = True
    options.useFloat16 = True  # tables of 96 code books are too large for a GPU's shared memory in single precision
    try:
        clustering = faiss.index_cpu_to_all_gpus(faiss.IndexFlatIP(rows.shape[1]))
        trained = _train(rows, factory, progress, clustering)
        index = faiss.index_cpu_to_all_gpus(trained, co=options)
        _add(index, rows, 0, len(rows), progress)
        return faiss.index_gpu_to_cpu(index)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-200:]
        raise ConfigError(f"FAISS cannot build {factory} on the GPU ({reason}): leave out --gpu") from None


class _Part(NamedTuple):
    """A task of a cluster: the file `trained` with the vectors at `start` to `stop` added, written to the file `out`.

    trained: None for an index of `factory` that is trained first.
    """

    corpus: Path
    factory: str
    trained: Path | None
    start: int
    stop: int
    out: Path


def _build(
    dense: StoredDense, factory: str, folder: Path, cluster: Cluster | None, progress: Callable[[str], None]
) -> Any:
    """Return the trained and filled FAISS index, built here or part by part on a cluster and merged."""
    count = len(dense.corpus)
    if cluster is None:
        index = _train(dense.rows, factory, progress)
        _add(index, dense.rows, 0, count, progress)
        return index
    faiss = load_faiss()
    path, parts = dense.corpus.path.absolute(), folder.absolute() / "parts"
    parts.mkdir()
    # A graph cannot be merged: one machine adds all vectors to it.
    is_whole = factory.startswith("HNSW")
    progress(f"{'building' if is_whole else 'training'} {factory} on a machine of the cluster")
    trained = _Part(path, factory, None, 0, count if is_whole else 0, parts / "trained")
    (first,) = cluster.run_alone(_build_part, iter([trained]))
    index = faiss.read_index(str(first))
    if not is_whole:
        starts = range(0, count, PART)
        tasks = [_Part(path, factory, first, start, min(start + PART, count), parts / str(start)) for start in starts]
        for done, _ in enumerate(cluster.run(_build_part, iter(tasks)), 1):
            progress(f"added part {done:,} of {len(tasks):,}")
        for task in tasks:
            part = faiss.read_index(str(task.out))
            # Inverted lists have numbers of vectors in them; codes in a row are numbered by their order.
            index.merge_from(part, index.ntotal if isinstance(index, faiss.IndexIVF) else 0)
            task.out.unlink()
    shutil.rmtree(parts)
    return index


def _build_part(part: _Part) -> Path:
    """Train or extend an index on a machine of a cluster; return its file."""
    faiss = load_faiss()
    rows = stored_rows(open_vectors(StoredCorpus(part.corpus)))
    index = faiss.read_index(str(part.trained)) if part.trained else _train(rows, part.factory, lambda _: None)
    _add(index, rows, part.start, part.stop, lambda _: None)
    faiss.write_index(index, str(part.out))
    return part.out


def _train(rows: NDArray[np.float16], factory: str, progress: Callable[[str], None], clustering: Any = None) -> Any:
    """Return a trained index without vectors. clustering: an empty Flat index by which k-means finds the nearest centroids."""
    faiss = load_faiss()
    count, dimension = rows.shape
    index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    trained = min(count, 65_536)
    if isinstance(index, faiss.IndexIVF):
        index.cp.niter, index.cp.max_points_per_centroid = _ITERATIONS, _PER_CENTROID
        trained = min(count, max(trained, _PER_CENTROID * index.nlist))
    if hasattr(index, "hnsw"):
        index.hnsw.efConstruction = _CONSTRUCTION
    if isinstance(index, faiss.IndexIVFPQ):
        index.pq.cp.niter = _ITERATIONS
    if clustering is not None:
        index.clustering_index = clustering
    progress(f"training {factory} on {trained:,} vectors")
    index.train(rows[np.linspace(0, count - 1, trained).astype(int)].astype(np.float32))
    if clustering is not None:
        index.clustering_index = None
    return index


def _add(index: Any, rows: NDArray[np.float16], first: int, stop: int, progress: Callable[[str], None]) -> None:
    for start in range(first, stop, _ADDED):
        progress(f"adding vectors {start:,} of {stop:,}")
        index.add(rows[start : min(start + _ADDED, stop)].astype(np.float32))


def _tune(
    dense: StoredDense,
    index: Any,
    kind: Kind,
    queries: Vectors,
    exact: list[list[int]],
    recall: float,
    size: int,
    clock: Callable[[], float],
    report: Callable[[Measured], None],
) -> Measured:
    """Return the first setting, in ascending cost, that reaches the recall, or else the last."""
    best = None
    for value in _values(index, kind):
        started = clock()
        rows = [_search(dense, index, queries[i : i + 1], kind, value) for i in range(len(queries))]
        milliseconds = 1000 * (clock() - started) / len(queries)
        shares = [len(set(row) & set(truth)) / len(truth) for row, truth in zip(rows, exact, strict=True)]
        first = [row[:1] == truth[:1] for row, truth in zip(rows, exact, strict=True)]
        name = kind.parameter and f"{kind.parameter}={value}"
        best = Measured(name, value, float(np.mean(first)), float(np.mean(shares)), milliseconds, size)
        report(best)
        if best.recall >= recall:
            break
    if best is None:
        raise RuntimeError("an index has at least one setting")
    return best


def _values(index: Any, kind: Kind) -> Iterator[int]:
    """Yield the values of the parameter, doubling."""
    limit = {"nprobe": getattr(index, "nlist", 1), "efSearch": 2048, "": 1}[kind.parameter]
    value = {"nprobe": 1, "efSearch": 32, "": 1}[kind.parameter]
    while value < limit:
        yield value
        value *= 2
    yield limit


def _search(dense: StoredDense, index: Any, query: NDArray[np.float32], kind: Kind, value: int) -> list[int]:
    candidates = approximate_candidates(index, query, DEPTH, kind.parameter, value, kind.refine)
    return [position for position, _ in dense.rescore(query, candidates, DEPTH)[0]]
