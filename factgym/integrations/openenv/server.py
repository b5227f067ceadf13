"""The server: OpenEnv's own, with bounds on what clients may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import ConcurrencyConfig

from factgym.core.errors import FactgymError
from factgym.integrations.http import serve_app
from factgym.integrations.openenv.environment import environment_class
from factgym.integrations.openenv.models import FactAction, FactObservation, FactState

MAX_SESSIONS = 64
IDLE_SECONDS = 3600.0
MAX_MESSAGE_BYTES = 4 * 2**20
"""The longest action that is read fits, however JSON escapes it."""

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def app(
    env_id: str,
    config: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    max_sessions: int = MAX_SESSIONS,
    idle_seconds: float | None = IDLE_SECONDS,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> FastAPI:
    """The ASGI application over `make(env_id, **config)`; raises what `make` raises.

    seed: of the order in which tasks are given to resets that ask for none. max_sessions: connections at a time; one
    more is refused in words. idle_seconds: after which a silent session is ended; None never. max_message_bytes: of an
    HTTP request; for messages on a socket give the server its own option, as `serve` does.
    """
    made: FastAPI = create_app(
        environment_class(env_id, config, seed=seed),
        FactAction,
        FactObservation,
        env_name=env_id,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=idle_seconds),
        state_cls=FactState,
    )
    made.add_exception_handler(FactgymError, _in_words)
    made.add_middleware(_Bounded, limit=max_message_bytes)
    return made


async def _in_words(request: Request, error: Exception) -> JSONResponse:
    """A plain HTTP step has no session: each request is one of its own."""
    more = " Over plain HTTP no episode outlives a request; play over the socket at /ws."
    return JSONResponse({"detail": f"{error}.{more if request.url.path == '/step' else ''}"}, status_code=400)


class _Bounded:
    """Refuses an HTTP body above the limit before it is read whole."""

    def __init__(self, inner: Any, limit: int) -> None:
        self.inner, self.limit = inner, limit

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        found, more = bytearray(), True
        while more:
            part = await receive()
            found += part.get("body", b"")
            more = part.get("more_body", False)
            if len(found) > self.limit:
                refusal = JSONResponse({"detail": f"a request holds at most {self.limit} bytes"}, status_code=413)
                await refusal(scope, receive, send)
                return
        whole = [{"type": "http.request", "body": bytes(found), "more_body": False}]

        async def given() -> Any:
            return whole.pop() if whole else await receive()

        await self.inner(scope, given, send)


async def serve(
    made: FastAPI,
    host: str = "127.0.0.1",
    port: int = 8000,
    ready: Callable[[str], None] = lambda url: None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> None:
    """Serve until the process is told to stop. port: 0 for a free one; ready gets the URL. Raises ConfigError."""
    await serve_app(made, host, port, ready, ws_max_size=max_message_bytes)


def run(made: FastAPI) -> None:
    """The main function of a folder's server: `--host` and `--port`, all interfaces and 8000 by default."""
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    asyncio.run(serve(made, args.host, args.port))
