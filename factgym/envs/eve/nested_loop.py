"""The event loop for policies that an environment takes as arguments: one per process, in a thread of its own.

An environment's step is a plain call; its requests to another policy are many awaits at once. They run on the loop here,
whichever thread steps, so that connections and batches are shared between all episodes. A wait can be cancelled
(`Cancellation.cancel`); work that nobody waits for is cancelled, never left running.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from factgym.core.policy import PolicyError

T = TypeVar("T")
Close = Callable[[], Awaitable[Any]]

_EXIT_SECONDS = 10.0
"""Longest wait at the end of the process for policies to release their resources."""


class Cancellation:
    """Cancels the waits of one episode. Thread-safe; copies and pickles are fresh ones."""

    def __init__(self) -> None:
        self._futures: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()
        self._cancelled = False

    def cancel(self) -> None:
        """Cancel all waits, now and later; the waiting call raises PolicyError with cause "closed"."""
        with self._lock:
            self._cancelled = True
            futures = list(self._futures)
        for future in futures:
            future.cancel()

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        """Return the future's result. It is cancelled when the wait ends in any other way."""
        with self._lock:
            self._futures.add(future)
            if self._cancelled:
                future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise PolicyError("closed", "the episode was given up while other policies played for it") from None
        finally:
            future.cancel()
            with self._lock:
                self._futures.discard(future)

    def __deepcopy__(self, memo: dict[int, Any]) -> Cancellation:
        return Cancellation()

    def __reduce__(self) -> tuple[type[Cancellation], tuple[()]]:
        return Cancellation, ()


class _LoopThread:
    """An event loop in a thread, both started at once. users: number of waiting calls, guarded by the module's lock."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self.users = 0
        self._stopping = asyncio.Event()
        self._closers: tuple[Close, ...] = ()
        self.thread = threading.Thread(target=self._run, name="factgym-nested", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._serve())

    async def _serve(self) -> None:
        await self._stopping.wait()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(close() for close in self._closers), return_exceptions=True)

    def stop(self, closers: tuple[Close, ...] = ()) -> None:
        """Cancel everything that runs, await the closers, and end the thread."""
        self._closers = closers
        self.loop.call_soon_threadsafe(self._stopping.set)
        self.thread.join(_EXIT_SECONDS)


_lock = threading.Lock()
_current: _LoopThread | None = None
_closers: list[Close] = []


def run_nested(work: Callable[[], Coroutine[Any, Any, T]], cancellation: Cancellation) -> T:
    """Run a coroutine on the shared loop and wait for its result. Raises its exceptions.

    Raises PolicyError with cause "closed" when it is cancelled, and "nested" when it is called from the loop itself: a
    policy there must not step an environment that waits for others.
    """
    global _current
    with _lock:
        _current = thread = _current or _LoopThread()
        thread.users += 1
    try:
        if threading.current_thread() is thread.thread:  # it must not wait for itself
            raise PolicyError(
                "nested", "an episode that asks other policies cannot be played by one of these", fatal=True
            )
        return cancellation.wait(asyncio.run_coroutine_threadsafe(work(), thread.loop))
    finally:
        with _lock:
            thread.users -= 1


def close_at_exit(close: Close) -> None:
    """Await `close` on the shared loop when the process (or `stop_nested`) ends it."""
    _closers.append(close)


def stop_nested() -> None:
    """End the shared loop with all that runs on it; the next `run_nested` starts another."""
    closers = tuple(_closers)
    _closers.clear()
    _stop(closers)


def _stop(closers: tuple[Close, ...] = (), *, if_idle: bool = False) -> None:
    global _current
    with _lock:
        thread = _current
        if thread is None or (if_idle and thread.users):
            return
        _current = None
    thread.stop(closers)


def _forget() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


atexit.register(stop_nested)
if hasattr(os, "register_at_fork"):
    # A process with threads should not be forked: a loop that nobody waits for is ended before, and forgotten in the
    # child, which has the loop's object but not its thread.
    os.register_at_fork(before=partial(_stop, if_idle=True), after_in_child=_forget)
