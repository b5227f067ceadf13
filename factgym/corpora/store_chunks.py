"""Chunks of passages while a corpus is built: made in parallel, each a checkpoint, merged when all are there.

A chunk is a file of its passages with their terms counted, written under another name and renamed, so that under its own
name it is whole; a checksum tells one that a crash of the system cut off. Chunks depend on nothing but their items.
"""

from __future__ import annotations

import io
import os
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import DataError
from factgym.corpora.bm25 import passage_terms
from factgym.corpora.corpus import Passage
from factgym.corpora.store import ENCODING_ERRORS

CHUNK_ITEMS = 20_000
CHUNK_CHARS = 16_000_000
"""A chunk ends with the item that reaches one of these."""

_CHECKSUM_BYTES = 4


class SourcedPassage(NamedTuple):
    """A passage with its document ("" for none) and its character offsets there, -1 where unknown."""

    passage: Passage
    document: str = ""
    start: int = -1
    end: int = -1


class ChunkTask(NamedTuple):
    """Items of a source, and the function that makes passages of each."""

    folder: Path
    number: int
    items: list[Any]
    expand: Callable[[Any], Iterable[SourcedPassage]]


class Counted(NamedTuple):
    """Passages of a chunk, and the bytes of their texts."""

    passages: int
    bytes: int


class TextChunk(NamedTuple):
    """The passages of a chunk."""

    items: NDArray[np.int64]
    """The number of items that they are from."""
    text: NDArray[np.uint8]
    """Id, title, document and text of each passage."""
    starts: NDArray[np.uint64]
    """4 n offsets of the fields in `text`."""
    spans: NDArray[np.int64]
    """2 n character offsets in documents."""


class TermChunk(NamedTuple):
    """The terms of a chunk's passages."""

    lengths: NDArray[np.uint32]
    """n numbers of terms."""
    terms: NDArray[np.uint8]
    """The distinct terms, in the order of their first occurrence."""
    term_ends: NDArray[np.uint64]
    frequencies: NDArray[np.uint32]
    """Passages with each term."""
    passages: NDArray[np.uint32]
    """The passages with the first term, ascending, then those with the second, counted from the chunk's first."""
    counts: NDArray[np.uint32]
    """How often the term is in each of these passages."""

    def words(self) -> list[bytes]:
        """Return the distinct terms in UTF-8."""
        raw, ends = self.terms.tobytes(), self.term_ends.tolist()
        return [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


ChunkT = TypeVar("ChunkT", TextChunk, TermChunk)


def chunk_path(folder: Path, number: int, kind: type[TextChunk] | type[TermChunk]) -> Path:
    """Return the file of a chunk's passages or terms."""
    return folder / f"chunk-{number:06d}.{'text' if kind is TextChunk else 'terms'}"


def chunk_tasks(
    items: Iterable[Any], folder: Path, expand: Callable[[Any], Iterable[SourcedPassage]], weigh: Callable[[Any], int]
) -> Iterator[ChunkTask]:
    """Yield the items of a source in chunks. weigh: the characters of an item."""
    number = chars = 0
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        chars += weigh(item)
        if len(batch) == CHUNK_ITEMS or chars >= CHUNK_CHARS:
            yield ChunkTask(folder, number, batch, expand)
            number, chars, batch = number + 1, 0, []
    if batch:
        yield ChunkTask(folder, number, batch, expand)


def write_chunk(task: ChunkTask) -> Counted:
    """Write a chunk; return its size."""
    # A term gets the next number when it is first seen.
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    number_of = numbers.__getitem__
    tokens, lengths = array("I"), array("I")
    raw, starts, spans, position = [], array("Q"), array("q"), 0
    for item in task.items:
        for passage, document, start, end in task.expand(item):
            for string in (passage.id, passage.title, document, passage.text):
                part = string.encode("utf-8", ENCODING_ERRORS)
                raw.append(part)
                starts.append(position)
                position += len(part)
            spans.extend((start, end))
            words = passage_terms(passage)
            tokens.extend(map(number_of, words))
            lengths.append(len(words))
    # Term and passage in one 64-bit number each: sorting counts equal pairs, and orders them.
    pairs = np.array(tokens, np.uint64) << np.uint64(32)
    pairs |= np.repeat(np.arange(len(lengths), dtype=np.uint64), np.array(lengths, np.int64))
    unique, counts = np.unique(pairs, return_counts=True)
    spelling = [term.encode("utf-8", ENCODING_ERRORS) for term in numbers]
    passages = TextChunk(
        np.array([len(task.items)], np.int64),
        np.frombuffer(b"".join(raw), np.uint8),
        np.array(starts, np.uint64),
        np.array(spans, np.int64),
    )
    terms = TermChunk(
        np.array(lengths, np.uint32),
        np.frombuffer(b"".join(spelling), np.uint8),
        np.cumsum([len(word) for word in spelling], dtype=np.uint64),
        np.bincount((unique >> np.uint64(32)).astype(np.int64), minlength=len(spelling)).astype(np.uint32),
        (unique & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        counts.astype(np.uint32),
    )
    for chunk in (passages, terms):
        _save(chunk_path(task.folder, task.number, type(chunk)), chunk)
    return Counted(len(lengths), position)


def _save(path: Path, chunk: TextChunk | TermChunk) -> None:
    body = io.BytesIO()
    for values in chunk:
        np.lib.format.write_array(body, values, allow_pickle=False)
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("wb") as file:
        file.write(zlib.crc32(body.getbuffer()).to_bytes(_CHECKSUM_BYTES, "little"))
        file.write(body.getbuffer())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_chunk(folder: Path, number: int, kind: type[ChunkT]) -> ChunkT:
    """Read the passages or terms of a chunk. Raises DataError for one that is missing or damaged."""
    path = chunk_path(folder, number, kind)
    try:
        raw = path.read_bytes()
        if zlib.crc32(memoryview(raw)[_CHECKSUM_BYTES:]) != int.from_bytes(raw[:_CHECKSUM_BYTES], "little"):
            raise ValueError("its checksum does not hold")
        body = io.BytesIO(raw)
        body.seek(_CHECKSUM_BYTES)
        return kind(*(np.lib.format.read_array(body, allow_pickle=False) for _ in kind._fields))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}). Remove {folder} and start the build again.") from None


def finished_chunk(task: ChunkTask) -> Counted | None:
    """Return the size of a chunk that is there and intact, None where there is none."""
    try:
        texts = read_chunk(task.folder, task.number, TextChunk)
        lengths = read_chunk(task.folder, task.number, TermChunk).lengths
    except DataError:
        return None
    return Counted(len(lengths), len(texts.text)) if texts.items.tolist() == [len(task.items)] else None
