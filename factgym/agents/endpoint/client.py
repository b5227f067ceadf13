"""The connections of one event loop to a server, and the requests that one reply takes.

Requests go straight over aiohttp's pooled connections. The `openai` client would do the same through httpx: of a turn at
1,100 a second its layers were 41 % and the transport between httpx and aiohttp 16 %, and its types check nothing that
`read_reply` does not. Of it remain the names of the environment variables and headers that it sends to OpenAI.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import factgym
from factgym.agents.endpoint.faults import MALFORMED_CALL, Fault, fault_of_status
from factgym.agents.endpoint.gate import gate_of
from factgym.agents.endpoint.reply import ChatReply, completion_of_stream, is_stream, malformed_turn, read_reply
from factgym.agents.endpoint.settings import Address, EndpointSettings, Redactor
from factgym.core.messages import Retry

T = TypeVar("T")

_log = logging.getLogger(__name__)

MAX_BODY = 64 * 1024 * 1024
"""Bytes of one reply. A chat completion has kilobytes; log-probabilities of many tokens some megabytes."""

_CONNECT_SECONDS = 15.0
_HANDSHAKE_SECONDS = 1.5
_CONTACT_SECONDS = 1.5
"""Seconds for which a first request that meets no server is repeated: it may be about to listen."""

_QUIET_SECONDS = 2.0
"""Seconds without an answer to the first request, after which a line says so."""

_LOADING_PAUSE = 2.0
_MAX_FIRST_CHARS = 300
_SEEDED = b',"seed":'
_MAX_ADAPTATIONS = 4
_IDLE_SECONDS = 15.0
"""An idle connection older than this is not used again: a proxy or firewall on the way may have dropped it."""

_OUTAGE_WAIT = 5.0
"""Seconds of a wait for a server that is gone, at most: it is asked again soon after its return."""

_FIRST_WAIT = 0.5
"""Seconds: the first wait is between 0 and this; the bound doubles with each further one."""

_OPENAI_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers about the user's account -> variable. They go to OpenAI alone: other servers need not know them."""

_FIXED = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"factgym/{factgym.__version__}"}
_PACKED = ("gzip", "x-gzip", "deflate")
_JSON = {"Content-Type": "application/json"}
_EMPTY = Fault("empty_reply", "the reply is empty, and no token of it is reported", again=True)


