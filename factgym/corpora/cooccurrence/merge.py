"""The second half of a build: runs become one index, a range of word hashes at a time.

Hashes are spread evenly, so a range of them is a random sample of the vocabulary, and ranges are cut so that the
postings of each fit into a worker's memory. Each range becomes a slice: a file with the words, frequencies and blocks
of its lists. A word with more postings than fit is encoded in stretches of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.blocks import BLOCK, encode
from factgym.corpora.cooccurrence.container import Array, open_container, write_container
from factgym.corpora.cooccurrence.runs import Run, open_runs, runs_digest
from factgym.corpora.cooccurrence.store import check_words

POSTING_BYTES = 56
"""Memory per posting of a slice while it is gathered, sorted and encoded."""

SLICE = "cooccurrence-slice"
_BUCKETS = 1 << 12
_SHIFT = np.uint64(64 - 12)

Pieces = dict[str, list[Array]]


class Range(NamedTuple):
    """One slice to make: the words whose hashes' first 12 bits lie in [begin, end); none at all for the separators."""

    number: int
    begin: int
    end: int
    folder: Path
    runs: Sequence[Path]
    postings: int
    """That fit into memory together."""
    digest: int
    """Of the runs."""

    @property
    def path(self) -> Path:
        """Where the slice lies."""
        return self.folder / f"slice-{self.number:05d}"


def plan_ranges(runs: Sequence[Path], folder: Path, postings: int) -> list[Range]:
    """Ranges of all hashes, in order, and the separators' last; the same for the same runs and memory."""
    weights = np.zeros(_BUCKETS, np.int64)
    digest = runs_digest(runs)
    for run in open_runs(runs):
        weights += np.diff(np.append(0, np.cumsum(run.frequencies, dtype=np.int64))[_bounds(run)])
    ranges: list[Range] = []
    begin = held = 0
    for bucket, weight in enumerate(weights.tolist()):
        if held and held + weight > postings:
            ranges.append(Range(len(ranges), begin, bucket, folder, runs, postings, digest))
            begin, held = bucket, 0
        held += weight
    ranges.append(Range(len(ranges), begin, _BUCKETS, folder, runs, postings, digest))
    return [*ranges, Range(len(ranges), 0, 0, folder, runs, postings, digest)]


def _bounds(run: Run) -> NDArray[np.int64]:
    """Where each bucket's words begin in a run, and where the last one's end."""
    edges = np.arange(1, _BUCKETS, dtype=np.uint64) << _SHIFT
    inner = np.searchsorted(run.keys, edges)
    return np.concatenate([[0], inner, [len(run.keys)]]).astype(np.int64)


def merge(task: Range) -> int:
    """Make one slice, unless it is there; its number of postings."""
    says = {"begin": task.begin, "end": task.end, "digest": task.digest}
    if task.path.is_file():
        earlier = open_container(task.path, SLICE).meta
        if says.items() <= earlier.items():
            return int(earlier["postings"])
    pieces: Pieces = {name: [] for name in ("keys", "lengths", "spelling", "frequencies", "firsts", "sizes", "data")}
    runs = open_runs(task.runs)
    if task.begin == task.end:
        _add_long(pieces, (run.separators + np.uint32(run.base) for run in runs), task.postings)
    elif runs:
        for group in _groups([_slice(run, task) for run in runs], task.postings):
            _add_group(pieces, group, task.postings)
    postings = int(sum(int(part.sum(dtype=np.int64)) for part in pieces["frequencies"]))
    write_container(task.path, SLICE, {**says, "postings": postings}, pieces)
    return postings


