"""Folders of memory-mapped files: a manifest with sizes and checksums, and pages that are checked at their first use.

    manifest.json     kind, version, metadata, and of each file: bytes, SHA-256, type, items, offset of the first item
    page_sums.npy     a 64-bit sum for each page of 64 KiB of each file, in the order of the manifest

A folder is written under a temporary name and renamed, so under its own name it is always whole. Opening reads the manifest
(its own checksum is part of it), compares the sizes of all files, and the SHA-256 of `page_sums.npy`. A page of a file is
compared with its sum when a byte of it is first requested, so opening takes as long at any size, and a flipped bit is an
error before it can become a wrong answer. Arrays are NumPy's `.npy` files; nothing is pickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterator, Mapping
from math import isqrt
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError, PathError
from factgym.core.paths import is_file, open_file, read_bytes
from factgym.corpora.cooccurrence.store import page_sums

Array = NDArray[Any]

MANIFEST = "manifest.json"
PAGE_SUMS = "page_sums.npy"
PAGE_BITS = 16
"""Pages have 64 KiB, as in `cooccurrence.store`."""

_CHUNK = 1 << 22
_ALIGNMENT = 8
"""Files are filled up to a multiple of this many bytes, so that they are sequences of the numbers that sums are of."""


class FileRecord(NamedTuple):
    """A file as the manifest lists it. dtype, items, offset: of its array; bytes without the padding for text."""

    bytes: int
    sha256: str
    dtype: str
    items: int
    offset: int


class MappedArray:
    """A read-only array in a file. A slice is an array of NumPy over the mapped file, whose pages were checked.

    Safe in threads: a page that two of them check is checked twice.
    """

    __slots__ = ("_array", "_checked", "_offset", "_size", "_sums", "_words", "path", "rebuild")

    def __init__(self, path: Path, record: FileRecord, sums: Array, rebuild: str) -> None:
        self.path, self.rebuild = path, rebuild
        try:
            with open_file(path) as file:
                actual = os.fstat(file.fileno()).st_size
                if actual != record.bytes:
                    problem = "cut off" if actual < record.bytes else "longer than it should be"
                    raise self._error(f"is {problem}: {actual:,} bytes instead of {record.bytes:,}")
                raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise self._error(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
        self._words: NDArray[np.uint32] = np.frombuffer(raw, "<u4")
        self._array: Array = np.frombuffer(raw, record.dtype, record.items, record.offset)
        self._offset, self._size = record.offset, self._array.itemsize
        self._sums, self._checked = sums, bytearray(len(sums))

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, items: slice) -> Array:
        """Return `array[start:stop]`; both must be given and lie inside."""
        start, stop = int(items.start), int(items.stop)
        if not 0 <= start <= stop <= len(self._array):
            raise self._error(f"has no items {start:,} to {stop:,}")
        if start < stop:
            self.check(self._offset + start * self._size, self._offset + stop * self._size)
        return self._array[start:stop]

    @property
    def array(self) -> Array:
        """All of the array, of which the parts are compared with their sums that slices have been taken of."""
        return self._array

    def check(self, start: int, end: int) -> None:
        """Compare the pages of bytes `start` to `end` with their sums, those that were not compared before."""
        last = ((end - 1) >> PAGE_BITS) + 1
        page = self._checked.find(0, start >> PAGE_BITS, last)
        while page >= 0:
            stop = self._checked.find(1, page, last)
            stop = last if stop < 0 else stop
            # 2^14 numbers of 32 bits are a page.
            words = self._words[page << (PAGE_BITS - 2) : stop << (PAGE_BITS - 2)]
            if not np.array_equal(page_sums(words), self._sums[page:stop]):
                raise self._error("is damaged: the sum of a page does not hold")
            self._checked[page:stop] = b"\1" * (stop - page)
            page = self._checked.find(0, stop, last)

    def check_all(self) -> None:
        """Compare all pages, a few megabytes at a time."""
        for start in range(0, self._words.nbytes, _CHUNK):
            self.check(start, min(start + _CHUNK, self._words.nbytes))

    def _error(self, problem: str) -> DataError:
        return DataError(f"{self.path} {problem}. {self.rebuild}")


def equal_range(keys: MappedArray, key: int) -> range:
    """Return the positions of a 64-bit hash in ascending hashes, reading a page or two of them."""
    # Interpolation search: hashes are uniform, so a key lies within a few standard deviations (at most √n / 2) of its
    # expected position. The window grows until its ends enclose the key.
    total, target = len(keys), np.uint64(key)
    expected, width = key * total >> 64, 4 * isqrt(total) + 64
    while True:
        start, stop = max(0, expected - width), min(total, expected + width)
        window = keys[start:stop]
        if (start == 0 or window[0] < target) and (stop == total or window[-1] > target):
            first, last = (int(window.searchsorted(target, side)) for side in ("left", "right"))
            return range(start + first, start + last)
        width *= 4


def hash_key(data: bytes) -> int:
    """Return a 64-bit hash by which tables are ordered."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class MappedFolder:
    """The files of a folder and the metadata of its manifest.

    kind: of the folder. rebuild: the sentence in errors that says how to make it anew. Raises `DataError` for a folder
    that is incomplete, foreign, damaged or of another version.
    """

    def __init__(self, path: Path, kind: str, version: int, rebuild: str) -> None:
        self.path, self.rebuild = path, rebuild
        manifest = self._read_manifest(kind, version)
        self.meta: Mapping[str, Any] = manifest["meta"]
        self.records = {name: FileRecord(*record) for name, record in manifest["files"].items()}
        self.bytes = sum(record.bytes for record in self.records.values())
        sums = self._read_sums(manifest["page_sums"])
        self._arrays: dict[str, MappedArray] = {}
        start = 0
        for name, record in self.records.items():
            end = start - (-record.bytes >> PAGE_BITS)
            self._arrays[name] = MappedArray(path / name, record, sums[start:end], rebuild)
            start = end

    def __getitem__(self, name: str) -> MappedArray:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def check_all(self) -> None:
        """Compare all pages of all files. Raises `DataError` for a damaged one."""
        for array in self._arrays.values():
            array.check_all()

    def _read_manifest(self, kind: str, version: int) -> dict[str, Any]:
        """Return the manifest after checks of kind, version and checksum, in that order: each has its own message."""
        path = self.path / MANIFEST
        try:
            manifest = json.loads(read_bytes(path))
        except PathError as error:
            raise DataError(f"{error}. {self.rebuild}") from None
        except (ValueError, RecursionError):
            raise DataError(f"{path} is damaged: it is no JSON. {self.rebuild}") from None
        if not isinstance(manifest, dict) or manifest.get("kind") != kind:
            raise DataError(f"{path} is no manifest of a {kind}. {self.rebuild}")
        if manifest.get("version") != version:
            actual = str(manifest.get("version"))[:20]
            raise DataError(f"{path} has version {actual} of the format; this factgym reads {version}. {self.rebuild}")
        if manifest.pop("checksum", None) != _checksum(manifest):
            raise DataError(f"{path} is damaged: its checksum does not hold. {self.rebuild}")
        return manifest

    def _read_sums(self, digest: str) -> Array:
        path = self.path / PAGE_SUMS
        try:
            raw = read_bytes(path)
        except PathError as error:
            raise DataError(f"{error}. {self.rebuild}") from None
        if hashlib.sha256(raw).hexdigest() != digest:
            raise DataError(f"{path} is damaged or cut off: its checksum does not hold. {self.rebuild}")
        pages = sum(-(-record.bytes >> PAGE_BITS) for record in self.records.values())
        return np.frombuffer(raw, "<u8", pages, len(raw) - 8 * pages)


