"""From words to posting lists: what a query's clauses mean in an index, looked up once and kept.

A clause of one word is a list of the index. Every other one (a word of several tokens, an OR) is worked out once: its
occurrences are found, encoded like the index's lists and kept within a budget. For NumPy the least recently used ones
are dropped beyond it; what the compiled kernels know, the words' rows and the lists, is then forgotten altogether.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence.blocks import BLOCK, PostingList, block_counts, decode, encode, encode_plain
from factgym.corpora.cooccurrence.engine import run_phrases
from factgym.corpora.cooccurrence.known import NOWHERE, ClauseKey, Known
from factgym.corpora.cooccurrence.plain import chunks, contains
from factgym.corpora.cooccurrence.store import FEW, Store, running
from factgym.corpora.cooccurrence.tokens import Case, tokenize, tokenize_bytes

UNKNOWN = -1
"""What `Store.find` says of a word that the index does not hold."""

DAMAGED = "the index is damaged: open it with verify=True to see where, and build it again"

_MAX_WORDS = 1 << 18
"""Looked-up words that are remembered; some 30 MB when full."""


class Clause(NamedTuple):
    """Where a clause of a query occurs."""

    frequency: int
    """Occurrences; a place where two of its terms occur is two."""
    places: PostingList


_MADE_BYTES = 40
"""Working memory per occurrence of a clause that is worked out."""

_NONE = PostingList(0, np.empty(0, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
_NEVER = Clause(0, _NONE)


Phrase = tuple[int, ...]
"""The lists of the tokens of a word that has several."""


class Lexicon:
    """Lists of clauses over one store; safe under threads."""

    def __init__(self, store: Store, *, chunk: int, unique: bool, memory: int) -> None:
        self._store = store
        self._case: Case = store.meta["case"]
        self._chunk = chunk
        self._unique = unique
        self._memory = memory
        self._known = Known()
        self._made: OrderedDict[tuple[tuple[int, ...], ...], Clause] = OrderedDict()
        self._made_bytes = 0
        self._lock = threading.Lock()

    def known(self) -> Known:
        """The clauses looked up so far; forgotten when they are many, which does not concern who holds them."""
        if len(self._known.index) > _MAX_WORDS or self._known.nbytes > self._memory // 2:
            self._known = Known()
        return self._known

    def learn(self, known: Known, clauses: Iterable[ClauseKey], compiled: Any, threads: int) -> None:
        """Look clauses up, all together, and note them: from then on `known.index` has each."""
        words: list[str] = []
        for one in clauses:
            if isinstance(one, str):
                words.append(one)
            else:
                self._learn_or(known, one)
        found = self._lists_of(words)
        singles = [one for one in found if len(one) == 1]
        rows = self._rows([number for one in singles for number in one])
        made = list(self._phrases(list({one for one in found if len(one) > 1}), compiled, threads))
        where: dict[Phrase, int] = {(): NOWHERE}
        with self._lock:
            where.update(zip(singles, itertools.count(known.add(rows))))
            for phrases, positions, lengths in made:
                there = lengths > 0
                first = known.add_lists(encode_plain(positions, lengths[there]), lengths[there], lengths[there])
                numbers = np.where(there, first + np.cumsum(there) - 1, NOWHERE)
                where.update(zip(phrases, numbers.tolist(), strict=True))
            known.index.update(zip(words, [where[one] for one in found], strict=True))

    def _learn_or(self, known: Known, terms: tuple[str, ...]) -> None:
        clause = self.clause(terms)
        positions = decode(clause.places)
        lengths = np.array([len(positions)], np.int64)
        with self._lock:
            known.index[terms] = (
                known.add_lists(encode_plain(positions, lengths), lengths, np.array([clause.frequency], np.int64))
                if clause.frequency
                else NOWHERE
            )

    def _lists_of(self, words: Sequence[str]) -> list[Phrase]:
        """The lists of each word's tokens in order; empty when one of them is unknown."""
        tokens = [tokenize_bytes(word, self._case) for word in words]
        numbers = self._store.find_many([token for each in tokens for token in each]).tolist()
        ends = itertools.accumulate(map(len, tokens), initial=0)
        lists = (tuple(numbers[begin:end]) for begin, end in itertools.pairwise(ends))
        return [() if UNKNOWN in one else one for one in lists]

    def _phrases(
        self, phrases: Sequence[Phrase], compiled: Any, threads: int
    ) -> Iterator[tuple[Sequence[Phrase], NDArray[np.uint32], NDArray[np.int64]]]:
        """Where phrases occur, as many together as the memory allows: their positions, and how many each has."""
        begin = most = 0
        for i, phrase in enumerate(phrases):
            count = min(int(self._store.frequencies[number]) for number in phrase)
            self._check_memory(count, 1)
            if begin < i and (most + count) * _MADE_BYTES > self._memory:
                yield self._made_together(phrases[begin:i], compiled, threads)
                begin, most = i, 0
            most += count
        if begin < len(phrases):
            yield self._made_together(phrases[begin:], compiled, threads)

    def _made_together(
        self, phrases: Sequence[Phrase], compiled: Any, threads: int
    ) -> tuple[Sequence[Phrase], NDArray[np.uint32], NDArray[np.int64]]:
        starts = np.array(list(itertools.accumulate(map(len, phrases), initial=0)), np.int64)
        rows = self._rows([number for phrase in phrases for number in phrase])
        positions, lengths = run_phrases(compiled, self._store, rows, starts, threads)
        if lengths.min() < 0:
            raise DataError(DAMAGED)
        return phrases, positions, lengths

    def _rows(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """For the kernels: first block, end, positions in the last one, frequency, 0.

        Raises `DataError` where a damaged file leads astray.
        """
        if len(numbers) <= FEW:
            return np.array(list(map(self._row, numbers)), np.int64).reshape(-1, 5)
        lists = np.array(numbers, np.int64)
        rows = np.zeros((len(lists), 5), np.int64)
        rows[:, 0], rows[:, 1] = self._store.block_starts[lists], self._store.block_starts[lists + 1]
        rows[:, 3] = self._store.frequencies[lists]
        rows[:, 2] = rows[:, 3] - (rows[:, 1] - rows[:, 0] - 1) * BLOCK
        wrong = (rows[:, 0] >= rows[:, 1]) | (rows[:, 1] > len(self._store.firsts))
        if np.any(wrong | (rows[:, 2] < 1) | (rows[:, 2] > BLOCK)):
            raise DataError(DAMAGED)
        return rows

    def _row(self, number: int) -> tuple[int, int, int, int, int]:
        begin, end = self._store.block_starts[number : number + 2].tolist()
        frequency = int(self._store.frequencies[number])
        tail = frequency - (end - begin - 1) * BLOCK
        if begin >= end or end > len(self._store.firsts) or not 1 <= tail <= BLOCK:
            raise DataError(DAMAGED)
        return begin, end, tail, frequency, 0

    def separators(self) -> NDArray[np.int64]:
        """The row of the separators; all zeros where the corpus is empty."""
        number = len(self._store.keys)
        return self._rows([number])[0] if self._store.frequencies[number] else np.zeros(5, np.int64)

    def clause(self, terms: Sequence[str]) -> Clause:
        """The occurrences of an OR of words."""
        return self._made_list(tuple(sorted(filter(None, map(self._term, terms)))))

    def _word(self, number: int) -> Clause:
        self._rows([number])
        postings = self._store.postings(number)
        return Clause(postings.frequency, postings)

    def _term(self, word: str) -> tuple[int, ...]:
        """The lists of a term's tokens in order; empty when one of them is unknown."""
        numbers = tuple(self._store.find(token) for token in tokenize(word, self._case))
        return () if UNKNOWN in numbers else numbers

    def _made_list(self, terms: tuple[tuple[int, ...], ...]) -> Clause:
        if not terms:
            return _NEVER
        if len(terms) == 1 == len(terms[0]):
            return self._word(terms[0][0])
        with self._lock:
            made = self._made.get(terms)
            if made is not None:
                self._made.move_to_end(terms)
                return made
        made = self._make(terms)
        with self._lock:
            self._keep(terms, made)
        return made

    def _keep(self, terms: tuple[tuple[int, ...], ...], made: Clause) -> None:
        if terms in self._made:
            return
        self._made[terms] = made
        self._made_bytes += _size(made.places)
        while self._made_bytes > self._memory // 2 and len(self._made) > 1:
            _, dropped = self._made.popitem(last=False)
            self._made_bytes -= _size(dropped.places)

    def _make(self, terms: tuple[tuple[int, ...], ...]) -> Clause:
        most = sum(min(self._store.postings(number).frequency for number in term) for term in terms)
        self._check_memory(most, len(terms))
        found = np.concatenate([part for term in terms for part in self._occurrences(term)])
        distinct = np.unique(found) if self._unique else np.sort(found)
        return Clause(len(found), as_list(distinct.astype(np.uint32)))

    def _check_memory(self, most: int, terms: int) -> None:
        if most * _MADE_BYTES > self._memory:
            raise ConfigError(
                f"a clause of {terms} terms may occur {most:,} times, and working it out takes up to"
                f" {most * _MADE_BYTES >> 20} MB: open the index with a larger memory_mb"
            )

    def _occurrences(self, term: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
        """Positions of the first token wherever all of them stand side by side."""
        lists = [self._store.postings(number) for number in term]
        rarest = min(range(len(lists)), key=lambda i: lists[i].frequency)
        yield np.empty(0, np.int64)
        for points in chunks(lists[rarest], self._chunk):
            starts = points - rarest
            for i, postings in enumerate(lists):
                if i != rarest and len(starts):
                    starts = starts[contains(postings, starts + i)]
            yield starts


def as_list(positions: NDArray[np.uint32]) -> PostingList:
    """Sorted positions as a list of its own."""
    frequencies = np.array([len(positions)], np.int64)
    if not len(positions):
        return _NONE
    blocks = encode(positions, frequencies)
    assert len(blocks.firsts) == int(block_counts(frequencies)[0])
    offsets = running(blocks.sizes.astype(np.int64)).astype(np.uint32)
    return PostingList(len(positions), blocks.firsts, offsets, np.append(blocks.data, np.uint32(0)))


def _size(postings: PostingList) -> int:
    """Bytes that keeping a list takes."""
    return 800 + postings.firsts.nbytes + postings.offsets.nbytes + postings.data.nbytes
