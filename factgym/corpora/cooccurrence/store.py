"""Arrays of an index, in memory or memory-mapped: a dictionary of words and their posting lists.

A file holds named arrays as they lie in memory, after a header that lists them:

    8 bytes   magic
    4, 4, 4   version, length of the header's JSON, its CRC-32 (little-endian, unsigned)
    JSON      {"kind", "meta", "bytes": of the whole file, "sections": {name: [type, offset, items, CRC-32]}}

A file is written under a temporary name, synchronised and renamed, so under its own name it is always whole. Opening
checks magic, version, the header's checksum, the length of the file, the bounds of sections, and the checksums of all
sections but the posting lists, which may take gigabytes. Those have a sum for each page of 64 KiB (section `page_sums`),
which is compared when a list on the page is first used, and by `preload`; `verify` compares all checksums at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.core.paths import open_file, refusals
from factgym.corpora.cooccurrence.postings import I64, U32, PostingList, block_counts, encode, prefix_sums
from factgym.corpora.cooccurrence.tokenizer import TOKENIZER, Case, NumberedDocuments, number_documents

Array = NDArray[Any]

MAX_POSITIONS = 2**32 - 2**16
"""Positions are 32-bit numbers."""

SMALL_BATCH = 6
"""Words that are looked up faster one by one than together."""


_PAGE = 1 << 14
"""32-bit numbers on a page."""
_PAGED = ("firsts", "offsets", "data")


class PageSums:
    """Sums over the pages of the posting lists of a file, and the pages that were compared with them.

    A sum of 64-bit numbers, modulo 2^64, changes with every flipped bit, and takes an eighth of the time of a CRC-32.
    Safe in threads: a page that two of them compare is compared twice.
    """

    def __init__(self, path: Path, arrays: Mapping[str, Array], sums: NDArray[np.uint64]) -> None:
        self._path = path
        self.complete = False
        self._sections: dict[str, tuple[Array, NDArray[np.uint64], NDArray[np.bool_]]] = {}
        start = 0
        for name in _PAGED:
            end = start - (-len(arrays[name]) // _PAGE)
            self._sections[name] = (arrays[name], sums[start:end], np.zeros(end - start, np.bool_))
            start = end
        if start != len(sums):
            raise DataError(f"{path} is damaged: its sections do not fit each other. Build it again.")

    def check(self, name: str, starts: I64, ends: I64) -> None:
        """Compare the pages of these ranges of a section; a range outside it is damaged."""
        array, _, compared = self._sections[name]
        if np.any((starts < 0) | (starts > ends) | (ends > len(array))):
            raise self._damaged(name)
        # Ranges to pages by the running sum of their first (+1) and last (-1) ones.
        changes = np.zeros(len(compared) + 1, np.int64)
        np.add.at(changes, starts // _PAGE, 1)
        np.add.at(changes, np.maximum(ends - 1, starts) // _PAGE + 1, -1)
        pages = np.flatnonzero((np.cumsum(changes[:-1]) > 0) & ~compared)
        for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1):
            if len(run):
                self._compare(name, int(run[0]), int(run[-1]) + 1)

    def check_all(self) -> None:
        """Compare every page."""
        for name, (_, sums, _) in self._sections.items():
            for page in range(0, len(sums), 256):
                self._compare(name, page, min(page + 256, len(sums)))
        self.complete = True

    def _compare(self, name: str, start: int, end: int) -> None:
        array, sums, compared = self._sections[name]
        if not np.array_equal(page_sums(array[start * _PAGE : end * _PAGE]), sums[start:end]):
            raise self._damaged(name)
        compared[start:end] = True

    def _damaged(self, name: str) -> DataError:
        return DataError(f"{self._path} is damaged: the sums of its section {name!r} do not hold. {_REBUILD}")


def page_sums(array: U32) -> NDArray[np.uint64]:
    """Return the sum of each page's 64-bit numbers; the last page is filled up with zeros."""
    full = len(array) // _PAGE * _PAGE
    sums: NDArray[np.uint64] = np.add.reduce(
        np.ascontiguousarray(array[:full]).view(np.uint64).reshape(-1, _PAGE // 2), axis=1
    )
    if full == len(array):
        return sums
    last = np.zeros(_PAGE, np.uint32)
    last[: len(array) - full] = array[full:]
    return np.append(sums, np.add.reduce(last.view(np.uint64)))


class Store(NamedTuple):
    """Lists 0 .. V-1 are the words', ordered by the hash of the word; list V has the separators' positions."""

    keys: NDArray[np.uint64]
    """V hashes of words, ascending."""
    spelling: NDArray[np.uint8]
    """The words in UTF-8, one after the other."""
    ends: U32
    """End of each word in `spelling`."""
    frequencies: U32
    """V + 1 lengths of lists."""
    block_starts: U32
    """V + 2: the first block of each list, and the number of all blocks."""
    firsts: U32
    offsets: U32
    data: U32
    meta: Mapping[str, Any]
    """case, tokenizer, tokens, documents, source, fingerprint: plain JSON data."""
    pages: Any = None
    """`PageSums` of a file, None in memory."""

    def check_blocks(self, starts: I64, ends: I64) -> None:
        """Check the pages that hold these ranges of blocks, at their first use. Raises `DataError` for a damaged one."""
        pages: PageSums | None = self.pages
        if pages is not None and not pages.complete:
            pages.check("firsts", starts, ends)
            pages.check("offsets", starts, ends + 1)
            # The kernels read one word beyond a block's data.
            offsets = self.offsets
            pages.check("data", offsets[starts].astype(np.int64), offsets[ends].astype(np.int64) + 1)

    def find(self, word: bytes) -> int:
        """Return the list of a word in UTF-8, or -1."""
        key = int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
        number = int(self.keys.searchsorted(np.uint64(key)))
        return number if number < len(self.keys) and self.word(number) == word else -1

    def find_many(self, words: Sequence[bytes]) -> I64:
        """Return the list of each word in UTF-8, or -1."""
        if len(words) <= SMALL_BATCH:
            return np.array([self.find(word) for word in words], np.int64)
        # Binary search by hash; the spelling decides, as another word may have the hash of an unknown one.
        numbers = np.searchsorted(self.keys, word_keys(words)).astype(np.int64)
        candidates = np.flatnonzero(numbers < len(self.keys))
        ends = self.ends[numbers[candidates]].tolist()
        previous_ends = self.ends[np.maximum(numbers[candidates], 1) - 1]
        starts = np.where(numbers[candidates], previous_ends, 0).tolist()
        spelling = self.spelling.data
        equal = [spelling[s:e] == words[i] for i, s, e in zip(candidates.tolist(), starts, ends, strict=True)]
        matches = candidates[np.array(equal, np.bool_)]
        lists = np.full(len(words), -1, np.int64)
        lists[matches] = numbers[matches]
        return lists

    def word(self, number: int) -> bytes:
        """Return the word of a list, in UTF-8."""
        start = int(self.ends[number - 1]) if number else 0
        return self.spelling[start : int(self.ends[number])].tobytes()

    def postings(self, number: int) -> PostingList:
        """Return the positions of a list."""
        start, end = int(self.block_starts[number]), int(self.block_starts[number + 1])
        offsets = self.offsets[start : end + 1]
        return PostingList(int(self.frequencies[number]), self.firsts[start:end], offsets, self.data)

    def separators(self) -> PostingList:
        """Return the positions of the separators."""
        return self.postings(len(self.keys))

    def arrays(self) -> list[Array]:
        """Return all fields but `meta`."""
        return [field for field in self if isinstance(field, np.ndarray)]


def word_keys(words: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each word, by which the dictionary is ordered."""
    digests = b"".join([hashlib.blake2b(word, digest_size=8).digest() for word in words])
    return np.frombuffer(digests, "<u8").astype(np.uint64, copy=False)


def check_collisions(keys: NDArray[np.uint64]) -> None:
    """Raise for equal neighbours in sorted hashes (probability 1e-7 for a vocabulary of a million words)."""
    if len(keys) > 1 and bool(np.any(keys[1:] == keys[:-1])):
        raise DataError("two words of this corpus share a 64-bit hash; leave out one of its documents and build again")


def check_positions(count: int) -> None:
    """Raise for more positions than fit into 32 bits."""
    if count > MAX_POSITIONS:
        raise DataError(
            f"a co-occurrence index holds up to {MAX_POSITIONS:,} positions, not {count:,}: "
            "split the corpus, index its parts into one folder, and name the folder, whose counts are summed"
        )


class InvertedDocuments(NamedTuple):
    """Words in the order of their hashes, and the sorted positions of each."""

    keys: NDArray[np.uint64]
    words: list[bytes]
    frequencies: I64
    positions: U32
    separators: U32
    length: int
    """Positions in all, separators included."""


def invert(documents: NumberedDocuments) -> InvertedDocuments:
    """Invert documents by one sort; positions count from 0. Empties `documents.tokens`, to bound the peak of memory."""
    lengths = documents.lengths
    length = int(lengths.sum()) + len(lengths)
    check_positions(length)
    tokens = np.concatenate(documents.tokens) if documents.tokens else np.empty(0, np.uint32)
    documents.tokens.clear()
    keys = word_keys(documents.words)
    order = np.argsort(keys, kind="stable")
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    frequencies = np.bincount(tokens, minlength=len(order))[order]
    # Pairs (rank of the word, position) in one 64-bit number each: sorting them groups ascending positions by word.
    pairs = rank[tokens].astype(np.uint64)
    del tokens
    pairs <<= np.uint64(32)
    pairs |= np.arange(len(pairs), dtype=np.uint32)
    # A separator precedes each document and shifts the positions of the d-th by d. No sum reaches the upper half:
    # `check_positions` bounds them.
    if len(lengths):
        pairs += np.repeat(np.arange(1, len(lengths) + 1, dtype=np.uint32), lengths)
    pairs.sort()
    separators = (np.cumsum(lengths) - lengths + np.arange(len(lengths))).astype(np.uint32)
    words = [documents.words[i] for i in order]
    return InvertedDocuments(keys[order], words, frequencies, pairs.astype(np.uint32), separators, length)


def memory_store(texts: Iterable[str], case: Case = "keep") -> Store:
    """Build an index of these documents in memory."""
    if case not in ("keep", "fold"):
        raise ConfigError(f"case is 'keep' or 'fold', not {case!r}")
    inverted = invert(number_documents(iter(texts), case, None))
    check_collisions(inverted.keys)
    frequencies = np.append(inverted.frequencies, len(inverted.separators))
    blocks = encode(np.concatenate([inverted.positions, inverted.separators]), frequencies)
    word_lengths = np.fromiter(map(len, inverted.words), np.int64, len(inverted.words))
    arrays: dict[str, Array] = {
        "keys": inverted.keys,
        "spelling": np.frombuffer(b"".join(inverted.words), np.uint8),
        "ends": np.cumsum(word_lengths).astype(np.uint32),
        "frequencies": frequencies.astype(np.uint32),
        "block_starts": prefix_sums(block_counts(frequencies)).astype(np.uint32),
        "firsts": blocks.firsts,
        "offsets": prefix_sums(blocks.sizes.astype(np.int64)).astype(np.uint32),
        "data": np.append(blocks.data, np.uint32(0)),
    }
    for array in arrays.values():
        array.setflags(write=False)
    documents = len(inverted.separators)
    meta = {"case": case, "tokenizer": TOKENIZER, "tokens": inverted.length - documents, "documents": documents}
    checksums = {name: (len(array), zlib.crc32(array.tobytes())) for name, array in arrays.items()}
    return Store(meta={**meta, "fingerprint": _fingerprint(meta, checksums)}, **arrays)


def _fingerprint(meta: Mapping[str, Any], checksums: Mapping[str, tuple[int, int]]) -> str:
    """Return SHA-256 in hex over the settings and the length and CRC-32 of every section."""
    settings = {key: meta[key] for key in ("case", "tokenizer", "tokens", "documents")}
    record = json.dumps([settings, {name: list(checksums[name]) for name in sorted(checksums)}])
    return hashlib.sha256(record.encode()).hexdigest()


# The file format

INDEX_KIND = "cooccurrence-index"
MAGIC = b"\x93FGCOOC\n"
VERSION = 2
HEADER_BYTES = 4096
"""Start of the first section; the header fits in front of it."""

_CHECKED_BYTES = 1 << 20
"""Posting lists up to this size are compared with their checksums whenever a file is opened, as are all other sections."""

_ALIGNMENT = 64
_PREFIX = struct.Struct("<8sIII")
_TYPES = {"keys": "u8", "spelling": "u1", "page_sums": "u8"}
"""Of sections by name; the others hold 32-bit numbers."""
_REBUILD = "Build it again with `factgym corpus index --kind cooccurrence`, or copy it again if it is a copy."


class Container(NamedTuple):
    """Memory-mapped, read-only arrays of a file, and its header's data."""

    meta: dict[str, Any]
    arrays: dict[str, Array]
    checksums: dict[str, tuple[int, int]]
    """Items and CRC-32 of each section."""


def open_store(path: Path, *, verify: bool = False) -> Store:
    """Map an index; `DataError` names a file that is incomplete, foreign, or of another tokenizer."""
    meta, arrays, checksums = open_container(path, INDEX_KIND, verify=verify)
    if meta["tokenizer"] != TOKENIZER:
        raise DataError(
            f"{path} was made with the tokenizer {meta['tokenizer']!r}; this factgym's is {TOKENIZER!r}. Build it again."
        )
    sizes = {name: len(array) for name, array in arrays.items()}
    words, blocks = sizes["keys"], sizes["firsts"]
    fits = sizes["ends"] == words and sizes["frequencies"] == words + 1 and sizes["block_starts"] == words + 2
    if not fits or sizes["offsets"] != blocks + 1 or int(arrays["block_starts"][-1]) != blocks:
        raise DataError(f"{path} is damaged: its sections do not fit each other. Build it again.")
    pages = PageSums(path, arrays, arrays.pop("page_sums"))
    if verify:
        pages.complete = True
    checksums.pop("page_sums")
    return Store(meta={**meta, "fingerprint": _fingerprint(meta, checksums)}, pages=pages, **arrays)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under `path` only when the block ends without error, and then whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with refusals(path, "written", "make room and start again: a build resumes"), temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_container(path: Path, kind: str, meta: Mapping[str, Any], sections: Mapping[str, Iterable[Array]]) -> None:
    """Write sections, each given as arrays of one type that are stored one after the other."""
    with atomic_write(path) as file:
        file.seek(HEADER_BYTES)
        table: dict[str, list[Any]] = {}
        sums: list[Array] = []
        if kind == INDEX_KIND:
            sections = {**sections, "page_sums": sums}
        for name, arrays in sections.items():
            if kind == INDEX_KIND and name in _PAGED:
                arrays = _with_page_sums(arrays, sums)
            file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
            offset, checksum, dtype = file.tell(), 0, _TYPES.get(name, "u4")
            for array in arrays:
                raw = _raw_bytes(np.ascontiguousarray(array, f"<{dtype}"))
                checksum = zlib.crc32(raw, checksum)
                file.write(raw)
            table[name] = [dtype, offset, (file.tell() - offset) // int(dtype[1:]), checksum]
        total = file.tell()
        file.truncate(total)
        header = json.dumps({"kind": kind, "meta": dict(meta), "bytes": total, "sections": table}).encode()
        if len(header) > HEADER_BYTES - _PREFIX.size:
            raise DataError(f"an index's header takes {len(header)} bytes; {HEADER_BYTES - _PREFIX.size} are available")
        file.seek(0)
        file.write(_PREFIX.pack(MAGIC, VERSION, len(header), zlib.crc32(header)) + header)


def _with_page_sums(arrays: Iterable[Array], sums: list[Array]) -> Iterator[Array]:
    """Yield the arrays of a section as they are, and append the sums of its pages at its end."""
    partial = np.empty(0, np.uint32)
    for array in arrays:
        for start in range(0, len(array), 256 * _PAGE):
            numbers = np.concatenate([partial, array[start : start + 256 * _PAGE]]).astype("<u4")
            full = len(numbers) // _PAGE * _PAGE
            sums.append(page_sums(numbers[:full]))
            partial = numbers[full:]
        yield array
    sums.append(page_sums(partial))


def _raw_bytes(array: Array) -> memoryview:
    return array.data.cast("B") if len(array) else memoryview(b"")


def open_container(path: Path, kind: str, *, verify: bool = False) -> Container:
    """Map a container's sections; `DataError` names a file that is incomplete or foreign, and the remedy."""
    header = _read_header(path)
    if header["kind"] != kind:
        raise DataError(f"{path} holds {header['kind']!r}, not {kind!r}. {_REBUILD}")
    expected = int(header["bytes"])
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected:
            problem = "cut off" if size < expected else "longer than it should be"
            raise DataError(f"{path} is {problem}: {size:,} bytes, and its header says {expected:,}. {_REBUILD}")
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrays: dict[str, Array] = {}
    for name, (dtype, offset, items, checksum) in header["sections"].items():
        fits = offset >= HEADER_BYTES and not offset % _ALIGNMENT and offset + items * int(dtype[1:]) <= len(raw)
        if dtype != _TYPES.get(name, "u4") or not fits:
            raise DataError(f"{path} is damaged: a section lies outside it. {_REBUILD}")
        arrays[name] = np.frombuffer(raw, f"<{dtype}", items, offset)
        is_checked = verify or name not in _PAGED or arrays[name].nbytes <= _CHECKED_BYTES
        if is_checked and zlib.crc32(_raw_bytes(arrays[name])) != checksum:
            raise DataError(f"{path} is damaged: the checksum of its section {name!r} does not hold. {_REBUILD}")
    checksums = {name: (section[2], section[3]) for name, section in header["sections"].items()}
    return Container(header["meta"], arrays, checksums)


def _read_header(path: Path) -> dict[str, Any]:
    """Return the header of an index file, whose length and CRC-32 precede it; anything else is refused."""
    with open_file(path) as file:
        raw = file.read(HEADER_BYTES)
    if len(raw) < _PREFIX.size or not raw.startswith(MAGIC):
        problem = "is empty" if not raw else "is no co-occurrence index"
        raise DataError(f"{path} {problem} (its first bytes are {raw[:8]!r}). {_REBUILD}")
    _, version, length, checksum = _PREFIX.unpack_from(raw)
    if version != VERSION:
        raise DataError(f"{path} has version {version} of the format; this factgym reads {VERSION}. {_REBUILD}")
    body = raw[_PREFIX.size : _PREFIX.size + length]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise DataError(f"{path} is damaged or cut off: the checksum of its header does not hold. {_REBUILD}")
    header: dict[str, Any] = json.loads(body)
    return header


# Preloading. The first touch of a page costs some microseconds even if the system's cache holds it, and milliseconds if
# it must be read from disk; a query of rare words costs some twenty microseconds in all.

_SYSTEM_PAGE = 4096
_SYNCHRONOUS_BYTES = 1 << 24
"""Indexes up to this size are preloaded while they are opened: a thread would be no faster."""
_MEMORY_DIVISOR = 4
"""By default an index of at most this fraction of the machine's memory is preloaded."""


def touch_pages(arrays: Iterable[Array]) -> None:
    """Read a byte of every page. Releases the interpreter's lock."""
    for array in arrays:
        if array.size:
            np.bitwise_or.reduce(array.view(np.uint8)[::_SYSTEM_PAGE])


def preload_store(store: Store) -> None:
    """Read an index into memory, and compare its pages. Raises `DataError` for a damaged one."""
    touch_pages(store.arrays())
    if store.pages is not None:
        store.pages.check_all()


def start_preload(store: Store, preload: bool | None) -> None:
    """Preload an index in the background (a small one at once). None: if memory is ample."""
    if not isinstance(preload, bool | None):
        raise ConfigError(f"preload is True, False or None for the default, not {preload!r}")
    size = sum(array.nbytes for array in store.arrays())
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        memory = 0
    if preload is False or (preload is None and size * _MEMORY_DIVISOR > memory):
        return
    if size <= _SYNCHRONOUS_BYTES:
        preload_store(store)
    else:
        # A daemon thread, so that a process can end before its index is loaded.
        threading.Thread(target=_preload_quietly, args=(store,), name="preload", daemon=True).start()


def _preload_quietly(store: Store) -> None:
    """Preload; a damaged page stays unread, and raises when it is used."""
    with contextlib.suppress(DataError):
        preload_store(store)