class Client:
    """Requests to one server, within one event loop; `close` it there, or let the loop's end do it."""

    def __init__(self, address: Address, settings: EndpointSettings, redactor: Redactor) -> None:
        import aiohttp

        self._aiohttp = aiohttp
        self._address = address
        self._timeout, self._max_outage = settings.timeout, settings.max_outage
        self._overflow = re.compile(settings.overflow_pattern, re.IGNORECASE) if settings.overflow_pattern else None
        self._keep_reasoning = settings.reasoning == "keep"
        self._redactor = redactor
        self._slots = asyncio.Semaphore(settings.connections)
        self.gate = gate_of(address.url, settings.max_wait)
        self._reached = False  # whether the server has answered anything
        self._served = False  # whether it was the server that answered, and no proxy for it
        self._gone_since: float | None = None  # the first request that met no server, since the last that did
        self._gone_at: float | None = None  # the same on the clock of all threads
        self.first_fault: Fault | None = None  # since the last answer that was none
        self._plain_port = None if address.url.startswith("https:") else urlsplit(address.url)
        self._proxy = _proxy_of(address.url)
        self._session: Any = None
        self._closing: AsyncGenerator[None, None] | None = None

    def _open_session(self) -> Any:
        import ssl

        aiohttp = self._aiohttp
        # The system's authorities, or those of SSL_CERT_FILE and SSL_CERT_DIR.
        tls = ssl.create_default_context() if self._address.url.startswith("https:") else True
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(self._timeout, _CONNECT_SECONDS)),
            headers=_headers(self._address),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def redacted(self, fault: Fault) -> Fault:
        """The fault in one bounded line without the key."""
        return replace(fault, message=self._redactor.error(fault.message))

    def returns_within(self, seconds: float) -> bool:
        """Whether the server has answered before and is gone for less than `seconds`."""
        if not self._served or self._gone_since is None:
            return False
        return asyncio.get_running_loop().time() - self._gone_since < seconds

    @property
    def notice(self) -> str | None:
        """How long the server has been away, and is waited for; None while it answers. For any thread."""
        if (since := self._gone_at) is None:
            return None
        return f"server away for {time.monotonic() - since:.0f} s, waiting up to {self._max_outage:g}"

    async def contact(self) -> Fault | None:
        """Meet the server: return the fault where none listens; wait, and say so, for one that is loading its model."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        line = loop.call_later(_QUIET_SECONDS, _log.warning, "%s has not answered yet", self._address.url)
        try:
            while isinstance(fault := await self.models(), Fault) and (fault.loading or fault.unreachable):
                if loop.time() - started > (self._max_outage if fault.loading else _CONTACT_SECONDS):
                    return fault
                if fault.loading and not line.cancelled():
                    line.cancel()
                    _log.warning("%s is loading its model: waiting up to %g s", self._address.url, self._max_outage)
                await asyncio.sleep(_LOADING_PAUSE if fault.loading else _CONTACT_SECONDS / 5)
        finally:
            line.cancel()
        return None

    def read(self, answer: bytes) -> ChatReply | Fault:
        """The reply or the fault that an answer holds."""
        outcome = read_reply(answer, self._keep_reasoning, self._overflow)
        return self.redacted(outcome) if isinstance(outcome, Fault) else outcome

    async def chat(self, body: bytes) -> bytes | Fault:
        """The reply to a chat request."""
        return await self._send("POST", "/chat/completions", data=body, headers=_JSON)

    async def models(self) -> bytes | Fault:
        """The server's list of models."""
        return await self._send("GET", "/models")

    async def _send(self, method: str, path: str, **request: Any) -> bytes | Fault:
        """Return an answer or a fault, without secrets; tracks since when the server has been away."""
        if self._closing is None:
            self._session = self._open_session()
            # asyncio finishes generators that are still open when a loop ends: connections must not outlive it.
            self._closing = self._close_at_loop_end()
            await anext(self._closing)
        answer = await self._answer(method, path, **request)
        if isinstance(answer, Fault) and answer.away:
            if self._gone_since is None:
                self._gone_since, self._gone_at = asyncio.get_running_loop().time(), time.monotonic()
            self._served = self._served or answer.loading
        elif not isinstance(answer, Fault) or answer.cause not in ("timeout", "connection"):
            self._gone_since, self._gone_at, self._served = None, None, True
        if not isinstance(answer, Fault):
            self.first_fault = None
            return self._redactor.reply(answer)
        answer = self.redacted(answer)
        if answer.again and answer.cause != "rate_limit" and self.first_fault is None:
            self.first_fault = answer
        return answer

    async def _answer(self, method: str, path: str, **request: Any) -> bytes | Fault:
        """Errors become data here, outside of any `except`, so that no traceback can carry an echoed key."""
        try:
            async with self._slots, asyncio.timeout(self._timeout):
                sent = time.perf_counter()
                async with self._session.request(
                    method, self._address.url + path, proxy=self._proxy, allow_redirects=False, **request
                ) as response:
                    parts = await _read_body(response)
        except self._aiohttp.ClientError as error:
            fault = self._connection_fault(error)
        except TimeoutError:
            return Fault("timeout", f"no reply within {self._timeout:g} s", again=True)
        else:
            if isinstance(parts, Fault):
                return parts
            self._reached = True
            content = b"".join([part for part, _ in parts])
            if not 200 <= response.status < 300:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return fault_of_status(response.status, headers, content, self._overflow)
            return _completion(content, parts, sent) if is_stream(content) else content
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
        """The fault by the chain of errors from aiohttp's to that of the system."""
        chain = [error]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)

        def first(*kinds: type[BaseException]) -> str | None:
            return next((str(link) or type(link).__name__ for link in chain if isinstance(link, kinds)), None)

        aiohttp = self._aiohttp
        if not self._reached:  # later, these can be the trouble of a moment
            if text := first(aiohttp.ClientConnectorCertificateError):
                remedy = "the server's certificate is not trusted: name its authority's file with SSL_CERT_FILE"
                return Fault("connection", f"{text}; {remedy}", fatal=True)
            if text := first(aiohttp.ClientConnectorSSLError):
                return Fault("connection", f"{text}; does the server speak HTTPS, or is it http://?", fatal=True)
            if text := first(aiohttp.ClientConnectorDNSError):
                return Fault("connection", f"{text}; no server has this name, or there is no network", fatal=True)
        if text := first(aiohttp.ClientResponseError):
            return Fault("bad_reply", text, again=True)
        if text := first(TimeoutError):
            return Fault("timeout", text, again=True)
        if text := first(aiohttp.ClientConnectorError):
            return Fault("connection", f"{text}; is the server running?", again=True, away=True)
        return Fault("connection", str(chain[-1]) or type(chain[-1]).__name__, again=True)

    async def _close_at_loop_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self.gate.close()
            await self._session.close()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Give back the connections."""
        if self._closing is not None:
            await self._closing.aclose()


def _headers(address: Address) -> dict[str, str]:
    """Return the headers of every request. Those of OPENAI_CUSTOM_HEADERS never replace the key."""
    lines = (line.partition(":") for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines())
    headers = {name.strip(): value.strip() for name, colon, value in lines if colon}
    if address.is_openai:
        headers |= {name: os.environ[key] for name, key in _OPENAI_HEADERS.items() if os.environ.get(key)}
    headers = {name: value for name, value in headers.items() if name.lower() not in ("authorization", *_FIXED)}
    return {**headers, "Authorization": f"Bearer {address.key}", **_FIXED}


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for a server, as curl and the standard library read it."""
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    return None if proxy is None or proxy_bypass(parts.hostname or "") else proxy


