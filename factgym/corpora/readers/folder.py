"""A folder of Markdown, text or JSONL files as documents: the way in for people's own policies and contracts.

What cannot be read is never dropped in silence: `scan_folder` reports it in `skipped`, and a broken JSONL line is an
error that names the line, since a person means every record of such a file. Files are read in the sorted order of
their paths, so the same folder gives the same documents on every machine. Links that leave the folder are not
followed, and hidden files and folders are passed over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.readers.document import Block, Document, Ids, make_document, slug
from factgym.corpora.readers.jsonl import read_jsonl
from factgym.corpora.readers.markdown import read_markdown
from factgym.corpora.readers.plain import read_plain, title_case

DEFAULT_GLOB = ("**/*.md", "**/*.txt", "**/*.jsonl")
MAX_PASSAGE_CHARS = 900
MAX_FILE_BYTES = 8_000_000
MAX_TITLE_CHARS = 120
_MIN_PASSAGE_CHARS = 100
_MARKDOWN = (".md", ".markdown")
_EXPECTED = "*.md, *.txt or *.jsonl files with text in UTF-8"
_PIECE = re.compile(r"[_\s]+|-")
_CODE = re.compile(r"\d+[^a-zA-Z]?.*|EX|SB|SC|A|S|K|K\d+|KA|Q", re.I)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, by its path inside the folder, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder held."""

    documents: tuple[Document, ...]
    skipped: tuple[Skipped, ...]


