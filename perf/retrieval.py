"""Search over a corpus on disk: building, opening, latency and memory, beside the index in memory and raw bm25s.

Passages of about a hundred words are drawn by Zipf's law from a made-up vocabulary and written as JSON lines, as FlashRAG
has them. Openings are measured in fresh processes, which report processor time and resident memory; the files are in the
system's cache. Latencies are processor time of single queries of eight terms, drawn from the passages, each engine once
through all of them after another pass, so that pages are mapped and checked; raw bm25s has its vocabulary in a dictionary,
and the library's own selection.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from factgym.corpora.bm25 import passage_terms
from factgym.corpora.build import build_corpus
from factgym.corpora.cooccurrence.engine import core_count, wait_for_kernels
from factgym.corpora.index import build_index
from factgym.corpora.store import StoredCorpus
from factgym.text.words import query_terms

_WORDS_A_PASSAGE = 100
_QUERY_WORDS = 8
_TOP = 3

_OPEN = """
import json, resource, sys, time
from factgym.corpora.build import read_passages
from factgym.corpora.cooccurrence.engine import wait_for_kernels
from factgym.corpora.index import build_index
def resident(name):
    rows = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    return int(rows[name].split()[0]) / 1024
path, on_disk, queries = sys.argv[1], sys.argv[2] == "disk", json.loads(sys.argv[3])
begun, wall = time.process_time(), time.perf_counter()
index = build_index(read_passages(path, on_disk=on_disk))
opened, before = time.perf_counter() - wall, resident("Rss")
index.search(queries[:1], 3)
first, cpu = time.perf_counter() - wall, time.process_time() - begun
for query in queries:
    index.search([query], 3)
print(json.dumps([opened, first, cpu, before, resident("Rss")]), flush=True)
"""

_EPISODE = """
import json, sys, time
begun = time.perf_counter()
import factgym
imported = time.perf_counter()
env = factgym.make("eve-solver", source="triples", path=sys.argv[2], corpus=sys.argv[1])
env.reset(seed=0)
env.step('<tool_call>{"name": "search", "arguments": {"query_list": ["%s"]}}</tool_call>' % sys.argv[3])
print(json.dumps([imported - begun, time.perf_counter() - imported]))
"""


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf retrieval", description="Search over a corpus on disk.")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300, help="of latency and memory")
    parser.add_argument("--processes", type=int, default=8, help="that share the corpus")
    parser.add_argument("--jobs", type=int, default=core_count(), help="processes of the second build")
    parser.add_argument("--keep", type=Path, help="folder for the files, which are used again if they exist")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="without the index in memory")
    options = parser.parse_args(arguments)
    return measure_retrieval(Plan(**vars(options)))


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of the measurement. jobs: processes of the second build. keep: a folder for the files, else a temporary one. memory: the index in memory, too."""

    passages: int
    queries: int
    processes: int
    jobs: int
    keep: Path | None
    memory: bool


