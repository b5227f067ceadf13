"""Between processes: children that end with their parent, and advisory locks of open files (flock).

The system releases a lock when the file is closed, however its process ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from types import ModuleType
from typing import IO

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

HAS_LOCKS = fcntl is not None

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """End this process of multiprocessing as soon as its parent has ended, by `kill -9` too, whatever it is doing."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()  # the system closes the parent's end of a pipe
            os._exit(1)

    threading.Thread(target=watch, name="factgym-parent", daemon=True).start()


def kill_with_parent() -> None:
    """Ask the system to kill this process when the thread that started it ends; for `preexec_fn` on the main thread.

    Linux only (PR_SET_PDEATHSIG); elsewhere nothing happens. It survives `exec`, so that a foreign program is covered.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
