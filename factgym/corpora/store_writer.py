"""Write a corpus with its BM25 index to disk as a stream; see `factgym.corpora.store` for the files.

Memory grows with the vocabulary and some bytes a passage (0.56 GB for a million generated passages, of which the reader's
table of ids takes a part); the rest is mapped files. Postings go to a temporary file in the order of the passages
and from there to their places, whose ranges follow from the frequencies of the terms: a counting sort, out of core.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import DataError
from factgym.corpora.bm25 import ANALYSER, K1, B, check_parameters, lucene_idf, passage_terms
from factgym.corpora.corpus import Passage
from factgym.corpora.mapped_files import NpyWriter, atomic_folder, hash_key, pad_file, write_manifest
from factgym.corpora.store import ENCODING_ERRORS, KIND, TEXT, VERSION
from factgym.corpora.store_bm25 import INDEX, TERMS, saved_params

MAX_PASSAGES = 2**31 - 1
"""Postings name passages by 32-bit numbers, as those of bm25s do."""

_CHUNK = 20_000
"""Passages whose postings are counted together."""


class SourcedPassage(NamedTuple):
    """A passage with its document ("" for none) and its character offsets there, -1 where unknown."""

    passage: Passage
    document: str = ""
    start: int = -1
    end: int = -1


class BuildProgress(NamedTuple):
    """stage: "read" or "index". done: passages, or postings. total: None where unknown."""

    stage: str
    done: int
    total: int | None = None


OnProgress = Callable[[BuildProgress], None]


def write_corpus(
    passages: Iterable[SourcedPassage],
    out: Path,
    *,
    source: str,
    k1: float = K1,
    b: float = B,
    replace: bool = False,
    progress: OnProgress = lambda _: None,
    notes: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Write passages and their BM25 index to the folder `out`, which appears when it is whole.

    source: a description for the manifest. replace: replace a corpus that is there. notes: more entries of the
    manifest, asked for when all passages are read. Raises DataError for a repeated id,
    for no passage and for more than `MAX_PASSAGES`, ConfigError for parameters out of range and where `out` exists.
    """
    check_parameters(k1, b)
    with atomic_folder(out, replace=replace) as folder:
        (folder / INDEX).mkdir()
        postings = _Postings(folder / "postings.partial")
        fingerprint, text_bytes, keys = hashlib.sha256(), 0, array("Q")
        with ExitStack() as files:
            text = files.enter_context((folder / TEXT).open("wb"))
            fields = files.enter_context(NpyWriter(folder / "fields.npy", "<u8"))
            spans = files.enter_context(NpyWriter(folder / "spans.npy", "<i8"))
            files.enter_context(postings)
            starts, offsets = array("Q"), array("q")
            for number, (passage, document, start, end) in enumerate(passages, start=1):
                strings = (passage.id, passage.title, document, passage.text)
                raw = [string.encode("utf-8", ENCODING_ERRORS) for string in strings]
                for part in raw:
                    starts.append(text_bytes)
                    text_bytes += len(part)
                text.write(b"".join(raw))
                offsets.extend((start, end))
                keys.append(hash_key(raw[0]))
                # As `Corpus.fingerprint` computes it.
                fingerprint.update(json.dumps([passage.id, passage.title, passage.text]).encode())
                postings.add(passage_terms(passage))
                if number % _CHUNK == 0:
                    postings.flush()
                    for writer, values in ((fields, starts), (spans, offsets)):
                        writer.append(np.array(values))
                        del values[:]
                    progress(BuildProgress("read", number))
            fields.append(np.append(np.array(starts, np.uint64), np.uint64(text_bytes)))
            spans.append(np.array(offsets, np.int64))
        if not keys or len(keys) > MAX_PASSAGES:
            raise DataError(f"{source} has {len(keys):,} passages; a corpus has 1 to {MAX_PASSAGES:,}")
        progress(BuildProgress("read", len(keys), len(keys)))
        _write_ids(folder, np.array(keys, np.uint64))
        statistics, terms_bytes = postings.write_index(folder / INDEX, k1, b, progress)
        if not _has_spans(folder):
            (folder / "spans.npy").unlink()
        for name in (TEXT, TERMS):
            pad_file(folder / name)
        meta = {
            **{"passages": len(keys), "fingerprint": fingerprint.hexdigest(), "source": source, "analyser": ANALYSER},
            **notes(),
            "bm25": {"k1": k1, "b": b, **statistics},
        }
        params = f"{INDEX}/params.index.json"
        write_manifest(
            folder, KIND, VERSION, meta, {TEXT: text_bytes, TERMS: terms_bytes, params: pad_file(folder / params)}
        )


def _write_ids(folder: Path, keys: NDArray[np.uint64]) -> None:
    """Write the table of ids. Raises `DataError` for a repeated one."""
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    equal = np.flatnonzero(ascending[1:] == ascending[:-1])
    if len(equal):
        fields = np.lib.format.open_memmap(folder / "fields.npy", mode="r")
        text = np.memmap(folder / TEXT, np.uint8, "r")
        for i in equal:
            ids = [text[int(fields[4 * j]) : int(fields[4 * j + 1])].tobytes() for j in order[i : i + 2].tolist()]
            if ids[0] == ids[1]:
                name = ids[0].decode("utf-8", "replace")[:80]
                raise DataError(f"two passages share the id {name!r}: ids are unique in a corpus")
    for name, values, dtype in (("id_keys.npy", ascending, "<u8"), ("id_order.npy", order, "<u4")):
        with NpyWriter(folder / name, dtype) as writer:
            writer.append(values)