def read_folder(
    path: str | Path,
    *,
    glob: str | Sequence[str] = DEFAULT_GLOB,
    max_passage_chars: int = MAX_PASSAGE_CHARS,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> list[Document]:
    """The documents of a folder (or of one file), in the sorted order of their paths.

    glob: patterns over the path inside the folder; `*` stays within one folder, `**/` crosses folders.
    max_passage_chars: at least 100. max_file_bytes: larger files are skipped.
    Raises DataError for a missing or empty folder and for a broken JSONL line, ConfigError for a bad limit.
    """
    limits = {"max_passage_chars": max_passage_chars, "max_file_bytes": max_file_bytes}
    return list(scan_folder(path, glob=glob, **limits).documents)


def scan_folder(
    path: str | Path,
    *,
    glob: str | Sequence[str] = DEFAULT_GLOB,
    max_passage_chars: int = MAX_PASSAGE_CHARS,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Folder:
    """As `read_folder`, with the files that could not be read."""
    if max_passage_chars < _MIN_PASSAGE_CHARS or max_file_bytes < 1:
        raise ConfigError(f"max_passage_chars must be at least {_MIN_PASSAGE_CHARS} and max_file_bytes at least 1")
    root, names = _files(Path(path), (glob,) if isinstance(glob, str) else tuple(glob))
    drafts: list[_Draft] = []
    skipped: list[Skipped] = []
    for name in names:
        text = _text(root, name, max_file_bytes)
        if isinstance(text, Skipped):
            skipped.append(text)
            continue
        found = [draft for draft in _drafts(name, text) if draft.blocks]
        drafts += found
        if not found:
            skipped.append(Skipped(name, "it holds no text"))
    if not drafts:
        raise DataError(_nothing(path, glob, skipped))
    return Folder(tuple(_finish(drafts, max_passage_chars)), tuple(skipped))


def _nothing(path: str | Path, glob: str | Sequence[str], skipped: Sequence[Skipped]) -> str:
    wanted = _EXPECTED if glob == DEFAULT_GLOB else f"files matching {glob!r} with text in UTF-8"
    why = "; ".join(f"{one.path}: {one.reason}" for one in skipped[:3])
    more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return f"{path}: no document found; expected {wanted}" + (f" (skipped {why}{more})" if skipped else "") + "."


def _files(path: Path, patterns: Sequence[str]) -> tuple[Path, list[str]]:
    """The folder, and the paths inside it (POSIX form, sorted) that match a pattern."""
    if path.is_file():
        return path.parent, [path.name]
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected a folder of {_EXPECTED}.")
    wanted = [_pattern(pattern) for pattern in patterns]
    return path, sorted(name for name in _walk(path) if any(one.fullmatch(name) for one in wanted))


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(folder).relative_to(root)
        yield from ((inside / name).as_posix() for name in files if not name.startswith("."))


def _pattern(glob: str) -> re.Pattern[str]:
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _text(root: Path, name: str, max_bytes: int) -> str | Skipped:
    """The text of one file, or why it is passed over."""
    path = root / name
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            return Skipped(name, "a link that leaves the folder")
        if not path.is_file():
            return Skipped(name, "not a regular file")
        size = path.stat().st_size
        if size > max_bytes:
            return Skipped(name, f"{size:,} bytes, over the limit of {max_bytes:,} (max_file_bytes)")
        raw = path.read_bytes()[:max_bytes]
    except OSError as error:
        return Skipped(name, f"cannot be read ({error.strerror or type(error).__name__})")
    if b"\0" in raw:
        return Skipped(name, "a binary file")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        return Skipped(name, f"not UTF-8 at byte {error.start}: convert it to UTF-8")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A document before its id and title are settled; `where` tells it from another one of the same title."""

    wish: str
    title: str
    where: str
    blocks: tuple[Block, ...]


def _drafts(name: str, text: str) -> Iterator[_Draft]:
    suffix = PurePosixPath(name).suffix.lower()
    where = " ".join(_words(name))
    if suffix == ".jsonl":
        for record in read_jsonl(text, name):
            yield _Draft(record.id, record.title or record.id, record.id, tuple(read_plain(record.text)[1]))
        return
    title, blocks = read_markdown(text) if suffix in _MARKDOWN else _plain(text, name)
    title = title[:MAX_TITLE_CHARS] or title_from_name(name)
    yield _Draft(title, title, where, tuple(blocks))


def _finish(drafts: Sequence[_Draft], limit: int) -> Iterator[Document]:
    """Settles ids and titles: both are unique, since a question names a document by its title."""
    same: dict[str, list[list[str]]] = {}
    for draft in drafts:
        same.setdefault(draft.title.casefold(), []).append(draft.where.split())
    ids, titles = Ids(), Ids()
    for draft in drafts:
        title = titles.take(_told_apart(draft, same[draft.title.casefold()]))
        yield make_document(ids.take(slug(draft.wish)), title, draft.blocks, limit)


def _told_apart(draft: _Draft, namesakes: list[list[str]]) -> str:
    """The title, with those words of the file name that the others of the same title lack."""
    if len(namesakes) == 1:
        return draft.title
    common = set(namesakes[0]).intersection(*namesakes[1:])
    own = [
        word for word in draft.where.split() if word not in common and word.casefold() not in draft.title.casefold()
    ]
    return f"{draft.title} ({' '.join(own[:6])})" if own else draft.title


def _plain(text: str, name: str) -> tuple[str, list[Block]]:
    title, blocks = read_plain(text)
    stem = title_from_name(name)
    return (stem if len(stem.split()) > 2 else title or stem), blocks


def _words(name: str) -> list[str]:
    """The words of a file name; in one with numbers, exhibit codes and dates are left out."""
    stem = PurePosixPath(name).stem
    codes = any(char.isdigit() for char in stem)
    words = [word for word in _PIECE.split(stem) if word and word.casefold() != "index"]
    return [word for word in words if not (codes and _CODE.fullmatch(word))]


def title_from_name(name: str) -> str:
    """A title from a file name: `refund-policy.md` gives "Refund policy"; exhibit numbers and dates are left out."""
    text = " ".join(_words(name)).strip(" .,") or PurePosixPath(name).stem
    text = title_case(text)
    return (text[:1].upper() + text[1:])[:MAX_TITLE_CHARS]
