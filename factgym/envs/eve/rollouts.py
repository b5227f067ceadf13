"""Where the policies play that an environment takes as arguments: one event loop a process, in a thread of its own.

An environment's step is a plain call; what it asks of another policy are many awaits at once. They run on the loop here,
whichever thread steps, so that connections and batches are shared between all episodes. Whoever waits may be told to
give up (`Underway.cancel`): what nobody waits for any more is cancelled, never left running.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from factgym.core.policy import PolicyError

T = TypeVar("T")

_EXIT_SECONDS = 10.0
"""How long the end of the process waits for policies to give back what they hold."""


class Underway:
    """What one episode waits for. Thread-safe; copies and pickles are fresh ones."""

    def __init__(self) -> None:
        self._futures: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def cancel(self) -> None:
        """Give up whatever is waited for, now and later; the waiting call raises PolicyError with cause "closed"."""
        with self._lock:
            self._closed = True
            futures = list(self._futures)
        for future in futures:
            future.cancel()

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        """The future's result. It is cancelled when the wait ends in any other way."""
        with self._lock:
            self._futures.add(future)
            if self._closed:
                future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise PolicyError("closed", "the episode was given up while other policies played for it") from None
        finally:
            future.cancel()
            with self._lock:
                self._futures.discard(future)

    def __deepcopy__(self, memo: dict[int, Any]) -> Underway:
        return Underway()

    def __reduce__(self) -> tuple[type[Underway], tuple[()]]:
        return Underway, ()


Close = Callable[[], Awaitable[Any]]


class _Backstage:
    """The loop and its thread, both started at once. users: calls that wait for it, counted under the module's lock."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.users = 0
        self._last: tuple[Close, ...] = ()
        self._thread = threading.Thread(target=self._run, name="factgym-nested", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end())
        finally:
            self.loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(close() for close in self._last), return_exceptions=True)
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()

    @property
    def is_here(self) -> bool:
        """Whether this is the loop's own thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def stop(self, last: tuple[Close, ...] = ()) -> None:
        """End everything that runs, await `last`, and end the thread."""
        self._last = last
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_EXIT_SECONDS)


_lock = threading.Lock()
_now: _Backstage | None = None
_closers: list[Close] = []


@contextmanager
def _using() -> Iterator[_Backstage]:
    global _now
    with _lock:
        _now = stage = _now or _Backstage()
        stage.users += 1
    try:
        yield stage
    finally:
        with _lock:
            stage.users -= 1


def run_nested(work: Callable[[], Coroutine[Any, Any, T]], underway: Underway) -> T:
    """The result of a coroutine that runs on the shared loop; waits for it. Raises what it raises.

    Raises PolicyError with cause "closed" when `underway` is cancelled, and "nested" when it is called from the loop
    itself (a policy there must not step an environment that waits for others).
    """
    with _using() as stage:
        if stage.is_here:
            raise PolicyError(
                "nested", "an episode that asks other policies cannot be played by one of these", fatal=True
            )
        return underway.wait(asyncio.run_coroutine_threadsafe(work(), stage.loop))


def close_at_end(close: Close) -> None:
    """Await `close` on the shared loop when the process (or `stop_nested`) ends it."""
    _closers.append(close)


def stop_nested() -> None:
    """End the shared loop with all that runs on it; the next `run_nested` starts another."""
    global _now
    with _lock:
        stage, _now = _now, None
        last = tuple(_closers)
        _closers.clear()
    if stage is not None:
        stage.stop(last)


def _rest() -> None:
    """Before a fork: end a loop that nobody waits for. A process with threads should not be forked."""
    global _now
    with _lock:
        stage = _now if _now is not None and not _now.users else None
        if stage is not None:
            _now = None
    if stage is not None:
        stage.stop()


def _forget() -> None:
    """A forked child has the loop's object, but not its thread."""
    global _now, _lock
    _now, _lock = None, threading.Lock()


atexit.register(stop_nested)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_rest, after_in_child=_forget)
