"""Ending a long command from outside: SIGTERM, which clusters send before they kill, is taken as Ctrl-C is."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import Self


class Termination:
    """SIGTERM ends a run as Ctrl-C does, also where a shell ignores Ctrl-C; a context manager."""

    def __init__(self) -> None:
        self._cancel: Callable[[], object] | None = None

    def watch(self) -> None:
        """From now on the running task is what is ended."""
        task = asyncio.current_task()
        assert task is not None
        self._cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)

    def _end(self, *_: object) -> None:
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, self._end)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGTERM, self._before)
