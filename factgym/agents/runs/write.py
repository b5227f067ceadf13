"""Writing a run so that nothing is lost: one line an episode, whole or not at all, and a run that can be continued.

A line is one `write` to a file opened for appending; where the disk takes a part of it only, that part is cut off
again. A process that is killed can therefore leave one torn line, the last, which continuing the run removes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from factgym.agents.rollout.order import Job
from factgym.agents.rollout.record import Record
from factgym.agents.runs import EPISODES, MANIFEST
from factgym.agents.runs.lock import lock
from factgym.agents.runs.resume import Finished, check_same, read_finished
from factgym.core.errors import ConfigError, FactgymError

SYNC_SECONDS = 5.0
"""How often written lines are forced to the disk, against a machine that fails; a killed process loses none."""


class RunWriteError(FactgymError):
    """An episode could not be written; the run's file holds whole lines only and can be continued."""


class RunWriter:
    """A run's folder, open for appending; a context manager.

    resume: continue the run that is there, where there is one. Raises ConfigError when the folder already holds a run
    (without resume), holds one that was made with other settings, is being written by another process, or cannot be
    written to; DataError when its episodes cannot be read.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], *, resume: bool = False) -> None:
        self.folder = folder
        self.finished = Finished()
        path = folder / EPISODES
        if not resume and path.exists() and path.stat().st_size:
            raise ConfigError(
                f"{folder} already holds a run: continue it with --resume, or choose another folder with --out"
            )
        self._file = _open(path)
        try:
            self._begin(path, manifest)
        except BaseException:
            self.close()
            raise
        self._synced = time.monotonic()

    def _begin(self, path: Path, manifest: Mapping[str, Any]) -> None:
        lock(self._file, path)
        self.finished = read_finished(path)
        if self.finished.lines:
            check_same(self.folder, manifest)
        else:
            _write_manifest(self.folder / MANIFEST, manifest)
        self._end = self.finished.end
        os.ftruncate(self._file, self._end)
        if self.finished.open_line:
            self._append(b"\n")

    def remaining(self, job: Job) -> Job | None:
        """The job as it has yet to be played, or None where it is finished."""
        return self.finished.remaining(job)

    def add(self, episode: Record) -> None:
        """Append one episode. Raises RunWriteError when the disk does not take it."""
        # A lone surrogate cannot be encoded; written as an escape it is valid JSON and reads back as it was.
        line = json.dumps(episode, ensure_ascii=False, separators=(",", ":")) + "\n"
        self._append(line.encode("utf-8", "backslashreplace"))
        now = time.monotonic()
        if now - self._synced > SYNC_SECONDS:
            os.fsync(self._file)
            self._synced = now

    def _append(self, data: bytes) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise RunWriteError(
                f"cannot write to {self.folder / EPISODES} ({error.strerror}): the finished episodes are kept; make "
                f"room and continue with --resume"
            ) from None
        self._end += len(data)

    def close(self) -> None:
        """Force what is written to the disk and let go of the file."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise _unusable(path.parent, error) from None


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Whole or not at all: written beside, then renamed."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    beside = path.with_suffix(".tmp")
    try:
        beside.write_text(text, "utf-8", "backslashreplace")
        beside.replace(path)
    except OSError as error:
        raise _unusable(path.parent, error) from None


def _unusable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"cannot write to {folder} ({error.strerror}): choose another folder with --out")


def free_folder(base: Path, name: str) -> Path:
    """`base/name`, or `base/name-2`, … where a run is already there."""
    folder = base / name
    number = 1
    while (folder / EPISODES).exists():
        number += 1
        folder = base / f"{name}-{number}"
    return folder


def last_folder(base: Path, name: str) -> Path:
    """The newest of the folders that `free_folder` gave out under this name; `base/name` where there is none."""
    folder = base / name
    number = 1
    found = folder
    while (folder / EPISODES).exists():
        found = folder
        number += 1
        folder = base / f"{name}-{number}"
    return found
