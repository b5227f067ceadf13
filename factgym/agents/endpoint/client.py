"""The `openai` client of one event loop, and the requests that one reply takes.

Requests travel over aiohttp: with hundreds of them in flight, httpx's own connection pool costs milliseconds of CPU
for each. The client's typed layer would check and rebuild every request and reply, which costs more CPU than the rest
of a turn; its untyped `post`, meant for endpoints that it does not know, does not. Its own retries are off: each retry
is recorded here.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlsplit

from factgym.agents.endpoint.gate import RateGate
from factgym.agents.endpoint.reply import (
    MALFORMED_CALL,
    ChatReply,
    Fault,
    completion_of_stream,
    fault_of_status,
    is_stream,
    malformed_turn,
    read_reply,
)
from factgym.agents.endpoint.settings import Address, EndpointSettings, Redactor
from factgym.core.messages import Retry

T = TypeVar("T")

MAX_BODY = 64 * 1024 * 1024
"""Bytes of one reply. A chat completion has kilobytes; log-probabilities of many tokens some megabytes."""

_CONNECT_SECONDS = 15.0
_HANDSHAKE_SECONDS = 1.5
_MAX_ADAPTATIONS = 4
_IDLE_SECONDS = 15.0
"""An idle connection older than this is not used again: a proxy or firewall on the way may have dropped it."""

_FIRST_WAIT = 0.5
"""Seconds: the first wait is between 0 and this; the bound doubles with each further one."""

_STAINLESS = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
_OPENAI_HEADERS = ("OpenAI-Organization", "OpenAI-Project", *(f"X-Stainless-{name}" for name in _STAINLESS))
"""Headers about the user's account and machine, which other servers need not know; each costs CPU, too."""

_JSON: Any = {"headers": {"Content-Type": "application/json"}}
_EMPTY = Fault("empty_reply", "the reply is empty, and no token of it is reported", again=True)


