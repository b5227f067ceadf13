"""Co-occurrence counts: our index and infini-gram's, over the same corpus in the same run.

Both are built from the same documents. Ours starts from text, infini-gram's from tokens that are cut already, as its own
tokenizer would take much longer than ours. Then queries of two to five words are asked, whose words all have a frequency
of one band; half of them have words of one sentence, so that there is something to count. Each query is asked once,
after others of its kind; of each row first ours, then theirs, so that neither works in the other's caches. Times are
processor time of all threads of the process (infini-gram starts several a query), which other work on the machine hardly
disturbs, or the wall's. Counts are compared where infini-gram is exact: where no word is over its cap.

Both indexes are in memory: infini-gram loads its files, ours are read by `preload`, again before every row, as
a system may drop pages that were not used for some seconds. With `--mapped` neither is: files are in the system's cache, and
queries pay for the pages that they touch first.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import CooccurrenceIndex, build_index, open_index
from factgym.corpora.cooccurrence.infinigram import MAX_SHORT, InfinigramCounter
from factgym.corpora.cooccurrence.sources import Source
from perf.cooccurrence_peer import write_infinigram
from perf.cooccurrence_text import Draw, Text, read_text

BANDS = ((1, 1_000), (1_000, 20_000), (20_000, 200_000), (200_000, 1 << 40))
Clock = Callable[[], float]
_CLOCKS: Mapping[str, Clock] = {"cpu": time.process_time, "wall": time.perf_counter}
WORDS = (2, 3, 4, 5)
CAP = 500_000
_PEER_BATCH = 48
_WARM_UP_QUERIES = 4
_MAX_SECONDS = 15.0
"""Seconds of infini-gram's after which a row stops, once it has `_MIN_QUERIES` queries."""
_MIN_QUERIES = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of the measurement. queries: per band and number of words. keep: a folder for the files, else a temporary
    one. mapped: leave both indexes memory-mapped."""

    tokens: int
    text: Path | None = None
    queries: int = 50
    workers: int = 2
    memory_mb: int = 2048
    keep: Path | None = None
    peer: bool = True
    clock: str = "cpu"
    mapped: bool = False


def parse_tokens(text: str) -> int:
    """Return `50M` as 50,000,000. Raises ConfigError for a text that is no number."""
    factor = {"k": 10**3, "M": 10**6, "G": 10**9}.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isdecimal() or not int(digits):
        raise ConfigError(f"--tokens {text!r} is no number of tokens; write 50M or 1000000")
    return int(digits) * factor


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf cooccurrence", description="Co-occurrence counts, beside infini-gram."
    )
    parser.add_argument("--tokens", default="50M", help="size of the corpus, for example 500k, 50M")
    parser.add_argument("--text", type=Path, help="file or folder of text to draw sentences from; default: generated")
    parser.add_argument("--queries", type=int, default=50, help="for each band and number of words")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory-mb", type=int, default=2048, help="of each build")
    parser.add_argument("--keep", type=Path, help="folder for the indexes, which are used again if they exist")
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="our index alone")
    parser.add_argument("--mapped", action="store_true", help="neither index is brought into memory beforehand")
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu", help="which time of a query")
    options = parser.parse_args(arguments)
    return measure_cooccurrence(Plan(**{**vars(options), "tokens": parse_tokens(options.tokens)}))


def measure_cooccurrence(plan: Plan) -> Iterator[str]:
    """Yield the lines of the report: sizes, builds, latencies by band, batches, the first query."""
    text = read_text(plan.text, MAX_SHORT)
    if plan.keep is not None:
        plan.keep.mkdir(parents=True, exist_ok=True)
        yield from _measure(plan, text, plan.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield from _measure(plan, text, Path(folder))


def _measure(plan: Plan, text: Text, folder: Path) -> Iterator[str]:
    draw = Draw(text, plan.tokens)
    path, peer_path = folder / "corpus.cooc", folder / "infinigram"
    yield f"{text.description}: {len(text.sentences):,} sentences, {text.vocabulary:,} words; {draw.documents:,} documents"
    seconds = _build_ours(plan, draw, folder, path)
    with_peer = plan.peer and find_spec("infini_gram") is not None
    peer_seconds = _build_theirs(plan, draw, peer_path) if with_peer else None
    index = open_index(path, engine="numba" if find_spec("numba") else "numpy", threads=1, preload=False)
    peer_index = InfinigramCounter(peer_path, max_frequency=CAP, load_to_ram=not plan.mapped) if with_peer else None
    if not 0.9 < index.tokens / plan.tokens < 1.1:
        raise ConfigError(f"{folder} holds an index of {index.tokens:,} tokens: name another folder with --keep")
    yield f"{index.tokens:,} tokens"
    yield from _sizes(index, path, seconds, peer_index, peer_seconds)
    queries = _queries(draw, plan.queries)

    def warm_up() -> None:
        for file in (path, *(peer_path.glob("*.0") if with_peer and plan.mapped else ())):
            _warm(file)
        if not plan.mapped:
            index.preload()

    yield from _latencies(index, peer_index, queries, _CLOCKS[plan.clock], warm_up)
    warm_up()
    yield from _batches(path, index, peer_index, queries)
    yield from _first_query(path, queries)
    if plan.peer and peer_index is None:
        yield "  infini-gram: not measured; it needs the extra infini-gram"


def _build_ours(plan: Plan, draw: Draw, folder: Path, path: Path) -> float | None:
    """Return the seconds from JSON lines to the index; None where it exists already."""
    if path.exists():
        return None
    lines = folder / "corpus.jsonl"
    draw.write(lines)
    started = time.perf_counter()
    build_index(Source(lines), path, memory_mb=plan.memory_mb, workers=plan.workers)
    seconds = time.perf_counter() - started
    lines.unlink()
    return seconds


def _build_theirs(plan: Plan, draw: Draw, path: Path) -> float | None:
    """Return the seconds of sorting suffixes; None where the index exists already."""
    if (path / "table.0").exists():
        return None
    began: list[float] = []
    memory = max(1, plan.memory_mb >> 10)
    write_infinigram(
        draw.token_lists(),
        path,
        memory_gb=memory,
        threads=plan.workers,
        progress=lambda _: began.append(time.perf_counter()),
    )
    return time.perf_counter() - began[-1]


def _sizes(
    index: CooccurrenceIndex,
    path: Path,
    seconds: float | None,
    peer_index: InfinigramCounter | None,
    peer: float | None,
) -> Iterator[str]:
    size = path.stat().st_size / index.tokens
    yield f"  ours         {size:5.2f} bytes a token   {_rate(index.tokens, seconds)} from text"
    if peer_index is not None:
        peer_size = peer_index.shards.bytes / peer_index.tokens
        yield f"  infini-gram  {peer_size:5.2f} bytes a token   {_rate(peer_index.tokens, peer)} from tokens   {peer_size / size:.2f} × ours"


def _rate(tokens: int, seconds: float | None) -> str:
    return "built before" if seconds is None else f"{seconds:7.1f} s, {tokens / seconds / 1e6:5.2f} M tokens/s"


Queries = dict[tuple[int, int], tuple[list[list[str]], list[list[str]]]]
"""By band and number of words: queries to warm up with, and queries to measure."""


def _queries(draw: Draw, count: int) -> Queries:
    rng = random.Random(0)
    drawn: Tally[int] = Tally()
    for row in draw.rows():
        drawn.update(row.tolist())
    tally: Tally[str] = Tally()
    for number, times in drawn.items():
        for word in draw.text.tokens[number]:
            tally[word] += times
    by_band: Queries = {}
    for band, (low, high) in enumerate(BANDS):
        words = sorted(word for word, frequency in tally.items() if low <= frequency < high)
        inside = set(words)
        shared = [sorted(inside.intersection(sentence)) for sentence in draw.text.tokens]
        for size in WORDS:
            places = [row for row in shared if len(row) >= size]
            if len(words) < 2 * size:
                continue
            made = [_query(rng, words, places if n % 2 else [], size) for n in range(2 * count)]
            by_band[band, size] = made[:count], made[count:]
    return by_band


def _query(rng: random.Random, words: Sequence[str], places: Sequence[Sequence[str]], size: int) -> list[str]:
    return rng.sample(rng.choice(places) if places else words, size)


def _warm(file: Path) -> None:
    with file.open("rb") as content:
        while content.read(1 << 24):
            pass


def _latencies(
    index: CooccurrenceIndex,
    peer_index: InfinigramCounter | None,
    queries: Queries,
    clock: Clock,
    warm_up: Callable[[], None],
) -> Iterator[str]:
    yield "  occurrences of each word   words   ours p50 / p95 ms     infini-gram p50 / p95 ms    ratios      n   equal of exact"
    for (band, size), (warm, measured) in queries.items():
        warm_up()
        our_rows = _ask(index, warm, measured, clock, float("inf"))
        their_rows = [] if peer_index is None else _ask(peer_index, warm, measured, clock, _MAX_SECONDS)
        exact = [peer_index.is_exact(query) for query in measured[: len(their_rows)]] if peer_index is not None else []
        yield _row(band, size, our_rows[: len(their_rows) or None], their_rows, exact)


class Measurement(NamedTuple):
    """Run a query; return milliseconds and its count."""

    milliseconds: float
    result: int


def _ask(
    counter: CooccurrenceIndex | InfinigramCounter,
    warm: Sequence[list[str]],
    measured: Sequence[list[str]],
    clock: Clock,
    max_seconds: float,
) -> list[Measurement]:
    """Run each query once, after a warm-up; stop after `max_seconds` seconds."""
    for query in warm[:_WARM_UP_QUERIES]:
        counter.count(query)
    rows: list[Measurement] = []
    for query in measured:
        started = clock()
        count = counter.count(query)
        rows.append(Measurement((clock() - started) * 1e3, count))
        if len(rows) >= _MIN_QUERIES and sum(row.milliseconds for row in rows) > max_seconds * 1e3:
            break
    return rows


def _row(
    band: int, size: int, rows: Sequence[Measurement], peer_rows: Sequence[Measurement], exact: Sequence[bool]
) -> str:
    low, high = BANDS[band]
    label = f"{low:,} – {high:,}" if high < 1 << 40 else f"over {low:,}"
    our_times, their_times = [row.milliseconds for row in rows], [row.milliseconds for row in peer_rows]
    line = f"  {label:25} {size:6}   {_percentile(our_times, 50):9.4f} / {_percentile(our_times, 95):9.4f}"
    if not peer_rows:
        return line
    ratios = f"{_percentile(their_times, 50) / _percentile(our_times, 50):5.0f} / {_percentile(their_times, 95) / _percentile(our_times, 95):4.0f} ×"
    equal = [row.result == peer.result for row, peer, is_exact in zip(rows, peer_rows, exact, strict=True) if is_exact]
    agreement = f"{len(peer_rows):4}   {sum(equal)} of {len(equal)}"
    return (
        f"{line}   {_percentile(their_times, 50):9.2f} / {_percentile(their_times, 95):9.2f}     {ratios} {agreement}"
    )


def _percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def _batches(
    path: Path, single: CooccurrenceIndex, peer_index: InfinigramCounter | None, queries: Queries
) -> Iterator[str]:
    """Queries per second of `count_many`, over every band and number of words, on one thread and on two."""
    rng = random.Random(1)
    batch = [query for _, measured in queries.values() for query in measured]
    rng.shuffle(batch)
    double = open_index(path, engine="numba" if find_spec("numba") else "numpy", threads=2, preload=False)
    double.preload()
    double.count_many(batch[:2])
    seconds = [statistics.median(_seconds(index, batch) for _ in range(3)) for index in (single, double)]
    rates = [len(batch) / spent for spent in seconds]
    yield f"  count_many of {len(batch):,}: {rates[0]:,.0f} queries/s on one thread, {rates[1]:,.0f} on two, {rates[1] / rates[0]:.2f} ×"
    if peer_index is not None:
        some = batch[:_PEER_BATCH]
        alone = len(some) / _seconds(peer_index, some)
        peer_index.threads = 2
        rates = [alone, len(some) / _seconds(peer_index, some)]
        yield f"  infini-gram, {len(some):,}: {rates[0]:,.0f} queries/s, {rates[1]:,.0f} with two at a time"


def _seconds(counter: CooccurrenceIndex | InfinigramCounter, batch: Sequence[Sequence[str]]) -> float:
    started = time.perf_counter()
    counter.count_many(batch)
    return time.perf_counter() - started


_FRESH = """
import json, sys, time
first, others = json.loads(sys.argv[2])
t0 = time.perf_counter()
from factgym.corpora.cooccurrence import open_index
t1 = time.perf_counter()
index = open_index(sys.argv[1])
t2 = time.perf_counter()
index.count(first)
t3 = time.perf_counter()
def held():
    rows = open("/proc/self/status") if sys.platform == "linux" else []
    return next((line.split()[1] for line in rows if line.startswith("RssAnon")), 0)
before = held()
index.count_many(others)
print(t1 - t0, t2 - t1, t3 - t2, before, held())
"""


def _first_query(path: Path, queries: Queries) -> Iterator[str]:
    """Milliseconds of import, open and the first query in a fresh process with the default engine; its own memory."""
    queries_json = json.dumps([next(iter(queries.values()))[0][0], [measured[0] for _, measured in queries.values()]])
    rows = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _FRESH, str(path), queries_json], capture_output=True, text=True, check=True
        )
        rows.append([float(value) for value in done.stdout.split()])
    start, opened, first, memory_first, memory_all = (statistics.median(column) for column in zip(*rows, strict=True))
    yield f"  fresh process: import {start * 1e3:,.0f} ms, open {opened * 1e3:,.1f} ms, first query {first * 1e3:,.1f} ms"
    yield f"  memory of its own: {memory_first / 1024:,.0f} MB after it, {memory_all / 1024:,.0f} MB after a query of every row above"
