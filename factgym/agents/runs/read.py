"""Runs on disk: `RUN/manifest.json` and `RUN/episodes.jsonl`, one JSON object a line.

A run that was killed while it wrote ends in half a line: that line is left out and said so, everything else that is
broken is an error which names its line. An episode that an infrastructure fault ended, and that was played again, is
there twice: the later line counts. Episodes are streamed, because a run of some thousand may not fit in memory
twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn

from factgym.agents.runs import EPISODES, MANIFEST
from factgym.core.errors import DataError

Episode = Mapping[str, Any]

_MAX_CAVEATS = 10
_LIST_FIELDS = ("messages", "turns")
_NUMBER_FIELDS = ("components", "weights", "gates")


@dataclass(frozen=True, slots=True)
class Run:
    """A readable run. `manifest` is empty when the file is missing; `notes` are sentences for people."""

    folder: Path
    manifest: Mapping[str, Any]
    notes: tuple[str, ...]
    _end: int
    _superseded: frozenset[int]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the environment wants said beside every result, as the manifest has it: foreign text."""
        said = self.manifest.get("caveats")
        return tuple(one for one in said[:_MAX_CAVEATS] if isinstance(one, str)) if isinstance(said, list) else ()

    def episodes(self) -> Iterator[dict[str, Any]]:
        """The episodes in the order of the file. Raises DataError that names file, line and fault."""
        path = self.folder / EPISODES
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if lines.tell() > self._end:
                    return
                if line.strip() and number not in self._superseded:
                    yield _episode(line, f"{path} line {number}")


def read_run(folder: str | Path) -> Run:
    """Open the run in `folder` (or beside the episodes file that is named).

    Raises DataError when there is none, or when its manifest is no JSON object. Faults inside the episodes file are
    raised when they are read.
    """
    folder = Path(folder)
    folder = folder.parent if folder.name == EPISODES else folder
    path = folder / EPISODES
    if not path.is_file():
        raise DataError(f"{folder} is no run: it has no {EPISODES}. `factgym eval ENV --out {folder}` writes one")
    notes = []
    manifest = _manifest(folder / MANIFEST)
    if manifest is None:
        notes.append(f"{MANIFEST} is missing: this run cannot be compared with others.")
    found = _measure(path)
    if found.torn:
        notes.append(f"The last line of {EPISODES} is cut off (the run was interrupted) and is left out.")
    planned = _planned(manifest or {})
    if planned is not None and planned > found.count:
        notes.append(f"The run is incomplete: {found.count} of {planned} episodes.")
    return Run(folder, manifest or {}, tuple(notes), found.end, frozenset(found.superseded))


def _planned(manifest: Mapping[str, Any]) -> int | None:
    n, k = manifest.get("n"), manifest.get("k", 1)
    return n * k if isinstance(n, int) and isinstance(k, int) else None


@dataclass(slots=True)
class _Measure:
    """end: where the last usable line ends. count: episodes, each once. superseded: numbers of lines played again."""

    end: int = 0
    count: int = 0
    torn: bool = False
    superseded: set[int] = field(default_factory=set)


def _measure(path: Path) -> _Measure:
    found = _Measure()
    failed: dict[object, int] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            episode = _json_or_none(line)
            found.torn = not line.endswith(b"\n") and episode is None
            if found.torn:
                return found
            found.end += len(line)
            found.count += bool(line.strip())
            if not isinstance(episode, dict):
                continue
            key = (str(episode.get("task")), str(episode.get("sample")))
            if key in failed:
                found.superseded.add(failed.pop(key))
                found.count -= 1
            if episode.get("error") is not None:
                failed[key] = number
    return found


def _json_or_none(line: bytes) -> Any:
    """The value of a line; None where it is broken, which is said when the line is read."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _manifest(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    return _object(path.read_bytes(), str(path))


def _episode(line: bytes, where: str) -> dict[str, Any]:
    episode = _object(line, where)
    if not isinstance(episode.get("task"), str):
        raise DataError(f"{where}: an episode needs its 'task' (a string); is this a {EPISODES} of `factgym eval`?")
    for name in _LIST_FIELDS:
        _check_objects(episode.get(name), f"{where}: {name!r}")
    for turn in episode["turns"]:
        if not isinstance(turn.get("message"), int):
            raise DataError(f"{where}: a turn's 'message' must be a number, its place in 'messages'")
        _check_objects(turn.get("calls"), f"{where}: a turn's 'calls'")
        for call in [turn, *turn["calls"]]:
            if not isinstance(call.get("error"), (str, NoneType)):
                raise DataError(f"{where}: the 'error' of a turn or call must be a code or null")
    _check_reward(episode.get("reward", where), where)
    return episode


def _check_objects(found: Any, what: str) -> None:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(f"{what} must be a list of objects")


def _check_reward(reward: Any, where: str) -> None:
    if reward is None:
        return
    if not isinstance(reward, dict):
        raise DataError(f"{where}: 'reward' must be an object or null")
    for name in _NUMBER_FIELDS:
        found = reward.get(name, {})
        if not isinstance(found, dict) or not all(type(one) in (int, float) for one in found.values()):
            raise DataError(f"{where}: the reward's {name!r} must be an object of numbers")
    if not isinstance(reward.get("metrics", {}), dict):
        raise DataError(f"{where}: the reward's 'metrics' must be an object")


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: no valid JSON ({error.msg} at character {error.pos}). {_ADVICE}") from None
    except RecursionError:
        raise DataError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: a JSON object is needed, not {type(value).__name__}")
    return value


_ADVICE = "Delete or repair it, or run again"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