async def _read_body(response: Any) -> list[tuple[bytes, float]] | Fault:
    """Return the parts of a body with the times of their arrival; a fault for one that is too long or cannot be unpacked."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_PACKED):
        return Fault("bad_reply", f"the reply is compressed ({encoding:.20}), against the request", again=True)
    too_long = Fault("bad_reply", f"the reply has more than {MAX_BODY:,} bytes", again=True)
    if (response.content_length or 0) > MAX_BODY:
        response.close()
        return too_long
    unpacking = _Unpacking() if encoding in _PACKED else None
    parts: list[tuple[bytes, float]] = []
    size = 0
    async for part in response.content.iter_any():
        try:
            content = part if unpacking is None else unpacking.add(part, MAX_BODY + 1 - size)
        except zlib.error as error:
            return Fault("bad_reply", f"the reply is no {encoding} ({error})", again=True)
        size += len(content)
        if size > MAX_BODY:
            response.close()
            return too_long
        parts.append((content, time.perf_counter()))
    if unpacking is not None and not unpacking.complete:
        return Fault("bad_reply", f"the {encoding} of the reply is cut off", again=True)
    return parts


class _Unpacking:
    """A body that a proxy compresses whatever was asked for: gzip (RFC 1952), in any number of members, or zlib."""

    def __init__(self) -> None:
        self._member = self._new()

    @staticmethod
    def _new() -> Any:
        return zlib.decompressobj(zlib.MAX_WBITS | 32)  # the header says which of the two it is

    def add(self, data: bytes, limit: int) -> bytes:
        """Return the content of the next bytes, at most `limit`. Raises zlib.error."""
        content = b""
        while data and len(content) < limit:
            if self._member.eof:
                self._member = self._new()
            content += self._member.decompress(data, limit - len(content))
            data = self._member.unused_data or self._member.unconsumed_tail
        return content

    @property
    def complete(self) -> bool:
        """Whether the last member is whole."""
        return bool(self._member.eof)


def _completion(content: bytes, parts: Sequence[tuple[bytes, float]], sent: float) -> bytes:
    sizes = accumulate(len(part) for part, _ in parts)
    return completion_of_stream(content, [(size, at - sent) for size, (_, at) in zip(sizes, parts, strict=True)])


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
    for the record. trouble: the last fault, while requests are repeated after it.
    """

    def __init__(self, client: Client, settings: EndpointSettings, random: Callable[[], Random]) -> None:
        self._client = client
        self._settings = settings
        self._random = random
        self.requests = 0
        self._failed = 0  # retries used up by faults other than a rate limit's
        self._seeded = False
        self._stalled = 0  # refusals for the rate since the server last took any request of the endpoint
        self._accepted = client.gate.accepted
        self.retries: list[Retry] = []
        self.notes: dict[str, Any] = {}
        self.trouble: str | None = None

    async def reply(
        self,
        body: Callable[[int | None], bytes],
        adapt: Callable[[Fault], str | None] = lambda _: None,
        hopeless: Callable[[Fault], bool] = lambda _: False,
    ) -> ChatReply | Fault:
        """The model's reply. body: the request, given the `max_tokens` that fit (None: as set, 0: left out).

        adapt: changes further requests where the server does not take a setting, and returns the change. hopeless: see
        `send`.
        """
        limit: int | None = None
        sent = b""

        async def request() -> ChatReply | Fault:
            nonlocal sent
            sent = body(limit)
            self._seeded = _SEEDED in sent
            answer = await self._client.chat(sent)
            if isinstance(answer, Fault):
                return malformed_turn(answer) if answer.cause == MALFORMED_CALL else answer
            outcome = self._client.read(answer)
            if isinstance(outcome, ChatReply) and outcome.empty:
                again = "empty_reply" not in self.notes and self._may_retry(_EMPTY)
                self.notes["empty_reply"] = "asked again" if again else "returned as it came"
                return _EMPTY if again else outcome
            return outcome

        outcome = await self.send(request, hopeless)
        for _ in range(_MAX_ADAPTATIONS):
            if not isinstance(outcome, Fault) or not outcome.setting or adapt(outcome) is None or body(limit) == sent:
                break
            outcome = await self.send(request, hopeless)
        if isinstance(outcome, Fault) and outcome.reply_tokens is not None and body(outcome.reply_tokens) != sent:
            limit = self.notes["max_tokens"] = outcome.reply_tokens
            outcome = await self.send(request, hopeless)
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
                self.trouble = None
                return answer
            self.trouble = answer.message
            first = self._client.first_fault
            if answer.away and first is not None:
                self.notes["outage"] = first.message[:_MAX_FIRST_CHARS]
            if limited and gate.accepted > self._accepted:
                # The server takes other requests meanwhile, so that its turn comes: no retry is used up.
                self._accepted, self._stalled = gate.accepted, 0
            if hopeless(answer) or not self._may_retry(answer):
                return self._final(answer)
            limit = self._settings.max_wait
            if answer.away and answer.retry_after is None:
                limit = min(limit, _OUTAGE_WAIT)
            waited = backoff(self._random(), self._failed + self._stalled, limit, answer.retry_after)
            self.retries.append({"cause": answer.cause, "waited": round(waited, 4)})
            if limited:
                self._stalled += 1
                gate.refused(sent, waited)
            else:
                self._failed += 1
                await asyncio.sleep(waited)

    def _may_retry(self, fault: Fault) -> bool:
        """Return whether a fault is worth another attempt: within the retries, or while an outage may still end."""
        settings = self._settings
        if not fault.again or not settings.max_retries:
            return False
        if self._failed + self._stalled >= settings.max_retries and not (
            fault.away and self._client.returns_within(settings.max_outage)
        ):
            return False
        return fault.retry_after is None or fault.retry_after <= settings.max_wait

    def _final(self, fault: Fault) -> Fault:
        """The fault with its history."""
        parts = [fault.message]
        first = self._client.first_fault
        if first is not None and fault.cause == "connection" and first.message != fault.message:
            advice = "; some servers die of a seed: try --agent-set send_seed=false"
            seeded = first.cause == "server" and fault.away and self._seeded
            parts.insert(0, f"{first.message[:_MAX_FIRST_CHARS]}{advice * seeded}; and since then: ")
        if fault.retry_after is not None and fault.retry_after > self._settings.max_wait:
            parts.append(f"; it asks to wait {fault.retry_after:.0f} s, above max_wait ({self._settings.max_wait:g} s)")
        if self.requests > 1:
            parts.append(f" (after {self.requests} requests)")
        return replace(fault, message="".join(parts))
