"""The least HTTP/1.1 that chat clients need: keep-alive, Content-Length bodies, one request at a time per connection.

Written on `asyncio.Protocol`, because the server shares its machine with what it measures. Left out on purpose:
chunked requests, `Expect`, compression.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self

MAX_REQUEST = 64 * 1024 * 1024
"""Bytes of one request; a longer one ends the connection."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,10})[ \t]*\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """head: the request line and the headers, as they came. body: exactly Content-Length bytes."""

    head: bytes
    body: bytes

    @property
    def method(self) -> bytes:
        """Such as `POST`."""
        return self.head.partition(b" ")[0]

    @property
    def path(self) -> bytes:
        """Such as `/v1/models`, with its query string."""
        return self.head.split(b" ", 2)[1] if self.head.count(b" ") >= 2 else b""


class Connection(asyncio.Protocol):
    """One client's connection. It answers requests in their order: the next is read when the last was answered."""

    __slots__ = ("answering", "buffer", "handle", "need", "server", "transport")

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.need = 0
        self.answering = False
        self.transport: asyncio.Transport | None = None
        self.handle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio; an answer that is still due is dropped."""
        self.transport = None
        self.server.connections.discard(self)
        if self.handle is not None:
            self.handle.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.buffer += data
        if not self.answering and len(self.buffer) >= self.need:
            self._next()

    def _next(self) -> None:
        end = self.buffer.find(_END)
        if end < 0:
            self.need = 0
            if len(self.buffer) > MAX_REQUEST:
                self.drop()
            return
        found = _LENGTH.search(self.buffer, 0, end + 2)
        size = int(found[1]) if found else 0
        total = end + len(_END) + size
        if total > MAX_REQUEST:
            self.drop()
        elif len(self.buffer) < total:
            self.need = total
        else:
            request = Request(bytes(self.buffer[:end]), bytes(self.buffer[end + len(_END) : total]))
            del self.buffer[:total]
            self.need = 0
            self.answering = True
            self.server.answer(self, request)

    def later(self, delay: float, status: int, body: bytes, kind: bytes = b"application/json") -> None:
        """Send an answer after `delay` seconds."""
        self.handle = asyncio.get_running_loop().call_later(delay, self.send, status, body, b"", kind)

    def send(self, status: int, body: bytes, headers: bytes = b"", kind: bytes = b"application/json") -> None:
        """Send an answer now, and go on to the next request. headers: whole lines, each with its line end."""
        head = b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n" % (
            status,
            kind,
            len(body),
            headers,
        )
        self.write(head + body)
        self.answered()

    def write(self, data: bytes) -> None:
        """Send raw bytes; nothing where the client has gone."""
        if self.transport is not None:
            self.transport.write(data)

    def answered(self) -> None:
        """The request in hand has its whole answer."""
        self.answering = False
        if self.buffer and self.transport is not None:
            self._next()

    def close(self) -> None:
        """End the connection once everything written has gone out."""
        if self.transport is not None:
            self.transport.close()

    def drop(self) -> None:
        """Cut the connection off at once, with a reset where bytes are still under way."""
        if self.transport is not None:
            self.transport.abort()


class HttpServer:
    """A server in the running event loop: `async with HttpServer() as url`. A subclass says how to `answer`.

    Port 0 takes a free one. The URL has no slash at its end. tls: a context to serve HTTPS with.
    """

    tls: ssl.SSLContext | None = None

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    def answer(self, connection: Connection, request: Request) -> None:
        """Answer now or later with `connection.send`."""
        connection.send(404, b'{"error":{"message":"nothing here"}}')

    async def start(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=4096, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def url(self) -> str:
        """The base URL that clients take, such as `http://127.0.0.1:8000/v1`."""
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}/v1"

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.drop()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> str:
        return (await self.start()).url

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
