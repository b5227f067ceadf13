"""Files of a folder, and byte ranges of plain and compressed files as chunks, lines and pages.

A range is part of a file on the disk. A record belongs to the range in which it begins, and is read to its end beyond
it; so chunks come with a flag whether they are the range's own.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.core.paths import open_file

CHUNK = 1 << 20
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"))
_OPEN: dict[str, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_BZIP2_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
_BZIP2_HEADER_BYTES = 10
_PAGE_START, _PAGE_END, _DUMP_END = b"<page>", b"</page>", b"</mediawiki>"
_TAIL_BYTES = 256


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [start, end) of a file. compression: "gzip", "bzip2", "xz" or "" for none."""

    start: int
    end: int
    compression: str

    @property
    def at_start(self) -> bool:
        """Whether it begins where the file does."""
        return self.start == 0


def read_bytes(file: Path, start: int, size: int) -> bytes:
    """Read up to `size` bytes from `start` on."""
    try:
        with open_file(file) as source:
            source.seek(start)
            return source.read(size)
    except OSError as error:
        raise _unreadable(file, error) from None


def visible_files(folder: Path, passed_over: list[str] | None = None) -> Iterator[str]:
    """Yield the relative POSIX paths in a folder, without hidden files and folders; links to folders are not followed.

    passed_over: takes the paths of the hidden files and, with a slash at the end, of the hidden and linked folders.
    """
    for root, subfolders, names in os.walk(folder, followlinks=False):
        relative = Path(root).relative_to(folder)
        if passed_over is not None:
            others = [name for name in subfolders if name.startswith(".") or (Path(root) / name).is_symlink()]
            passed_over += [f"{(relative / name).as_posix()}/" for name in others]
            passed_over += [(relative / name).as_posix() for name in names if name.startswith(".")]
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        yield from ((relative / name).as_posix() for name in names if not name.startswith("."))


def detect_compression(file: Path) -> str:
    """Return the compression of a file by its first bytes: "gzip", "bzip2", "xz", or "" for none."""
    head = read_bytes(file, 0, 6)
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def _unreadable(file: Path, error: Exception) -> DataError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return DataError(f"{file} cannot be read to its end ({reason[:120]}). Is it cut off? Copy or download it again.")


def read_chunks(file: Path, byte_range: ByteRange) -> Iterator[tuple[bytes, bool]]:
    """Yield decompressed chunks from the range's start to the file's end, each with whether it is the range's own.

    A range of a bzip2 file owns the streams that begin in it; of another compressed file it is the whole file. Raises
    DataError for a file that cannot be read or decompressed to its end.
    """
    try:
        if byte_range.compression == "bzip2":
            yield from _bzip2_chunks(file, byte_range)
        elif byte_range.compression:
            with _OPEN[byte_range.compression](file, "rb") as decompressed:
                yield from ((chunk, True) for chunk in iter(partial(decompressed.read, CHUNK), b""))
        else:
            with open_file(file) as plain:
                plain.seek(byte_range.start)
                remaining = byte_range.end - byte_range.start
                while remaining > 0 and (chunk := plain.read(min(CHUNK, remaining))):
                    remaining -= len(chunk)
                    yield chunk, True
                yield from ((chunk, False) for chunk in iter(partial(plain.read, CHUNK), b""))
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(file, error) from None


def _bzip2_chunks(file: Path, byte_range: ByteRange) -> Iterator[tuple[bytes, bool]]:
    """Decompress stream by stream, as a file can be cut where streams begin. The size of a chunk is bounded."""
    start = 0 if byte_range.at_start else _next_bzip2_stream(file, byte_range)
    if start is None:
        return
    # Invariant: `data` begins a stream at the file's offset `start`. A stream's unused bytes begin the next one.
    with open_file(file) as source:
        source.seek(start)
        data = source.read(CHUNK)
        while data:
            is_own, decompressor, fed = start < byte_range.end, bz2.BZ2Decompressor(), 0
            while not decompressor.eof:
                if decompressor.needs_input and not (data := data or source.read(CHUNK)):
                    raise EOFError("its last bzip2 stream has no end")
                fed += len(data)
                chunk = decompressor.decompress(data, CHUNK)
                data = b""
                if chunk:
                    yield chunk, is_own
            data = decompressor.unused_data
            start += fed - len(data)
            data = data or source.read(CHUNK)


