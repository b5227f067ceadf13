"""Corpora as streams of documents: JSON lines, text, WikiExtractor's output and Wikipedia's XML dumps.

    source = open_source("wiki/")          # a file or a folder; formats follow from names and first bytes
    for id, text in source: ...

A source has a stable order (files by path, documents in file order), a fingerprint (so that an interrupted build can
check that the corpus is unchanged), and parts that other processes can read on their own: whole files, or byte ranges
of a large one. Memory is bounded by the largest document. Files compressed with gzip, bzip2 or xz are read as they are.
No broken record is dropped silently: it is a DataError that names file and line, or with `skip_bad` it is counted and
its message kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.corpora.cooccurrence.byte_ranges import ByteRange, detect_compression, read_bytes
from factgym.corpora.cooccurrence.records import READERS, SPLITTABLE, BadRecordError, ReadOptions, Unit

Form = Literal["jsonl", "text", "wikiextractor", "mediawiki"]

PART_BYTES = 64 << 20
"""Default maximum of a byte range, in bytes on the disk."""

_MIN_PART_BYTES = 4 << 20
_MIN_PARTS = 16
"""Small corpora are cut into so many ranges, to occupy every worker."""
_HASHED_BYTES = 1 << 16
_MAX_MESSAGES = 20

_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")
_SUFFIXES: dict[str, Form] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".xml": "mediawiki",
}
_EXTRACTED_NAME = re.compile(r"wiki_\d+")
_DUMP_NAME = re.compile(r"(.*)pages-(articles|meta-current)(-multistream)?(\d*)\.xml(-p\d+p\d+)?")
_EXPECTED = (
    "Give JSON lines (.jsonl), text (.txt), WikiExtractor's output (wiki_00 …) or a Wikipedia dump "
    "(…pages-articles….xml), plain or compressed (.gz, .bz2, .xz)."
)


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's share: the documents of `file` that begin in a range of its bytes."""

    number: int
    file: str
    form: Form
    range: ByteRange


