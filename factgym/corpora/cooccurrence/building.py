"""Builds that a kill does not undo: their folder beside the destination, and their worker processes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import ModuleType
from typing import Any

from factgym.core.errors import ConfigError, DataError
from factgym.core.processes import end_with_parent, lock
from factgym.corpora.cooccurrence.store import atomic_write

resource: ModuleType | None
try:
    import resource
except ImportError:  # not on this system
    resource = None

Run = Callable[[Callable[[Any], Any], Iterator[Any]], Iterator[Any]]
"""Maps a function over tasks; results come in the order of completion."""

_LOCK, _PLAN = "lock", "plan.json"


@contextlib.contextmanager
def locked_folder(folder: Path, resume: bool) -> Iterator[None]:
    """Make the folder of the build and lock it: a concurrent build of the same destination is refused."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _LOCK).exists():
        raise ConfigError(f"{folder} is in the way: the build needs a folder of this name. Remove or rename it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("w")
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made ({error.strerror}): what is built lies there before it is moved to its place"
        ) from None
    with file:
        if not lock(file):
            raise ConfigError(f"another process is building there: {folder}. Wait for it, or name another destination.")
        for partial in folder.glob(".*.partial"):
            partial.unlink()
        if not resume:
            _clear(folder)
        yield


def remove_folder(folder: Path) -> None:
    """Remove the folder, its plan first and its lock last: of one that a kill left half removed nothing is reused."""
    (folder / _PLAN).unlink(missing_ok=True)
    _clear(folder)
    shutil.rmtree(folder)


def discard_other_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Record the sources and settings of the folder's files; remove the files of a build that depended on something else."""
    path, plan = folder / _PLAN, json.loads(json.dumps(plan))
    if path.is_file() and json.loads(path.read_text("utf-8")) == plan:
        return
    _clear(folder)
    with atomic_write(path) as file:
        file.write(json.dumps(plan).encode())


def _clear(folder: Path) -> None:
    for stale in folder.iterdir():
        if stale.is_dir():
            shutil.rmtree(stale)
        elif stale.name != _LOCK:
            stale.unlink()


def raise_file_limit() -> None:
    """Permit as many open files as the system grants: all segments are open while they are merged."""
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _start_worker() -> None:
    """Prepare a worker, which ends with its parent, so that nothing is written after a build is killed."""
    raise_file_limit()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the builder reports Ctrl-C; a worker just ends
    end_with_parent()


@contextlib.contextmanager
def run_tasks(workers: int, remedy: str) -> Iterator[Run]:
    """Yield a map over tasks: in processes, or in this one for a single worker.

    remedy: what takes less memory, for the error when a worker was killed.
    """
    if workers == 1:
        yield map
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start_worker)

    def run(function: Callable[[Any], Any], tasks: Iterator[Any]) -> Iterator[Any]:
        """No more tasks are taken than there are workers, to bound memory."""
        pending: set[Future[Any]] = set()
        try:
            for task in tasks:
                pending.add(pool.submit(function, task))
                if len(pending) > workers:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in pending)
        except BrokenProcessPool:
            raise DataError(
                f"a worker of the build was killed, as systems do when memory runs out. Start the build again with "
                f"{remedy}; it reuses the finished parts."
            ) from None

    try:
        yield run
    finally:
        pool.shutdown(cancel_futures=True)
