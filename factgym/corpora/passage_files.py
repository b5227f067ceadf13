"""Corpora of passages out of users' files: any known layout, packed or not, and folders, in memory or left in the file.

    corpus = read_passages("wiki-18.jsonl.gz")          # FlashRAG, Search-R1
    corpus = read_passages("2wikimultihopqa_corpus.json")
    corpus = read_passages("hotpot_dev_distractor_v1.json")   # the questions' contexts
    corpus = read_passages("policies/")                 # Markdown and text

Files are read as streams: besides the passages themselves nothing grows with the file. The passages of a large file stay
in it: `StoredCorpus` reads the file once to find where every line begins, and a passage when it is requested. That costs
24 bytes a passage, where a passage in memory costs a thousand.
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

from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import shared
from factgym.corpora.byte_ranges import detect_compression
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError
from factgym.corpora.documents import read_folder
from factgym.corpora.passage_layouts import AUTO, FOLDER, PassageLayout, TitleIds, check_layout, choose_layout
from factgym.corpora.rows import MAX_ROW_CHARS, PACKED, SUFFIXES, parse_line, read_rows, suffix_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

IN_FILE = ("flashrag", "title-text")
"""Layouts in which a line is one passage."""

ON_DISK_FROM = 1_000_000_000
"""Bytes from which on the passages of a plain file of JSON lines stay in it."""


def read_passages(path: str | Path, *, layout: str = AUTO, on_disk: bool | None = None) -> Corpus:
    """Return the passages of a file or folder as a corpus; read once a process.

    layout: a name of `LAYOUTS`, "folder" (Markdown, text and JSON lines, cut into passages), or "auto" to detect it.
    on_disk: leave the passages in their file and read them on request (`StoredCorpus`), by default those of unpacked JSON
    lines of a gigabyte and more. Raises ConfigError for a path that does not exist or an unknown layout, DataError with
    file and line for content that cannot be used.
    """
    path = _existing_path(path)
    stays = _is_large(path, layout) if on_disk is None else on_disk
    key = ("passages", str(path.absolute()), layout, stays)
    if stays and (not path.is_file() or layout not in (AUTO, *IN_FILE)):
        raise ConfigError(f"on_disk needs one file of JSON lines in a layout of {', '.join(IN_FILE)}, not {path}")
    if stays:
        return shared(key, lambda: StoredCorpus(path, layout))
    return shared(key, lambda: Corpus(iter_passages(path, layout=layout)))


def _is_large(path: Path, layout: str) -> bool:
    """Whether a file is one that can stay on the disk, and too large for the memory."""
    if not path.is_file() or path.suffix not in (".jsonl", ".ndjson") or path.stat().st_size < ON_DISK_FROM:
        return False
    first = next(read_rows(path), None)
    return first is not None and choose_layout(layout, first).name in IN_FILE


def iter_passages(path: str | Path, *, layout: str = AUTO) -> Iterator[Passage]:
    """Yield the passages of `read_passages` one after another."""
    path = _existing_path(path)
    if layout not in (AUTO, FOLDER):
        check_layout(layout)
    files = [] if layout == FOLDER else _row_files(path)
    if not files:
        return (passage for document in read_folder(path) for passage in document.passages)
    return _passages_of(files, layout)


def _existing_path(path: str | Path) -> Path:
    """Return the path. Raises ConfigError where it does not exist."""
    path = Path(path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist: give a file or folder of passages")
    return path


def _row_files(path: Path) -> list[Path]:
    """Return the files of rows; none where the path is a folder of texts, or a text."""
    if path.is_file():
        return [path] if suffix_of(path) in SUFFIXES else []
    visible = (file for file in path.rglob("*") if not any(part[0] == "." for part in file.relative_to(path).parts))
    files = sorted(file for file in visible if file.is_file())
    if any(file.suffix.lower() in (".md", ".markdown", ".txt") for file in files):
        return []
    return [file for file in files if suffix_of(file) in SUFFIXES]


def _passages_of(files: list[Path], layout_name: str) -> Iterator[Passage]:
    """Yield the passages of files with ids that are unique among them. Raises DataError where there is none."""
    titles = TitleIds()
    lines: dict[str, str] = {}
    is_empty = True
    for file in files:
        layout: PassageLayout | None = None
        for row in read_rows(file):
            layout = layout or choose_layout(layout_name, row)
            for draft in layout.drafts(row):
                is_empty = False
                title = draft.title or f"passage {row.number}"
                id_ = draft.id or (titles.id_of(title, draft.text) if draft.is_shared else titles.new_id(title))
                if id_ not in lines:
                    lines[id_] = f"line {row.number}"
                    yield Passage(id_, draft.title, draft.text)
                elif not draft.is_shared:
                    raise DataError(f"{row.location}: the id {id_[:80]!r} is at {lines[id_]} too. Make ids unique.")
    if is_empty:
        raise DataError(f"{files[0]}: holds no passage. Give rows with texts ({', '.join((*SUFFIXES, *PACKED))}).")


class StoredCorpus(Corpus):
    """The passages of one file of JSON lines; equivalent to a corpus of that file in memory.

    The file must be uncompressed, with ids of its own, and must not change while it is in use. Safe under threads;
    pickles as its path. Raises DataError with file and line for content that cannot be used, later for a file that was
    changed meanwhile.
    """

    def __init__(self, path: str | Path, layout: str = AUTO) -> None:
        self.path, self._layout_name = Path(path), layout
        self._fingerprint = ""
        self._layout: PassageLayout | None = None
        try:
            self._file = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror}).") from None
        weakref.finalize(self, os.close, self._file)
        if packed := detect_compression(self.path):
            raise DataError(f"{self.path}: packed with {packed}, so its passages cannot stay in it. Unpack the file.")
        starts, hashes = array("Q"), array("Q")
        for number, start, raw in _numbered_lines(self.path):
            passage = self._parse(raw, f"{self.path} line {number}")
            starts.append(start)
            hashes.append(_hash(passage.id))
        if not starts:
            raise DataError(f"{self.path}: holds no passage. Give rows with texts.")
        starts.append(self.path.stat().st_size)
        # Ids are found by binary search in their sorted 64-bit hashes; `_order` leads back to the lines.
        self._starts: NDArray[np.uint64] = np.frombuffer(starts, dtype=np.uint64)
        unordered: NDArray[np.uint64] = np.frombuffer(hashes, dtype=np.uint64)
        self._order: NDArray[np.int64] = np.argsort(unordered, kind="stable")
        self._hashes = unordered[self._order]
        for position in np.flatnonzero(self._hashes[1:] == self._hashes[:-1]):
            ids = [self.at(int(self._order[position + step])).id for step in (0, 1)]
            if ids[0] == ids[1]:
                raise DataError(f"{self.path}: two passages share the id {ids[0][:80]!r}: ids are unique in a corpus")

    def at(self, index: int) -> Passage:
        """Return the passage at an index, from 0."""
        start, end = int(self._starts[index]), int(self._starts[index + 1])
        return self._parse(os.pread(self._file, end - start, start), f"{self.path} passage {index + 1}")

    def _parse(self, raw: bytes, location: str) -> Passage:
        row = parse_line(raw, location)
        if self._layout is None:
            self._layout = choose_layout(self._layout_name, row, IN_FILE)
        draft = next(self._layout.drafts(row))
        if not draft.id:
            raise DataError(
                f"{location}: a passage without an id cannot stay in its file. Give ids, or on_disk=False."
            )
        return Passage(draft.id, draft.title, draft.text)

    @property
    def passages(self) -> Sequence[Passage]:
        """The passages in order, read on request."""
        return _StoredPassages(self)

    @property
    def ids(self) -> tuple[str, ...]:
        """Their ids in order; all of them are read and held."""
        return tuple(passage.id for passage in self)

    def get(self, passage_id: str) -> Passage:
        """Return the passage with this id. Raises `UnknownPassageError`."""
        passage = self._find(passage_id)
        if passage is None:
            raise UnknownPassageError(f"no passage {str(passage_id)[:80]!r} in this corpus of {len(self):,}.")
        return passage

    def _find(self, id_: object) -> Passage | None:
        if not isinstance(id_, str):
            return None
        target = _hash(id_)
        position = int(np.searchsorted(self._hashes, np.uint64(target)))
        while position < len(self._hashes) and int(self._hashes[position]) == target:
            passage = self.at(int(self._order[position]))
            if passage.id == id_:
                return passage
            position += 1
        return None

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Passage]:
        return (self._parse(raw, f"{self.path} line {number}") for number, _, raw in _numbered_lines(self.path))

    def __contains__(self, passage_id: object) -> bool:
        return self._find(passage_id) is not None

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredCorpus, (str(self.path), self._layout_name)

    def __repr__(self) -> str:
        return f"StoredCorpus({len(self)} passages in {self.path})"


class _StoredPassages(Sequence[Passage]):
    """The passages of a stored corpus by index."""

    def __init__(self, corpus: StoredCorpus) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Passage, ...]: ...
    def __getitem__(self, index: int | slice) -> Passage | tuple[Passage, ...]:
        indices = range(len(self))[index]
        return self._corpus.at(indices) if isinstance(indices, int) else tuple(map(self._corpus.at, indices))

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._corpus)


def _hash(id_: str) -> int:
    digest = hashlib.blake2b(id_.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _numbered_lines(file: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset of the first byte, and content of the lines that are not blank."""
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
