"""Serving an ASGI application on a port, for the integrations that are servers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from factgym.core.errors import ConfigError

SHUTDOWN_SECONDS = 3
"""How long clients that are still connected are waited for when a server is told to stop."""


async def serve_app(app: Any, host: str, port: int, ready: Callable[[str], None], **options: Any) -> None:
    """Serve until the process is told to stop; requests are not logged.

    port: 0 for a free one. ready: gets the URL once the port is taken. options: of `uvicorn.Config`. Raises ConfigError
    where the address cannot be had.
    """
    import uvicorn

    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port} ({error.strerror}): choose another --port") from None
    with listening:
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS, **options
        )
        ready(f"http://{host}:{listening.getsockname()[1]}")
        await uvicorn.Server(config).serve(sockets=[listening])
