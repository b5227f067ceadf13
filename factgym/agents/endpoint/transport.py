"""How requests travel: an httpx transport on asyncio's own protocols, given to the `openai` client.

With hundreds of requests in flight, the pool that httpx brings looks through all connections at every request, which
costs milliseconds of CPU for each; this one takes the connection that became free last. It serves what chat clients
do: whole requests and whole, bounded replies over HTTP/1.1, plain or TLS. Where the surroundings ask for a proxy,
httpx's own transport is used instead, see `client`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from factgym.agents.endpoint.http import MAX_BODY, Answer, BadAnswerError

_IDLE_SECONDS = 15.0
"""An idle connection older than this is not used again: something between us and the server may have forgotten it."""

_CONNECT_SECONDS = 15.0

Origin = tuple[str, str, int]
"""Scheme, host and port."""


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time on it."""

    __slots__ = ("answer", "done", "freed", "limit", "transport")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.transport: asyncio.Transport | None = None
        self.answer: Answer | None = None
        self.done: asyncio.Future[Answer] | None = None
        self.freed = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.answer is None or self.done is None:
            self.abort()  # bytes that nobody asked for
            return
        try:
            if self.answer.feed(data) and not self.done.done():
                self.done.set_result(self.answer)
        except BadAnswerError as error:
            self._fail(error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.answer is not None and self.answer.end() and self.done is not None and not self.done.done():
            self.done.set_result(self.answer)
            return
        middle = "in the middle of its reply" if self.answer is not None and self.answer.begun else "without a reply"
        self._fail(ConnectionError(f"the server closed the connection {middle}" + (f" ({error})" if error else "")))

    def _fail(self, error: Exception) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and wait for its answer; the connection is cut when the wait is cancelled."""
        if self.transport is None:
            raise ConnectionError("the server closed the connection without a reply")
        self.answer = Answer(self.limit)
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            return await self.done
        except BaseException:
            self.abort()
            raise
        finally:
            self.answer = self.done = None

    def abort(self) -> None:
        """Cut the connection."""
        if self.transport is not None:
            self.transport.abort()
            self.transport = None


class Connections:
    """The connections of one event loop to any number of servers.

    max_body: bytes of one reply. tls: makes the context that certificates are checked with.
    """

    def __init__(
        self, max_body: int = MAX_BODY, tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        self._free: dict[Origin, list[_Connection]] = {}
        self._max_body = max_body
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._all: set[_Connection] = set()

    async def exchange(self, origin: Origin, request: bytes, connect_timeout: float | None) -> Answer:
        """Send a whole request. Raises BadAnswerError, OSError or TimeoutError (while connecting)."""
        connection = self._idle(origin) or await self._open(origin, connect_timeout)
        try:
            answer = await connection.exchange(request)
        except BaseException:
            self._all.discard(connection)
            raise
        self._give_back(origin, connection, answer.reusable)
        return answer

    def _idle(self, origin: Origin) -> _Connection | None:
        free = self._free.get(origin)
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while free:
            connection = free.pop()
            if (
                connection.transport is not None
                and not connection.transport.is_closing()
                and connection.freed > oldest
            ):
                return connection
            connection.abort()
            self._all.discard(connection)
        return None

    def _give_back(self, origin: Origin, connection: _Connection, reusable: bool) -> None:
        if reusable and connection.transport is not None:
            connection.freed = asyncio.get_running_loop().time()
            self._free.setdefault(origin, []).append(connection)
        else:
            connection.abort()
            self._all.discard(connection)

    async def _open(self, origin: Origin, timeout: float | None) -> _Connection:
        scheme, host, port = origin
        if scheme == "https" and self._context is None:
            self._context = self._tls()
        context = self._context if scheme == "https" else None
        try:
            async with asyncio.timeout(min(timeout or _CONNECT_SECONDS, _CONNECT_SECONDS)):
                connection = await self._connect(host, port, context)
        except ssl.SSLError:
            raise
        except (OSError, TimeoutError) as error:
            kind = TimeoutError if isinstance(error, TimeoutError) else ConnectionRefusedError
            raise kind(f"cannot connect to {host}:{port} ({error or 'no answer'}); is the server running?") from None
        self._all.add(connection)
        return connection

    async def _connect(self, host: str, port: int, context: ssl.SSLContext | None) -> _Connection:
        delay = None if _is_address(host) else 0.25
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._max_body), host, port, ssl=context, happy_eyeballs_delay=delay
        )
        return connection

    def close(self) -> None:
        """Cut every connection."""
        for connection in self._all:
            connection.abort()
        self._all.clear()
        self._free.clear()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def httpx_transport(httpx: Any, connections: Connections) -> Any:
    """The connections as an httpx transport. httpx: the module of that name, or its successor httpx2."""

    class Transport(httpx.AsyncBaseTransport):  # type: ignore[misc]  # the module is chosen at run time
        """Requests over our connections; faults become httpx's own errors."""

        async def handle_async_request(self, request: Any) -> Any:
            url = request.url
            origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
            body = await request.aread()
            timeout = request.extensions.get("timeout", {}).get("connect")
            try:
                answer = await connections.exchange(origin, _encoded(request, url, body), timeout)
            except BadAnswerError as error:
                raise httpx.DecodingError(str(error), request=request) from None
            except TimeoutError as error:
                raise httpx.ConnectTimeout(str(error), request=request) from None
            except OSError as error:
                raise httpx.ConnectError(str(error), request=request) from None
            stream = httpx.ByteStream(bytes(answer.body))
            return httpx.Response(answer.status, headers=answer.headers, stream=stream)

        async def aclose(self) -> None:
            connections.close()

    return Transport()


def bounding_hook(httpx: Any, limit: int = MAX_BODY) -> Callable[[Any], Awaitable[None]]:
    """A response hook that bounds the body, for httpx's own transport."""

    class Bounded(httpx.AsyncByteStream):  # type: ignore[misc]  # the module is chosen at run time
        """A body that fails when it has more bytes than the limit."""

        def __init__(self, stream: Any, request: Any) -> None:
            self.stream = stream
            self.request = request

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in self.stream:
                size += len(part)
                if size > limit:
                    raise httpx.DecodingError(f"the reply has more than {limit:,} bytes", request=self.request)
                yield part

        async def aclose(self) -> None:
            await self.stream.aclose()

    async def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx.DecodingError("the reply is compressed, which was not asked for", request=response.request)
        response.stream = Bounded(response.stream, response.request)

    return bound


def _encoded(request: Any, url: Any, body: bytes) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), url.raw_path)]
    lines += [b"%b: %b" % (name, value) for name, value in request.headers.raw]
    return b"\r\n".join([*lines, b"", body])
