"""External merge sort of a build: documents become sorted segments, segments become slices of the index.

Knuth, "The Art of Computer Programming", volume 3, section 5.4; Witten, Moffat and Bell, "Managing Gigabytes", chapter
5, for inverted files. A segment (a run, in Knuth's words) inverts some millions of tokens in one file. A source is read
in parts (`sources.Source.parts`, or batches of a plain iterable), each by one worker. When the worker's memory is full
it writes a segment and continues; when the part ends it records the number of its segments. Files are never rewritten:
a build that was killed skips finished parts, and in an unfinished one the documents of its segments.

Segments are merged one range of word hashes at a time. Hashes are uniform, so a range is a random sample of the
vocabulary, and ranges are cut so that the postings of each fit into a worker's memory. Each range becomes a slice: a
file with the words, frequencies and blocks of its lists. A word with more postings than fit is encoded in parts.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.engine import LARGE_INDEX, has_numba, text_kernels
from factgym.corpora.cooccurrence.postings import BLOCK, I64, U32, encode, prefix_sums
from factgym.corpora.cooccurrence.sources import BadRecords, Part, Source
from factgym.corpora.cooccurrence.store import (
    Array,
    InvertedDocuments,
    atomic_write,
    check_collisions,
    check_positions,
    invert,
    open_container,
    write_container,
)
from factgym.corpora.cooccurrence.tokenizer import Case, number_documents, number_documents_compiled

TOKEN_BYTES = 48
"""Memory per token of a segment while it is gathered, inverted and written."""
POSTING_BYTES = 56
"""Memory per posting of a slice while it is gathered, sorted and encoded."""

SEGMENT_KIND = "cooccurrence-run"
SLICE_KIND = "cooccurrence-slice"

_KEY_BITS = 12
_BUCKETS = 1 << _KEY_BITS


class PartTask(NamedTuple):
    """A part to read: of a source, or documents in `texts`."""

    number: int
    folder: Path
    case: Case
    segment_tokens: int
    source: Source | None
    part: Part | None
    texts: Sequence[str]


class PartResult(NamedTuple):
    """Summary of a finished part."""

    number: int
    segments: int
    documents: int
    tokens: int
    bad: int
    messages: list[str]
    digest: int


def segment_path(folder: Path, part: int, number: int) -> Path:
    """Return the path of a part's segment."""
    return folder / f"part-{part:06d}-run-{number:04d}"


def read_part(task: PartTask) -> PartResult:
    """Read a part and write its segments, unless an earlier build has."""
    result_path = task.folder / f"part-{task.number:06d}.json"
    digest = 0
    for text in task.texts:
        digest = zlib.crc32(text.encode("utf-8", "surrogatepass"), zlib.crc32(b"\0", digest))
    if result_path.is_file():
        earlier = PartResult(**json.loads(result_path.read_text("utf-8")))
        if task.source is not None or earlier.digest == digest:
            return earlier
    if result_path.is_file() or task.source is None:
        # Segments of other documents: those of an iterable are compared as a whole part only.
        for path in task.folder.glob(f"part-{task.number:06d}*"):
            path.unlink(missing_ok=True)
    segments = documents = tokens = 0
    while (path := segment_path(task.folder, task.number, segments)).is_file():
        finished = open_container(path, SEGMENT_KIND).meta
        segments, documents = segments + 1, documents + finished["documents"]
        tokens += finished["tokens"]
    bad = BadRecords()
    texts: Iterable[str] = task.texts
    if task.source is not None and task.part is not None:
        texts = (text for _, text in task.source.read(task.part, bad))
    for inverted in _inverted_segments(itertools.islice(texts, documents, None), task):
        _write_segment(segment_path(task.folder, task.number, segments), inverted)
        segments, documents = segments + 1, documents + len(inverted.separators)
        tokens += inverted.length - len(inverted.separators)
    result = PartResult(task.number, segments, documents, tokens, bad.count, bad.messages, digest)
    with atomic_write(result_path) as file:
        file.write(json.dumps(result._asdict()).encode())
    return result


def _inverted_segments(texts: Iterator[str], task: PartTask) -> Iterator[InvertedDocuments]:
    """Yield segments of about `segment_tokens`, of whole documents; shorter ones while the kernels are loaded."""
    for number in itertools.count():
        kernels = text_kernels(load=number > 0)
        if kernels is None:
            tokens = min(task.segment_tokens, LARGE_INDEX) if has_numba() else task.segment_tokens
            documents = number_documents(texts, task.case, tokens)
        else:
            documents = number_documents_compiled(kernels, texts, task.case, task.segment_tokens)
        if not len(documents.lengths):
            return
        yield invert(documents)


def _write_segment(path: Path, inverted: InvertedDocuments) -> None:
    check_collisions(inverted.keys)
    documents = len(inverted.separators)
    meta = {"documents": documents, "tokens": inverted.length - documents, "length": inverted.length}
    sections: dict[str, Array] = {
        "keys": inverted.keys,
        "lengths": np.fromiter(map(len, inverted.words), np.uint32, len(inverted.words)),
        "spelling": np.frombuffer(b"".join(inverted.words), np.uint8),
        "frequencies": inverted.frequencies.astype(np.uint32),
        "positions": inverted.positions,
        "separators": inverted.separators,
    }
    write_container(path, SEGMENT_KIND, meta, {name: [array] for name, array in sections.items()})


