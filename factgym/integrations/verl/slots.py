"""Episode slots of a worker process, made from what a row says and used again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from factgym.core.errors import ConfigError
from factgym.integrations.session import Session

_MAX_FREE = 256
_free: dict[tuple[str, str], list[Session]] = {}


@dataclass(frozen=True, slots=True)
class RowTask:
    """The task of a row. env: id with version. settings: JSON text."""

    env: str
    task: str
    settings: str

    @classmethod
    def of(cls, extra_info: Any) -> RowTask:
        """From the column `extra_info`. Raises ConfigError for a row that `rows.table` did not write."""
        known = extra_info if isinstance(extra_info, Mapping) else {}
        env, task, settings = known.get("env"), known.get("task"), known.get("settings")
        if isinstance(env, str) and isinstance(task, str) and isinstance(settings, str):
            return cls(env, task, settings)
        missing = [name for name in ("env", "task", "settings") if not isinstance(known.get(name), str)]
        raise ConfigError(
            f"a row's extra_info lacks {', '.join(missing)}. Write the rows with "
            "`python -m factgym.integrations.verl rows ENV FILE.parquet`."
        )

    def session(self) -> Session:
        """A new slot. Raises what `make` raises, for rows of another version of the environment too."""
        return Session(self.env, **json.loads(self.settings))


class slot:  # noqa: N801 - used as a function is; a generator's context manager takes as long as a turn
    """`async with slot(row) as session`: a slot for the row's environment, with its task started."""

    __slots__ = ("_free", "_row", "_session")

    def __init__(self, row: RowTask) -> None:
        self._row = row
        self._free = _free.setdefault((row.env, row.settings), [])

    async def __aenter__(self) -> Session:
        # The first one may build an index, which must not hold up the other rollouts of this process.
        self._session = self._free.pop() if self._free else await asyncio.to_thread(self._row.session)
        self._session.env.reset(options={"task": self._row.task})
        return self._session

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and len(self._free) < _MAX_FREE:
            self._free.append(self._session)
