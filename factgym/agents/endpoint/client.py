"""The `openai` client of one event loop: bytes out, bytes or a fault back.

The client's typed layer would check and rebuild every request and reply, which costs more CPU than all the rest of a
turn; its untyped `post`, meant for endpoints that it does not know, does not. Its own retries are off: they are ours.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from factgym.agents.endpoint.address import Address
from factgym.agents.endpoint.faults import Fault, fault_of_status
from factgym.agents.endpoint.secrets import Redactor
from factgym.agents.endpoint.settings import EndpointSettings
from factgym.agents.endpoint.transport import Connections, bounding_hook, httpx_transport

_STAINLESS = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
_FOR_OPENAI = ("OpenAI-Organization", "OpenAI-Project", *(f"X-Stainless-{name}" for name in _STAINLESS))
"""Headers about the user's account and machine, which other servers need not know; each costs CPU, too."""

_JSON: Any = {"headers": {"Content-Type": "application/json"}}


class Client:
    """Requests to one server, within one event loop; `close` it there, or let the loop's end do it."""

    def __init__(self, address: Address, settings: EndpointSettings, redactor: Redactor) -> None:
        import openai

        self._openai = openai
        self._httpx = _httpx_of(openai)
        self._timeout = settings.timeout
        self._redactor = redactor
        self._room = asyncio.Semaphore(settings.connections)
        left_out = () if address.is_openai else _FOR_OPENAI
        self._client = openai.AsyncOpenAI(
            api_key=address.key,
            base_url=address.url,
            max_retries=0,
            timeout=settings.timeout,
            default_headers={name: openai.Omit() for name in left_out},  # type: ignore[misc]  # the client's own way
            http_client=self._http_client(address, settings),
        )
        self._end: AsyncGenerator[None, None] | None = None

    def _http_client(self, address: Address, settings: EndpointSettings) -> Any:
        httpx, make = self._httpx, self._openai.DefaultAsyncHttpxClient
        options: dict[str, Any] = {"headers": {"Accept-Encoding": "identity"}, "timeout": settings.timeout}
        hooks = {"request": [_one_key(address.key)]} if os.environ.get("OPENAI_CUSTOM_HEADERS") else {}
        if _is_proxied(address.url):
            limits = httpx.Limits(max_connections=settings.connections, max_keepalive_connections=settings.connections)
            return make(limits=limits, event_hooks={**hooks, "response": [bounding_hook(httpx)]}, **options)
        transport = httpx_transport(httpx, Connections(tls=httpx.create_ssl_context))
        return make(transport=transport, event_hooks=hooks, **options)

    async def chat(self, body: bytes) -> bytes | Fault:
        """The reply to a chat request."""
        return await self._ask("/chat/completions", body)

    async def models(self) -> bytes | Fault:
        """The server's list of models."""
        return await self._ask("/models", None)

    async def _ask(self, path: str, body: bytes | None) -> bytes | Fault:
        if self._end is None:
            await self._watch_the_loop()
        answer = await self._answer(path, body)
        return self.redacted(answer) if isinstance(answer, Fault) else self._redactor.reply(answer)

    def redacted(self, fault: Fault) -> Fault:
        """The fault in one bounded line without the key."""
        return replace(fault, message=self._redactor.error(fault.message))

    async def _answer(self, path: str, body: bytes | None) -> bytes | Fault:
        """Errors become data here, outside of any `except`, so that no traceback can carry what a server echoed."""
        openai = self._openai
        try:
            async with self._room, asyncio.timeout(self._timeout):
                response = await self._send(path, body)
            content: bytes = response.content
            return content
        except openai.APIStatusError as error:
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            return fault_of_status(error.status_code, headers, error.response.content)
        except TimeoutError:
            return Fault("timeout", f"no reply within {self._timeout:g} s", again=True)
        except openai.APITimeoutError as error:
            return Fault("timeout", str(error.__cause__ or error), again=True)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            garbled = isinstance(cause, self._httpx.DecodingError)
            said = str(cause) or type(cause).__name__
            return Fault("bad_reply" if garbled else "connection", said, again=True)

    async def _send(self, path: str, body: bytes | None) -> Any:
        if body is None:
            return await self._client.get(path, cast_to=self._httpx.Response)
        return await self._client.post(path, cast_to=self._httpx.Response, content=body, options=_JSON)

    async def _watch_the_loop(self) -> None:
        self._end = self._until_the_loop_ends()
        await anext(self._end)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """asyncio finishes generators that are still open when a loop ends: connections must not outlive it."""
        try:
            yield
        finally:
            await self._client.close()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Give back the connections."""
        if self._end is not None:
            await self._end.aclose()
        else:
            await self._client.close()


def _httpx_of(openai: ModuleType) -> Any:
    """The httpx that this version of the client is built on: `httpx` below 3.0, `httpx2` from there on."""
    classes = openai.DefaultAsyncHttpxClient.__mro__
    base = next(one for one in classes if one.__name__ == "AsyncClient")
    return importlib.import_module(base.__module__.partition(".")[0])


def _one_key(key: str) -> Callable[[Any], Awaitable[None]]:
    """A request hook: our key is the only one, whatever OPENAI_CUSTOM_HEADERS adds.

    A redirect to another server has lost its key by then, and does not get it back.
    """

    async def authorise(request: Any) -> None:
        if "authorization" in request.headers:
            request.headers["Authorization"] = f"Bearer {key}"

    return authorise


def _is_proxied(url: str) -> bool:
    parts = urlsplit(url)
    proxies = getproxies()
    return (parts.scheme in proxies or "all" in proxies) and not proxy_bypass(parts.hostname or "")
