"""Tasks, task sets, and the process-wide cache of heavy objects."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from factgym.core.errors import ConfigError, did_you_mean

T = TypeVar("T")

_MISSING: Any = object()

_lock = threading.Lock()
_values: dict[Hashable, Any] = {}
_building: dict[Hashable, threading.RLock] = {}


def shared(key: Hashable, build: Callable[[], T]) -> T:
    """Return the value of `key`, built by the first caller while others of the same key wait.

    When `build` raises, nothing is stored and the next caller tries again.
    """
    # Double-checked locking, with a lock for each key: reads take none, and different keys are built at once.
    value: T = _values.get(key, _MISSING)
    if value is not _MISSING:
        return value
    with _lock:
        build_lock = _building.setdefault(key, threading.RLock())
    with build_lock:
        value = _values.get(key, _MISSING)
        if value is _MISSING:
            value = _values[key] = build()
        return value


def clear_shared() -> None:
    """Drop all cached objects; live environments keep theirs."""
    with _lock:
        _values.clear()
        _building.clear()


class Immutable:
    """Mixin for immutable objects: copies are the object itself."""

    __slots__ = ()

    def __copy__(self: T) -> T:
        return self

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        return self


class Task(Protocol):
    """One item of a task set: immutable, with an id that is unique within its set."""

    @property
    def id(self) -> str:
        """The id."""


@dataclass(frozen=True, slots=True)
class SimpleTask(Immutable):
    """A task that is a prompt and its gold answer, plain data of any shape."""

    id: str
    prompt: str
    gold: Any


TaskT_co = TypeVar("TaskT_co", bound=Task, covariant=True)


class TaskSet(Protocol[TaskT_co]):
    """An immutable sequence of tasks, made on demand: item *i* depends on nothing but the set's arguments and *i*."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> TaskT_co: ...

    def index_of(self, task_id: str) -> int:
        """The index of a task id. Raises ConfigError for an id that is not in the set."""

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""


MAX_CACHED_TASKS = 8192
"""Tasks that stay in memory once made; beyond that the oldest are made anew."""

_MAX_HINTS = 2000

MadeT = TypeVar("MadeT", bound=Task)


class LazyTaskSet(Immutable, ABC, Generic[MadeT]):
    """Base of task sets that make a task on first access. Thread-safe; an id is read without making its task."""

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
        """Make a task of the set."""

    def __getitem__(self, index: int) -> MadeT:
        task = self._made.get(index)
        if task is not None:
            return task
        if not 0 <= index < len(self):
            raise IndexError(f"there is no task {index}: the set has {len(self)}")
        # Made outside the lock: two threads may make the same task, and the first that is stored is used by both.
        task = self.make(index)
        with self._lock:
            while len(self._made) >= MAX_CACHED_TASKS:  # first in, first out: dicts keep their order
                del self._made[next(iter(self._made))]
            return self._made.setdefault(index, task)

    def index_of(self, task_id: str) -> int:
        """The index of a task id. Raises ConfigError for an id that is not in the set.

        Ids that end in their index are not listed for that, neither to find one nor to refuse one.
        """
        number = _final_number(task_id)
        if number is not None and number < len(self) and self.id_at(number) == task_id:
            return number
        first, last = (self.id_at(0), self.id_at(len(self) - 1)) if len(self) else ("", "")
        if _final_number(first) == 0 and _final_number(last) == len(self) - 1:
            raise ConfigError(f"there is no task {task_id[:80]!r} in this split: ids run from {first!r} to {last!r}")
        try:
            return self._indices[task_id]
        except KeyError:
            hint = did_you_mean(task_id, list(self._indices)[:_MAX_HINTS])
            raise ConfigError(f"there is no task {task_id[:80]!r} here.{hint}") from None

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {self.id_at(index): index for index in range(len(self))}


def _final_number(text: str) -> int | None:
    match = re.search(r"[0-9]{1,9}\Z", text[-9:])
    return int(match[0]) if match else None


class TaskList(LazyTaskSet[MadeT]):
    """A task set of tasks that exist already, for small sets. Raises ConfigError for a repeated id.

    Tasks are dataclasses of plain data: the fingerprint is taken from their `repr`. It pickles by value, and is the same
    object again in a process that has a list of the same content.
    """

    def __init__(self, tasks: Iterable[MadeT]) -> None:
        super().__init__()
        self._tasks = tuple(tasks)
        shared(("task list", self.fingerprint()), lambda: self)
        if len(self._indices) != len(self._tasks):
            raise ConfigError("two tasks share an id: ids are unique in a task set")

    def __len__(self) -> int:
        return len(self._tasks)

    def id_at(self, index: int) -> str:
        """The id of a task."""
        return self._tasks[index].id

    def make(self, index: int) -> MadeT:
        """The task itself."""
        return self._tasks[index]

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        return hashlib.sha256("\n".join(map(repr, self._tasks)).encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return _task_list, (self.fingerprint(), self._tasks)


def _task_list(fingerprint: str, tasks: tuple[Any, ...]) -> TaskList[Any]:
    return shared(("task list", fingerprint), lambda: TaskList(tasks))


class Subset:
    """The tasks of a set with the given ids, in their order. Raises ConfigError for an id that is not in the set.

    Every other attribute (such as a corpus or a counter) is the set's. ids: of the tasks.
    """

    def __init__(self, tasks: TaskSet[Any], ids: Sequence[str]) -> None:
        if not ids:
            raise ConfigError("no task is chosen: the list of ids is empty")
        self._tasks = tasks
        self.ids = tuple(ids)
        self._indices = [tasks.index_of(task_id) for task_id in ids]
        self._positions: dict[str, int] = {}
        for position, task_id in enumerate(ids):
            if self._positions.setdefault(task_id, position) != position:
                raise ConfigError(f"task {task_id!r:.80} is chosen twice")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying looks attributes up before `__init__` has set any
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
        if task_id not in self._positions:
            raise ConfigError(f"task {task_id!r:.80} is none of the {len(self)} that were chosen")
        return self._positions[task_id]

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        content = json.dumps([self._tasks.fingerprint(), list(self._positions)])
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]