def measure_retrieval(plan: Plan) -> Iterator[str]:
    """Yield the lines of a report."""
    if plan.keep is not None:
        plan.keep.mkdir(parents=True, exist_ok=True)
        yield from _measure(plan, plan.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield from _measure(plan, Path(folder))


def _measure(plan: Plan, folder: Path) -> Iterator[str]:
    passages = plan.passages
    rows, built = folder / f"{passages}.jsonl", folder / f"{passages}.corpus"
    if not rows.exists():
        write_rows(rows, passages)
    yield f"{passages:,} passages of about {_WORDS_A_PASSAGE} words, {rows.stat().st_size / 1e6:,.0f} MB of JSON lines"
    if not built.exists():
        for jobs in dict.fromkeys((1, plan.jobs)):
            begun, cpu = time.perf_counter(), _cpu_seconds()
            build_corpus(rows, built, jobs=jobs, replace=True)
            seconds, cpu = time.perf_counter() - begun, _cpu_seconds() - cpu
            rates = f"{passages / seconds:,.0f} passages a second, {passages / cpu:,.0f} per CPU second"
            yield f"  build, {jobs} process{'es' if jobs > 1 else '  '}    {seconds:8.1f} s, {cpu:.1f} s of CPU: {rates}"
    corpus = StoredCorpus(built)
    yield f"  on disk                {corpus.folder.bytes / 1e6:8,.0f} MB, of which passages {_size(corpus, False):,.0f}"
    yield from _raw_build(corpus)
    queries = draw_queries(corpus, plan.queries)
    yield "                          open     first answer   CPU      resident before   after queries"
    yield f"  mapped, fresh process {_opening(built, 'disk', queries)}"
    if plan.memory:
        yield f"  in memory, fresh      {_opening(rows, 'memory', queries)}"
    if plan.processes > 1:
        yield from _shared_memory(built, queries, plan.processes)
    yield from _episode(folder, built, queries[0])
    yield f"  top-{_TOP}, ms of CPU          p50      p95"
    index = build_index(corpus)
    wait_for_kernels(60)
    engines: dict[str, Callable[[str], object]] = {"mapped": lambda query: index.search([query], _TOP)}
    for backend in ("numpy", "numba"):
        if backend == "numpy" or find_spec("numba"):
            engines[f"raw bm25s, {backend}"] = _raw_search(corpus, backend)
    for name, search in engines.items():
        for query in queries:
            search(query)
        times = [_milliseconds(search, query) for query in queries]
        p50, p95 = statistics.median(times), sorted(times)[round(0.95 * (len(times) - 1))]
        yield f"  {name:20} {p50:8.3f} {p95:8.3f}"


def write_rows(path: Path, passages: int) -> None:
    """Write passages over a vocabulary that grows with their number, as that of real text does."""
    rng = np.random.default_rng(0)
    letters = random.Random(0)
    size = 50_000 + passages // 5
    vocabulary = ["".join(letters.choices("abcdefghiklmnoprstuvwz", k=letters.randint(3, 10))) for _ in range(size)]
    weights = 1 / np.arange(10, size + 10)
    bounds = np.cumsum(weights / weights.sum())
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, passages, 1_000):
            drawn = np.searchsorted(bounds, rng.random((1_000, _WORDS_A_PASSAGE))).clip(max=size - 1)
            for number, row in enumerate(drawn.tolist()[: passages - start], start=start):
                words = " ".join(vocabulary[i] for i in row)
                file.write(
                    json.dumps({"id": str(number), "contents": f'"{vocabulary[row[0]]} {number}"\n{words}'}) + "\n"
                )


def _cpu_seconds() -> float:
    """Return the processor time of this process and of the workers that have ended."""
    return sum(os.times()[:4])


def _size(corpus: StoredCorpus, index: bool) -> float:
    return sum(record.bytes for name, record in corpus.folder.records.items() if ("/" in name) == index) / 1e6


def draw_queries(corpus: StoredCorpus, count: int) -> list[str]:
    """Return queries of words of one passage each."""
    rng = random.Random(1)
    return [
        " ".join(rng.choices(corpus.passages[rng.randrange(len(corpus))].text.split(), k=_QUERY_WORDS))
        for _ in range(count)
    ]


def _raw_build(corpus: StoredCorpus) -> Iterator[str]:
    """Passages a second of bm25s on a part of the passages: its indexing is linear in them."""
    import bm25s

    sample = corpus.passages[:20_000]
    begun = time.process_time()
    vocabulary: dict[str, int] = {}
    rows = [[vocabulary.setdefault(word, len(vocabulary)) for word in passage_terms(passage)] for passage in sample]
    tokenised = time.process_time() - begun
    engine = bm25s.BM25(method="lucene", backend="numpy")
    engine.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    total = time.process_time() - begun
    yield (
        f"  raw bm25s              {len(sample) / total:8,.0f} passages per CPU second from passages in memory "
        f"({tokenised / total:.0%} our tokenisation)"
    )


def _raw_search(corpus: StoredCorpus, backend: str) -> Callable[[str], object]:
    import bm25s

    words = StoredTerms(corpus)
    engine = bm25s.BM25.load(str(corpus.path / "bm25"), mmap=True, load_vocab=False, backend=backend)
    if backend == "numba":
        engine.activate_numba_scorer()
        engine.unique_token_ids_set = set(range(len(engine.scores["indptr"]) - 1))

    def search(query: str) -> object:
        tokens = [words.number(word) for word in query_terms(query)]
        if backend == "numba":
            return engine.retrieve([tokens], k=_TOP, show_progress=False)
        return bm25s.selection.topk(engine.get_scores_from_ids(tokens), _TOP, backend="numpy")

    return search


