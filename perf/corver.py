"""CorVer's sentence rewards per second: split, extract by rule, count, align to tokens; and the whole reward.

A batch is a training step's: by default 24 questions with 16 completions each, three sentences of thought and one of answer, which
are drawn from a text; tokens are of four characters. "sentences, new" is those four stages together. The rows "whole"
are all that a completion is scored by, as `score_many` does it: the judge of its answer, its format, refusals and the
strict rubric as well. Every sentence is drawn for itself; in "whole, groups" the completions of a question share a pool
of 16, as samples of one policy repeat each other. Counting stops at the highest tier, as in training; the rows "exact"
count in full, as environments and evaluation do.

Nothing is cached from one batch to the next by the reward, but an index remembers the words that it looked up. "first
batch" opens the index anew for each batch, so that it knows none (its file is in memory). "sentences, new" and "whole
reward" are what a run sees, batch after batch over one index, every sentence new; "whole, again" and the stages by
themselves come after the whole of the same batch.

The rows of one core are medians over batches of the processor time of one thread, counting included, which is pinned to
one core; the wall's time is next to them. Objects of the process are excluded from garbage collection (a trainer
that holds millions of objects pays for walking over them). The last row is the wall's, with two processes at a time that
share the index's file. Without an index a corpus is made of the text and held in memory; with one (`python -m
perf cooccurrence --text TEXT --keep FOLDER` leaves FOLDER/corpus.cooc), give the text that it was
made of.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import CooccurrenceIndex, Counter, memory_index, open_index
from factgym.rewards.corver.extraction import RuleExtractor
from factgym.rewards.corver.format import split_sentences
from factgym.rewards.corver.rubrics import DEFAULT_RULES, CorverRules
from factgym.rewards.corver.score import score_many
from factgym.rewards.corver.tokens import token_returns_many
from factgym.rewards.corver.triplets import Query, Triplet, build_query
from perf.cooccurrence_text import read_text

_GROUP, _SENTENCES = 16, 4
_POOL = 16
_TOKEN_CHARS = 4
_OTHER_SEEDS = 1_000_000
"""First seed of further batches."""
_PER_DOCUMENT = 25
_TARGET = 20_000
_TIMEOUT_SECONDS = 600.0
_TRAINING = CorverRules(exact_counts=False)
_FORMS = (
    "{a} directed {b} in {year}.",
    "The {b} was written by {a}, a novelist from {place}.",
    "{a} was born in {place} on {day} March {year}.",
    "In {year}, {a} won the {b} with the {place} Orchestra.",
    "{a}, who lived in {place}, founded the {b} in {year}.",
    "{place} is the capital of the {b} province, and its mayor is {a}.",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of the measurement. index: file of an index, else one in memory. text: a file or folder, else generated facts.

    questions: of a batch, each with a group of completions.
    """

    index: Path | None = None
    text: Path | None = None
    batches: int = 15
    processes: int = 2
    questions: int = 24


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's completions with the offsets of their tokens."""

    texts: Sequence[str]
    aliases: Sequence[Sequence[str]]
    offsets: Sequence[np.ndarray]

    @property
    def sentences(self) -> int:
        """Number of sentences in the completions."""
        return sum(len(split_sentences(text)) for text in self.texts)


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf corver", description="CorVer's whole sentence reward, stage by stage."
    )
    parser.add_argument("--index", type=Path, help="an index file, which needs --text; default: one in memory")
    parser.add_argument(
        "--text", type=Path, help="file or folder of the text to draw sentences from; default: generated"
    )
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--questions", type=int, default=24, help="of a batch, with 16 completions each")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    return measure_corver(Plan(**vars(options)))


def measure_corver(plan: Plan) -> Iterator[str]:
    """Lines of a report: sentences per second, stage by stage and together, median and range over the batches."""
    if plan.index is not None and plan.text is None:
        raise ConfigError("--index needs --text: the text that the index was made of, for sentences that it can know")
    sentences = _sentences(plan.text)
    counter = _counter(plan.index, sentences)
    batches = [_batch(sentences, seed, plan.questions) for seed in range(plan.batches + 1)]
    sizes = [batch.sentences for batch in batches]
    yield (
        f"CorVer's sentence reward: {plan.batches} batches of {plan.questions * _GROUP} completions, "
        f"{statistics.mean(sizes):,.0f} sentences each; {_describe(counter)}"
    )
    measured_rates: dict[str, list[Rate]] = {}
    with _single_core():
        for number, batch in enumerate(batches):
            fresh = counter if plan.index is None else _counter(plan.index, sentences)
            grouped = _batch(sentences, -1 - number, plan.questions, _POOL)
            second_batch = _batch(sentences, _OTHER_SEEDS + number, plan.questions)
            rates = _rates(batch, grouped, second_batch, counter, fresh)
            for name, rate in (
                rates.items() if number else ()
            ):  # the first batch warms up memory that is mapped at its first use
                measured_rates.setdefault(name, []).append(rate)
    for name, measured in measured_rates.items():
        yield _line(name, measured)
    if plan.index is not None and plan.processes > 1:
        yield _measure_processes(plan, statistics.mean(sizes))