@dataclass(slots=True)
class BadRecords:
    """Number of skipped records, with the first messages."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        """Count a record."""
        self.count += 1
        if len(self.messages) < _MAX_MESSAGES:
            self.messages.append(message)

    def merge(self, other: BadRecords) -> None:
        """Add the records that another process skipped."""
        self.count += other.count
        self.messages += other.messages[: _MAX_MESSAGES - len(self.messages)]


class Source:
    """Documents of a file or folder, as (id, text); can be pickled and iterated any number of times.

    path: a file or a folder. form: of the files, None to detect it. text_key: the field of JSON lines with the text;
    None takes "text" or else "contents". unit: document boundaries of plain text. skip_bad: skip broken records and
    count them in `bad`. part_bytes: size of the byte ranges of a large file.
    Raises ConfigError for a path without such files and for a wrong setting.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        form: Form | None = None,
        text_key: str | None = None,
        unit: Unit = "file",
        skip_bad: bool = False,
        part_bytes: int | None = None,
    ) -> None:
        for name, value, choices in (("form", form, get_args(Form)), ("unit", unit, get_args(Unit))):
            if value is not None and value not in choices:
                hint = did_you_mean(value, choices)
                raise ConfigError(f"unknown {name} {value!r}: use {', '.join(choices)}.{hint}")
        if part_bytes is not None and part_bytes < 1:
            raise ConfigError(f"part_bytes is {part_bytes}; it must be at least 1")
        self.path = Path(path)
        self.options = ReadOptions(text_key, unit)
        self.skip_bad, self.bad = skip_bad, BadRecords()
        self._root, files, self.ignored = _choose_files(self.path, form)
        if not files:
            raise ConfigError(f"{self.path}: no file that can be read. {_EXPECTED}")
        self._sizes: Mapping[str, int] = {file: (self._root / file).stat().st_size for file in files}
        step = part_bytes or min(PART_BYTES, max(_MIN_PART_BYTES, self.bytes // _MIN_PARTS))
        self.parts = tuple(self._split(form, step))

    def _split(self, form: Form | None, step: int) -> Iterator[Part]:
        number = 0
        for file, size in self._sizes.items():
            file_form = form or _form_by_name(file) or "text"
            compression = detect_compression(self._root / file)
            is_whole = compression not in SPLITTABLE[file_form]
            is_whole = is_whole or (file_form == "text" and self.options.unit != "line")
            file_step = max(size, 1) if is_whole else step
            for start in range(0, max(size, 1), file_step):
                byte_range = ByteRange(start, min(start + file_step, size), compression)
                yield Part(number, file, file_form, byte_range)
                number += 1

    @property
    def bytes(self) -> int:
        """Bytes of the files on the disk."""
        return sum(self._sizes.values())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for part in self.parts:
            yield from self.read(part)

    def read(self, part: Part, bad: BadRecords | None = None) -> Iterator[tuple[str, str]]:
        """Yield the documents of a part in order. bad: counts skipped records, `self.bad` by default.

        Raises DataError for a broken record (without `skip_bad`), and always for a file that cannot be read to its end.
        """
        bad = self.bad if bad is None else bad
        for record in READERS[part.form](self._root / part.file, part.file, part.range, self.options):
            if not isinstance(record, BadRecordError):
                yield record
            elif self.skip_bad:
                bad.add(str(record))
            else:
                raise DataError(f"{record}. Fix it, or leave such records out (skip_bad, --skip-bad).")

    def fingerprint(self) -> str:
        """Return SHA-256 in hex over names, sizes, first and last 64 KiB of the files, and how they are read."""
        settings = [
            self.options.text_key,
            self.options.unit,
            self.skip_bad,
            [[part.form, part.range.start] for part in self.parts],
        ]
        digest = hashlib.sha256(json.dumps(["factgym source", 1, settings]).encode())
        for file, size in self._sizes.items():
            path = self._root / file
            ends = read_bytes(path, 0, _HASHED_BYTES)
            ends += read_bytes(path, max(0, size - _HASHED_BYTES), _HASHED_BYTES)
            digest.update(f"{file}\0{size}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(ends).digest())
        return digest.hexdigest()


def open_source(path: str | Path, **options: object) -> Source:
    """Open a file or folder; options as for `Source`."""
    return Source(path, **options)  # type: ignore[arg-type]  # Source checks them


def _choose_files(path: Path, form: Form | None) -> tuple[Path, list[str], tuple[str, ...]]:
    """Return a folder, its files to read, and its ignored files.

    A named file is read whatever its name. A folder with a Wikipedia dump is that dump, one with WikiExtractor's files
    is those, else every file with a known suffix is read; with a form given, the files with its names, and all if there
    are none. Raises ConfigError for a missing path and for a folder with the same dump twice.
    """
    if path.is_file():
        return path.parent, [path.name], ()
    if not path.is_dir():
        raise ConfigError(f"{path}: no such file or folder")
    names = sorted(_walk(path))
    forms = {name: _form_by_name(name) for name in names}
    dumps = [name for name in names if _DUMP_NAME.fullmatch(_stem(name))]
    if form:
        chosen = [name for name in names if forms[name] == form] or names
        chosen = dumps if form == "mediawiki" and dumps else chosen
    else:
        extracted = [name for name in names if forms[name] == "wikiextractor"]
        chosen = dumps or extracted or [name for name in names if forms[name]]
    # A dump is distributed whole, as numbered pieces, and each of them as multistream too.
    matches = [match for name in chosen if (match := _DUMP_NAME.fullmatch(_stem(name)))]
    if len({(*match.group(1, 2, 3), bool(match[4])) for match in matches}) > 1:
        raise ConfigError(
            f"{path} holds a dump more than once ({', '.join(dumps[:4])}): name the file, or a folder with one of them"
        )
    return path, chosen, tuple(sorted(set(names).difference(chosen)))


def _walk(root: Path) -> Iterator[str]:
    """Yield the relative paths of files, without hidden files and folders; links to folders are not followed."""
    for folder, subfolders, files in os.walk(root, followlinks=False):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        relative = Path(folder).relative_to(root)
        for name in files:
            if not name.startswith(".") and (Path(folder) / name).is_file():
                yield (relative / name).as_posix()


def _stem(name: str) -> str:
    """Return the file's name without folder and compression suffix."""
    last = PurePosixPath(name).name
    return last.removesuffix(next((suffix for suffix in _COMPRESSED_SUFFIXES if last.endswith(suffix)), ""))


def _form_by_name(name: str) -> Form | None:
    stem = _stem(name)
    if _DUMP_NAME.fullmatch(stem):
        return "mediawiki"
    if _EXTRACTED_NAME.fullmatch(stem):
        return "wikiextractor"
    return _SUFFIXES.get(PurePosixPath(stem).suffix.lower())
