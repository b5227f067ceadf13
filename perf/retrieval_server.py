"""The retrieval server under load: many clients at once, one query each, beside the index called in a loop, a query at a time and
as many at a time as there are clients.

Clients share an event loop in this process, and the server is a process of its own, so that on two cores both have one.
Latency is what a client waits, queueing included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

import aiohttp

from factgym.cli.options import parse_settings
from factgym.corpora.build import build_corpus
from factgym.corpora.cooccurrence.engine import wait_for_kernels
from factgym.corpora.index import build_index
from factgym.corpora.store import StoredCorpus
from perf.retrieval import draw_queries, write_rows

_TOP = 3


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf retrieval-server", description="The server under load.")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--corpus", type=Path, help="a corpus on disk, instead of made-up passages")
    parser.add_argument("--index", default="bm25", choices=["bm25", "dense", "hybrid"])
    parser.add_argument("--set", dest="settings", action="append", default=[], help="KEY=VALUE of the index")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        corpus = options.corpus
        if corpus is None:
            corpus = Path(folder) / "corpus"
            write_rows(rows := Path(folder) / "rows.jsonl", options.passages)
            build_corpus(rows, corpus)
        yield from _measure(corpus, options)


def _measure(path: Path, options: argparse.Namespace) -> Iterator[str]:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the server
    corpus = StoredCorpus(path)
    queries = draw_queries(corpus, 1000)
    index = build_index(corpus, options.index, **parse_settings(options.settings))
    index.search(queries[:100], _TOP)
    wait_for_kernels(60)
    yield f"{len(corpus):,} passages, {options.index}, top {_TOP}"
    for batch in (1, options.clients):
        index.search(queries[:batch], _TOP)
        started, cpu, count = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - started < options.seconds:
            index.search([queries[(count + i) % len(queries)] for i in range(batch)], _TOP)
            count += batch
        rate = count / (time.perf_counter() - started)
        cpu = 1e3 * (time.process_time() - cpu) / count
        yield f"  the index, {batch:3} in a call       {rate:8,.0f} queries a second, {cpu:.1f} ms of CPU each"
    command = [
        sys.executable,
        "-m",
        "factgym",
        "serve",
        "retrieval",
        str(path),
        "--index",
        options.index,
        "--port",
        "0",
        *(argument for setting in options.settings for argument in ("--set", setting)),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            # Libraries may write warnings before the line with the address; a server that fails closes the stream.
            url = next(filter(None, (re.search(r"Serving .* (http://\S+)$", line) for line in server.stderr)))[1]
            for clients in (1, options.clients):
                asyncio.run(_load(url, queries, clients, 2))
                seconds = asyncio.run(_load(url, queries, clients, options.seconds))
                p50, p95 = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
                yield (
                    f"  server, {clients:3} clients at once   {len(seconds) / options.seconds:8,.0f} queries a second, "
                    f"p50 {1e3 * p50:,.1f} ms, p95 {1e3 * p95:,.1f} ms"
                )
        finally:
            server.terminate()


async def _load(url: str, queries: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Send queries from every client, each after the answer to its last; return what each waited, in seconds."""
    waits: list[float] = []
    source = cycle(queries)
    end = time.perf_counter() + seconds
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=clients)) as session:

        async def client() -> None:
            while (started := time.perf_counter()) < end:
                body = {"queries": [next(source)], "topk": _TOP, "return_scores": True}
                async with session.post(f"{url}/retrieve", json=body) as response:
                    assert response.status == 200 and len((await response.json())["result"]) == 1
                waits.append(time.perf_counter() - started)

        await asyncio.gather(*(client() for _ in range(clients)))
    return waits
