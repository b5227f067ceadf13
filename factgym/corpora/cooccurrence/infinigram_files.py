"""The files of an infini-gram index: what stands in them, and whether they are whole.

A shard is three files: `tokenized.N`, the tokens of every document with a separator of all ones before each;
`offset.N`, where each document begins, in bytes, as 64-bit numbers; `table.N`, the suffix array, whose entries take as
many bytes as the size of `tokenized.N` needs. The width of a token (1, 2 or 4 bytes) is in no file; it follows from the
sizes of the three. An index over words has `words.txt` as well, a word a line in the order of their numbers, and
`words.json`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from factgym.core.errors import DataError
from factgym.corpora.cooccurrence.tokens import Case, tokenize

WORDS, LISTING = "words.txt", "words.json"
FORMAT, VERSION = "factgym infini-gram words", 1
MAX_SHORT = 65_279
"""Words that 2-byte tokens can number: two numbers from 65,280 on beside each other can look like a separator."""

_SHARD = re.compile(r"(tokenized|table|offset)\.(\d+)")
_PAIRED = re.compile(r"(metadata|metaoff)\.(\d+)")
_WIDTHS = (2, 1, 4)
_ENDS = 1 << 16


@dataclass(frozen=True, slots=True)
class Shards:
    """What the sizes of an index's files say."""

    count: int
    width: int
    tokens: int
    documents: int
    bytes: int
    digest: str
    """SHA-256 in hex over the sizes and the first and last 64 KiB of every file."""


def read_shards(folder: Path) -> Shards:
    """The shards of an index, checked as far as the sizes and the first offsets go.

    Raises DataError for a folder without an index, a missing file, and files that do not fit each other.
    """
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    found = {(kind, int(n)) for name in names if (match := _SHARD.fullmatch(name)) for kind, n in [match.groups()]}
    count = 1 + max((n for _, n in found), default=-1)
    if not count:
        raise DataError(f"{folder} is no infini-gram index: it has no tokenized.0, table.0 and offset.0.")
    wanted = [(kind, n) for n in range(count) for kind in ("tokenized", "table", "offset")]
    pairs = {match.groups() for name in names if (match := _PAIRED.fullmatch(name))}
    lacking = [f"{kind}.{n}" for kind, n in wanted if (kind, n) not in found]
    lacking += [f"{other}.{n}" for kind, n in pairs for other in ("metadata", "metaoff") if (other, n) not in pairs]
    if lacking:
        raise DataError(f"{folder} is not whole: {', '.join(lacking[:4])} is missing. Copy or build the index again.")
    widths = {_width(folder, n) for n in range(count)}
    if len(widths) > 1:
        raise DataError(f"{folder}: its shards have tokens of different widths, so they are not of one index.")
    width = widths.pop()
    sizes = {(kind, n): (folder / f"{kind}.{n}").stat().st_size for kind, n in wanted}
    documents = sum(size // 8 for (kind, _), size in sizes.items() if kind == "offset")
    tokens = sum(size // width for (kind, _), size in sizes.items() if kind == "tokenized") - documents
    return Shards(count, width, tokens, documents, sum(sizes.values()), _digest(folder, sizes))


def _width(folder: Path, n: int) -> int:
    """Bytes a token of a shard whose files fit each other."""
    tokens, table, offset = ((folder / f"{kind}.{n}").stat().st_size for kind in ("tokenized", "table", "offset"))
    entry = math.ceil(math.log2(tokens) / 8) if tokens > 1 else 1
    fitting = [width for width in _WIDTHS if tokens % width == 0 and table == tokens // width * entry]
    if tokens < 1 or not fitting or offset < 8 or offset % 8:
        raise DataError(
            f"{folder}: table.{n} ({table:,} bytes) and offset.{n} ({offset:,} bytes) do not fit tokenized.{n} "
            f"({tokens:,} bytes): a file is cut off or of another index. Copy or build it again."
        )
    _check_offsets(folder, n, tokens, fitting[0])
    return fitting[0]


def _check_offsets(folder: Path, n: int, size: int, width: int) -> None:
    """The first documents begin with a separator, and the last one inside the file."""
    offsets = np.memmap(folder / f"offset.{n}", "<u8", mode="r")
    last, starts = int(offsets[-1]), [int(one) for one in offsets[:16]]
    with (folder / f"tokenized.{n}").open("rb") as file:
        good = last < size and starts[0] == 0 and all(_separated(file, start, width) for start in [*starts, last])
    if not good:
        raise DataError(f"{folder}: offset.{n} does not say where the documents of tokenized.{n} begin.")


def _separated(file: BinaryIO, start: int, width: int) -> bool:
    file.seek(start)
    return file.read(width) == b"\xff" * width


def _digest(folder: Path, sizes: dict[tuple[str, int], int]) -> str:
    digest = hashlib.sha256()
    for (kind, n), size in sizes.items():
        with (folder / f"{kind}.{n}").open("rb") as file:
            digest.update(f"{kind}.{n}:{size}:".encode() + file.read(_ENDS))
            file.seek(max(0, size - _ENDS))
            digest.update(file.read(_ENDS))
    return digest.hexdigest()


class Words:
    """The words of an index over words, and their numbers."""

    def __init__(self, words: Sequence[str], case: Case) -> None:
        self._ids = {word: number for number, word in enumerate(words)}
        self._case, self._digest = case, hashlib.sha256("\n".join(words).encode()).hexdigest()
        self.size = len(words)

    def encode(self, word: str) -> list[int] | None:
        """The numbers of the word's tokens; None where one is unknown or there is none."""
        ids = [self._ids.get(token) for token in tokenize(word, self._case)]
        known = [one for one in ids if one is not None]
        return known if known and len(known) == len(ids) else None

    def describe(self) -> dict[str, Any]:
        """What a manifest says of the words."""
        return {"tokens_are": "words", "case": self._case, "vocabulary": self.size, "words_sha256": self._digest}


def read_words(folder: Path, shards: Shards) -> Words:
    """The words of an index over words; DataError where they do not fit it."""
    try:
        says = json.loads((folder / LISTING).read_text("utf-8"))
        words = (folder / WORDS).read_text("utf-8").split("\n")[:-1]
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder}: {WORDS} or {LISTING} cannot be read ({str(error)[:100]}).") from None
    expected = {"format": FORMAT, "version": VERSION, "words": len(words), "tokens": shards.tokens}
    if not isinstance(says, dict) or any(says.get(key) != value for key, value in expected.items()):
        raise DataError(f"{folder}: {LISTING} does not fit {WORDS} and the tokens. Write the index again.")
    if says.get("case") not in ("keep", "fold"):
        raise DataError(f"{folder}: {LISTING} has no 'case' of 'keep' or 'fold'. Write the index again.")
    return Words(words, says["case"])
