"""One writer a run: a lock on its file that goes with the process that holds it."""

from __future__ import annotations

from pathlib import Path

from factgym.core.errors import ConfigError


def lock(file: int, path: Path) -> None:
    """Lock an open file for this process. Raises ConfigError when another process holds it.

    Where the system or its file system has no such locks, there is none.
    """
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"{path.parent} is being written by another process: wait for it, or stop it") from None
    except OSError:
        return
