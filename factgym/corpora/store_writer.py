"""Write a corpus with its BM25 index to disk, out of core, on several cores and resumable.

The passages of a source are counted in chunks (`factgym.corpora.store_chunks`), by workers, in a folder beside the
destination, `OUT.building`. When all chunks are there they are merged: passages one after the other, postings to their places,
which follow from the frequencies of the terms: a counting sort, out of core. A build that was killed is started again
with the same arguments: chunks that are there are used, and the result is the same, byte for byte, for any number of workers.
Memory grows with the vocabulary, some bytes a passage and the chunks in work.
"""

from __future__ import annotations

import hashlib
import json
import operator
import shutil
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, count, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.bm25 import ANALYSER, K1, B, check_parameters, lucene_idf
from factgym.corpora.cooccurrence.building import Run, discard_other_plan, locked_folder, remove_folder, run_tasks
from factgym.corpora.cooccurrence.sources import BadRecords
from factgym.corpora.mapped_files import NpyWriter, check_output, hash_key, pad_file, replace_folder, write_manifest
from factgym.corpora.store import FIELDS, KIND, TEXT, VERSION, split_fields
from factgym.corpora.store_bm25 import INDEX, TERMS, saved_params
from factgym.corpora.store_chunks import (
    CHUNK_CHARS,
    CHUNK_ITEMS,
    Counted,
    SourcedPassage,
    TermChunk,
    TextChunk,
    chunk_path,
    chunk_tasks,
    finished_chunk,
    read_chunk,
    write_chunk,
)

MAX_PASSAGES = 2**31 - 1
"""Postings name passages by 32-bit numbers, as those of bm25s do."""

_READ = "read.json"
"""Written when all chunks are there."""


class BuildProgress(NamedTuple):
    """stage: "read" or "index". done: passages, or steps. total: None where unknown. bytes: of the passages."""

    stage: str
    done: int
    total: int | None = None
    bytes: int = 0


OnProgress = Callable[[BuildProgress], None]


def _same(passage: SourcedPassage) -> tuple[SourcedPassage]:
    return (passage,)


def _text_size(passage: SourcedPassage) -> int:
    return len(passage.passage.text)


class Items(NamedTuple):
    """What a source is read as. expand: makes passages of an item, in a worker. weigh: the characters of an item."""

    items: Iterable[Any]
    expand: Callable[[Any], Iterable[SourcedPassage]] = _same
    weigh: Callable[[Any], int] = _text_size
    empty: str = ""
    """The error where there is no passage."""


def building_folder(out: Path) -> Path:
    """Return the folder in which the corpus `out` is built."""
    return out.with_name(f"{out.name}.building")


def write_corpus(
    source_items: Items | Iterable[SourcedPassage],
    out: Path,
    *,
    source: str,
    k1: float = K1,
    b: float = B,
    replace: bool = False,
    jobs: int = 1,
    plan: Mapping[str, Any] | None = None,
    bad: BadRecords | None = None,
    progress: OnProgress = lambda _: None,
    notes: Mapping[str, Any] | None = None,
    run: Run | None = None,
) -> None:
    """Write passages and their BM25 index to the folder `out`, which appears when it is whole.

    source: a description for the manifest. replace: replace a corpus that is there. jobs: processes. plan: identifies the
    items; what an interrupted call with the same plan has counted is used, None to begin anew. bad: counts what the items
    leave out. notes: more entries of the manifest. run: counts the chunks elsewhere, such as
    `factgym.agents.cluster.encoding`; they are merged here. Raises DataError for a repeated id, for no passage and for more
    than `MAX_PASSAGES`, ConfigError for parameters out of range and where `out` exists.
    """
    check_parameters(k1, b)
    check_output(out, replace=replace)
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be at least 1")
    bad = BadRecords() if bad is None else bad
    entries = source_items if isinstance(source_items, Items) else Items(source_items)
    folder = building_folder(out).absolute()
    try:
        with locked_folder(folder, resume=plan is not None):
            discard_other_plan(
                folder, {**(plan or {}), "version": VERSION, "analyser": ANALYSER, "chunk": [CHUNK_ITEMS, CHUNK_CHARS]}
            )
            try:
                _build(entries, folder, source, k1, b, jobs, bad, progress, notes or {}, run)
                check_output(out, replace=replace)
                replace_folder(folder / "corpus", out)
            except BaseException:
                # Finished chunks are kept for a call with the same plan; what none can continue is removed.
                if plan is None or not chunk_path(folder, 0, TermChunk).exists():
                    remove_folder(folder)
                raise
            remove_folder(folder)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}). Make room, or name another.") from None


