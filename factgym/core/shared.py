"""What is heavy is built once a process: a thread-safe cache of task sets, corpora and indexes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

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
