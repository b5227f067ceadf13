"""One HTTP/1.1 answer read from bytes: what the endpoint's transport needs of the protocol, and no more.

Bodies come with a Content-Length, in chunks, or until the connection ends. The whole body is kept, up to a limit.
"""

from __future__ import annotations

import re

MAX_BODY = 64 * 1024 * 1024
"""Bytes of one reply. A chat completion has kilobytes; logarithms of many tokens some megabytes."""

_MAX_HEAD = 256 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?\Z")
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\Z")
_END = b"\r\n\r\n"


class BadAnswerError(Exception):
    """The bytes are not an HTTP answer that can be used; the message says why."""


class Answer:
    """An answer under way: `feed` bytes until it says True, or `end` when the connection has ended.

    status, headers and body are complete then; reusable says whether the connection may carry another request.
    """

    __slots__ = (
        "_buffer",
        "_chunked",
        "_left",
        "_limit",
        "_size",
        "_started",
        "body",
        "headers",
        "reusable",
        "status",
    )

    def __init__(self, limit: int = MAX_BODY) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.reusable = False
        self._buffer = bytearray()
        self._limit = limit
        self._size: int | None = None
        self._chunked = False
        self._left = -1
        self._started = False

    def feed(self, data: bytes) -> bool:
        """Take bytes; True when the answer is complete. Raises BadAnswerError."""
        self._buffer += data
        if not self._started and not self._head():
            return False
        if self._chunked:
            return self._chunks()
        self.body += self._buffer
        self._buffer.clear()
        self._bounded(len(self.body))
        if self._size is None or len(self.body) < self._size:
            return False
        if len(self.body) > self._size:
            del self.body[self._size :]
            self.reusable = False
        return True

    def end(self) -> bool:
        """The connection has ended: True when that completes the answer."""
        return self._started and not self._chunked and self._size is None

    @property
    def begun(self) -> bool:
        """Whether any byte of it has come."""
        return self._started or bool(self._buffer)

    def _bounded(self, size: int) -> None:
        if size > self._limit:
            raise BadAnswerError(f"the reply has more than {self._limit:,} bytes")

    def _head(self) -> bool:
        while True:
            end = self._buffer.find(_END)
            if end > _MAX_HEAD or (end < 0 and len(self._buffer) > _MAX_HEAD):
                raise BadAnswerError("the reply's headers have no end")
            if end < 0:
                return False
            lines = bytes(self._buffer[:end]).split(b"\r\n")
            del self._buffer[: end + len(_END)]
            self._status_line(lines[0])
            if self.status >= 200:
                self._read_headers(lines[1:])
                self._started = True
                return True

    def _status_line(self, line: bytes) -> None:
        found = _STATUS.match(line)
        if not found:
            raise BadAnswerError(f"the reply is not HTTP/1.1: it begins with {line[:60]!r}")
        self.status = int(found[2])
        self.reusable = found[1] == b"1"

    def _read_headers(self, lines: list[bytes]) -> None:
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name or name[:1] in b" \t":
                raise BadAnswerError(f"the reply has a header that is none: {line[:60]!r}")
            value = value.strip(b" \t")
            self.headers.append((name, value))
            self._framing(name.lower(), value)
        if self.status in (204, 304):
            self._size, self._chunked = 0, False
        elif self._size is None and not self._chunked:
            self.reusable = False
        if self._size is not None:
            self._bounded(self._size)

    def _framing(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 15 or self._size not in (None, int(value)):
                raise BadAnswerError(f"the reply has the length {value[:40]!r}")
            self._size = int(value)
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise BadAnswerError(f"the reply has the transfer encoding {value[:40]!r}")
            self._chunked = True
        elif name == b"connection" and value.lower() == b"close":
            self.reusable = False
        elif name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise BadAnswerError(f"the reply is compressed ({value[:40]!r}), which was not asked for")

    def _chunks(self) -> bool:
        """Move whole chunks into the body. `_left`: bytes of the chunk under way, -1 before its size line."""
        while True:
            if self._left < 0:
                line, found, _ = self._buffer[:1024].partition(b"\r\n")
                if not found:
                    return self._no_line()
                size = _CHUNK.match(line)
                if not size:
                    raise BadAnswerError(f"the reply has a chunk of size {bytes(line[:40])!r}")
                self._left = int(size[1], 16)
                self._bounded(len(self.body) + self._left)
                if self._left == 0:
                    self._left = -1
                    return self._trailers()
                del self._buffer[: len(line) + 2]
            if len(self._buffer) < self._left + 2:
                return False
            self.body += self._buffer[: self._left]
            del self._buffer[: self._left + 2]
            self._left = -1

    def _no_line(self) -> bool:
        if len(self._buffer) >= 1024:
            raise BadAnswerError("the reply has a chunk without a size")
        return False

    def _trailers(self) -> bool:
        """At the last size line, which stays in the buffer until the empty line after it has come."""
        end = self._buffer.find(_END)
        if end < 0 and len(self._buffer) > _MAX_HEAD:
            raise BadAnswerError("the reply's trailers have no end")
        if end >= 0 and len(self._buffer) > end + len(_END):
            self.reusable = False
        return end >= 0