def _build(
    entries: Items,
    folder: Path,
    source: str,
    k1: float,
    b: float,
    jobs: int,
    bad: BadRecords,
    progress: OnProgress,
    notes: Mapping[str, Any],
    elsewhere: Run | None,
) -> None:
    """Write the corpus to the folder `corpus` of the build."""
    tasks = chunk_tasks(entries.items, folder, entries.expand, entries.weigh)
    is_read = (folder / _READ).is_file()
    # A process is started for each of several chunks, none for a single one.
    first = [] if is_read else list(islice(tasks, 2))
    with run_tasks(jobs if is_read or len(first) > 1 else 1, "fewer jobs (--jobs)") as run:
        if not is_read:
            state = {
                "chunks": _count(chain(first, tasks), elsewhere or run, progress),
                "bad": bad.count,
                "messages": bad.messages,
            }
            (folder / _READ).write_text(json.dumps(state), "utf-8")
        state = json.loads((folder / _READ).read_text("utf-8"))
        bad.count, bad.messages[:] = state["bad"], state["messages"]
        out = folder / "corpus"
        shutil.rmtree(out, ignore_errors=True)
        (out / INDEX).mkdir(parents=True)
        merge = _Merge(folder, out, range(state["chunks"]), k1, b, jobs)
        steps = 1 + jobs
        progress(BuildProgress("index", 0, steps))
        texts: _Texts | None = None
        for done, result in enumerate(run(operator.call, merge.steps()), 1):
            texts = texts or result
            progress(BuildProgress("index", done, steps))
    assert texts is not None
    if not texts.passages and entries.empty:
        raise DataError(entries.empty)
    if not texts.passages or texts.passages > MAX_PASSAGES:
        raise DataError(f"{source} has {texts.passages:,} passages; a corpus has 1 to {MAX_PASSAGES:,}")
    for name in (TEXT, TERMS):
        pad_file(out / name)
    left_out = {"left_out": bad.count} if bad.count else {}
    meta = {
        **{"passages": texts.passages, "fingerprint": texts.fingerprint, "source": source, "analyser": ANALYSER},
        **notes,
        **left_out,
        "bm25": {"k1": k1, "b": b, **merge.statistics},
    }
    params = f"{INDEX}/params.index.json"
    sizes = {TEXT: texts.bytes, TERMS: merge.terms_bytes, params: pad_file(out / params)}
    write_manifest(out, KIND, VERSION, meta, sizes)


def _count(tasks: Iterable[Any], run: Run, progress: OnProgress) -> int:
    """Write the chunks that are missing; return the number of all."""
    chunks = done = size = 0

    def report(counted: Counted) -> None:
        nonlocal done, size
        done, size = done + counted.passages, size + counted.bytes
        progress(BuildProgress("read", done, None, size))

    def missing() -> Iterator[Any]:
        nonlocal chunks
        for task in tasks:
            chunks += 1
            if (counted := finished_chunk(task)) is None:
                yield task
            else:
                report(counted)

    for counted in run(write_chunk, missing()):
        report(counted)
    progress(BuildProgress("read", done, done, size))
    return chunks


class _Texts(NamedTuple):
    passages: int
    bytes: int
    fingerprint: str


