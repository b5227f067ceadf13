"""Corpora out of files: any understood layout, packed or not, and folders.

    corpus = read_passages("wiki-18.jsonl.gz")          # FlashRAG, Search-R1
    corpus = read_passages("2wikimultihopqa_corpus.json")
    corpus = read_passages("hotpot_dev_distractor_v1.json")   # the questions' contexts
    corpus = read_passages("policies/")                 # Markdown and text

Files are read as streams: besides the passages themselves nothing grows with the file, and those of a large file stay in
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.passages.layouts import AUTO, FOLDER, Draft, Layout, chosen_layout, drafts_of, layout_named
from factgym.corpora.passages.paragraphs import Titles
from factgym.corpora.passages.rows import PACKED, SUFFIXES, Row, rows_of, suffix_of
from factgym.corpora.passages.stored import IN_FILE, StoredCorpus
from factgym.corpora.readers.folder import read_folder

ON_DISK_FROM = 1_000_000_000
"""Bytes from which on the passages of a plain file of JSON lines stay in it."""


def read_passages(path: str | Path, *, layout: str = AUTO, on_disk: bool | None = None) -> Corpus:
    """The passages of a file or folder as a corpus; read once a process.

    layout: a name of `LAYOUTS`, "folder" (Markdown, text and JSON lines, cut into passages), or "auto" to find out.
    on_disk: leave the passages in their file and read them as they are asked for (`StoredCorpus`), by default those of
    unpacked JSON lines of a gigabyte and more. Raises ConfigError for a path that does not exist or an unknown layout,
    DataError with file and line for content that cannot be used.
    """
    place = _existing(path)
    stays = _is_large(place, layout) if on_disk is None else on_disk
    key = ("passages", str(place.absolute()), layout, stays)
    if stays and (not place.is_file() or layout not in (AUTO, *IN_FILE)):
        raise ConfigError(f"on_disk needs one file of JSON lines in a layout of {', '.join(IN_FILE)}, not {place}")
    if stays:
        return shared(key, lambda: StoredCorpus(place, layout))
    return shared(key, lambda: Corpus(iter_passages(place, layout=layout)))


def _existing(path: str | Path) -> Path:
    place = Path(path)
    if not place.exists():
        raise ConfigError(f"{place} does not exist: give a file or folder of passages")
    return place


def _is_large(place: Path, layout: str) -> bool:
    """Whether a file is one that can stay on the disk, and too large for the memory."""
    if not place.is_file() or place.suffix not in (".jsonl", ".ndjson") or place.stat().st_size < ON_DISK_FROM:
        return False
    first = next(rows_of(place), None)
    return first is not None and chosen_layout(layout, first).name in IN_FILE


def iter_passages(path: str | Path, *, layout: str = AUTO) -> Iterator[Passage]:
    """The passages of `read_passages`, one after another."""
    place = _existing(path)
    if layout not in (AUTO, FOLDER):
        layout_named(layout)
    files = _files(place) if layout != FOLDER else []
    if not files:
        return (passage for document in read_folder(place) for passage in document.passages)
    return _Reader(layout).passages(files)


def _files(place: Path) -> list[Path]:
    """The files of rows; none where it is a folder of texts, or a text."""
    if place.is_file():
        return [place] if suffix_of(place) in SUFFIXES else []
    found = sorted(one for one in place.rglob("*") if one.is_file() and not _hidden(one.relative_to(place)))
    if any(one.suffix.lower() in (".md", ".markdown", ".txt") for one in found):
        return []
    return [one for one in found if suffix_of(one) in SUFFIXES]


def _hidden(inside: Path) -> bool:
    return any(part.startswith(".") for part in inside.parts)


class _Reader:
    """Reads files one after another into passages with ids that are unique among them."""

    def __init__(self, layout: str) -> None:
        self._wanted = layout
        self._titles = Titles()
        self._where: dict[str, str] = {}

    def passages(self, files: list[Path]) -> Iterator[Passage]:
        """All passages. Raises DataError where there is none."""
        empty = True
        for file in files:
            layout: Layout | None = None
            for row in rows_of(file):
                layout = layout or chosen_layout(self._wanted, row)
                for draft in drafts_of(layout, row):
                    empty = False
                    if id_ := self._id(draft, row):
                        yield Passage(id_, draft.title, draft.text)
        if empty:
            raise DataError(f"{files[0]}: holds no passage. Give rows with texts ({', '.join((*SUFFIXES, *PACKED))}).")

    def _id(self, draft: Draft, row: Row) -> str:
        """The passage's id; "" for one that was read before and that questions share."""
        title = draft.title or f"passage {row.number}"
        if not draft.id:
            id_ = self._titles.id_of(title, draft.text) if draft.shared else self._titles.new_id(title)
        else:
            id_ = draft.id
        known = self._where.get(id_)
        if known is not None and draft.shared:
            return ""
        if known is not None:
            raise DataError(f"{row.place}: the id {id_[:80]!r} stands at {known} too. Make ids unique.")
        self._where[id_] = f"line {row.number}"
        return id_
