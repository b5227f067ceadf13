"""Awaiting many things at once: all or none, at most so many at a time, and the same question only once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from factgym.core.errors import ConfigError

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """The results in order; the first exception is raised after what is still under way was cancelled."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def gather_bounded(
    function: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT], concurrency: int
) -> list[ResultT]:
    """`function` of every item in order, at most `concurrency` at a time; else like `gather_all`."""
    if concurrency < 1:
        raise ConfigError(f"concurrency must be at least 1, not {concurrency}")
    results: dict[int, ResultT] = {}
    waiting = iter(enumerate(items))

    async def work() -> None:
        for index, item in waiting:
            results[index] = await function(item)

    await gather_all(work() for _ in range(min(concurrency, len(items))))
    return [results[index] for index in range(len(items))]


@dataclass(slots=True)
class _Flight(Generic[ResultT]):
    task: asyncio.Task[ResultT]
    waiting: int = 0


class Flights(Generic[ResultT]):
    """Questions under way: who asks one that is already being asked waits for that answer.

    The work is cancelled when the last who waits for it is. Event loops in several threads do not share.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[ResultT]] = {}

    async def share(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> tuple[ResultT, bool]:
        """The result of `work` and whether it was started by this call. Raises what `work` raises, for all."""
        place = (asyncio.get_running_loop(), key)
        flight = self._flights.get(place)
        mine = flight is None
        if flight is None:
            flight = self._flights[place] = _Flight(asyncio.ensure_future(work()))
            flight.task.add_done_callback(lambda task: self._land(place, task))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task), mine
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._land(place, flight.task)
                flight.task.cancel()

    def _land(self, place: Hashable, task: asyncio.Task[ResultT]) -> None:
        flight = self._flights.get(place)
        if flight is not None and flight.task is task:
            del self._flights[place]
