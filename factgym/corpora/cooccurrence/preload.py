"""Bringing a mapped index into memory before it is asked, so that no query waits for a page of the file.

A page that a process touches for the first time costs some microseconds even where the system's cache holds it, and
milliseconds where it must be read; a query of rare words costs some twenty microseconds in all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError

_PAGE = 4096
_AT_ONCE = 1 << 24
"""Bytes up to which an index is read while it is opened: a thread would be no sooner."""
_SHARE = 4
"""An index that takes at most one part in so many of the machine's memory is read by default."""


def touch(arrays: Iterable[NDArray[np.generic]]) -> None:
    """Read a byte of every page. Other threads run meanwhile."""
    for array in arrays:
        if array.size:
            np.bitwise_or.reduce(array.view(np.uint8)[::_PAGE])


def begin(arrays: Iterable[NDArray[np.generic]], wanted: bool | None) -> None:
    """Read arrays in the background (small ones at once) where that is wanted, or by default where memory is ample."""
    if not isinstance(wanted, bool | None):
        raise ConfigError(f"preload is True, False or None for the default, not {wanted!r}")
    kept = list(arrays)
    size = sum(array.nbytes for array in kept)
    if wanted is False or (wanted is None and size * _SHARE > _memory()):
        return
    if size <= _AT_ONCE:
        touch(kept)
    else:
        # A daemon: a process that is done does not wait for what it no longer needs.
        threading.Thread(target=touch, args=(kept,), name="preload", daemon=True).start()


def _memory() -> int:
    """Bytes of the machine, 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
