"""The HTTP shell of every `factgym serve` command: whose requests are answered, how large and slow they may be.

`Guard` is an ASGI application around a server's own. It refuses requests and WebSockets of foreign hosts and origins, or
without the token, reads bodies within limits of size, time and JSON tokens, and gives every error as one line of JSON.
`serve` runs it: a deadline for headers, a limit of connections, an orderly end at SIGINT and SIGTERM.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
import logging
import re
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from factgym.core.errors import ConfigError
from factgym.core.paths import is_host
from factgym.integrations.frameworks import Shell, framework_import

with framework_import("HTTP server", "serve", "starlette", "uvicorn", "h11"):
    import h11
    import uvicorn
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Guard", "Shell", "first_fault", "on_signals", "read_json", "read_model", "refuse", "serve"]

MAX_BODY_BYTES = 4 * 2**20
MAX_HEADER_BYTES, MAX_HEADERS = 32 * 2**10, 100
MAX_JSON_TOKENS = 100_000
"""Strings and separators of one body or message, which are parsed in some ten milliseconds."""
MAX_ERROR_BYTES = 4096
INLINE_BYTES = 2**16
"""A larger body is parsed on a worker thread."""
SHUTDOWN_SECONDS = 3
"""Seconds that a stopping server waits for clients that are still connected."""
LINGER_SECONDS = 2.0
"""A client that is still sending when it is refused is listened to for so long, so that it can read the refusal."""
API_POLICY = "default-src 'none'; frame-ancestors 'none'"

_HEADERS_TOO_LARGE = f"The headers are more than {MAX_HEADERS}, or larger than {MAX_HEADER_BYTES:,} bytes."
_SINGLE_HEADERS = (b"authorization", b"content-length", b"content-type", b"origin", b"transfer-encoding")
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[,\[{]', re.DOTALL)
_log = logging.getLogger(__name__)
App = Callable[[Any, Any, Any], Awaitable[None]]
Model = TypeVar("Model", bound=BaseModel)


class _RefusedError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.detail, self.headers = status, detail, headers or {}


class Guard:
    """An ASGI application within its shell.

    max_body_bytes: of one request, or of one message on a WebSocket. policy: the Content-Security-Policy of responses.
    asks_password: a browser may send the token as a password, which it asks its user for.
    """

    def __init__(
        self,
        app: App,
        shell: Shell,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        policy: str = API_POLICY,
        asks_password: bool = False,
    ) -> None:
        self.shell, self.max_body_bytes = shell, max_body_bytes
        self._app, self._asks_password = app, asks_password
        self._headers = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy,
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        }
        self._inner: App = self._handle
        if shell.allow_origins:
            self._inner = CORSMiddleware(
                self._handle,
                allow_origins=shell.allow_origins,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=("*",),
                expose_headers=("Mcp-Session-Id",),
            )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        sender = _Sender(send, self._headers) if scope["type"] == "http" else send
        try:
            _check_form(scope["path"], scope["headers"])
            headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
            if refusal := self.shell.refusal(headers):
                raise _RefusedError(*refusal)
            await self._inner(scope, receive, sender)
        except _RefusedError as refusal:
            await self._refuse(refusal, scope, receive, sender)
        except Exception as error:  # the boundary: a fault of the application is status 500
            _log.error("a request failed: %s: %s", type(error).__name__, " ".join(str(error).split())[:500])
            if scope["type"] == "websocket" or sender.has_started:
                raise
            fault = _RefusedError(500, f"The server failed ({type(error).__name__}).")
            await self._refuse(fault, scope, receive, sender)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Check the token, and pass the request to the application: a body within the limits, or a WebSocket's messages."""
        headers = dict(scope["headers"])
        expected = self.shell.token
        if expected is not None:
            credential = _credential(headers.get(b"authorization", b""), self._asks_password)
            if not hmac.compare_digest(credential, expected.encode()):
                scheme = 'Basic realm="factgym"' if self._asks_password else "Bearer"
                detail = "The token is missing or wrong: send it as 'Authorization: Bearer TOKEN'."
                raise _RefusedError(401, detail, {"WWW-Authenticate": scheme})
        if scope["type"] == "websocket":
            await self._app(scope, partial(_receive_message, receive, send), send)
            return
        body = await self._read_body(headers, receive)
        if body is None:
            return
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return pending.pop() if pending else await receive()

        await self._app(scope, replay, send)

    async def _read_body(self, headers: dict[bytes, bytes], receive: Any) -> bytes | None:
        """Return the body, None for a client that has gone. Raises _RefusedError for one that is too large, slow or coded."""
        limit, seconds = self.max_body_bytes, self.shell.request_seconds
        too_large = _RefusedError(413, f"The body is larger than {limit:,} bytes: send less at a time.")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise _RefusedError(415, "The body must have no Content-Encoding.")
        if int(headers.get(b"content-length", b"0")) > limit:
            raise too_large
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > limit:
                        raise too_large
        except TimeoutError:
            raise _RefusedError(408, f"The body took longer than {seconds:g} seconds.") from None
        if await _has_too_many_tokens(body):
            raise _RefusedError(413, f"The body holds more than {MAX_JSON_TOKENS:,} strings and separators.")
        return bytes(body)

    async def _refuse(self, refusal: _RefusedError, scope: Any, receive: Any, send: Any) -> None:
        """Send a refusal, and go on reading for a while: closed under a client that sends, a connection loses its response."""
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:100]})
            return

        async def linger(message: Any) -> None:
            if message["type"] == "http.response.body":
                await send({**message, "more_body": True})
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        while (await receive()).get("more_body"):
                            pass
                message = {**message, "body": b""}
            await send(message)

        has_body = {name for name, _ in scope["headers"]} & {b"content-length", b"transfer-encoding"}
        response = JSONResponse({"detail": refusal.detail}, refusal.status, {**refusal.headers, "Connection": "close"})
        await response(scope, receive, linger if has_body else send)


