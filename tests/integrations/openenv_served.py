"""A server of ours in a thread or in a process of its own, as OpenEnv's clients reach it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from factgym.integrations.openenv import app

COMMAND = [sys.executable, "-m", "factgym.cli.main", "serve", "openenv"]


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextmanager
def in_thread(env_id: str, config: dict[str, Any] | None = None, **options: Any) -> Iterator[str]:
    """The address of a server over `make(env_id, **config)`; gone when the block is left."""
    made = app(env_id, config, **options)
    server = _Server(uvicorn.Config(made, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        assert server.up.wait(30)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def in_process(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `factgym serve openenv WORDS`, and its process."""
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert " at http://" in line, line + process.stderr.read()
            yield line.split()[-1], process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(30)
