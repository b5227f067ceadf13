"""Tasks and task sets."""

from __future__ import annotations

from typing import Protocol, TypeVar


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