def _has_spans(folder: Path) -> bool:
    spans = np.lib.format.open_memmap(folder / "spans.npy", mode="r")
    return any(bool(np.any(spans[start : start + 1_000_000] >= 0)) for start in range(0, len(spans), 1_000_000))


class _Postings:
    """Terms of passages, counted in chunks that are kept in a temporary file; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        # A term gets the next number when it is first seen.
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._tokens, self._lengths = array("I"), array("I")
        self._flushed = 0
        self._chunks: list[int] = []

    def add(self, words: list[str]) -> None:
        """Add the terms of the next passage."""
        self._tokens.extend(map(self._numbers.__getitem__, words))
        self._lengths.append(len(words))

    def flush(self) -> None:
        """Write the postings (term, passage, frequency) of the passages since the last call, ordered by term."""
        lengths = np.array(self._lengths[self._flushed :], np.uint64)
        # Term and passage in one 64-bit number each: sorting counts equal pairs, and orders them.
        pairs = np.array(self._tokens, np.uint64) << np.uint64(32)
        pairs |= np.repeat(
            np.arange(self._flushed, self._flushed + len(lengths), dtype=np.uint64), lengths.astype(np.int64)
        )
        unique, frequencies = np.unique(pairs, return_counts=True)
        for column in (unique >> np.uint64(32), unique & np.uint64(0xFFFFFFFF), frequencies):
            self._file.write(column.astype("<u4").tobytes())
        self._chunks.append(len(unique))
        self._flushed = len(self._lengths)
        del self._tokens[:]

    def __enter__(self) -> _Postings:
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self.flush()
        self._file.close()

    def write_index(self, folder: Path, k1: float, b: float, progress: OnProgress) -> tuple[Mapping[str, Any], int]:
        """Write the index; return its numbers for the manifest, and the bytes of the terms. Removes the chunks."""
        terms = list(self._numbers)
        rank = self._write_terms(folder, terms)
        document_frequencies = np.zeros(len(terms), np.int64)
        for numbers, _, _ in self._read():
            np.add.at(document_frequencies, rank[numbers], 1)
        starts = np.append(0, np.cumsum(document_frequencies))
        lengths = np.array(self._lengths, np.float64)
        total, postings = len(lengths), int(starts[-1])
        average = float(lengths.sum()) / total if total else 0.0
        # Logarithms by `math.log`, as all engines compute them: NumPy's may differ in the last bit.
        values, inverse = np.unique(document_frequencies, return_inverse=True)
        idf = np.array([lucene_idf(int(value), total) for value in values])[inverse]
        shape = (postings,)
        scores = (
            np.lib.format.open_memmap(folder / "data.csc.index.npy", "w+", np.dtype("<f8"), shape)
            if postings
            else None
        )
        passages = (
            np.lib.format.open_memmap(folder / "indices.csc.index.npy", "w+", np.dtype("<i4"), shape)
            if postings
            else None
        )
        next_free, done = starts[:-1].copy(), 0
        for numbers, positions, frequencies in self._read():
            if scores is None or passages is None or not len(numbers):
                continue
            # Equal terms are neighbours in a chunk. `within` counts from 0 in each run, so a posting's place is the
            # next free one of its term plus that. Chunks come in the order of passages, so columns are ascending.
            columns = rank[numbers]
            bounds = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
            runs = np.diff(np.append(bounds, len(numbers)))
            within = np.arange(len(numbers)) - np.repeat(bounds, runs)
            slots = next_free[columns] + within
            next_free[columns[bounds]] += runs
            tf = frequencies.astype(np.float64)
            scores[slots] = idf[columns] * (tf / (k1 * ((1 - b) + b * lengths[positions] / average) + tf))
            passages[slots] = positions
            done += len(numbers)
            progress(BuildProgress("index", done, postings))
        for name, dtype in (("data.csc.index.npy", "<f8"), ("indices.csc.index.npy", "<i4")):
            if not postings:
                NpyWriter(folder / name, dtype).__exit__(None, None, None)
        with NpyWriter(folder / "indptr.csc.index.npy", "<i8") as writer:
            writer.append(starts)
        (folder / "params.index.json").write_text(json.dumps(saved_params(k1, b, total)), encoding="utf-8")
        self._path.unlink()
        numbers_of = {"terms": len(terms), "postings": postings, "average_length": average}
        return numbers_of, sum(len(term.encode("utf-8", ENCODING_ERRORS)) for term in terms)

    def _write_terms(self, folder: Path, terms: list[str]) -> NDArray[np.int64]:
        """Write the table of terms in the order of their hashes; return the place of each in it."""
        raw = [term.encode("utf-8", ENCODING_ERRORS) for term in terms]
        keys = np.array([hash_key(word) for word in raw], np.uint64)
        order = np.argsort(keys, kind="stable")
        with (folder / Path(TERMS).name).open("wb") as file:
            file.writelines(raw[i] for i in order.tolist())
        ends = np.cumsum([0, *(len(raw[i]) for i in order.tolist())])
        for name, values in (("term_keys.npy", keys[order]), ("term_offsets.npy", ends)):
            with NpyWriter(folder / name, "<u8") as writer:
                writer.append(values)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank

    def _read(self) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]]:
        with self._path.open("rb") as file:
            for size in self._chunks:
                numbers, positions, frequencies = (np.frombuffer(file.read(4 * size), "<u4") for _ in range(3))
                yield numbers, positions, frequencies
