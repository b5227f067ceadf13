"""Tasks, task sets, and the cache of what is built once a process."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from factgym.core.errors import ConfigError, did_you_mean

T = TypeVar("T")

_MISSING: Any = object()

_lock = threading.Lock()
_values: dict[Hashable, Any] = {}
_building: dict[Hashable, threading.RLock] = {}


def shared(key: Hashable, build: Callable[[], T]) -> T:
    """The value of `key`, built by the first caller while others of the same key wait.

    When `build` raises, nothing is kept and the next caller tries again.
    """
    found: T = _values.get(key, _MISSING)
    if found is not _MISSING:
        return found
    with _lock:
        own = _building.setdefault(key, threading.RLock())
    with own:
        found = _values.get(key, _MISSING)
        if found is _MISSING:
            found = _values[key] = build()
        return found


def clear_shared() -> None:
    """Forget everything that was built; environments that are alive keep what they hold."""
    with _lock:
        _values.clear()
        _building.clear()


class SharedByArguments:
    """Mixin for immutable heavy objects: copies are the object itself."""

    __slots__ = ()

    def __copy__(self: T) -> T:
        return self

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        return self


class Task(Protocol):
    """One thing to do: immutable, and named uniquely within its set."""

    @property
    def id(self) -> str:
        """The name."""
        ...


TaskT_co = TypeVar("TaskT_co", bound=Task, covariant=True)


class TaskSet(Protocol[TaskT_co]):
    """An immutable sequence of tasks, made on demand: item *i* depends on nothing but the set's arguments and *i*."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> TaskT_co: ...

    def index_of(self, task_id: str) -> int:
        """The position of a task id. Raises ConfigError for an id that is not in the set."""
        ...

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        ...


KEPT = 8192
"""Tasks that stay in memory once made; beyond that the oldest are made anew."""

_HINTS = 2000

MadeT = TypeVar("MadeT", bound=Task)


class LazyTaskSet(SharedByArguments, ABC, Generic[MadeT]):
    """Base of task sets: thread-safe, and without making a task for a look at its id."""

    def __init__(self) -> None:
        self._made: dict[int, MadeT] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def id_at(self, index: int) -> str:
        """The id of a task, which need not have been made."""

    @abstractmethod
    def make(self, index: int) -> MadeT:
        """A task of the set, made anew."""

    def __getitem__(self, index: int) -> MadeT:
        task = self._made.get(index)
        return task if task is not None else self._keep(index)

    def _keep(self, index: int) -> MadeT:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no task {index}: the set has {len(self)}")
        task = self.make(index)
        with self._lock:
            while len(self._made) >= KEPT:
                del self._made[next(iter(self._made))]
            return self._made.setdefault(index, task)

    def index_of(self, task_id: str) -> int:
        """The position of a task id. Raises ConfigError for an id that is not in the set."""
        number = _final_number(task_id)
        if number is not None and number < len(self) and self.id_at(number) == task_id:
            return number
        first, last = (self.id_at(0), self.id_at(len(self) - 1)) if len(self) else ("", "")
        if _final_number(first) == 0 and _final_number(last) == len(self) - 1:  # numbered: no need to see them all
            raise ConfigError(f"there is no task {task_id[:80]!r} in this split: ids run from {first!r} to {last!r}")
        try:
            return self._positions[task_id]
        except KeyError:
            hint = did_you_mean(task_id, list(self._positions)[:_HINTS])
            raise ConfigError(f"there is no task {task_id[:80]!r} here.{hint}") from None

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {self.id_at(index): index for index in range(len(self))}


def _final_number(text: str) -> int | None:
    match = re.search(r"[0-9]{1,9}\Z", text[-9:])
    return int(match[0]) if match else None
