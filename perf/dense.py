"""Dense search over vectors on disk: exact and approximate, beside FAISS's exact index of single precision in memory.

Vectors stand for texts: an encoder draws them from mixtures of normal distributions (a passage near one of √n centres),
since approximate indexes fail on vectors without any clusters, which no encoder gives. Encoding is not measured. Times are
those of the clock, with the threads that FAISS takes; set OMP_NUM_THREADS to choose them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from factgym.corpora.approximate import KINDS, Measured, build_approximate
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import Encoder
from factgym.corpora.encode import encode_corpus
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import write_corpus
from factgym.corpora.stored_dense import INDEX, StoredDense, open_approximate, read_faiss

_BATCHES = (1, 8, 64)
_TOP = 3
_SPREAD = 0.7
"""Length of the deviation from a centre, whose length is 1."""


class _Drawn:
    """Gives each text a vector near a centre, the number in the text seeding both."""

    def __init__(self, count: int, dimension: int) -> None:
        self._centres = np.random.default_rng(0).normal(size=(int(count**0.5), dimension)).astype(np.float32)
        self._dimension = dimension

    def encode(self, texts: list[str], **_: Any) -> Any:
        numbers = [int("".join(filter(str.isdigit, text)) or 0) for text in texts]
        rng = np.random.default_rng(numbers)
        centres = self._centres[np.array(numbers) % len(self._centres)]
        return centres + _SPREAD * rng.normal(size=(len(texts), self._dimension)).astype(np.float32)


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf dense", description="Dense search over vectors on disk.")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--search-device", default="cpu")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        yield from _measure(Path(folder) / "corpus", options)


def _measure(path: Path, options: argparse.Namespace) -> Iterator[str]:
    passages = (SourcedPassage(Passage(f"P{i}", "", f"passage {i}")) for i in range(options.passages))
    write_corpus(passages, path, source="perf")
    corpus, encoder = StoredCorpus(path), Encoder(_Drawn(options.passages, options.dimension), "plain")
    encode_corpus(corpus, encoder)
    yield f"{len(corpus):,} passages, {options.dimension} dimensions, {faiss.omp_get_max_threads()} threads, top {_TOP}"
    dense = StoredDense(corpus, encoder, exact=True)
    queries = encoder.queries([f"query {options.passages + i}" for i in range(256)])
    peer = faiss.IndexFlatIP(options.dimension)
    peer.add(dense.rows.astype(np.float32))
    yield f"{'queries a second in batches of':44}" + "".join(f"{batch:>10}" for batch in _BATCHES)
    yield _rates("FAISS Flat, single precision, in memory", lambda rows, peer=peer: peer.search(rows, _TOP), queries)
    del peer
    yield _rates("exact, half precision, on disk", lambda rows: dense.search_vectors(rows, _TOP), queries)
    device = StoredDense(corpus, encoder, search_device=options.search_device)
    name = f"exact, search_device={options.search_device}"
    yield _rates(name, lambda rows, index=device: index.search_vectors(rows, _TOP), queries)
    del device
    for kind in options.kinds:
        tried: list[Measured] = []
        started = time.perf_counter()
        best = build_approximate(
            dense, kind, clock=time.perf_counter, recall=options.recall, replace=True, report=tried.append
        )
        seconds = time.perf_counter() - started
        index = StoredDense(corpus, encoder)
        yield _rates(f"{kind} {best.name}", lambda rows, index=index: index.search_vectors(rows, _TOP), queries)
        if kind == "sq8":
            peer = read_faiss(open_approximate(corpus, dense.folder), INDEX)
            yield _rates("sq8, FAISS's own search", lambda rows, peer=peer: peer.search(rows, _TOP), queries)
        yield f"{'':4}recall@1 {best.recall_1:.3f}, @10 {best.recall:.3f}; {best.bytes / 1e6:,.0f} MB, built and tuned in {seconds:,.0f} s"


def _rates(name: str, search: Callable[[Any], Any], queries: Any) -> str:
    """Return a row of queries a second; every batch size searches the same queries, few of them a long search."""
    rates = []
    for batch in _BATCHES:
        search(queries[:batch])
        started, count = time.perf_counter(), 0
        while count < len(queries) and (count < batch or time.perf_counter() - started < 5):
            search(queries[count : count + batch])
            count += batch
        rates.append(count / (time.perf_counter() - started))
    return f"{name:44}" + "".join(f"{rate:10,.0f}" for rate in rates)