class Segment(NamedTuple):
    """A memory-mapped segment. base: its first position in the corpus."""

    base: int
    keys: NDArray[np.uint64]
    lengths: U32
    spelling: NDArray[np.uint8]
    frequencies: U32
    positions: U32
    separators: U32


def _open_segments(paths: Iterable[Path]) -> list[Segment]:
    """Map segments in the order of the corpus; `DataError` if together they exceed an index."""
    segments, base = [], 0
    for path in paths:
        meta, arrays, _ = open_container(path, SEGMENT_KIND)
        segments.append(Segment(base, **arrays))
        base += meta["length"]
    check_positions(base)
    return segments


# The merge

_Sections = dict[str, list[Array]]
"""Columns of a slice by name, each in parts."""


class MergeTask(NamedTuple):
    """A slice to make: words whose hashes' first 12 bits lie in [start, end); an empty range for the separators."""

    number: int
    start: int
    end: int
    folder: Path
    segments: Sequence[Path]
    postings: int
    """That fit into memory together."""
    digest: int
    """Of the segments."""

    @property
    def path(self) -> Path:
        """Path of the slice."""
        return self.folder / f"slice-{self.number:05d}"


def plan_merge(segments: Sequence[Path], folder: Path, postings: int) -> list[MergeTask]:
    """Cut all hashes into ranges, in order, the separators' last; the same for the same segments and memory."""
    digest = 0
    for path in segments:
        checksums = sorted(open_container(path, SEGMENT_KIND).checksums.items())
        digest = zlib.crc32(json.dumps([path.name, checksums]).encode(), digest)
    bucket_postings = np.zeros(_BUCKETS, np.int64)
    for segment in _open_segments(segments):
        bucket_postings += np.diff(prefix_sums(segment.frequencies)[_bucket_bounds(segment)])
    # First fit: a range ends before the bucket whose postings do not fit any more.
    bounds, total = [0], 0
    for bucket, count in enumerate(bucket_postings.tolist()):
        if total and total + count > postings:
            bounds.append(bucket)
            total = 0
        total += count
    ranges = [*itertools.pairwise([*bounds, _BUCKETS]), (0, 0)]
    return [
        MergeTask(number, start, end, folder, segments, postings, digest) for number, (start, end) in enumerate(ranges)
    ]


def _bucket_bounds(segment: Segment) -> I64:
    """Return the first word of each bucket, and the number of words."""
    edges = np.arange(1, _BUCKETS, dtype=np.uint64) << np.uint64(64 - _KEY_BITS)
    return np.concatenate([[0], np.searchsorted(segment.keys, edges), [len(segment.keys)]]).astype(np.int64)


def merge(task: MergeTask) -> int:
    """Make a slice, unless it exists; return its number of postings."""
    identity = {"begin": task.start, "end": task.end, "digest": task.digest}
    if task.path.is_file():
        earlier = open_container(task.path, SLICE_KIND).meta
        if identity.items() <= earlier.items():
            return int(earlier["postings"])
    names = ("keys", "lengths", "spelling", "frequencies", "firsts", "sizes", "data")
    sections: _Sections = {name: [] for name in names}
    segments = _open_segments(task.segments)
    if task.start == task.end:
        separators = (segment.separators + np.uint32(segment.base) for segment in segments)
        _add_long_list(sections, separators, task.postings)
    elif segments:
        ranges = [WordRange(segment, *_bucket_bounds(segment)[[task.start, task.end]].tolist()) for segment in segments]
        for group in _groups(ranges, task.postings):
            _add_group(sections, group, task.postings)
    postings = sum(int(array.sum(dtype=np.int64)) for array in sections["frequencies"])
    write_container(task.path, SLICE_KIND, {**identity, "postings": postings}, sections)
    return postings


