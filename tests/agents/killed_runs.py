"""Commands that are killed while they write a run. Processes are forked from one that has imported the package."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from factgym.agents.runs.files import EPISODES

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["factgym.cli.main", "factgym.cli.evaluate", "factgym.cli.filter", "killed_runs"])


def run_command(arguments: Sequence[str], folder: str) -> None:
    """`factgym` with these arguments, in a folder and without output."""
    from factgym.cli.main import main

    os.chdir(folder)
    with Path(os.devnull).open("w") as sys.stdout:
        sys.argv = ["factgym", *arguments]
        main()


def kill_until_done(
    arguments: Sequence[str], out: Path, seed: int, seconds: tuple[float, float], max_kills: int = 40
) -> list[int]:
    """Start a command that resumes the run in `out` again and again, until it was not killed before its end.

    SIGKILL comes at a random time within `seconds` of the first line that a process writes: none is killed before it
    did anything. Returns the size of the file of episodes after each kill.
    """
    rng, path, sizes = random.Random(seed), out / EPISODES, []
    while len(sizes) < max_kills:
        size = path.stat().st_size if path.exists() else 0
        process = _CONTEXT.Process(target=run_command, args=(list(arguments), str(out.parent)))
        process.start()
        while process.is_alive() and not (path.exists() and path.stat().st_size > size):
            time.sleep(0.002)
        process.join(rng.uniform(*seconds))
        if process.exitcode is not None:
            assert process.exitcode == 0
            break
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        sizes.append(path.stat().st_size)
    assert sizes == sorted(sizes), "a finished episode went missing"
    return sizes