class Slice(NamedTuple):
    """Some words of one run."""

    run: Run
    begin: int
    end: int

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Their hashes."""
        return self.run.keys[self.begin : self.end]

    def narrowed(self, low: np.uint64, high: np.uint64) -> Slice:
        """Those with hashes in [low, high]."""
        begin, end = np.searchsorted(self.keys, low, "left"), np.searchsorted(self.keys, high, "right")
        return self._replace(begin=self.begin + int(begin), end=self.begin + int(end))

    def positions(self) -> NDArray[np.uint32]:
        """Their positions in the corpus."""
        before = int(self.run.frequencies[: self.begin].sum(dtype=np.int64))
        count = int(self.run.frequencies[self.begin : self.end].sum(dtype=np.int64))
        found = self.run.positions[before : before + count]
        moved: NDArray[np.uint32] = found + np.uint32(self.run.base)
        return moved


def _slice(run: Run, task: Range) -> Slice:
    bounds = _bounds(run)
    return Slice(run, int(bounds[task.begin]), int(bounds[task.end]))


def _groups(slices: Sequence[Slice], postings: int) -> Iterator[list[Slice]]:
    """Consecutive words that fit into memory together, or a single one that does not."""
    keys, inverse = np.unique(np.concatenate([each.keys for each in slices]), return_inverse=True)
    counts = np.concatenate([each.run.frequencies[each.begin : each.end] for each in slices])
    ends = np.cumsum(np.bincount(inverse, counts, len(keys)).astype(np.int64))
    begin = 0
    while begin < len(keys):
        held = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, held + postings, "right")))
        yield [each.narrowed(keys[begin], keys[end - 1]) for each in slices]
        begin = end


def _add_group(pieces: Pieces, slices: Sequence[Slice], postings: int) -> None:
    held = [each for each in slices if each.end > each.begin]
    keys, where, inverse = np.unique(
        np.concatenate([each.keys for each in held]), return_index=True, return_inverse=True
    )
    counts = np.concatenate([each.run.frequencies[each.begin : each.end] for each in held]).astype(np.int64)
    _add_words(pieces, held, keys, where)
    if len(keys) == 1 and int(counts.sum()) > postings:
        _add_long(pieces, (each.positions() for each in held), postings)
        return
    pairs = np.repeat(inverse.astype(np.uint64), counts)
    pairs <<= np.uint64(32)
    pairs |= np.concatenate([each.positions() for each in held])
    pairs.sort()
    frequencies = np.bincount(inverse, counts, len(keys)).astype(np.int64)
    _add_blocks(pieces, pairs.astype(np.uint32), frequencies)
    pieces["frequencies"].append(frequencies.astype(np.uint32))


def _add_words(pieces: Pieces, held: Sequence[Slice], keys: NDArray[np.uint64], where: NDArray[np.intp]) -> None:
    """The words' hashes and spellings; refuses two words of one hash."""
    lengths = np.concatenate([each.run.lengths[each.begin : each.end] for each in held]).astype(np.int64)
    spelled = np.concatenate([_spelling(each) for each in held])
    begins = np.cumsum(lengths) - lengths
    _check_spelling(np.concatenate([each.keys for each in held]), lengths, spelled, begins)
    chosen = lengths[where]
    within = np.arange(int(chosen.sum())) - np.repeat(np.cumsum(chosen) - chosen, chosen)
    pieces["keys"].append(keys)
    pieces["lengths"].append(chosen.astype(np.uint32))
    pieces["spelling"].append(spelled[np.repeat(begins[where], chosen) + within])


def _spelling(part: Slice) -> NDArray[np.uint8]:
    before = int(part.run.lengths[: part.begin].sum(dtype=np.int64))
    size = int(part.run.lengths[part.begin : part.end].sum(dtype=np.int64))
    return part.run.spelling[before : before + size]


def _check_spelling(
    keys: NDArray[np.uint64], lengths: NDArray[np.int64], spelled: NDArray[np.uint8], begins: NDArray[np.int64]
) -> None:
    """Equal hashes must be equal words; compared by length and by the sum of bytes, weighed by place."""
    places = np.arange(len(spelled)) - np.repeat(begins, lengths)
    weighed = np.append(0, np.cumsum(spelled.astype(np.int64) * (places + 1)))
    sums = weighed[begins + lengths] - weighed[begins]
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    differ = (np.diff(lengths[order]) != 0) | (np.diff(sums[order]) != 0)
    if bool(np.any(same & differ)):
        check_words(np.zeros(2, np.uint64))


def _add_blocks(pieces: Pieces, positions: NDArray[np.uint32], frequencies: NDArray[np.int64]) -> None:
    blocks = encode(positions, frequencies)
    pieces["firsts"].append(blocks.firsts)
    pieces["sizes"].append(blocks.sizes)
    pieces["data"].append(blocks.data)


def _add_long(pieces: Pieces, parts: Iterable[NDArray[np.uint32]], postings: int) -> None:
    """One list whose positions come in rising stretches; whole blocks are encoded as they fill."""
    rest, total = np.empty(0, np.uint32), 0
    for part in parts:
        for lo in range(0, len(part), postings):
            rest = np.concatenate([rest, part[lo : lo + postings]])
            whole = len(rest) - len(rest) % BLOCK
            total += whole
            if whole:
                _add_blocks(pieces, rest[:whole], np.array([whole], np.int64))
            rest = rest[whole:]
    if len(rest):
        _add_blocks(pieces, rest, np.array([len(rest)], np.int64))
    pieces["frequencies"].append(np.array([total + len(rest)], np.uint32))
