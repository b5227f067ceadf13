"""A small memory of what was asked for last: values of bounded number, each built once while others wait."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from factgym.core.errors import ConfigError

T = TypeVar("T")


class Recent(Generic[T]):
    """The `size` values used last, by key. Safe under threads; different keys are built side by side."""

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"keep is the number of claims held in memory, at least 1, not {size!r}")
        self.size = size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._building: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """The value of `key`; when `build` raises, nothing is kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            own = self._building.setdefault(key, threading.Lock())
        with own:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            try:
                value = build()
                self._keep(key, value)
            finally:
                with self._lock:
                    self._building.pop(key, None)
            return value

    def __len__(self) -> int:
        return len(self._values)

    def _keep(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.size:
                self._values.popitem(last=False)
