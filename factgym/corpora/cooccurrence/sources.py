"""Corpora as streams of documents: JSON lines, text, WikiExtractor's output and Wikipedia's XML dumps.

    source = open_source("wiki/")          # a file or a folder; what it holds is found out by name and first bytes
    for id, text in source: ...

A source has a stable order (files by path, documents as they stand), a fingerprint (so that an interrupted build can
see that it goes on with the same corpus), and parts that other processes can read on their own: whole files, or
stretches of a large one. Memory stays bounded by the largest document. What is compressed with gzip, bzip2 or xz is
read as it is. Nothing bad is dropped in silence: a broken record is a DataError that names file and line, or with
`skip_bad` it is counted and its message kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.corpora.cooccurrence.source_bytes import Stretch, compression_of, read_at
from factgym.corpora.cooccurrence.source_names import Form, choose_files, form_of
from factgym.corpora.cooccurrence.source_records import READERS, SPLITTABLE, BadRecordError, Options

Unit = Literal["file", "paragraph", "line"]

PART_BYTES = 64 << 20
"""How long a stretch of a large file is at most, as it lies on the disk."""

_LEAST_PART = 4 << 20
_PARTS = 16
"""Into so many stretches smaller corpora are cut, so that every worker has something to do."""

_ENDS = 1 << 16
_KEPT_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class Part:
    """What one worker reads: the documents of `file` that begin in a stretch of its bytes."""

    number: int
    file: str
    form: Form
    stretch: Stretch


@dataclass(slots=True)
class Bad:
    """Records that were left out, with the first messages."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        """One more."""
        self.count += 1
        if len(self.messages) < _KEPT_MESSAGES:
            self.messages.append(message)

    def merge(self, other: Bad) -> None:
        """Those that another process left out."""
        self.count += other.count
        self.messages += other.messages[: _KEPT_MESSAGES - len(self.messages)]


class Source:
    """The documents of a file or folder, as (id, text); can be pickled and iterated any number of times.

    path: a file or a folder. form: what its files hold, None to find out. text_key: the field of JSON lines that holds
    the text; None takes "text" or else "contents". unit: what a document of plain text is. skip_bad: leave broken
    records out and count them in `bad`. part_bytes: how long the stretches of a large file are.
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
        _check(form, unit, part_bytes)
        self.path = Path(path)
        self.options = Options(text_key, unit)
        self.skip_bad, self.bad = skip_bad, Bad()
        root, chosen, self.passed_over = choose_files(self.path, form)
        if not chosen:
            raise ConfigError(f"{self.path}: no file that can be read. {_EXPECTED}")
        forms = {name: form or form_of(root / name) for name in chosen}
        self._files: Mapping[str, int] = {name: (root / name).stat().st_size for name in chosen}
        self._root = root
        step = part_bytes or min(PART_BYTES, max(_LEAST_PART, self.bytes // _PARTS))
        self.parts = tuple(_parts(root, forms, self._files, step, unit))

    @property
    def bytes(self) -> int:
        """Bytes of the files as they lie on the disk."""
        return sum(self._files.values())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for part in self.parts:
            yield from self.read(part)

    def read(self, part: Part, bad: Bad | None = None) -> Iterator[tuple[str, str]]:
        """The documents of a part in order. bad: where records that are left out are counted, `self.bad` by default.

        Raises DataError for a broken record (without `skip_bad`), and always for a file that cannot be read to its end.
        """
        count = self.bad if bad is None else bad
        records = READERS[part.form](self._root / part.file, part.file, part.stretch, self.options)
        for record in records:
            if not isinstance(record, BadRecordError):
                yield record
            elif self.skip_bad:
                count.add(str(record))
            else:
                raise DataError(f"{record}. Fix it, or leave such records out (skip_bad, --skip-bad).")

    def fingerprint(self) -> str:
        """SHA-256 in hex over names, sizes, first and last 64 KiB of the files, and how they are read."""
        settings = [
            self.options.text_key,
            self.options.unit,
            self.skip_bad,
            [[part.form, part.stretch.begin] for part in self.parts],
        ]
        digest = hashlib.sha256(json.dumps(["factgym source", 1, settings]).encode())
        for name, size in self._files.items():
            ends = read_at(self._root / name, 0, _ENDS) + read_at(self._root / name, max(0, size - _ENDS), _ENDS)
            digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(ends).digest())
        return digest.hexdigest()


def open_source(path: str | Path, **options: object) -> Source:
    """The documents of a file or folder; options as for `Source`."""
    return Source(path, **options)  # type: ignore[arg-type]  # Source checks them


_EXPECTED = (
    "Give JSON lines (.jsonl), text (.txt), WikiExtractor's output (wiki_00 …) or a Wikipedia dump "
    "(…pages-articles….xml), plain or compressed (.gz, .bz2, .xz)."
)


def _check(form: str | None, unit: str, part_bytes: int | None) -> None:
    for what, given, known in (("form", form, get_args(Form)), ("unit", unit, get_args(Unit))):
        if given is not None and given not in known:
            raise ConfigError(f"unknown {what} {given!r}: use {', '.join(known)}.{did_you_mean(given, known)}")
    if part_bytes is not None and part_bytes < 1:
        raise ConfigError(f"part_bytes is {part_bytes}; it must be at least 1")


def _parts(
    root: Path, forms: Mapping[str, Form], sizes: Mapping[str, int], part_bytes: int, unit: Unit
) -> Iterator[Part]:
    number = 0
    for name, form in forms.items():
        packed = compression_of(root / name)
        whole = packed not in SPLITTABLE[form] or (form == "text" and unit != "line")
        step = max(sizes[name], 1) if whole else part_bytes
        for begin in range(0, max(sizes[name], 1), step):
            yield Part(number, name, form, Stretch(begin, min(begin + step, sizes[name]), packed))
            number += 1


__all__ = ["PART_BYTES", "Bad", "Form", "Part", "Source", "Unit", "open_source"]
