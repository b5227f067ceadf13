"""Episode slots of a worker process, made from what a row says and used again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
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
        known = dict(extra_info) if isinstance(extra_info, Mapping) else {}
        missing = [name for name in ("env", "task", "settings") if not isinstance(known.get(name), str)]
        if missing:
            raise ConfigError(
                f"a row's extra_info lacks {', '.join(missing)}. Write the rows with "
                "`python -m factgym.integrations.verl rows ENV FILE.parquet`."
            )
        return cls(known["env"], known["task"], known["settings"])

    def session(self) -> Session:
        """A new slot. Raises what `make` raises, for rows of another version of the environment too."""
        return Session(self.env, **json.loads(self.settings))


@asynccontextmanager
async def slot(row: RowTask) -> AsyncIterator[Session]:
    """A slot for the row's environment, with its task started."""
    key = (row.env, row.settings)
    free = _free.setdefault(key, [])
    # The first one may build an index, which must not hold up the other rollouts of this process.
    session = free.pop() if free else await asyncio.to_thread(row.session)
    session.start(row.task)
    yield session
    if len(free) < _MAX_FREE:
        free.append(session)
