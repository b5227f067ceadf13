"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading

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
