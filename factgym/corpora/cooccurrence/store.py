"""The arrays of an index, whether in memory or memory-mapped: a dictionary of words and their posting lists."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence.blocks import PostingList, block_counts, encode
from factgym.corpora.cooccurrence.numbering import Numbered, number_plainly
from factgym.corpora.cooccurrence.tokens import TOKENIZER, Case

MAX_POSITIONS = 2**32 - 2**16
"""Positions are 32-bit numbers."""


FEW = 6
"""Words that are looked up sooner one by one than together."""


class Store(NamedTuple):
    """Lists 0 .. V-1 are the words', ordered by the hash of the word; list V holds the separators' positions."""

    keys: NDArray[np.uint64]
    """V hashes of words, rising."""
    spelling: NDArray[np.uint8]
    """The words in UTF-8, one after the other."""
    ends: NDArray[np.uint32]
    """Where each word ends in `spelling`."""
    frequencies: NDArray[np.uint32]
    """V + 1 lengths of lists."""
    block_starts: NDArray[np.uint32]
    """V + 2: the first block of each list, and the number of all blocks."""
    firsts: NDArray[np.uint32]
    offsets: NDArray[np.uint32]
    data: NDArray[np.uint32]
    meta: Mapping[str, Any]
    """case, tokenizer, tokens, documents, source: plain JSON data."""

    def find(self, word: str) -> int:
        """The number of the list of a word, or -1."""
        return self._find(word.encode("utf-8", "surrogatepass"))

    def _find(self, spelled: bytes) -> int:
        at = int(self.keys.searchsorted(np.uint64(word_key(spelled))))
        return at if at < len(self.keys) and self.word(at) == spelled else -1

    def find_many(self, words: Sequence[bytes]) -> NDArray[np.int64]:
        """The number of the list of each word, given in UTF-8, or -1."""
        if len(words) <= FEW:
            return np.array([self._find(one) for one in words], np.int64)
        keys = word_keys(words)
        numbers = np.searchsorted(self.keys, keys).astype(np.int64)
        there = np.flatnonzero(numbers < len(self.keys))
        found = np.full(len(words), -1, np.int64)
        ends = self.ends[numbers[there]].tolist()
        begins = np.where(numbers[there], self.ends[np.maximum(numbers[there], 1) - 1], 0).tolist()
        spelling = self.spelling.data
        same = [spelling[b:e] == words[i] for i, b, e in zip(there.tolist(), begins, ends, strict=True)]
        chosen = there[np.array(same, np.bool_)]
        found[chosen] = numbers[chosen]
        return found

    def word(self, number: int) -> bytes:
        """The word of list `number`, in UTF-8."""
        begin = int(self.ends[number - 1]) if number else 0
        return self.spelling[begin : int(self.ends[number])].tobytes()

    def postings(self, number: int) -> PostingList:
        """The positions of list `number`."""
        begin, end = int(self.block_starts[number]), int(self.block_starts[number + 1])
        offsets = self.offsets[begin : end + 1]
        return PostingList(int(self.frequencies[number]), self.firsts[begin:end], offsets, self.data)

    def separators(self) -> PostingList:
        """The positions of the separators."""
        return self.postings(len(self.keys))

    def arrays(self) -> list[NDArray[Any]]:
        """All of them, without `meta`."""
        return [field for field in self if isinstance(field, np.ndarray)]


def word_key(spelled: bytes) -> int:
    """The 64-bit hash by which the dictionary is ordered."""
    return int.from_bytes(hashlib.blake2b(spelled, digest_size=8).digest(), "little")


def word_keys(words: Iterable[bytes]) -> NDArray[np.uint64]:
    """`word_key` of each."""
    digests = b"".join([hashlib.blake2b(word, digest_size=8).digest() for word in words])
    return np.frombuffer(digests, "<u8").astype(np.uint64, copy=False)


def check_words(keys: NDArray[np.uint64]) -> None:
    """Refuse two words of one hash (one chance in ten million for a vocabulary of a million words)."""
    if len(keys) > 1 and bool(np.any(keys[1:] == keys[:-1])):
        raise DataError("two words of this corpus share a 64-bit hash; leave out one of its documents and build again")


def check_positions(count: int) -> None:
    """Refuse more positions than 32 bits number."""
    if count > MAX_POSITIONS:
        raise DataError(
            f"a co-occurrence index holds up to {MAX_POSITIONS:,} positions, not {count:,}: split the corpus"
        )


class Inverted(NamedTuple):
    """Some documents, inverted: words in the order of their hashes, and the sorted positions of each."""

    keys: NDArray[np.uint64]
    words: list[bytes]
    frequencies: NDArray[np.int64]
    positions: NDArray[np.uint32]
    separators: NDArray[np.uint32]
    length: int
    """Positions in all, separators included."""


def invert(numbered: Numbered) -> Inverted:
    """Invert documents; positions count from 0. `numbered.tokens` is emptied, to free it before the most is needed."""
    lengths = numbered.lengths
    length = int(lengths.sum()) + len(lengths)
    check_positions(length)
    tokens = np.concatenate(numbered.tokens) if numbered.tokens else np.empty(0, np.uint32)
    numbered.tokens.clear()
    spelled = numbered.words
    keys = word_keys(spelled)
    order = np.argsort(keys, kind="stable")
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    frequencies = np.bincount(tokens, minlength=len(order))[order]
    # A word's rank above a position: sorting these numbers groups positions by word and keeps their order.
    pairs = rank[tokens].astype(np.uint64)
    del tokens
    pairs <<= np.uint64(32)
    pairs |= np.arange(len(pairs), dtype=np.uint32)
    if len(lengths):
        pairs += np.repeat(np.arange(1, len(lengths) + 1, dtype=np.uint32), lengths)
    pairs.sort()
    separators = (np.cumsum(lengths) - lengths + np.arange(len(lengths))).astype(np.uint32)
    words = [spelled[i] for i in order]
    return Inverted(keys[order], words, frequencies, pairs.astype(np.uint32), separators, length)


def memory_store(texts: Iterable[str], case: Case = "keep") -> Store:
    """An index of these documents in memory."""
    if case not in ("keep", "fold"):
        raise ConfigError(f"case is 'keep' or 'fold', not {case!r}")
    part = invert(number_plainly(iter(texts), case, None))
    check_words(part.keys)
    frequencies = np.append(part.frequencies, len(part.separators))
    blocks = encode(np.concatenate([part.positions, part.separators]), frequencies)
    spelling = b"".join(part.words)
    meta = {
        "case": case,
        "tokenizer": TOKENIZER,
        "tokens": part.length - len(part.separators),
        "documents": len(part.separators),
    }
    arrays: dict[str, NDArray[Any]] = {
        "keys": part.keys,
        "spelling": np.frombuffer(spelling, np.uint8),
        "ends": np.cumsum(np.fromiter(map(len, part.words), np.int64, len(part.words))).astype(np.uint32),
        "frequencies": frequencies.astype(np.uint32),
        "block_starts": running(block_counts(frequencies)).astype(np.uint32),
        "firsts": blocks.firsts,
        "offsets": running(blocks.sizes.astype(np.int64)).astype(np.uint32),
        "data": np.append(blocks.data, np.uint32(0)),
    }
    for array in arrays.values():
        array.setflags(write=False)
    meta["fingerprint"] = content_digest(meta, {name: (len(a), zlib.crc32(a.tobytes())) for name, a in arrays.items()})
    return Store(meta=meta, **arrays)


def content_digest(meta: Mapping[str, Any], checksums: Mapping[str, tuple[int, int]]) -> str:
    """SHA-256 in hex over the settings and the length and CRC-32 of every section."""
    kept = {key: meta[key] for key in ("case", "tokenizer", "tokens", "documents")}
    record = json.dumps([kept, {name: list(checksums[name]) for name in sorted(checksums)}])
    return hashlib.sha256(record.encode()).hexdigest()


def running(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Starts of groups of these sizes, and the end of the last: one longer."""
    out = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def running_from(parts: Iterable[NDArray[Any]], *, first: bool = True) -> Iterator[NDArray[np.uint32]]:
    """Running totals over counts that come in parts, with (or without) the 0 that they begin with."""
    total = 0
    if first:
        yield np.zeros(1, np.uint32)
    for part in parts:
        sums = np.cumsum(part, dtype=np.int64) + total
        total = int(sums[-1]) if len(sums) else total
        if total >= 2**32:
            raise DataError("this corpus is too large for one index: split it")
        yield sums.astype(np.uint32)