@contextlib.contextmanager
def _single_core() -> Iterator[None]:
    """Pin the thread to one core where the system can, and freeze existing objects for the garbage collector."""
    pins = hasattr(os, "sched_setaffinity")
    allowed = os.sched_getaffinity(0) if pins else set()
    gc.collect()
    gc.freeze()
    try:
        if pins:
            os.sched_setaffinity(0, {max(allowed)})
        yield
    finally:
        gc.unfreeze()
        if pins:
            os.sched_setaffinity(0, allowed)


def _sentences(path: Path | None) -> list[str]:
    if path is not None:
        return list(read_text(path, 1 << 30).sentences)
    rng = random.Random(0)
    names = [_name(rng) for _ in range(20_000)]
    made = (
        rng.choice(_FORMS).format(
            a=f"{rng.choice(names)} {rng.choice(names)}", b=f"{rng.choice(names)} Prize", place=rng.choice(names[:500]),
            year=rng.randrange(1800, 2020), day=rng.randrange(1, 29),
        )
        for _ in range(60_000)
    )  # fmt: skip
    return list(made)


def _name(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randrange(2, 5))).title()


def _counter(path: Path | None, sentences: Sequence[str]) -> CooccurrenceIndex:
    if path is not None:
        index = open_index(path, engine=_engine(), threads=1, preload=False)
        index.preload()
        return index
    documents = (" ".join(sentences[i : i + _PER_DOCUMENT]) for i in range(0, len(sentences), _PER_DOCUMENT))
    return memory_index(documents, engine=_engine(), threads=1)


def _engine() -> Literal["numba", "numpy"]:
    return "numba" if find_spec("numba") else "numpy"


def _describe(counter: Counter) -> str:
    description = counter.describe()
    return f"an index of {description['tokens']:,} tokens, {description['words']:,} words, counted with {_engine()}"


def _batch(sentences: Sequence[str], seed: int, questions: int, pool: int | None = None) -> Batch:
    """pool: number of sentences that the completions of a question share; all by default."""
    rng = random.Random(seed)
    texts = []
    for number in range(questions * _GROUP):
        if number % _GROUP == 0:
            shared = sentences if pool is None else rng.choices(sentences, k=pool)
        *thought, answer = (rng.choice(shared) for _ in range(_SENTENCES))
        texts.append(f"<think>{' '.join(thought)}</think>\n<answer>{answer}</answer>")
    return Batch(texts, [[rng.choice(sentences).split()[0]] for _ in texts], [_offsets(text) for text in texts])


def _offsets(text: str) -> np.ndarray:
    starts = np.arange(0, len(text), _TOKEN_CHARS)
    return np.stack([starts, np.minimum(starts + _TOKEN_CHARS, len(text))], axis=1)


def _reward(batch: Batch, counter: Counter, rules: CorverRules = _TRAINING) -> None:
    token_returns_many(score_many(batch.texts, batch.aliases, counter, RuleExtractor(), rules), batch.offsets)


class Rate(NamedTuple):
    """Sentences per second, of processor time and of wall time; holds seconds first."""

    cpu: float
    wall: float


def _sentence_part(batch: Batch, counter: CooccurrenceIndex) -> Rate:
    """Seconds of a new batch: split, extract, count; and align, for which it is scored in between."""
    counted = _seconds(lambda: _count_sentences(batch, counter))
    scores = score_many(batch.texts, batch.aliases, counter, RuleExtractor(), _TRAINING)
    aligned = _seconds(lambda: token_returns_many(scores, batch.offsets))
    return Rate(*(sum(pair) for pair in zip(counted, aligned, strict=True)))


def _count_sentences(batch: Batch, counter: CooccurrenceIndex) -> object:
    texts = list(dict.fromkeys(sentence.text for text in batch.texts for sentence in split_sentences(text)))
    queries = _first_queries(RuleExtractor().extract(texts))
    return counter.count_up_to(queries, _TRAINING.high_count)


