"""Bytes of a stretch of a file, unpacked: what the readers of corpora stand on.

A stretch is part of a file as it lies on the disk. A record belongs to the stretch in which it begins, and is read to
its end beyond it; so the chunks come with a mark that says whether they are the stretch's own.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from factgym.core.errors import DataError

CHUNK = 1 << 20
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"))
_OPEN: dict[str, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
_STREAM_BYTES = 10
_OPENING, _CLOSING, _LAST = b"<page>", b"</page>", b"</mediawiki>"
_TAIL_BYTES = 256


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes [begin, end) of a file, which is packed with "gzip", "bzip2", "xz" or not ("")."""

    begin: int
    end: int
    packed: str

    @property
    def whole(self) -> bool:
        """Whether it begins where the file does."""
        return self.begin == 0


def read_at(file: Path, begin: int, size: int) -> bytes:
    """Up to `size` bytes from `begin` on."""
    try:
        with file.open("rb") as source:
            source.seek(begin)
            return source.read(size)
    except OSError as error:
        raise unreadable(file, error) from None


def compression_of(file: Path) -> str:
    """How a file is packed by its first bytes: "gzip", "bzip2", "xz", or "" for not."""
    head = read_at(file, 0, 6)
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def unreadable(file: Path, error: Exception) -> DataError:
    """The error for a file whose bytes cannot be read or unpacked to the end."""
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return DataError(f"{file} cannot be read to its end ({what[:120]}). Is it cut off? Copy or download it again.")


def chunks_of(file: Path, stretch: Stretch) -> Iterator[tuple[bytes, bool]]:
    """Unpacked chunks from the stretch's begin to the file's end, each with whether it is the stretch's own.

    Of a bzip2 file a stretch owns the streams that begin in it; of another packed file the stretch is the whole file.
    """
    try:
        if stretch.packed == "bzip2":
            yield from _bzip2_chunks(file, stretch)
        elif stretch.packed:
            with _OPEN[stretch.packed](file, "rb") as unpacked:
                yield from ((chunk, True) for chunk in _read(unpacked))
        else:
            with file.open("rb") as plain:
                yield from _plain_chunks(plain, stretch)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise unreadable(file, error) from None


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _plain_chunks(file: IO[bytes], stretch: Stretch) -> Iterator[tuple[bytes, bool]]:
    file.seek(stretch.begin)
    left = stretch.end - stretch.begin
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        left -= len(chunk)
        yield chunk, True
    yield from ((chunk, False) for chunk in _read(file))


def _bzip2_chunks(file: Path, stretch: Stretch) -> Iterator[tuple[bytes, bool]]:
    """Stream by stream, since streams begin where a file can be cut. What one chunk unpacks to is bounded."""
    begin = 0 if stretch.whole else _next_stream(file, stretch)
    if begin is None:
        return
    with file.open("rb") as packed:
        packed.seek(begin)
        data = packed.read(CHUNK)
        while data:
            own, unpacker, fed = begin < stretch.end, bz2.BZ2Decompressor(), 0
            while not unpacker.eof:
                if unpacker.needs_input and not (data := data or packed.read(CHUNK)):
                    raise EOFError("its last bzip2 stream has no end")
                fed += len(data)
                chunk = unpacker.decompress(data, CHUNK)
                data = b""
                if chunk:
                    yield chunk, own
            data = unpacker.unused_data
            begin += fed - len(data)
            data = data or packed.read(CHUNK)


def _next_stream(file: Path, stretch: Stretch) -> int | None:
    """Where the first bzip2 stream begins that begins inside the stretch."""
    with file.open("rb") as packed:
        packed.seek(stretch.begin)
        at, held = stretch.begin, b""
        while at < stretch.end and (chunk := packed.read(CHUNK)):
            held += chunk
            if match := _STREAM.search(held):
                return at + match.start() if at + match.start() < stretch.end else None
            at += len(held) - (_STREAM_BYTES - 1)
            held = held[1 - _STREAM_BYTES :]
    return None


def lines_of(file: Path, name: str, stretch: Stretch, limit: int) -> Iterator[bytes]:
    """The lines that begin in a stretch, without their ends. DataError for one of more than `limit` bytes."""
    before = not stretch.whole
    if before:  # the byte before tells whether the first line is ours
        stretch = replace(stretch, begin=stretch.begin - 1)
    rest: bytes | None = None if before else b""
    for chunk, own in chunks_of(file, stretch):
        if not own:
            if not rest:
                return
            end, found, _ = chunk.partition(b"\n")
            rest += end
            if found:
                break
        else:
            if rest is None:
                _, found, chunk = chunk.partition(b"\n")
                rest = b"" if found else None
            if rest is not None:
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        if rest is not None and len(rest) > limit:
            raise DataError(f"{name}: a line has more than {limit:,} bytes. Is it one document a line?")
    if rest:
        yield rest


def pages_of(file: Path, name: str, stretch: Stretch, limit: int) -> Iterator[bytes]:
    """The `<page>` elements that begin in a stretch.

    In the text of a page the tag cannot stand, since XML escapes it. DataError for a page of more than `limit` bytes
    and for a file that does not end as a dump does.
    """
    held, base, edge, tail = b"", 0, None, b""
    """Bytes not passed on yet; where they and what is no longer ours begin, in unpacked bytes of this stretch."""
    for chunk, own in chunks_of(file, stretch):
        if not own and edge is None:
            edge = base + len(held)
        held, tail, at = held + chunk, (tail + chunk)[-_TAIL_BYTES:], 0
        while (begin := held.find(_OPENING, at)) >= 0:
            if edge is not None and base + begin >= edge:
                return
            if (end := held.find(_CLOSING, begin)) < 0:
                break
            at = end + len(_CLOSING)
            yield held[begin:at]
        at = begin if begin >= 0 else max(at, len(held) - len(_OPENING) + 1)
        held, base = held[at:], base + at
        if edge is not None and base >= edge:
            return
        if len(held) > limit:
            raise DataError(f"{name}: a page has more than {limit:,} bytes. Is the file damaged?")
    tail = tail.rstrip()
    if held.startswith(_OPENING) or not (tail.endswith(_LAST) or _LAST.endswith(tail)):
        raise DataError(f"{name} does not end as a MediaWiki export does. Is it cut off? Copy or download it again.")