def is_mapped_folder(path: Path) -> bool:
    """Whether the folder has a manifest or page sums of ours, whatever their state."""
    try:
        return is_file(path / PAGE_SUMS) or b'"factgym-' in read_bytes(path / MANIFEST)[:64]
    except PathError:
        return False


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


# Writing.


class NpyWriter:
    """A one-dimensional `.npy` file that is appended to; a context manager. Its length is written at the end."""

    def __init__(self, path: Path, dtype: str) -> None:
        self.items = 0
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._write_header()
        self._start = self._file.tell()

    def append(self, array: Any) -> None:
        """Write numbers at the end."""
        values = np.ascontiguousarray(array, self._dtype)
        self._file.write(values.tobytes())
        self.items += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.seek(0)
        self._write_header()
        if self._file.tell() != self._start:
            raise DataError(f"{self._file.name}: the header of the array has changed its length")
        self._file.close()

    def _write_header(self) -> None:
        # NumPy pads headers so that the length of the first axis can grow to any number of digits.
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.items,)}
        np.lib.format.write_array_header_1_0(self._file, header)


def pad_file(path: Path) -> int:
    """Fill a file of bytes up to a multiple of 8 with line breaks; return its size before."""
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\n" * (-size % _ALIGNMENT or _ALIGNMENT * (not size)))
    return size


def write_manifest(folder: Path, kind: str, version: int, meta: Mapping[str, Any], texts: Mapping[str, int]) -> None:
    """List all files of a folder in its manifest, with their checksums, and write the files to disk.

    texts: name -> bytes of the files that are no arrays, without their padding (`pad_file`).
    """
    files: dict[str, FileRecord] = {}
    sums: list[Array] = [np.empty(0, np.uint64)]
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        name = path.relative_to(folder).as_posix()
        dtype, items, offset = ("|u1", texts[name], 0) if name in texts else _array_layout(path)
        digest = hashlib.sha256()
        with path.open("r+b") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                sums.append(page_sums(np.frombuffer(chunk, "<u4")))
            os.fsync(file.fileno())
            files[name] = FileRecord(file.tell(), digest.hexdigest(), dtype, items, offset)
    np.save(folder / PAGE_SUMS, np.concatenate(sums), allow_pickle=False)
    manifest: dict[str, Any] = {"kind": kind, "version": version, "meta": dict(meta), "files": files}
    manifest["page_sums"] = hashlib.sha256((folder / PAGE_SUMS).read_bytes()).hexdigest()
    manifest = json.loads(json.dumps(manifest))
    manifest["checksum"] = _checksum(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _array_layout(path: Path) -> tuple[str, int, int]:
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        return dtype.str, int(np.prod(shape)), file.tell()


@contextlib.contextmanager
def atomic_folder(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a temporary folder that becomes `out` when the block ends without error, and is removed otherwise.

    replace: whether a folder of ours under that name is replaced; anything else there is never touched. Raises
    `ConfigError` where `out` exists, `DataError` for a full disk.
    """
    check_output(out, replace=replace)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        yield partial
        check_output(out, replace=replace)
        replace_folder(partial, out)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}). Make room, or name another.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(partial: Path, out: Path) -> None:
    """Rename a complete folder to `out`, in place of what is there."""
    previous = out.with_name(f".{out.name}.{os.getpid()}.previous")
    try:
        if out.exists():
            out.rename(previous)
        partial.rename(out)
    finally:
        shutil.rmtree(previous, ignore_errors=True)


def check_output(out: Path, *, replace: bool) -> None:
    """Raise `ConfigError` where `out` exists and may not be replaced."""
    if out.exists() and not (replace and is_mapped_folder(out)):
        hint = "" if replace else ", or replace it with --force"
        raise ConfigError(f"{out} exists{' and is no corpus' if replace else ''}: name another folder{hint}")
