"""Processes that are killed while they write, at points that a seed chose. They are forked from one that has imported
the package."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from commands import FORKSERVER


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; what is not there, or goes away meanwhile, has none."""
    try:
        return sum(map(size_of, path.iterdir())) if path.is_dir() else path.stat().st_size
    except FileNotFoundError:
        return 0


def kill_until_done(
    function: Callable[..., object],
    arguments: tuple[Any, ...],
    path: Path,
    size: int,
    seed: int,
    after: Callable[[], object] = lambda: None,
) -> int:
    """Call a function that resumes what it writes to `path` again and again, until it was not killed before its end.

    Each process dies by SIGKILL shortly after it has written up to a quarter of `size` bytes, which is what an
    uninterrupted call writes. `after` is called after each kill. Returns the number of kills.
    """
    rng, sizes = random.Random(seed), [0]
    while True:
        limit, pause = size_of(path) + rng.randint(1, size // 4), rng.random() / 50
        process = FORKSERVER.Process(target=_run_watched, args=(function, arguments, path, limit, pause))
        process.start()
        process.join()
        if process.exitcode == 0:
            return len(sizes) - 1
        assert process.exitcode == -signal.SIGKILL
        sizes.append(size_of(path))
        after()
        assert len(sizes) < 40, "it does not advance"


def _run_watched(
    function: Callable[..., object], arguments: tuple[Any, ...], path: Path, limit: int, pause: float
) -> None:
    # A thread of the process itself, so that a busy machine delays both alike: the parent could come too late.
    def watch() -> None:
        while size_of(path) < limit:
            time.sleep(0.001)
        time.sleep(pause)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    function(*arguments)


def run_forked(arguments: Sequence[str], folder: Path) -> int | None:
    """The exit code of `run_command` in a process of its own, which has the package's imports already."""
    process = FORKSERVER.Process(target=run_command, args=(arguments, folder))
    process.start()
    process.join()
    return process.exitcode


def run_command(arguments: Sequence[str], folder: Path) -> None:
    """`factgym` with these arguments, in a folder and without output."""
    from factgym.cli.main import main

    os.chdir(folder)
    with Path(os.devnull).open("w") as sys.stdout:
        sys.argv = ["factgym", *arguments]
        main()
