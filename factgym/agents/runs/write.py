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
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any, Self

from factgym.agents.rollout.jobs import Job
from factgym.agents.rollout.record import EncodedRecord, Record, episode_line
from factgym.agents.runs.files import EPISODES, MANIFEST, check_same, open_locked, read_json, write_bytes, write_json
from factgym.agents.runs.read import RunLines
from factgym.core.errors import ConfigError, DataError, FactgymError

_MAX_LISTED = 5

SYNC_SECONDS = 5.0
"""How often written lines are forced to the disk, against a machine that fails; a killed process loses none."""


class RunWriteError(FactgymError):
    """An episode could not be written; the run's file holds whole lines only and can be continued."""


class RunWriter:
    """A run's folder, open for appending; a context manager.

    resume: continue the run in the folder, if any. Raises ConfigError when the folder already holds a run (without
    resume), holds one that was made with other settings, is being written by another process, or cannot be written to;
    DataError when its episodes cannot be read.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], *, resume: bool = False) -> None:
        self.folder = folder
        self._done: set[tuple[int, int]] = set()
        self._failed: dict[tuple[int, int], int] = {}  # -> attempts so far
        self._end = 0
        path = folder / EPISODES
        if not resume and path.exists() and path.stat().st_size:
            raise ConfigError(
                f"{folder} already holds a run: continue it with --resume, or choose another folder with --out"
            )
        self._file = open_locked(path, os.O_APPEND)
        try:
            open_line = self._read_finished(path, manifest)
            if self._done or self._failed:
                check_same(folder, manifest)
                self._refuse_foreign()
            else:
                text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
                write_bytes(folder / MANIFEST, text.encode("utf-8", "backslashreplace"))
            os.ftruncate(self._file, self._end)
            if open_line:
                self._append(b"\n")
        except BaseException:
            self.close()
            raise
        self._synced = time.monotonic()

    def remaining(self, job: Job) -> Job | None:
        """The job as it has yet to be played, its attempt counted, or None where it is finished."""
        key = (job.index, job.sample)
        return None if key in self._done else replace(job, attempt=self._failed.get(key, 0) + 1)

    def _refuse_foreign(self) -> None:
        """Raise DataError for lines that are no part of the run."""
        if self._foreign:
            listed = "; ".join(
                f"line {number} is {reason}" for number, reason in [*self._foreign.items()][:_MAX_LISTED]
            )
            more = f"; and {len(self._foreign) - _MAX_LISTED} more" if len(self._foreign) > _MAX_LISTED else ""
            raise DataError(
                f"{self.folder / EPISODES}: {listed}{more}: `factgym repair {self.folder}` moves them out of the run"
            )

    def _read_finished(self, path: Path, manifest: Mapping[str, Any]) -> bool:
        """Read the file up to a torn last line, and return whether the line before `_end` has no line break yet."""
        is_whole, part = True, RunLines(manifest)
        self._foreign = part.foreign
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                where, is_whole = f"{path} line {number}", line.endswith(b"\n")
                try:
                    if line.strip():
                        episode = json.loads(line)
                        key, attempt = (episode["index"], episode["sample"]), episode["attempt"]
                        part.add(number, episode)
                        if episode["error"] is None:
                            self._done.add(key)
                        else:
                            self._failed[key] = attempt
                except (KeyError, TypeError):
                    raise DataError(
                        f"{where}: no episode of this version of factgym. `factgym repair {self.folder}` moves it out"
                    ) from None
                except (ValueError, RecursionError):
                    if not is_whole:  # the last line, torn when the run was killed
                        return False
                    raise DataError(
                        f"{where}: no valid JSON. `factgym repair {self.folder}` moves it out of the run"
                    ) from None
                self._end += len(line)
        return not is_whole

    def add(self, episode: Record | EncodedRecord) -> None:
        """Append one episode. Raises RunWriteError when the disk does not take it."""
        self._append(episode.line if isinstance(episode, EncodedRecord) else episode_line(episode))
        now = time.monotonic()
        if now - self._synced > SYNC_SECONDS:
            os.fsync(self._file)
            self._synced = now

    def describe_agent(self, details: Mapping[str, Any]) -> None:
        """Replace the agent's details in the manifest by those that are known now."""
        path = self.folder / MANIFEST
        manifest = read_json(path)
        if manifest.get("agent_details") != json.loads(json.dumps(details)):
            write_json(path, {**manifest, "agent_details": details})

    def _append(self, data: bytes) -> None:
        # Invariant: between calls the file ends at `_end`, after a whole line. A write may take a part of the data (a
        # full disk), and then either the loop completes it or the file is cut back.
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

    def __exit__(self, *exception: object) -> None:
        self.close()


def _taken_folders(base: Path, name: str) -> list[Path]:
    """Those of `base/name`, `base/name-2`, … that hold a run, up to the first that does not."""
    folders = chain([base / name], (base / f"{name}-{number}" for number in count(2)))
    return list(takewhile(lambda folder: (folder / EPISODES).exists(), folders))


def free_folder(base: Path, name: str) -> Path:
    """`base/name`, or the first of `base/name-2`, … that holds no run."""
    taken = len(_taken_folders(base, name))
    return base / (f"{name}-{taken + 1}" if taken else name)


def last_folder(base: Path, name: str) -> Path:
    """The newest of the folders that `free_folder` gave out under this name; `base/name` where there is none."""
    return [base / name, *_taken_folders(base, name)][-1]
