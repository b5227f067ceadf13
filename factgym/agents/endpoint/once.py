"""A question that is asked once, however many wait for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from factgym.agents.endpoint.faults import Fault

T = TypeVar("T")


class Once(Generic[T]):
    """The answer, kept once it is there; a fault is not kept, so that the next one asks again."""

    def __init__(self, answer: T | None = None) -> None:
        self.answer = answer
        self._tasks: dict[asyncio.AbstractEventLoop, asyncio.Task[T | Fault]] = {}

    async def get(self, ask: Callable[[], Awaitable[T | Fault]]) -> T | Fault:
        """The answer, found by `ask` where it is not known; who waits may be cancelled without harm to the others."""
        if self.answer is not None:
            return self.answer
        loop = asyncio.get_running_loop()
        task = self._tasks.get(loop)
        if task is None:
            task = self._tasks[loop] = loop.create_task(self._run(ask))
            task.add_done_callback(lambda _: self._tasks.pop(loop, None))
        return await asyncio.shield(task)

    async def _run(self, ask: Callable[[], Awaitable[T | Fault]]) -> T | Fault:
        found = await ask()
        if not isinstance(found, Fault):
            self.answer = found
        return found

    def stop(self) -> None:
        """Give up a question that is under way in this event loop."""
        task = self._tasks.get(asyncio.get_running_loop())
        if task is not None:
            task.cancel()
