"""Sharing expensive work: among awaiting coroutines, and between processes in a SQLite file."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from factgym.core.errors import ConfigError, DataError
from factgym.core.paths import create_file, kind_of

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """Return the results in order; the first exception is raised after the other tasks were cancelled."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def gather_bounded(
    function: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT], concurrency: int
) -> list[ResultT]:
    """Return `function` of every item in order, at most `concurrency` at a time; else like `gather_all`."""
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
    """Single flight: concurrent requests of one key share one computation.

    The computation is cancelled when the last coroutine that waits for it is. Event loops in several threads do not
    share.
    """

    def __init__(self) -> None:
        # Counted by the coroutines that wait; `shield` keeps one cancelled waiter from cancelling the work of the others.
        self._flights: dict[Hashable, _Flight[ResultT]] = {}

    async def share(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> tuple[ResultT, bool]:
        """The result of `work` and whether it was started by this call. Raises what `work` raises, for all."""
        flight_key = (asyncio.get_running_loop(), key)
        flight = self._flights.get(flight_key)
        is_first = flight is None
        if flight is None:
            flight = self._flights[flight_key] = _Flight(asyncio.ensure_future(work()))
            flight.task.add_done_callback(lambda task: self._land(flight_key, task))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task), is_first
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._land(flight_key, flight.task)
                flight.task.cancel()

    def _land(self, flight_key: Hashable, task: asyncio.Task[ResultT]) -> None:
        flight = self._flights.get(flight_key)
        if flight is not None and flight.task is task:
            del self._flights[flight_key]


_WAIT_SECONDS = 30.0
_TRIES = 40
_PAUSE_SECONDS = 0.05
_INHERITED: list[sqlite3.Connection] = []
"""Connections of a parent process: a fork must neither use nor close them."""


class SqliteCache:
    """Entries by key in a SQLite file, whose folder is made when it is missing. Safe under threads and processes.

    A subclass names the content. Raises DataError, here and in every method, that names the file when it is damaged,
    not ours or cannot be used.
    """

    content: ClassVar[str]
    """Name of the content in errors, such as "judgement cache"."""
    table: ClassVar[str]
    application: ClassVar[int]
    """SQLite's "application id" of our files of this kind, so that somebody else's is never written to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            kind_of(self.file, self.content)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            create_file(self.file, "ab").close()
        except OSError as error:
            raise DataError(f"{self.file}: the {self.content} cannot be made ({error})") from error
        self._set_up()
        with self._open() as db:
            for attempt in range(_TRIES):
                try:
                    self._create_table(db)
                    return
                except sqlite3.OperationalError as error:
                    # Switching to the write-ahead log answers "locked" at once, whatever the timeout is.
                    if attempt == _TRIES - 1 or "locked" not in str(error):
                        raise
                    time.sleep(_PAUSE_SECONDS)

    def _set_up(self) -> None:
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._closer: weakref.finalize[[], Any] | None = None
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.file = state["file"]
        self._set_up()

    def close(self) -> None:
        """Close the file; it is opened again when it is needed, and closes by itself with the last user."""
        with self._lock:
            if self._closer is not None:
                self._closer()
            self._db = self._closer = None

    def get(self, key: str) -> dict[str, Any] | None:
        """The entry of a key, or None."""
        with self._open() as db:
            row = db.execute(f"SELECT entry FROM {self.table} WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            value = json.loads(row[0]) if isinstance(row[0], str) else None
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._unusable(f"the entry {key[:12]} is not readable")
        return value

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Store an entry, plain JSON data; the first that was stored for a key stays."""
        text = json.dumps(entry, allow_nan=False, sort_keys=True)
        with self._open() as db, db:
            db.execute(f"INSERT OR IGNORE INTO {self.table} (key, entry) VALUES (?, ?)", (key, text))

    def __len__(self) -> int:
        with self._open() as db:
            return int(db.execute(f"SELECT count(*) FROM {self.table}").fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                # After a fork the connection is the parent's: it is left alone and another is opened.
                if self._db is not None and self._process != os.getpid():
                    _INHERITED.append(self._db)
                    if self._closer is not None:
                        self._closer.detach()
                    self._db = None
                if self._db is None:
                    self._process = os.getpid()
                    self._db = sqlite3.connect(self.file, timeout=_WAIT_SECONDS, check_same_thread=False)
                    self._closer = weakref.finalize(self, self._db.close)
                    self._db.execute("PRAGMA synchronous = NORMAL")
                yield self._db
            except sqlite3.Error as error:
                raise self._unusable(str(error)) from error

    def _create_table(self, db: sqlite3.Connection) -> None:
        """Make the table where the file is new; several processes may do so at once."""
        db.execute("BEGIN")  # both are read from one state: another process may be making the file
        with db:
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            owner = db.execute("PRAGMA application_id").fetchone()[0]
        if owner == self.application:
            return
        if owner or tables:
            raise self._unusable("it is a database of another program")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        with db:
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {self.table} (key TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID"
            )
            db.execute(f"PRAGMA application_id = {self.application}")

    def _unusable(self, why: str) -> DataError:
        return DataError(f"{self.file}: the {self.content} cannot be used ({why}); move it away or name another folder")
