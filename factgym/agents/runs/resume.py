"""What a run already holds, and whether a call continues that run or would mix two."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from factgym.agents.rollout.order import Job
from factgym.agents.runs import MANIFEST
from factgym.core.errors import ConfigError, DataError

_FREE = frozenset({"python", "platform", "caveats"})
"""What may differ between the calls that make one run, or follows from the rest."""

_MAX_SHOWN = 80


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

    def _add(self, line: bytes, where: str) -> None:
        found = json.loads(line)
        try:
            key, failed = (found["index"], found["sample"]), found["error"] is not None
            attempt = found["attempt"]
        except (KeyError, TypeError):
            raise DataError(f"{where}: no episode of this version of factgym; it cannot be continued") from None
        self.lines += 1
        if failed:
            self.failed[key] = attempt
        else:
            self.done.add(key)


def read_finished(path: Path) -> Finished:
    """What the file holds. Its torn last line is not counted. Raises DataError that names a broken line before it."""
    found = Finished()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{path} line {number}"
            whole = line.endswith(b"\n")
            try:
                if line.strip():
                    found._add(line, where)
            except DataError:
                raise
            except (ValueError, RecursionError):
                if not whole:  # the last line, torn when the run was killed
                    return found
                raise DataError(f"{where}: no valid JSON. Repair or delete the line to continue the run") from None
            found.end += len(line)
            found.open_line = not whole
    return found


def check_same(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse to continue a run that was made with something else. Raises ConfigError that names each difference."""
    path = folder / MANIFEST
    try:
        old = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise ConfigError(f"{path} cannot be read, so {folder} cannot be continued: choose another folder") from None
    new = json.loads(json.dumps(manifest))
    found = [*_differences(old, new, "")]
    if found:
        shown = "; ".join(found[:5])
        raise ConfigError(
            f"{folder} was made with other settings ({shown}): repeat them to continue it, or choose another folder"
        )


def _differences(old: Any, new: Any, name: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*old, *(key for key in new if key not in old)]:
            if name or key not in _FREE:
                found += _differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
        return found
    return [] if old == new else [f"{name}: {_say(old)} then, {_say(new)} now"]


def _say(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_MAX_SHOWN]