class WordRange(NamedTuple):
    """Consecutive words [start, end) of a segment."""

    segment: Segment
    start: int
    end: int

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Hashes of the words."""
        return self.segment.keys[self.start : self.end]

    @property
    def frequencies(self) -> U32:
        """Frequencies of the words."""
        return self.segment.frequencies[self.start : self.end]

    @property
    def lengths(self) -> U32:
        """Bytes of the words."""
        return self.segment.lengths[self.start : self.end]

    def narrowed(self, low: np.uint64, high: np.uint64) -> WordRange:
        """Return the words with hashes in [low, high]."""
        start, end = np.searchsorted(self.keys, low, "left"), np.searchsorted(self.keys, high, "right")
        return self._replace(start=self.start + int(start), end=self.start + int(end))

    def positions(self) -> U32:
        """Return the positions of the words in the corpus."""
        offset = int(self.segment.frequencies[: self.start].sum(dtype=np.int64))
        count = int(self.frequencies.sum(dtype=np.int64))
        positions: U32 = self.segment.positions[offset : offset + count] + np.uint32(self.segment.base)
        return positions

    def spelling(self) -> NDArray[np.uint8]:
        """Return the words in UTF-8, one after the other."""
        offset = int(self.segment.lengths[: self.start].sum(dtype=np.int64))
        return self.segment.spelling[offset : offset + int(self.lengths.sum(dtype=np.int64))]


def _groups(ranges: Sequence[WordRange], postings: int) -> Iterator[list[WordRange]]:
    """Yield consecutive words that fit into memory together, or a single one that does not."""
    # `ends[i]` counts the postings of words 0 to i over all segments: a binary search finds the last word that fits.
    keys, inverse = np.unique(np.concatenate([words.keys for words in ranges]), return_inverse=True)
    counts = np.concatenate([words.frequencies for words in ranges])
    ends = np.cumsum(np.bincount(inverse, counts, len(keys)).astype(np.int64))
    start = 0
    while start < len(keys):
        previous = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, previous + postings, "right")))
        yield [words.narrowed(keys[start], keys[end - 1]) for words in ranges]
        start = end


def _add_group(sections: _Sections, ranges: Sequence[WordRange], postings: int) -> None:
    """Merge the words' lists by one sort of (word, position) pairs, and append them."""
    ranges = [words for words in ranges if words.end > words.start]
    all_keys = np.concatenate([words.keys for words in ranges])
    keys, representatives, inverse = np.unique(all_keys, return_index=True, return_inverse=True)
    counts = np.concatenate([words.frequencies for words in ranges]).astype(np.int64)
    _add_words(sections, ranges, keys, representatives)
    if len(keys) == 1 and int(counts.sum()) > postings:
        _add_long_list(sections, (words.positions() for words in ranges), postings)
        return
    # One 64-bit number for each posting, the word's rank above its position: sorting the numbers sorts by both.
    pairs = np.repeat(inverse.astype(np.uint64), counts)
    pairs <<= np.uint64(32)
    pairs |= np.concatenate([words.positions() for words in ranges])
    pairs.sort()
    frequencies = np.bincount(inverse, counts, len(keys)).astype(np.int64)
    _add_blocks(sections, pairs.astype(np.uint32), frequencies)
    sections["frequencies"].append(frequencies.astype(np.uint32))


def _add_words(
    sections: _Sections, ranges: Sequence[WordRange], keys: NDArray[np.uint64], representatives: NDArray[np.intp]
) -> None:
    """Append the words' hashes and spellings. representatives: an index of each hash among the ranges' words."""
    lengths = np.concatenate([words.lengths for words in ranges]).astype(np.int64)
    spelling = np.concatenate([words.spelling() for words in ranges])
    starts = np.cumsum(lengths) - lengths
    check_spelling(np.concatenate([words.keys for words in ranges]), lengths, spelling, starts)
    chosen = lengths[representatives]
    within = np.arange(int(chosen.sum())) - np.repeat(np.cumsum(chosen) - chosen, chosen)
    sections["keys"].append(keys)
    sections["lengths"].append(chosen.astype(np.uint32))
    sections["spelling"].append(spelling[np.repeat(starts[representatives], chosen) + within])


def check_spelling(keys: NDArray[np.uint64], lengths: I64, spelling: NDArray[np.uint8], starts: I64) -> None:
    """Raise for different words of one hash; compares lengths and sums of the bytes weighted by their offset."""
    # All words at once: prefix sums of the weighted bytes give the sum over each word as a difference of two.
    offsets = np.arange(len(spelling)) - np.repeat(starts, lengths)
    weighted = np.append(0, np.cumsum(spelling.astype(np.int64) * (offsets + 1)))
    sums = weighted[starts + lengths] - weighted[starts]
    order = np.argsort(keys, kind="stable")
    same_key = keys[order][1:] == keys[order][:-1]
    differ = (np.diff(lengths[order]) != 0) | (np.diff(sums[order]) != 0)
    if bool(np.any(same_key & differ)):
        # Two equal hashes make it raise: here two different words have one.
        check_collisions(np.zeros(2, np.uint64))


def _add_blocks(sections: _Sections, positions: U32, frequencies: I64) -> None:
    for name, array in encode(positions, frequencies)._asdict().items():
        sections[name].append(array)


def _add_long_list(sections: _Sections, parts: Iterable[U32], postings: int) -> None:
    """Append one list whose positions come in ascending parts; whole blocks are encoded as they fill."""
    tail, total = np.empty(0, np.uint32), 0
    for part in parts:
        for start in range(0, len(part), postings):
            tail = np.concatenate([tail, part[start : start + postings]])
            full = len(tail) - len(tail) % BLOCK
            total += full
            if full:
                _add_blocks(sections, tail[:full], np.array([full], np.int64))
            tail = tail[full:]
    if len(tail):
        _add_blocks(sections, tail, np.array([len(tail)], np.int64))
    sections["frequencies"].append(np.array([total + len(tail)], np.uint32))