def _write_texts(folder: Path, out: Path, chunks: range) -> _Texts:
    """Write the passages one after the other, and the table of ids."""
    fingerprint, text_bytes, keys, has_spans = hashlib.sha256(), 0, array("Q"), False
    with (
        (out / TEXT).open("wb") as text,
        NpyWriter(out / "fields.npy", "<u8") as fields,
        NpyWriter(out / "spans.npy", "<i8") as spans,
    ):
        for number in chunks:
            chunk = read_chunk(folder, number, TextChunk)
            raw = chunk.text.tobytes()
            text.write(raw)
            fields.append(chunk.starts + np.uint64(text_bytes))
            spans.append(chunk.spans)
            has_spans = has_spans or bool(np.any(chunk.spans >= 0))
            offsets = [*chunk.starts.tolist(), len(raw)]
            for i in range(0, len(offsets) - 1, FIELDS):
                # As `Corpus.fingerprint` computes it.
                id_, title, _, body = split_fields(raw[offsets[i] : offsets[i + FIELDS]], offsets[i : i + FIELDS + 1])
                fingerprint.update(json.dumps([id_, title, body]).encode())
                keys.append(hash_key(raw[offsets[i] : offsets[i + 1]]))
            text_bytes += len(raw)
        fields.append(np.array([text_bytes], np.uint64))
    if keys:
        _write_ids(out, np.array(keys, np.uint64))
    if not has_spans:
        (out / "spans.npy").unlink()
    return _Texts(len(keys), text_bytes, fingerprint.hexdigest())


def _write_ids(folder: Path, keys: NDArray[np.uint64]) -> None:
    """Write the table of ids. Raises `DataError` for a repeated one."""
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    equal = np.flatnonzero(ascending[1:] == ascending[:-1])
    if len(equal):
        fields = open_memmap(folder / "fields.npy", mode="r")
        text = np.memmap(folder / TEXT, np.uint8, "r")
        for i in equal:
            ids = [text[int(fields[4 * j]) : int(fields[4 * j + 1])].tobytes() for j in order[i : i + 2].tolist()]
            if ids[0] == ids[1]:
                name = ids[0].decode("utf-8", "replace")[:80]
                raise DataError(f"two passages share the id {name!r}: ids are unique in a corpus")
    for name, values, dtype in (("id_keys.npy", ascending, "<u8"), ("id_order.npy", order, "<u4")):
        with NpyWriter(folder / name, dtype) as writer:
            writer.append(values)


