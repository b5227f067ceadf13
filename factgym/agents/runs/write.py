"""Writing a run so that nothing is lost, and continuing one: one line an episode, whole or not at all.

A line is one `write` to a file opened for appending; where the disk takes a part of it only, that part is cut off
again. A process that is killed can therefore leave one torn line, the last, which continuing the run removes. One
process writes a run at a time: a lock on its file goes with the process that holds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from factgym.agents.rollout.jobs import Job
from factgym.agents.rollout.record import Record
from factgym.agents.runs import EPISODES, MANIFEST
from factgym.core.errors import ConfigError, DataError, FactgymError

SYNC_SECONDS = 5.0
"""How often written lines are forced to the disk, against a machine that fails; a killed process loses none."""

_FREE_KEYS = frozenset({"python", "platform", "caveats"})
"""Keys of the manifest that may differ between the calls of one run, or follow from the rest."""

_MAX_VALUE_CHARS = 80
_MAX_DIFFERENCES = 5


def lock(file: int, path: Path) -> None:
    """Lock an open file for this process. Raises ConfigError when another process holds it.

    Without effect where the system or its file system has no such locks.
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


@dataclass(slots=True)
class Finished:
    """The episodes of a run's file, by (task index, sample).

    done: those that ended without an infrastructure fault. failed: the others -> attempts so far. lines: of the file.
    end: where its last whole line ends, in bytes. open_line: that line has no line break yet.
    """

    done: set[tuple[int, int]] = field(default_factory=set)
    failed: dict[tuple[int, int], int] = field(default_factory=dict)
    lines: int = 0
    end: int = 0
    open_line: bool = False

    def remaining(self, job: Job) -> Job | None:
        """The job as it has yet to be played, its attempt counted, or None where it is done."""
        key = (job.index, job.sample)
        if key in self.done:
            return None
        return replace(job, attempt=self.failed.get(key, 0) + 1)

    def add(self, line: bytes, where: str) -> None:
        """Count the episode of a line. Raises DataError for an episode of another version."""
        episode = json.loads(line)
        try:
            key, failed = (episode["index"], episode["sample"]), episode["error"] is not None
            attempt = episode["attempt"]
        except (KeyError, TypeError):
            raise DataError(f"{where}: no episode of this version of factgym; it cannot be continued") from None
        self.lines += 1
        if failed:
            self.failed[key] = attempt
        else:
            self.done.add(key)


def read_finished(path: Path) -> Finished:
    """Read a run's file; a torn last line is not counted. Raises DataError that names a broken line before it."""
    finished = Finished()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path} line {number}"
            whole = line.endswith(b"\n")
            try:
                if line.strip():
                    finished.add(line, where)
            except DataError:
                raise
            except (ValueError, RecursionError):
                if not whole:  # the last line, torn when the run was killed
                    return finished
                raise DataError(f"{where}: no valid JSON. Repair or delete the line to continue the run") from None
            finished.end += len(line)
            finished.open_line = not whole
    return finished


def check_same(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse to continue a run that was made with other settings. Raises ConfigError that names the differences."""
    path = folder / MANIFEST
    try:
        old = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise ConfigError(f"{path} cannot be read, so {folder} cannot be continued: choose another folder") from None
    differences = [*_differences(old, json.loads(json.dumps(manifest)), "")]
    if differences:
        listed = "; ".join(differences[:_MAX_DIFFERENCES])
        raise ConfigError(
            f"{folder} was made with other settings ({listed}): repeat them to continue it, or choose another folder"
        )


def _differences(old: Any, new: Any, name: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if name or key not in _FREE_KEYS:
                yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
    elif old != new:
        values = [json.dumps(value, ensure_ascii=False)[:_MAX_VALUE_CHARS] for value in (old, new)]
        yield f"{name}: {values[0]} then, {values[1]} now"


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
        self._file = _open_file(path)
        try:
            self._start(path, manifest)
        except BaseException:
            self.close()
            raise
        self._synced = time.monotonic()

    def _start(self, path: Path, manifest: Mapping[str, Any]) -> None:
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
        # A lone surrogate cannot be encoded; as an escape it is valid JSON and is read back unchanged.
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
        """Force written lines to the disk and close the file."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _open_file(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise _unusable(path.parent, error) from None


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write the file whole or not at all: beside, then renamed."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    draft = path.with_suffix(".tmp")
    try:
        draft.write_text(text, "utf-8", "backslashreplace")
        draft.replace(path)
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
    last = folder
    while (folder / EPISODES).exists():
        last = folder
        number += 1
        folder = base / f"{name}-{number}"
    return last
