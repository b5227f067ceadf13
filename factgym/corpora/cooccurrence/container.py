"""Named arrays in one file: a header that says what is there and how much, then the arrays as they lie in memory.

    8 bytes   magic
    4, 4, 4   version, length of the header's JSON, its CRC-32 (little-endian, unsigned)
    JSON      {"kind", "meta", "bytes": of the whole file, "sections": {name: [type, offset, items, CRC-32]}}

A file is written beside its place, synchronised and renamed, so under its name it is always whole. Opening checks
magic, version, the header's checksum, the length of the file, that sections lie inside it, and the checksums of small
sections; `verify` compares those of all.
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import DataError

MAGIC = b"\x93FGCOOC\n"
VERSION = 1
HEADER_BYTES = 4096
"""Where the first section begins; the header fits in front of it."""

_CHECKED_BYTES = 1 << 20
"""Sections up to this size are compared with their checksums whenever a file is opened."""

_ALIGN = 64
_PREFIX = struct.Struct("<8sIII")
_TYPES = {"keys": "u8", "spelling": "u1"}
"""Of sections by name; the others hold 32-bit numbers."""
_AGAIN = "Build it again with `factgym corpus index --kind cooccurrence`, or copy it again if it is a copy."

Array = NDArray[Any]


class Opened(NamedTuple):
    """A container's arrays, memory-mapped and read-only, and what its header says."""

    meta: dict[str, Any]
    arrays: dict[str, Array]
    checksums: dict[str, tuple[int, int]]
    """Of each section its items and CRC-32."""


@contextlib.contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under `path` only when the block ends well, and then whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise DataError(
            f"no space is left for {path}. Make room and start again: a build goes on from here."
        ) from None
    finally:
        beside.unlink(missing_ok=True)


def write_container(path: Path, kind: str, meta: Mapping[str, Any], sections: Mapping[str, Iterable[Array]]) -> None:
    """Write sections, each given as pieces of one type that are stored one after the other."""
    with written(path) as file:
        file.seek(HEADER_BYTES)
        table: dict[str, list[Any]] = {}
        for name, pieces in sections.items():
            file.seek(-file.tell() % _ALIGN, os.SEEK_CUR)
            table[name] = _write_section(file, pieces, _TYPES.get(name, "u4"))
        total = file.tell()
        file.truncate(total)
        says = {"kind": kind, "meta": dict(meta), "bytes": total, "sections": table}
        file.seek(0)
        file.write(_header(says))


def _write_section(file: BinaryIO, pieces: Iterable[Array], code: str) -> list[Any]:
    begin, checksum = file.tell(), 0
    for piece in pieces:
        raw = _raw(np.ascontiguousarray(piece, f"<{code}"))
        checksum = zlib.crc32(raw, checksum)
        file.write(raw)
    return [code, begin, (file.tell() - begin) // int(code[1:]), checksum]


def _raw(array: Array) -> memoryview:
    return array.data.cast("B") if len(array) else memoryview(b"")


def _header(says: Mapping[str, Any]) -> bytes:
    raw = json.dumps(says).encode()
    if len(raw) > HEADER_BYTES - _PREFIX.size:
        raise DataError(
            f"what an index says about itself takes {len(raw)} bytes; {HEADER_BYTES - _PREFIX.size} are there"
        )
    return _PREFIX.pack(MAGIC, VERSION, len(raw), zlib.crc32(raw)) + raw


def open_container(path: Path, kind: str, *, verify: bool = False) -> Opened:
    """Map a container's sections; `DataError` names the file and what to do where it is not whole or not ours."""
    says = _read_header(path)
    if says["kind"] != kind:
        raise DataError(f"{path} holds {says['kind']!r}, not {kind!r}. {_AGAIN}")
    raw = _map(path, int(says["bytes"]))
    arrays = {name: _section(path, raw, name, *place) for name, place in says["sections"].items()}
    for name, array in arrays.items():
        checked = verify or array.nbytes <= _CHECKED_BYTES
        if checked and zlib.crc32(_raw(array)) != says["sections"][name][3]:
            raise DataError(f"{path} is damaged: the checksum of its section {name!r} does not hold. {_AGAIN}")
    checksums = {name: (place[2], place[3]) for name, place in says["sections"].items()}
    return Opened(says["meta"], arrays, checksums)


def _read_header(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(HEADER_BYTES)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}). Name the file that `factgym corpus index` wrote."
        ) from None
    if len(raw) < _PREFIX.size or not raw.startswith(MAGIC):
        what = "is empty" if not raw else "is no co-occurrence index"
        raise DataError(f"{path} {what} (its first bytes are {raw[:8]!r}). {_AGAIN}")
    _, version, length, checksum = _PREFIX.unpack_from(raw)
    if version != VERSION:
        raise DataError(f"{path} has version {version} of the format; this factgym reads {VERSION}. {_AGAIN}")
    body = raw[_PREFIX.size : _PREFIX.size + length]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise DataError(f"{path} is damaged or cut off: the checksum of its header does not hold. {_AGAIN}")
    says: dict[str, Any] = json.loads(body)
    return says


def _map(path: Path, size: int) -> mmap.mmap:
    with path.open("rb") as file:
        found = os.fstat(file.fileno()).st_size
        if found != size:
            how = "cut off" if found < size else "longer than it should be"
            raise DataError(f"{path} is {how}: {found:,} bytes, and its header says {size:,}. {_AGAIN}")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _section(path: Path, raw: mmap.mmap, name: str, code: str, begin: int, items: int, checksum: int) -> Array:
    if (
        code != _TYPES.get(name, "u4")
        or begin < HEADER_BYTES
        or begin % _ALIGN
        or begin + items * int(code[1:]) > len(raw)
    ):
        raise DataError(f"{path} is damaged: a section lies outside it. {_AGAIN}")
    array: Array = np.frombuffer(raw, f"<{code}", items, begin)
    return array
