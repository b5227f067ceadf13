"""Some of an environment's tasks, by id: how what a filter kept is played again, whatever the environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import TaskSet


class Subset:
    """The tasks of a set with the given ids, in their order. Raises ConfigError for an id that the set has not.

    What else an environment asks of its set (its corpus, its counter) is the set's own.
    """

    def __init__(self, tasks: TaskSet[Any], ids: Sequence[str]) -> None:
        if not ids:
            raise ConfigError("no task is chosen: the list of ids is empty")
        self._tasks = tasks
        self._indices = [tasks.index_of(one) for one in ids]
        self._places = {one: place for place, one in enumerate(ids)}
        if len(self._places) < len(ids):
            twice = next(one for place, one in enumerate(ids) if self._places[one] != place)
            raise ConfigError(f"task {twice!r:.80} is chosen twice")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy asks before anything is there
            raise AttributeError(name)
        return getattr(self._tasks, name)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no task {index}: the set has {len(self)}")
        return self._tasks[self._indices[index]]

    def index_of(self, task_id: str) -> int:
        """The position of a task id. Raises ConfigError for an id that is not in the set."""
        if task_id not in self._places:
            raise ConfigError(f"task {task_id!r:.80} is none of the {len(self)} that were chosen")
        return self._places[task_id]

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        said = json.dumps([self._tasks.fingerprint(), list(self._places)])
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def only(env: Env[Any], ids: Sequence[str]) -> Env[Any]:
    """The same environment with these tasks alone; it is changed in place and returned.

    Raises ConfigError for an id that it has not. Machines of a cluster build environments anew and cannot play it.
    """
    env.tasks = Subset(env.tasks, ids)
    env.spec = None  # what `make` was told no longer says which tasks there are
    return env


def read_tasks(path: str | Path) -> list[str]:
    """The ids in a file: one a line, or JSON lines with an "id". Raises DataError that names file and line."""
    path = Path(path)
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    found = [_task(line, f"{path} line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise DataError(f"{path} names no task")
    return found


def _task(line: str, where: str) -> str:
    if not line.lstrip().startswith("{"):
        return line.strip()
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: no valid JSON") from None
    if not isinstance(found.get("id"), str):
        raise DataError(f'{where}: an "id" is needed')
    return str(found["id"])