def _check_form(path: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Raise _RefusedError for a request that two servers may read in two ways, and for headers beyond the limits."""
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        raise _RefusedError(431, _HEADERS_TOO_LARGE)
    counts = Counter(name for name, _ in headers)
    if counts[b"host"] != 1 or any(counts[name] > 1 for name in _SINGLE_HEADERS):
        raise _RefusedError(400, "A request has one Host, and one of each header about its sender and body.")
    if not path.startswith("/") or (counts[b"transfer-encoding"] and counts[b"content-length"]):
        raise _RefusedError(400, "A request names a path, and the length of its body in one way.")


def _credential(header: bytes, with_password: bool) -> bytes:
    """Return the token of an Authorization header, empty where it has none."""
    scheme, _, value = header.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic" and with_password:
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    return b""


async def _has_too_many_tokens(text: bytes | bytearray) -> bool:
    """Whether JSON has more than `MAX_JSON_TOKENS` strings and separators; separators within strings are none."""
    if sum(map(text.count, b',[{"')) <= MAX_JSON_TOKENS:
        return False
    excess = islice(_JSON_TOKEN.finditer(text), MAX_JSON_TOKENS, None)
    return await asyncio.to_thread(next, excess, None) is not None


async def _receive_message(receive: Any, send: Any) -> Any:
    """Receive a WebSocket's event; a message of too many JSON values closes the connection."""
    message = await receive()
    if message["type"] == "websocket.receive":
        text = message.get("text")
        data = message.get("bytes") or b"" if text is None else text.encode("utf-8", "surrogatepass")
        if await _has_too_many_tokens(data):
            reason = f"a message of more than {MAX_JSON_TOKENS:,} strings and separators"
            await send({"type": "websocket.close", "code": 1009, "reason": reason})
            return {"type": "websocket.disconnect", "code": 1009, "reason": reason}
    return message


class _Sender:
    """Sends a response with the shell's headers; an error that is neither HTML nor short JSON becomes short JSON."""

    def __init__(self, send: Any, headers: dict[str, str]) -> None:
        self._send, self._headers = send, headers
        self.has_started = self._is_replaced = False

    async def __call__(self, message: Any) -> None:
        """Send an ASGI message."""
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            for name, value in self._headers.items():
                headers.setdefault(name, value)
            media_type, size = headers.get("content-type", ""), int(headers.get("content-length", "0"))
            is_short_json = media_type.startswith("application/json") and size <= MAX_ERROR_BYTES
            if message["status"] >= 400 and not (is_short_json or media_type.startswith("text/html")):
                self._is_replaced = True
                body = json.dumps({"detail": HTTPStatus(message["status"]).phrase}).encode()
                headers["content-type"], headers["content-length"] = "application/json", str(len(body))
                await self._send({**message, "headers": headers.raw})
                await self._send({"type": "http.response.body", "body": body})
        if not self._is_replaced:
            await self._send(message)


async def read_json(request: Request) -> Any:
    """Return the JSON of a body, a large one parsed on a worker thread. Raises HTTPException with status 400."""
    body = await request.body()
    try:
        return _parse(body) if len(body) <= INLINE_BYTES else await asyncio.to_thread(_parse, body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is no JSON.") from None


def _parse(body: bytes) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    return json.loads(body.decode(), parse_constant=refuse)


async def read_model(request: Request, model: type[Model]) -> Model:
    """Return a body as a model. Raises HTTPException with status 400 or 422 and the first fault."""
    try:
        return model.model_validate(await read_json(request))
    except ValidationError as error:
        raise HTTPException(422, first_fault(error.errors(include_input=False))) from None


def first_fault(errors: Sequence[Any]) -> str:
    """Return the first fault that pydantic names, without the input."""
    name = ".".join(map(str, errors[0]["loc"]))[:80] or "the body must be an object"
    return f"{name}: {errors[0]['msg']}."


async def refuse(request: Request, error: Any) -> JSONResponse:
    """Answer an HTTPException."""
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


class _Connection(H11Protocol):
    """A connection that is closed where its client sends no headers in time, or reads nothing; one too many ends the oldest such."""

    def __init__(self, *, shell: Shell, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._shell = shell
        self._silent_since = self.loop.time()
        self._unread = 0
        self._is_refused = False

    def connection_made(self, transport: Any) -> None:
        """Watch the connection; close the one that has been silent for longest where there are too many."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._shell.request_seconds / 4, self._watch)
        if len(self.connections) > self._shell.max_connections:
            waiting = [item for item in self.connections if isinstance(item, _Connection) and item._is_waiting]
            oldest = min(waiting, key=lambda connection: connection._silent_since)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the watch."""
        self._timer.cancel()
        super().connection_lost(exc)

    @property
    def _is_waiting(self) -> bool:
        """Whether headers are waited for."""
        return self.conn.their_state is h11.IDLE

    def handle_events(self) -> None:
        """Read requests."""
        super().handle_events()
        if not self._is_waiting:
            self._silent_since = self.loop.time()

    def _watch(self) -> None:
        if self.transport.get_protocol() is not self:  # a WebSocket by now
            return
        now, unread, seconds = self.loop.time(), self.transport.get_write_buffer_size(), self._shell.request_seconds
        if unread != self._unread or not (unread or self._is_waiting):
            self._silent_since = now
        self._unread = unread
        if now - self._silent_since >= seconds:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(seconds / 4, self._watch)

    def data_received(self, data: bytes) -> None:
        """Read data, unless the connection was refused."""
        if not self._is_refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless a response has begun, and close the connection once the client has read that."""
        self._is_refused = True
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        status = 431 if len(self.conn.trailing_data[0]) > MAX_HEADER_BYTES else 400
        body = json.dumps({"detail": msg if status == 400 else _HEADERS_TOO_LARGE}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        response = h11.Response(status_code=status, headers=list(headers.items()), reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)


def on_signals(stop: Callable[[int], object]) -> None:
    """Have the running loop call `stop` with the number of a SIGINT or SIGTERM, where the platform can."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, other threads
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)


async def serve(app: Guard, ready: Callable[[str], None], *, websockets: bool = False) -> int:
    """Serve until the process receives SIGINT or SIGTERM; return the exit status, 130 or 143. Requests are not logged.

    ready: gets the URL once the port is open. Raises ConfigError where the address cannot be had.
    """
    shell = app.shell
    host, family = shell.host, socket.AF_INET6 if ":" in shell.host else socket.AF_INET
    if not is_host(host):
        raise ConfigError(f"{host!r:.80} is no host to listen on: give a name or an address, such as 127.0.0.1")
    try:
        listener = socket.create_server((host, shell.port), family=family, backlog=1024)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{shell.port} ({error.strerror}): choose another --port") from None
    status = 0
    with listener:
        # Accepted connections inherit it. asyncio sets it for sockets whose protocol number is given alone, and without it
        # an answer of two packets waits 40 ms for the client's acknowledgement (Nagle's algorithm).
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            http=partial(_Connection, shell=shell),  # type: ignore[arg-type]
            ws="auto" if websockets else "none",
            ws_max_size=app.max_body_bytes,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]

        def stop(number: int) -> None:
            nonlocal status
            status = 128 + number
            server.handle_exit(number, None)

        on_signals(stop)
        ready(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
        await server.serve(sockets=[listener])
    return status
