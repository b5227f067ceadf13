"""A corpus whose passages stay in their file: for the millions of passages that FlashRAG and Search-R1 search.

Reading the file once finds where every line begins; a passage is read and parsed when it is asked for. That costs 24
bytes a passage, where a passage in memory costs a thousand. The file must be uncompressed JSON lines with ids of their
own, and must not change while it is in use.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from factgym.core.errors import DataError
from factgym.corpora.cooccurrence.byte_ranges import detect_compression
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError
from factgym.corpora.passages.layouts import AUTO, Layout, chosen_layout, drafts_of
from factgym.corpora.passages.rows import MAX_ROW_CHARS, line_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

IN_FILE = ("flashrag", "title-text")
"""Layouts in which a line is one passage."""


class StoredCorpus(Corpus):
    """The passages of one file of JSON lines; to its users the same as that file read into memory.

    Safe under threads; pickles as its path. Raises DataError with file and line for content that cannot be used, later
    for a file that was changed meanwhile.
    """

    def __init__(self, path: str | Path, layout: str = AUTO) -> None:
        self.path, self._wanted = Path(path), layout
        self._fingerprint = ""
        self._layout: Layout | None = None
        try:
            self._file = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror}).") from None
        weakref.finalize(self, os.close, self._file)
        if packed := detect_compression(self.path):
            raise DataError(f"{self.path}: packed with {packed}, so its passages cannot stay in it. Unpack the file.")
        starts, hashes = array("Q"), array("Q")
        for number, start, raw in _lines(self.path):
            passage = self._parse(raw, f"{self.path} line {number}")
            starts.append(start)
            hashes.append(_hash(passage.id))
        if not starts:
            raise DataError(f"{self.path}: holds no passage. Give rows with texts.")
        starts.append(self.path.stat().st_size)
        self._starts: NDArray[np.uint64] = np.frombuffer(starts, dtype=np.uint64)
        unordered: NDArray[np.uint64] = np.frombuffer(hashes, dtype=np.uint64)
        self._order: NDArray[np.int64] = np.argsort(unordered, kind="stable")
        self._hashes = unordered[self._order]
        self._refuse_repeats()

    def _refuse_repeats(self) -> None:
        """Raise DataError where two passages have one id; equal hashes of different ids are no harm."""
        for at in np.flatnonzero(self._hashes[1:] == self._hashes[:-1]):
            one, other = (self.at(int(self._order[at + step])).id for step in (0, 1))
            if one == other:
                raise DataError(f"{self.path}: two passages share the id {one[:80]!r}: ids are unique in a corpus")

    def at(self, place: int) -> Passage:
        """The passage at a place, from 0."""
        start, end = int(self._starts[place]), int(self._starts[place + 1])
        return self._parse(os.pread(self._file, end - start, start), f"{self.path} passage {place + 1}")

    def _parse(self, raw: bytes, place: str) -> Passage:
        row = line_row(raw, place)
        if self._layout is None:
            self._layout = chosen_layout(self._wanted, row, IN_FILE)
        draft = next(drafts_of(self._layout, row))
        if not draft.id:
            raise DataError(
                f"{row.place}: a passage without an id cannot stay in its file. Give ids, or on_disk=False."
            )
        return Passage(draft.id, draft.title, draft.text)

    @property
    def passages(self) -> Sequence[Passage]:
        """The passages in order, read as they are asked for."""
        return _InFile(self)

    @property
    def ids(self) -> tuple[str, ...]:
        """Their ids in order; all of them are read and held."""
        return tuple(passage.id for passage in self)

    def get(self, passage_id: str) -> Passage:
        """The passage of this id; raises `UnknownPassageError`."""
        found = self._find(passage_id)
        if found is None:
            raise UnknownPassageError(f"no passage {str(passage_id)[:80]!r} in this corpus of {len(self):,}.")
        return found

    def _find(self, id_: object) -> Passage | None:
        if not isinstance(id_, str):
            return None
        wanted = _hash(id_)
        at = int(np.searchsorted(self._hashes, np.uint64(wanted)))
        while at < len(self._hashes) and int(self._hashes[at]) == wanted:
            passage = self.at(int(self._order[at]))
            if passage.id == id_:
                return passage
            at += 1
        return None

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Passage]:
        return (self._parse(raw, f"{self.path} line {number}") for number, _, raw in _lines(self.path))

    def __contains__(self, passage_id: object) -> bool:
        return self._find(passage_id) is not None

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredCorpus, (str(self.path), self._wanted)

    def __repr__(self) -> str:
        return f"StoredCorpus({len(self)} passages in {self.path})"


class _InFile(Sequence[Passage]):
    """The passages of a stored corpus by their places."""

    def __init__(self, corpus: StoredCorpus) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Passage, ...]: ...
    def __getitem__(self, index: int | slice) -> Passage | tuple[Passage, ...]:
        if isinstance(index, slice):
            return tuple(self._corpus.at(place) for place in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"passage {index} of {len(self)}")
        return self._corpus.at(place)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._corpus)


def _hash(id_: str) -> int:
    digest = hashlib.blake2b(id_.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _lines(file: Path) -> Iterator[tuple[int, int, bytes]]:
    """Number, first byte and content of the lines with something in them."""
    try:
        with file.open("rb") as stream:
            number = start = 0
            while raw := stream.readline(MAX_ROW_CHARS + 1):
                number += 1
                if len(raw) > MAX_ROW_CHARS:
                    raise DataError(f"{file} line {number}: longer than {MAX_ROW_CHARS:,} bytes. Split or shorten it.")
                if raw.strip():
                    yield number, start, raw
                start += len(raw)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None