def _next_bzip2_stream(file: Path, byte_range: ByteRange) -> int | None:
    """Return the offset of the first bzip2 stream that begins inside the range."""
    with open_file(file) as source:
        source.seek(byte_range.start)
        offset, buffer = byte_range.start, b""
        while offset < byte_range.end and (chunk := source.read(CHUNK)):
            buffer += chunk
            if match := _BZIP2_STREAM.search(buffer):
                start = offset + match.start()
                return start if start < byte_range.end else None
            # A header may continue in the next chunk.
            offset += len(buffer) - (_BZIP2_HEADER_BYTES - 1)
            buffer = buffer[1 - _BZIP2_HEADER_BYTES :]
    return None


def read_lines(file: Path, name: str, byte_range: ByteRange, limit: int) -> Iterator[bytes]:
    """Yield the lines that begin in a range, without their ends. DataError for one of more than `limit` bytes."""
    # `incomplete` is the beginning of a line whose end was not read yet; None while the line that began before the range
    # is skipped. A line that begins in the range is read to its end in the chunks behind it.
    if not byte_range.at_start:  # the previous byte shows whether a line begins at the range's start
        byte_range = replace(byte_range, start=byte_range.start - 1)
        incomplete: bytes | None = None
    else:
        incomplete = b""
    for chunk, is_own in read_chunks(file, byte_range):
        if not is_own:
            if not incomplete:
                return
            end, newline, _ = chunk.partition(b"\n")
            incomplete += end
            if newline:
                break
        else:
            if incomplete is None:
                _, newline, chunk = chunk.partition(b"\n")
                incomplete = b"" if newline else None
            if incomplete is not None:
                *lines, incomplete = (incomplete + chunk).split(b"\n")
                yield from lines
        if incomplete is not None and len(incomplete) > limit:
            raise DataError(f"{name}: a line has more than {limit:,} bytes. Is it one document a line?")
    if incomplete:
        yield incomplete


def read_pages(file: Path, name: str, byte_range: ByteRange, limit: int) -> Iterator[bytes]:
    """Yield the `<page>` elements that begin in a range.

    The tag cannot occur in the text of a page, as XML escapes it. DataError for a page of more than `limit` bytes and
    for a file that does not end as a dump does.
    """
    # Invariant: the buffer begins with an unfinished page, or with fewer bytes than a tag has.
    buffer, tail = b"", b""
    # Offsets in decompressed bytes of this range: of the buffer, and of the end of the range's own bytes.
    buffer_start, own_end = 0, None
    for chunk, is_own in read_chunks(file, byte_range):
        if not is_own and own_end is None:
            own_end = buffer_start + len(buffer)
        buffer, tail, consumed = buffer + chunk, (tail + chunk)[-_TAIL_BYTES:], 0
        while (start := buffer.find(_PAGE_START, consumed)) >= 0:
            if own_end is not None and buffer_start + start >= own_end:
                return
            if (end := buffer.find(_PAGE_END, start)) < 0:
                break
            consumed = end + len(_PAGE_END)
            yield buffer[start:consumed]
        consumed = start if start >= 0 else max(consumed, len(buffer) - len(_PAGE_START) + 1)
        buffer, buffer_start = buffer[consumed:], buffer_start + consumed
        if own_end is not None and buffer_start >= own_end:
            return
        if len(buffer) > limit:
            raise DataError(f"{name}: a page has more than {limit:,} bytes. Is the file damaged?")
    tail = tail.rstrip()
    if buffer.startswith(_PAGE_START) or not (tail.endswith(_DUMP_END) or _DUMP_END.endswith(tail)):
        raise DataError(f"{name} does not end as a MediaWiki export does. Is it cut off? Copy or download it again.")
