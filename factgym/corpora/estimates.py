"""What building a corpus will take: disk, memory and time, from the sizes and names of its files alone.

The rates were measured on two shared cores; texts differ, so a factor of two is no surprise.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from factgym.corpora.rows import PACKED, suffix_of
from factgym.corpora.store_chunks import CHUNK_CHARS

PACKING = MappingProxyType({".gz": 3.0, ".xz": 4.0, ".bz2": 4.0})
"""Ratio of the size of a file to that of the packed one."""

_INDEX_RATIO = 2.5
"""Ratio of the size of a corpus with its index to that of its texts."""

_CHUNKS_RATIO = 2.25
"""Ratio of the size of the chunks, which are there until they are merged, to that of the texts."""


class _Rate(NamedTuple):
    """text: bytes of text in a byte of a file, unpacked. seconds: of a processor for a megabyte."""

    text: float
    seconds: float


_ROWS = _Rate(1.0, 0.13)
_RATES = MappingProxyType(
    {
        **dict.fromkeys((".xml",), _Rate(0.5, 2.0)),
        **dict.fromkeys((".parquet",), _Rate(1.4, 0.18)),
        **dict.fromkeys((".md", ".markdown", ".txt"), _Rate(0.95, 1.0)),
        **dict.fromkeys((".html", ".htm"), _Rate(0.4, 1.5)),
        **dict.fromkeys((".pdf", ".docx"), _Rate(0.3, 2.0)),
    }
)
"""Of files by their suffix; of others, rows."""

_PROCESS_BYTES = 130_000_000
"""Of an interpreter with its imports."""

_CHUNK_RATIO = 14
"""Ratio of the memory that counting takes to the characters of a chunk."""

_ID_RATIO = 0.35
"""Ratio of the memory for ids and vocabulary to the size of the texts."""


class Estimate(NamedTuple):
    """Bytes of the files, of the corpus on disk, of the chunks beside it while it is built, and of memory; seconds."""

    files: int
    bytes: int
    text: float
    disk: float
    building: float
    memory: float
    seconds: float


def unpacked_bytes(file: Path) -> float:
    """Return the estimated bytes of a file, unpacked."""
    return file.stat().st_size * (PACKING[suffix] if (suffix := file.suffix.lower()) in PACKED else 1.0)


def estimate_build(files: Iterable[Path], jobs: int) -> Estimate:
    """Return what building a corpus of these files takes, with so many processes."""
    count = size = 0
    text = seconds = 0.0
    for file in files:
        rate, unpacked = _RATES.get(suffix_of(file), _ROWS), unpacked_bytes(file)
        count, size = count + 1, size + file.stat().st_size
        text += rate.text * unpacked
        seconds += rate.seconds * unpacked / 1e6
    workers = jobs if jobs > 1 and text > CHUNK_CHARS else 0
    memory = (1 + workers) * (_PROCESS_BYTES + _CHUNK_RATIO * min(text, CHUNK_CHARS)) + _ID_RATIO * text
    return Estimate(
        count, size, text, text * _INDEX_RATIO, text * _CHUNKS_RATIO, memory, 1.0 + seconds / max(1, workers)
    )
