"""Corpora on disk: passages in a folder, memory-mapped, opened in milliseconds at any size.

    passages.txt      id, title, document and text of each passage, one after the other, in UTF-8
    fields.npy        4 n + 1 offsets: the start of each field, and the end of the last
    id_keys.npy       n hashes of ids, ascending
    id_order.npy      n: the passage of each hash
    spans.npy         2 n character offsets of passages in their documents, -1 where unknown; may be missing
    bm25/             the index, see `factgym.corpora.store_bm25`

`factgym.corpora.store_writer` writes them, `factgym.corpora.mapped_files` describes manifest and checksums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

from factgym.core.errors import DataError
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.mapped_files import MappedFolder, equal_range, hash_key, is_mapped_folder

KIND = "factgym-corpus"
VERSION = 1
TEXT = "passages.txt"
FIELDS = 4
ENCODING_ERRORS = "surrogatepass"
"""Any string of Python survives."""

_REBUILD = "Build it again with `factgym corpus build SOURCE FOLDER`, or copy it again if it is a copy."
_BLOCK = 1024
"""Passages that iteration reads at a time."""

T = TypeVar("T")


class SourceSpan(NamedTuple):
    """The origin of a passage: its document, "" where it has none, and character offsets in it, None where unknown."""

    document: str
    start: int | None
    end: int | None


def is_stored_corpus(path: str | Path) -> bool:
    """Whether the path is a folder that `factgym corpus build` wrote, whatever its state."""
    return is_mapped_folder(Path(path))


class StoredCorpus(Corpus):
    """The passages of a folder; holds none of them in memory.

    Equivalent to a corpus in memory, with the same fingerprint. Safe under threads and processes, which share the mapped
    pages; pickles as its path. Raises `DataError` for a folder that is incomplete, foreign or damaged, which names the
    command that builds it again: at opening, or when a damaged page is first needed.
    """

    def __init__(self, path: str | Path, fingerprint: str = "") -> None:
        self.path = Path(path)
        self.folder = MappedFolder(self.path, KIND, VERSION, _REBUILD)
        self._count = int(self.folder.meta["passages"])
        self._fingerprint = str(self.folder.meta["fingerprint"])
        if fingerprint not in ("", self._fingerprint):
            raise DataError(f"{path} holds other passages than it did before. Put the previous corpus back.")
        self._text, self._fields = self.folder[TEXT], self.folder["fields.npy"]
        self._id_keys, self._id_order = self.folder["id_keys.npy"], self.folder["id_order.npy"]
        self._passages = _Lazy(self._count, self.read)

    @property
    def ids(self) -> Sequence[str]:
        """The ids in order, read from disk as they are requested."""
        return _Lazy(self._count, self.id_at)

    @property
    def meta(self) -> dict[str, Any]:
        """Counts, source, tokenisation and parameters of the index, as the manifest has them."""
        return dict(self.folder.meta)

    def id_at(self, index: int) -> str:
        """Return the id of the passage at an index."""
        start, end = self._fields[FIELDS * index : FIELDS * index + 2].tolist()
        return self._text[start:end].tobytes().decode("utf-8", ENCODING_ERRORS)

    def read(self, index: int) -> Passage:
        """Return the passage at an index."""
        id_, title, _, text = self._read_fields(index)
        return Passage(id_, title, text)

    def source_of(self, passage_id: str) -> SourceSpan:
        """Return where a passage comes from. Raises `UnknownPassageError`."""
        self.get(passage_id)
        index = self.position(passage_id)
        document = self._read_fields(index)[2]
        ((start, end),) = self._spans(index, index + 1)
        return SourceSpan(document, *((start, end) if start >= 0 else (None, None)))

    def with_sources(self) -> Iterator[tuple[Passage, str, int, int]]:
        """Yield each passage with its document ("" for none) and its offsets there, -1 where unknown."""
        for first, fields in self._blocks():
            spans = self._spans(first, first + len(fields) // FIELDS)
            for i, (start, end) in zip(range(0, len(fields), FIELDS), spans, strict=True):
                yield Passage(fields[i], fields[i + 1], fields[i + 3]), fields[i + 2], start, end

    def _spans(self, first: int, last: int) -> list[list[int]]:
        if "spans.npy" not in self.folder:
            return [[-1, -1]] * (last - first)
        spans: list[list[int]] = self.folder["spans.npy"][2 * first : 2 * last].reshape(-1, 2).tolist()
        return spans

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Passage]:
        for _, fields in self._blocks():
            for i in range(0, len(fields), FIELDS):
                yield Passage(fields[i], fields[i + 1], fields[i + 3])

    def _blocks(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the fields of passages, with the position of the first of them."""
        for first in range(0, self._count, _BLOCK):
            last = min(first + _BLOCK, self._count)
            offsets = self._fields[FIELDS * first : FIELDS * last + 1].tolist()
            yield first, split_fields(self._text[offsets[0] : offsets[-1]].tobytes(), offsets)

    def __contains__(self, passage_id: object) -> bool:
        return isinstance(passage_id, str) and self.position(passage_id) >= 0

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredCorpus, (str(self.path), self._fingerprint)

    def find(self, passage_id: object) -> Passage | None:
        """Return the passage with this id, None where there is none."""
        index = self.position(passage_id) if isinstance(passage_id, str) else -1
        return self.read(index) if index >= 0 else None

    def position(self, passage_id: str) -> int:
        """Return the index of a passage, -1 for an unknown id."""
        positions = equal_range(self._id_keys, hash_key(passage_id.encode("utf-8", ENCODING_ERRORS)))
        for index in self._id_order[positions.start : positions.stop].tolist():
            if self.id_at(index) == passage_id:
                return int(index)
        return -1

    def _read_fields(self, index: int) -> list[str]:
        offsets = self._fields[FIELDS * index : FIELDS * (index + 1) + 1].tolist()
        return split_fields(self._text[offsets[0] : offsets[-1]].tobytes(), offsets)


def split_fields(raw: bytes, offsets: Sequence[int]) -> list[str]:
    """Return the texts between offsets, of which the first is that of `raw`."""
    base = offsets[0]
    return [raw[start - base : end - base].decode("utf-8", ENCODING_ERRORS) for start, end in pairwise(offsets)]


class _Lazy(Sequence[T]):
    """A sequence whose items are read on request."""

    def __init__(self, count: int, read: Any) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        indices = range(self._count)[index]
        if isinstance(indices, int):
            return self._read(indices)  # type: ignore[no-any-return]  # the reader of this sequence's items
        return tuple(self._read(position) for position in indices)