def _first_queries(triplets: list[list[Triplet]]) -> list[Query]:
    """Return the query of each sentence's first valid triplet."""
    firsts = (next((triplet for triplet in group if triplet.valid), None) for group in triplets)
    return [query for triplet in firsts if triplet is not None and (query := build_query(triplet)) is not None]


def _stages(batch: Batch, counter: CooccurrenceIndex, fresh: CooccurrenceIndex) -> dict[str, Rate]:
    """Seconds of each stage by itself, and of the whole. fresh: a counter with an empty cache."""
    first = _seconds(lambda: _reward(batch, fresh))
    reward_seconds = _seconds(lambda: _reward(batch, counter))
    extractor = RuleExtractor()
    texts = [sentence.text for text in batch.texts for sentence in split_sentences(text)]
    queries = _first_queries(extractor.extract(texts))
    scores = score_many(batch.texts, batch.aliases, counter, extractor)
    return {
        "first batch": first,
        "whole reward": reward_seconds,
        "whole, again": _seconds(lambda: _reward(batch, counter)),
        "whole, exact": _seconds(lambda: _reward(batch, counter, DEFAULT_RULES)),
        "split": _seconds(lambda: [split_sentences(text) for text in batch.texts]),
        "extract": _seconds(lambda: extractor.extract(texts)),
        "count": _seconds(lambda: counter.count_up_to(queries, _TRAINING.high_count)),
        "count, exact": _seconds(lambda: counter.count_many(queries)),
        "align": _seconds(lambda: token_returns_many(scores, batch.offsets)),
    }


def _rates(
    batch: Batch, grouped: Batch, second_batch: Batch, counter: CooccurrenceIndex, fresh: CooccurrenceIndex
) -> dict[str, Rate]:
    """Sentences per second of each row. other: a batch for the row of the sentences alone."""
    seconds = {"sentences, new": (second_batch.sentences, _sentence_part(second_batch, counter))}
    seconds |= {name: (batch.sentences, spent) for name, spent in _stages(batch, counter, fresh).items()}
    seconds["whole, groups"] = grouped.sentences, _seconds(lambda: _reward(grouped, counter))
    return {
        name: Rate(*(size / max(seconds_spent, 1e-9) for seconds_spent in spent))
        for name, (size, spent) in seconds.items()
    }


def _seconds(work: Callable[[], object]) -> Rate:
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return Rate(time.thread_time() - cpu, time.perf_counter() - wall)


def _line(name: str, rates: Sequence[Rate]) -> str:
    cpu, wall = (statistics.median(column) for column in zip(*rates, strict=True))
    slowest, fastest = min(rate.cpu for rate in rates), max(rate.cpu for rate in rates)
    goal = (
        f"   {cpu / _TARGET:.2f} × the {_TARGET:,} wanted" if name.startswith(("sentences", "whole", "first")) else ""
    )
    spread = f"[{slowest:,.0f} – {fastest:,.0f}]"
    return f"  {name:14} {cpu:12,.0f} sentences/s on one core  {spread}, wall time {wall:,.0f}{goal}"


def _measure_processes(plan: Plan, size: float) -> str:
    """Wall time of the same batches in several processes, which start together once all have read their text."""
    context = get_context("spawn")
    barrier, results = context.Barrier(plan.processes), context.Queue()
    workers = [context.Process(target=_work, args=(plan, seed, barrier, results)) for seed in range(plan.processes)]
    for worker in workers:
        worker.start()
    spans = [results.get(timeout=_TIMEOUT_SECONDS) for _ in workers]
    for worker in workers:
        worker.join()
    wall = max(end for _, end in spans) - min(start for start, _ in spans)
    rate = plan.processes * plan.batches * size / wall
    return f"  {f'{plan.processes} processes':14} {rate:12,.0f} sentences/s, wall time"


def _work(plan: Plan, seed: int, barrier: Any, results: Any) -> None:
    sentences = _sentences(plan.text)
    counter = _counter(plan.index, sentences)
    batches = [_batch(sentences, 1_000 * (seed + 1) + number, plan.questions) for number in range(plan.batches + 1)]
    _reward(batches[0], counter)
    barrier.wait(_TIMEOUT_SECONDS)
    start = time.time()
    for batch in batches[1:]:
        _reward(batch, counter)
    results.put((start, time.time()))
