"""Reading runs from disk: `RUN/manifest.json` and `RUN/episodes.jsonl`, one JSON object a line.

A run that was killed while it wrote ends in half a line: that line is left out with a note, any other broken line is
an error that names it. An episode that an infrastructure fault ended, and that was played again, is in the file twice:
the later line counts. Episodes are streamed, because a run of some thousand may not fit in memory twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from factgym.agents.runs.files import EPISODES, MANIFEST
from factgym.core.errors import DataError

Episode = Mapping[str, Any]

_MAX_WARNINGS = 10


@dataclass(frozen=True, slots=True)
class Run:
    """A readable run. `manifest` is empty when the file is missing; `notes` are sentences for people.

    failed: episodes that an infrastructure fault ended.
    """

    folder: Path
    manifest: Mapping[str, Any]
    notes: tuple[str, ...]
    failed: int
    _end: int
    _superseded: frozenset[int]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The environment's warnings, which go with every result, from the manifest: untrusted text."""
        warnings = self.manifest.get("caveats")
        warnings = warnings[:_MAX_WARNINGS] if isinstance(warnings, list) else []
        return tuple(warning for warning in warnings if isinstance(warning, str))

    def episodes(self) -> Iterator[dict[str, Any]]:
        """The episodes in the order of the file. Raises DataError that names file, line and fault."""
        path = self.folder / EPISODES
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if lines.tell() > self._end:
                    return
                if line.strip() and number not in self._superseded:
                    where = f"{path} line {number}"
                    episode = _json_object(line, where)
                    _check_episode(episode, where)
                    yield episode


def read_run(folder: str | Path) -> Run:
    """Open the run in `folder` (or the folder of the episodes file that is named).

    Raises DataError when there is none, or when its manifest is no JSON object. Faults inside the episodes file are
    raised when they are read.
    """
    folder = Path(folder)
    folder = folder.parent if folder.name == EPISODES else folder
    path, manifest_path = folder / EPISODES, folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder} is no run: it has no {EPISODES}. `factgym eval ENV --out {folder}` writes one")
    notes = []
    manifest: dict[str, Any] = {}
    if manifest_path.is_file():
        manifest = _json_object(manifest_path.read_bytes(), str(manifest_path))
    else:
        notes.append(f"{MANIFEST} is missing: this run cannot be compared with others.")
    end, count, torn, superseded, failed = _scan(path)
    if torn:
        notes.append(f"The last line of {EPISODES} is cut off (the run was interrupted) and is left out.")
    n, k = manifest.get("n"), manifest.get("k", 1)
    if isinstance(n, int) and isinstance(k, int) and n * k > count:
        notes.append(f"The run is incomplete: {count} of {n * k} episodes.")
    return Run(folder, manifest, tuple(notes), failed, end, frozenset(superseded))


def _scan(path: Path) -> tuple[int, int, bool, set[int], int]:
    """End of the last usable line in bytes, episodes, whether the last line is torn, lines of superseded episodes, failed ones.

    An episode that was played again counts once. A broken line is left for the pass that reads it.
    """
    # `failed` holds the line of the last failed attempt of each episode until a later attempt supersedes it.
    end = count = 0
    superseded: set[int] = set()
    failed: dict[object, int] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                episode = json.loads(line)
            except (ValueError, RecursionError):
                episode = None
            if episode is None and not line.endswith(b"\n"):
                return end, count, True, superseded, len(failed)
            end += len(line)
            count += bool(line.strip())
            if not isinstance(episode, dict):
                continue
            key = (str(episode.get("task")), str(episode.get("sample")))
            if key in failed:
                superseded.add(failed.pop(key))
                count -= 1
            if episode.get("error") is not None:
                failed[key] = number
    return end, count, False, superseded, len(failed)


def _check_episode(episode: Mapping[str, Any], where: str) -> None:
    """Check the fields that reports read; `schema.validate` checks all. Raises DataError."""

    def require(fits: bool, problem: str) -> None:
        if not fits:
            raise DataError(f"{where}: {problem}")

    def require_objects(value: Any, name: str) -> None:
        fits = isinstance(value, list) and all(isinstance(item, dict) for item in value)
        require(fits, f"{name} must be a list of objects")

    is_episode = isinstance(episode.get("task"), str)
    require(is_episode, f"an episode needs its 'task' (a string); is this a {EPISODES} of `factgym eval`?")
    require_objects(episode.get("messages"), "'messages'")
    require_objects(episode.get("turns"), "'turns'")
    for turn in episode["turns"]:
        require(isinstance(turn.get("message"), int), "a turn's 'message' must be a number, its index in 'messages'")
        require_objects(turn.get("calls"), "a turn's 'calls'")
        for item in [turn, *turn["calls"]]:
            fits = item.get("error") is None or isinstance(item["error"], str)
            require(fits, "the 'error' of a turn or call must be a code or null")
    reward = episode.get("reward", "missing")
    if reward is None:
        return
    require(isinstance(reward, dict), "'reward' must be an object or null")
    for name in ("components", "weights", "gates"):
        numbers = reward.get(name, {})
        fits = isinstance(numbers, dict) and all(type(number) in (int, float) for number in numbers.values())
        require(fits, f"the reward's {name!r} must be an object of numbers")
    require(isinstance(reward.get("metrics", {}), dict), "the reward's 'metrics' must be an object")


def _json_object(data: bytes, where: str) -> dict[str, Any]:
    def refuse_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is no JSON number")

    try:
        value = json.loads(data.decode(), parse_constant=refuse_constant)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        fault = f"no valid JSON ({error.msg} at character {error.pos}). Delete or repair it, or run again"
        raise DataError(f"{where}: {fault}") from None
    except RecursionError:
        raise DataError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: a JSON object is needed, not {type(value).__name__}")
    return value