class _Merge:
    """The merging of chunks: steps that run in parallel, but for the vocabulary, which is made between them."""

    def __init__(self, folder: Path, out: Path, chunks: range, k1: float, b: float, jobs: int) -> None:
        self._folder, self._index, self._chunks = folder, out / INDEX, chunks
        self._k1, self._b, self._jobs = k1, b, jobs
        self.statistics: dict[str, Any] = {}
        self.terms_bytes = 0

    def steps(self) -> Iterator[Callable[[], Any]]:
        """Yield what is to be called; the first call returns `_Texts`."""
        yield partial(_write_texts, self._folder, self._index.parent, self._chunks)
        starts, average = self._write_vocabulary()
        # Terms in ranges of about as many postings.
        shares = [int(starts[-1]) * i // self._jobs for i in range(1, self._jobs)]
        for low, high in pairwise([0, *np.searchsorted(starts[:-1], shares).tolist(), len(starts) - 1]):
            yield partial(
                _write_postings, self._folder, self._index, self._chunks, low, high, self._k1, self._b, average
            )

    def _write_vocabulary(self) -> tuple[NDArray[np.int64], float]:
        """Write the table of terms; return the first posting of each, and the average length of a passage."""
        # A term gets the next number when it is first seen.
        numbers: defaultdict[bytes, int] = defaultdict(count().__next__)
        frequencies, total, length = np.zeros(0, np.int64), 0, 0
        for number in self._chunks:
            chunk = read_chunk(self._folder, number, TermChunk)
            columns = np.fromiter(map(numbers.__getitem__, chunk.words()), np.int64, len(chunk.term_ends))
            np.save(_columns_path(self._folder, number), columns.astype(np.uint32))
            frequencies = np.append(frequencies, np.zeros(len(numbers) - len(frequencies), np.int64))
            frequencies[columns] += chunk.frequencies  # no term is in a chunk twice
            total, length = total + len(chunk.lengths), length + int(chunk.lengths.sum(dtype=np.int64))
        rank, self.terms_bytes = _write_terms(self._index, list(numbers))
        document_frequencies = np.empty(len(rank), np.int64)
        document_frequencies[rank] = frequencies
        starts = np.append(0, np.cumsum(document_frequencies))
        postings, average = int(starts[-1]), float(length) / total if total else 0.0
        # Logarithms by `math.log`, as all engines compute them: NumPy's may differ in the last bit.
        values, inverse = np.unique(document_frequencies, return_inverse=True)
        np.save(self._folder / "rank.npy", rank)
        np.save(self._folder / "idf.npy", np.array([lucene_idf(int(value), total) for value in values])[inverse])
        for name, dtype in (("data.csc.index.npy", "<f8"), ("indices.csc.index.npy", "<i4")):
            if postings:
                open_memmap(self._index / name, "w+", np.dtype(dtype), (postings,))
            else:
                NpyWriter(self._index / name, dtype).__exit__(None, None, None)
        with NpyWriter(self._index / "indptr.csc.index.npy", "<i8") as writer:
            writer.append(starts)
        params = json.dumps(saved_params(self._k1, self._b, total))
        (self._index / "params.index.json").write_text(params, encoding="utf-8")
        self.statistics = {"terms": len(rank), "postings": postings, "average_length": average}
        return starts, average


def _columns_path(folder: Path, number: int) -> Path:
    return folder / f"columns-{number:06d}.npy"


def _write_postings(
    folder: Path, index: Path, chunks: range, low: int, high: int, k1: float, b: float, average: float
) -> None:
    """Write the postings of the terms in columns `low` to `high`."""
    starts = open_memmap(index / "indptr.csc.index.npy", "r")
    if starts[low] == starts[high]:
        return
    rank, idf = open_memmap(folder / "rank.npy", "r"), open_memmap(folder / "idf.npy", "r")[low:high]
    scores = open_memmap(index / "data.csc.index.npy", "r+")
    passages = open_memmap(index / "indices.csc.index.npy", "r+")
    next_free, first = np.array(starts[low:high]), 0
    for number in chunks:
        chunk = read_chunk(folder, number, TermChunk)
        terms = rank[open_memmap(_columns_path(folder, number), "r")] - low
        is_here = (terms >= 0) & (terms < high - low)
        is_posted = np.repeat(is_here, chunk.frequencies)
        terms, runs = terms[is_here], chunk.frequencies[is_here].astype(np.int64)
        positions, tf = chunk.passages[is_posted], chunk.counts[is_posted].astype(np.float64)
        # Postings of a term are neighbours in a chunk. `within` counts from 0 in each run, so a posting's place is the
        # next free one of its term plus that. Chunks come in the order of passages, so columns are ascending.
        columns = np.repeat(terms, runs)
        within = np.arange(len(columns)) - np.repeat(np.cumsum(runs) - runs, runs)
        slots = next_free[columns] + within
        next_free[terms] += runs
        lengths = chunk.lengths.astype(np.float64)
        scores[slots] = idf[columns] * (tf / (k1 * ((1 - b) + b * lengths[positions] / average) + tf))
        passages[slots] = positions.astype(np.int64) + first
        first += len(lengths)


def _write_terms(folder: Path, words: list[bytes]) -> tuple[NDArray[np.int64], int]:
    """Write the table of terms in the order of their hashes; return the place of each in it, and their bytes."""
    keys = np.array([hash_key(word) for word in words], np.uint64)
    order = np.argsort(keys, kind="stable")
    with (folder / Path(TERMS).name).open("wb") as file:
        file.writelines(words[i] for i in order.tolist())
    ends = np.cumsum([0, *(len(words[i]) for i in order.tolist())])
    for name, values in (("term_keys.npy", keys[order]), ("term_offsets.npy", ends)):
        with NpyWriter(folder / name, "<u8") as writer:
            writer.append(values)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank, int(ends[-1])
