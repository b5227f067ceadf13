"""Advisory locks of open files (flock): the system releases them when the file is closed, however its process ends."""

from __future__ import annotations

from types import ModuleType
from typing import IO

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

HAS_LOCKS = fcntl is not None


def lock(file: int | IO[bytes] | IO[str], *, wait: bool = False) -> bool:
    """Lock an open file for this process; return False where another has it. wait: until that releases it.

    Without a lock, and True, where the system or its file system has none.
    """
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


def unlock(file: int | IO[bytes] | IO[str]) -> None:
    """Release the lock of a file that stays open."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)
