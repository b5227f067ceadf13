"""Answers that policies have given, so that nothing is asked twice: in memory, and in a file where one is named.

A key is a SHA-256 over question, evidence, policy, protocol and seed, and over all else that an answer depends on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

from factgym.core.caching import Flights, SqliteCache

IN_MEMORY = 100_000
"""Answers kept in memory; beyond that the one that was not needed for longest goes."""

Entry = dict[str, Any]


class AnswerFile(SqliteCache):
    """Answers in a SQLite file, shared by processes."""

    what: ClassVar[str] = "answer cache"
    table: ClassVar[str] = "answers"
    application: ClassVar[int] = 0x46474A32

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path))


class AnswerCache:
    """Entries by key. To be used on one event loop; what two ask for at once is asked once."""

    def __init__(self, file: AnswerFile | None = None, size: int = IN_MEMORY) -> None:
        self._file = file
        self._size = size
        self._kept: OrderedDict[str, Entry] = OrderedDict()
        self._flights: Flights[Entry] = Flights()

    async def get(self, key: str, ask: Callable[[], Coroutine[Any, Any, Entry]]) -> Entry:
        """The entry of a key, plain JSON data, made by `ask` where there is none. Raises what `ask` raises."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        entry, _ = await self._flights.share(key, lambda: self._found(key, ask))
        self._kept[key] = entry
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return entry

    async def _found(self, key: str, ask: Callable[[], Coroutine[Any, Any, Entry]]) -> Entry:
        if self._file is None:
            return await ask()
        entry = await asyncio.to_thread(self._file.get, key)
        if entry is None:
            entry = await ask()
            await asyncio.to_thread(self._file.put, key, entry)
        return entry
