"""Task sets of the families: tasks over the items that a configuration reads or generates, shared by its settings."""

from __future__ import annotations

import hashlib
import json
import operator
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from factgym.core.config import EnvConfig
from factgym.core.tasks import Immutable, LazyTaskSet, Task

TaskT = TypeVar("TaskT", bound=Task)
ConfigT = TypeVar("ConfigT", bound=EnvConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTask(Immutable):
    """Base of immutable, shared tasks. origin: the task set and the index in it, as which a task is pickled."""

    origin: tuple[Any, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.origin


class ItemTaskSet(LazyTaskSet[TaskT], Generic[TaskT, ConfigT]):
    """Base of the task sets of a configuration, a task for each item. Thread-safe; pickled as the configuration.

    items: an indexable source whose items have an `id`.
    """

    def __init__(self, items: Any, config: ConfigT) -> None:
        super().__init__()
        self.items = items
        self.config = config

    @classmethod
    @abstractmethod
    def of(cls, config: ConfigT) -> Self:
        """Return the shared task set of a configuration. Raises ConfigError or DataError for unusable files."""

    def __len__(self) -> int:
        return len(self.items)

    def id_at(self, index: int) -> str:
        return str(self.items[index].id)

    def fingerprint(self) -> str:
        return text_hash(self.items.fingerprint())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of, (self.config,)


def text_hash(text: str) -> str:
    """Return the first 16 hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class IdentityKey:
    """A key that equals itself alone and keeps its object alive."""

    __slots__ = ("_object",)

    def __init__(self, value: object) -> None:
        self._object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other._object is self._object

    def __hash__(self) -> int:
        return id(self._object)


def setting_key(value: object) -> Hashable:
    """Return a key of a setting for `shared`: plain data by its content, anything else by its identity."""
    if isinstance(value, dict):
        return tuple((key, setting_key(item)) for key, item in sorted(value.items()))
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return IdentityKey(value)