class StoredTerms:
    """Numbers of terms by a dictionary, as bm25s holds its vocabulary."""

    def __init__(self, corpus: StoredCorpus) -> None:
        terms, offsets = corpus.folder["bm25/terms.txt"], corpus.folder["bm25/term_offsets.npy"]
        raw, bounds = terms[0 : len(terms)].tobytes(), offsets[0 : len(offsets)].tolist()
        self._numbers = {raw[start:end].decode(): i for i, (start, end) in enumerate(pairwise(bounds))}

    def number(self, word: str) -> int:
        """Return the number of a term of the corpus."""
        return self._numbers[word]


def _milliseconds(search: Callable[[str], object], query: str) -> float:
    begun = time.process_time()
    search(query)
    return 1e3 * (time.process_time() - begun)


def _opening(path: Path, mode: str, queries: Sequence[str]) -> str:
    command = [sys.executable, "-c", _OPEN, str(path), mode, json.dumps(list(queries[:100]))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    opened, first, cpu, before, after = json.loads(done.stdout)
    return f"{opened:8.3f} s {first:10.3f} s {cpu:8.2f} s {before:11,.0f} MB {after:11,.0f} MB"


def _shared_memory(path: Path, queries: Sequence[str], total: int) -> Iterator[str]:
    """Memory after the same queries, of processes that are started by themselves and of those of a fork server."""
    ((single, _),) = _memory("spawn", path, queries, 1)
    yield f"  memory after {len(queries)} queries: one process {single:,.0f} MB, a shared page counted in parts (PSS)"
    for method, name in (("spawn", "each started by itself"), ("forkserver", "of a fork server, counted with it")):
        sizes = _memory(method, path, queries, total)
        shared, private = sum(size for size, _ in sizes), max(own for _, own in sizes)
        yield (
            f"    {total} processes, {name:36} {shared:8,.0f} MB, {shared / single:.2f} times one; "
            f"at most {private:,.0f} MB of its own in each"
        )


def _memory(method: str, path: Path, queries: Sequence[str], count: int) -> list[tuple[float, float]]:
    """Return the proportional and the private memory of each process, in megabytes, while all of them are there."""
    context: Any = get_context(method)
    context.set_forkserver_preload(["factgym.corpora.preload"])
    barrier = context.Barrier(count + 1)
    processes = [context.Process(target=_search_and_wait, args=(path, queries, barrier)) for _ in range(count)]
    for process in processes:
        process.start()
    barrier.wait()
    servers = [_server_id(process.pid) for process in processes[:1] if method == "forkserver"]
    sizes = [_resident(pid) for pid in [*(process.pid for process in processes), *servers]]
    barrier.wait()
    for process in processes:
        process.join()
    return sizes


def _search_and_wait(path: Path, queries: Sequence[str], barrier: Any) -> None:
    index = build_index(StoredCorpus(path))
    wait_for_kernels(60)
    for query in queries:
        index.search([query], _TOP)
    barrier.wait()
    barrier.wait()


def _server_id(worker: int) -> int:
    """Return the process that forked a worker."""
    return int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])


def _resident(pid: int) -> tuple[float, float]:
    """Return proportional set size and private anonymous memory of a process, in megabytes (Linux)."""
    rows = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return tuple(int(rows[name].split()[0]) / 1024 for name in ("Pss", "Private_Dirty"))  # type: ignore[return-value]


def _episode(folder: Path, built: Path, query: str) -> Iterator[str]:
    triples = folder / "triples.jsonl"
    triples.write_text(json.dumps({"id": "q", "question": "Which?", "answer": "x"}) + "\n")
    command = [sys.executable, "-c", _EPISODE, str(built), str(triples), query]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported, seconds = json.loads(done.stdout)
    yield f"  eve-solver, fresh      {seconds:8.2f} s for make, reset and a search, after {imported:.2f} s of import"