class Client:
    """Requests to one server, within one event loop; `close` it there, or let the loop's end do it."""

    def __init__(self, address: Address, settings: EndpointSettings, redactor: Redactor) -> None:
        import aiohttp
        import openai

        self._openai, self._aiohttp = openai, aiohttp
        # The httpx that this version of openai is built on: `httpx` below 3.0, `httpx2` from there on.
        base = next(kind for kind in openai.DefaultAsyncHttpxClient.__mro__ if kind.__name__ == "AsyncClient")
        self._httpx = importlib.import_module(base.__module__.partition(".")[0])
        self._timeout = settings.timeout
        self._redactor = redactor
        self._slots = asyncio.Semaphore(settings.connections)
        self.gate = RateGate(settings.max_wait)
        self._reached = False  # whether the server has answered anything
        self._plain_port = None if address.url.startswith("https:") else urlsplit(address.url)
        hooks: dict[str, Any] = {"response": [_bound_body(self._httpx, MAX_BODY)]}
        if os.environ.get("OPENAI_CUSTOM_HEADERS"):
            hooks["request"] = [_authorise_with(address.key)]
        omitted = () if address.is_openai else _OPENAI_HEADERS
        self._client = openai.AsyncOpenAI(
            api_key=address.key,
            base_url=address.url,
            max_retries=0,
            timeout=self._httpx.Timeout(settings.timeout, connect=min(settings.timeout, _CONNECT_SECONDS)),
            default_headers={name: openai.Omit() for name in omitted},  # type: ignore[misc]  # the client's own way
            http_client=openai.DefaultAioHttpClient(
                limits=self._httpx.Limits(
                    max_connections=settings.connections,
                    max_keepalive_connections=settings.connections,
                    keepalive_expiry=_IDLE_SECONDS,
                ),
                headers={"Accept-Encoding": "identity"},
                event_hooks=hooks,
                follow_redirects=False,
            ),
        )
        self._closing: AsyncGenerator[None, None] | None = None

    def redacted(self, fault: Fault) -> Fault:
        """The fault in one bounded line without the key."""
        return replace(fault, message=self._redactor.error(fault.message))

    async def chat(self, body: bytes) -> bytes | Fault:
        """The reply to a chat request."""
        return await self._send("/chat/completions", content=body, options=_JSON)

    async def models(self) -> bytes | Fault:
        """The server's list of models."""
        return await self._send("/models")

    async def _send(self, path: str, **request: Any) -> bytes | Fault:
        if self._closing is None:
            # asyncio finishes generators that are still open when a loop ends: connections must not outlive it.
            self._closing = self._close_at_loop_end()
            await anext(self._closing)
        answer = await self._answer(self._client.post if request else self._client.get, path, **request)
        return self.redacted(answer) if isinstance(answer, Fault) else self._redactor.reply(answer)

    async def _answer(self, send: Callable[..., Awaitable[Any]], path: str, **request: Any) -> bytes | Fault:
        """Errors become data here, outside of any `except`, so that no traceback can carry an echoed key."""
        openai = self._openai
        try:
            async with self._slots, asyncio.timeout(self._timeout):
                sent = time.perf_counter()
                response = await send(path, cast_to=self._httpx.Response, **request)
            content: bytes = response.content
            self._reached = True
            if not is_stream(content):
                return content
            arrivals = [(size, at - sent) for size, at in getattr(response.stream, "arrivals", ())]
            return completion_of_stream(content, arrivals)
        except openai.APIStatusError as error:
            self._reached = True
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            return fault_of_status(error.status_code, headers, error.response.content)
        except TimeoutError:
            return Fault("timeout", f"no reply within {self._timeout:g} s", again=True)
        except (openai.APIConnectionError, self._aiohttp.ClientError) as error:
            fault = self._connection_fault(error)
        if fault.again and not self._reached and self._plain_port is not None and await self._speaks_tls():
            return Fault("connection", f"{fault.message}; the server speaks HTTPS: write https://", fatal=True)
        return fault

    async def _speaks_tls(self) -> bool:
        """Whether the server of an http:// address takes a TLS handshake; asked once, when the first request fails."""
        import ssl

        parts, self._plain_port = self._plain_port, None
        assert parts is not None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent: who answers is no matter
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, ssl=context)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    def _connection_fault(self, error: BaseException) -> Fault:
        """The fault by the chain of errors from openai's over httpx's to aiohttp's, which alone is exact.

        openai reports a closed connection as a timeout, for example, because of the mapping between the other two.
        """
        chain = [error]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)

        def first(*kinds: type[BaseException]) -> str | None:
            return next((str(link) or type(link).__name__ for link in chain if isinstance(link, kinds)), None)

        aiohttp, httpx = self._aiohttp, self._httpx
        if not self._reached:  # later, these can be the trouble of a moment
            if text := first(aiohttp.ClientConnectorCertificateError):
                remedy = "the server's certificate is not trusted: name its authority's file with SSL_CERT_FILE"
                return Fault("connection", f"{text}; {remedy}", fatal=True)
            if text := first(aiohttp.ClientConnectorSSLError):
                return Fault("connection", f"{text}; does the server speak HTTPS, or is it http://?", fatal=True)
            if text := first(aiohttp.ClientConnectorDNSError):
                return Fault("connection", f"{text}; no server has this name, or there is no network", fatal=True)
        if text := first(httpx.DecodingError, aiohttp.ClientResponseError):
            return Fault("bad_reply", text, again=True)
        if text := first(TimeoutError):
            return Fault("timeout", text, again=True)
        if text := first(aiohttp.ClientConnectorError):
            return Fault("connection", f"{text}; is the server running?", again=True)
        return Fault("connection", str(chain[-1]) or type(chain[-1]).__name__, again=True)

    async def _close_at_loop_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._client.close()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Give back the connections."""
        if self._closing is not None:
            await self._closing.aclose()
        else:
            await self._client.close()


def _authorise_with(key: str) -> Callable[[Any], Awaitable[None]]:
    """A request hook: our key is the only one, whatever OPENAI_CUSTOM_HEADERS adds.

    A redirect to another server has lost its key by then, and does not get it back.
    """

    async def authorise(request: Any) -> None:
        if "authorization" in request.headers:
            request.headers["Authorization"] = f"Bearer {key}"

    return authorise


def _bound_body(httpx: Any, limit: int) -> Callable[[Any], Awaitable[None]]:
    """A response hook that refuses compressed bodies and bodies with more bytes than the limit."""

    class BoundedStream(httpx.AsyncByteStream):  # type: ignore[misc]  # the module is chosen at run time
        """A body that fails when it has more bytes than the limit."""

        def __init__(self, stream: Any, request: Any) -> None:
            self.stream = stream
            self.request = request
            self.arrivals: list[tuple[int, float]] = []

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in self.stream:
                size += len(part)
                self.arrivals.append((size, time.perf_counter()))
                if size > limit:
                    raise httpx.DecodingError(f"the reply has more than {limit:,} bytes", request=self.request)
                yield part

        async def aclose(self) -> None:
            await self.stream.aclose()

    async def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx.DecodingError("the reply is compressed, against the request", request=response.request)
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise httpx.DecodingError(f"the reply has more than {limit:,} bytes", request=response.request)
        response.stream = BoundedStream(response.stream, response.request)

    return bound


def backoff(jitter: Random, attempt: int, max_wait: float, retry_after: float | None) -> float:
    """Seconds to wait before the request after `attempt` (from 0): exponential backoff with full jitter.

    jitter: seeded by the episode, so that a run waits the same way twice. retry_after: seconds that the server asks for;
    the wait is not shorter, but at most `max_wait`.
    """
    # Full jitter spreads the retries of many clients best (Brooker, "Exponential Backoff And Jitter", AWS, 2015).
    if retry_after is not None:
        return min(max_wait, retry_after + jitter.uniform(0, 0.1 * retry_after))
    return jitter.uniform(0, min(max_wait, _FIRST_WAIT * 2 ** min(attempt, 30)))


class Exchange:
    """The requests for one reply: transient faults are waited out, each one recorded.

    A model's own reply is never requested again, however bad it is: that would be rejection sampling, and flatter it.
    An empty reply is requested once more, and only where the server reports no token of it. requests, retries, notes:
    for the record.
    """

    def __init__(self, client: Client, settings: EndpointSettings, random: Callable[[], Random]) -> None:
        self._client = client
        self._settings = settings
        self._random = random
        self.requests = 0
        self._failed = 0  # retries used up by faults other than a rate limit's
        self._stalled = 0  # refusals for the rate since the server last took any request of the endpoint
        self._accepted = client.gate.accepted
        self.retries: list[Retry] = []
        self.notes: dict[str, Any] = {}

    async def reply(
        self, body: Callable[[int | None], bytes], adapt: Callable[[Fault], str | None] = lambda _: None
    ) -> ChatReply | Fault:
        """The model's reply. body: the request, given the `max_tokens` that fit (None: as set, 0: left out).

        adapt: changes further requests where the server does not take a setting, and returns the change.
        """
        limit: int | None = None
        sent = b""

        async def request() -> ChatReply | Fault:
            nonlocal sent
            sent = body(limit)
            answer = await self._client.chat(sent)
            if isinstance(answer, Fault):
                return malformed_turn(answer) if answer.cause == MALFORMED_CALL else answer
            outcome = read_reply(answer, self._settings.reasoning == "keep")
            if isinstance(outcome, Fault):
                return self._client.redacted(outcome)
            if outcome.empty:
                again = "empty_reply" not in self.notes and self._may_retry(_EMPTY)
                self.notes["empty_reply"] = "asked again" if again else "returned as it came"
                return _EMPTY if again else outcome
            return outcome

        outcome = await self.send(request)
        for _ in range(_MAX_ADAPTATIONS):
            if not isinstance(outcome, Fault) or not outcome.setting or adapt(outcome) is None or body(limit) == sent:
                break
            outcome = await self.send(request)
        if isinstance(outcome, Fault) and outcome.reply_tokens is not None:
            limit = self.notes["max_tokens"] = outcome.reply_tokens
            outcome = await self.send(request)
        return outcome

    async def send(
        self, request: Callable[[], Awaitable[T | Fault]], hopeless: Callable[[Fault], bool] = lambda _: False
    ) -> T | Fault:
        """The answer to a request, repeated after faults. hopeless: faults that seem transient and are not."""
        gate = self._client.gate
        while True:
            sent = await gate.wait()
            self.requests += 1
            answer = await request()
            limited = isinstance(answer, Fault) and answer.cause == "rate_limit"
            if not isinstance(answer, Fault) or answer.cause not in ("rate_limit", "connection", "timeout"):
                gate.taken(sent)
            if not isinstance(answer, Fault):
                return answer
            if limited and gate.accepted > self._accepted:
                # The server takes other requests meanwhile, so that this one's time comes: no retry is used up.
                self._accepted, self._stalled = gate.accepted, 0
            if hopeless(answer) or not self._may_retry(answer):
                return self._final(answer)
            waited = backoff(self._random(), self._failed + self._stalled, self._settings.max_wait, answer.retry_after)
            self.retries.append({"cause": answer.cause, "waited": round(waited, 4)})
            if limited:
                self._stalled += 1
                gate.refused(sent, waited)
            else:
                self._failed += 1
                await asyncio.sleep(waited)

    def _may_retry(self, fault: Fault) -> bool:
        if not fault.again or self._failed + self._stalled >= self._settings.max_retries:
            return False
        return fault.retry_after is None or fault.retry_after <= self._settings.max_wait

    def _final(self, fault: Fault) -> Fault:
        """The fault with its history."""
        parts = [fault.message]
        if fault.retry_after is not None and fault.retry_after > self._settings.max_wait:
            parts.append(
                f"; it asks to wait {fault.retry_after:.0f} s, above max_wait ({self._settings.max_wait:g} s)"
            )
        if self.requests > 1:
            parts.append(f" (after {self.requests} requests)")
        return replace(fault, message="".join(parts))
