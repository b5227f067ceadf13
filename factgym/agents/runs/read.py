"""Reading runs from disk: `RUN/manifest.json` and `RUN/episodes.jsonl`, one JSON object a line.

A run that was killed while it wrote ends in half a line: that line is left out with a note, any other broken line is
an error that names it. An episode that an infrastructure fault ended, and that was played again, is in the file twice:
the later line counts. Lines of another run, and further lines of an episode that is finished, are never counted and
noted; `repair_run` takes them out. Episodes are streamed, because a run of some thousand may not fit in memory twice.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isinf
from pathlib import Path
from typing import Any, NoReturn

from factgym.agents.runs.files import EPISODES, MANIFEST, append_bytes, atomic_file, is_url, open_locked
from factgym.core.errors import DataError
from factgym.core.paths import is_file, open_file, read_bytes, user_path
from factgym.core.seeds import derive

Episode = Mapping[str, Any]

REMOVED = "episodes.removed.jsonl"
"""Beside the episodes: the lines that `repair_run` took out of them."""

_MAX_WARNINGS = 10
_MAX_VALUE_CHARS = 40
_ABOUT_RUN = {"env": "environment", "version": "version of the environment", "agent": "agent"}
DOUBLED = "a further line of an episode that is finished"


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
    _left_out: frozenset[int]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The environment's warnings, which go with every result, from the manifest: untrusted text."""
        warnings = self.manifest.get("caveats")
        warnings = warnings[:_MAX_WARNINGS] if isinstance(warnings, list) else []
        return tuple(warning for warning in warnings if isinstance(warning, str))

    @property
    def reward_bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest reward, from the manifest; None where it does not say."""
        bounds = self.manifest.get("reward_bounds")
        if not isinstance(bounds, list) or len(bounds) != 2 or not all(isinstance(x, int | float) for x in bounds):
            return None
        return float(bounds[0]), float(bounds[1])

    def episodes(self) -> Iterator[dict[str, Any]]:
        """The episodes in the order of the file. Raises DataError that names file, line and fault."""
        yield from (episode for _, episode in self.numbered_episodes())

    def numbered_episodes(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The same, each with the number of its line."""
        path = self.folder / EPISODES
        with open_file(path) as lines:
            for number, line in enumerate(lines, 1):
                if lines.tell() > self._end:
                    return
                if line.strip() and number not in self._left_out:
                    where = f"{path} line {number}"
                    episode = _json_object(line, where)
                    _check_episode(episode, where)
                    yield number, episode


def read_run(folder: str | Path) -> Run:
    """Open the run in `folder` (or the folder of the episodes file that is named).

    Raises DataError when there is none, or when its manifest is no JSON object. Faults inside the episodes file are
    raised when they are read.
    """
    folder, manifest = _find_run(folder)
    notes = []
    if not (folder / MANIFEST).is_file():
        notes.append(f"{MANIFEST} is missing: this run cannot be compared with others.")
    lines = RunLines(manifest)
    end, torn = lines.scan(folder / EPISODES)
    if torn:
        notes.append(f"The last line of {EPISODES} is cut off (the run was interrupted) and is left out.")
    if lines.foreign:
        reasons = ", ".join(f"{count} {reason}" for reason, count in lines.reasons.most_common())
        notes.append(
            f"{len(lines.foreign)} lines of {EPISODES} are left out ({reasons}; the first is line {min(lines.foreign)}): "
            f"`factgym repair {folder}` removes them."
        )
    n, k = manifest.get("n"), manifest.get("k", 1)
    if isinstance(n, int) and isinstance(k, int) and n * k > lines.count:
        notes.append(f"The run is incomplete: {lines.count} of {n * k} episodes.")
    left_out = frozenset({*lines.foreign, *lines.superseded})
    return Run(folder, manifest, tuple(notes), len(lines.failed), end, left_out)


def _find_run(folder: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a run and its manifest, empty where there is none. Raises DataError as `read_run` does."""
    folder = user_path(folder)
    folder = folder.parent if folder.name == EPISODES else folder
    if not is_file(folder / EPISODES):
        if (folder / "round-1").is_dir():
            raise DataError(
                f"{folder} holds rounds of a self-evolution: give one of them, such as {folder / 'round-1'}"
            )
        raise DataError(f"{folder} is no run: it has no {EPISODES}. `factgym eval ENV --out {folder}` writes one")
    path = folder / MANIFEST
    return folder, _json_object(read_bytes(path), str(path)) if is_file(path) else {}


class StreamedRun:
    """A run that is read from beginning to end, once or twice, without the scan of `read_run` before.

    Which lines count is found out by the first pass. Raises DataError as `read_run` and `Run.episodes` do.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder, self.manifest = _find_run(folder)
        self._lines = RunLines(self.manifest)
        self._end = 0

    def first_pass(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The episodes with the numbers of their lines; failed ones last, as a later line may supersede them."""
        self._lines, self._end = RunLines(self.manifest), 0
        starts: dict[int, int] = {}
        with open_file(self.folder / EPISODES) as file:
            for number, line in enumerate(file, 1):
                start, self._end = self._end, self._end + len(line)
                if not line.strip():
                    continue
                try:
                    episode = _json_object(line, self._where(number))
                except DataError:
                    if line.endswith(b"\n") or not _is_torn(line):
                        raise
                    self._end = start
                    break
                if self._lines.add(number, episode) is None:
                    _check_episode(episode, self._where(number))
                    if episode.get("error") is None:
                        yield number, episode
                    else:
                        starts[number] = start
            for number in sorted(self._lines.failed.values()):
                file.seek(starts[number])
                yield number, _json_object(file.readline(), self._where(number))

    def second_pass(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The episodes of the first pass again, in the order of the file."""
        left_out = frozenset({*self._lines.foreign, *self._lines.superseded})
        yield from Run(self.folder, self.manifest, (), 0, self._end, left_out).numbered_episodes()

    def _where(self, number: int) -> str:
        return f"{self.folder / EPISODES} line {number}"


def _is_torn(line: bytes) -> bool:
    """Whether a line is no JSON, as the last one of a run that was killed while it wrote."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False


def mismatch(episode: Mapping[str, Any], manifest: Mapping[str, Any]) -> str | None:
    """Why an episode is of another run than the manifest's; None where nothing says so."""
    for name, words in _ABOUT_RUN.items():
        theirs, ours = episode.get(name), manifest.get(name)
        if None not in (theirs, ours) and theirs != ours and not (name == "agent" and is_url(theirs) and is_url(ours)):
            return f"of another {words} ({theirs!r:.{_MAX_VALUE_CHARS}})"
    numbers = [manifest.get("seed"), episode.get("index"), episode.get("sample"), episode.get("seed")]
    if all(type(number) is int for number in numbers):
        seed, index, sample, played = numbers
        if played != derive(seed, "episode", index, sample):  # type: ignore[arg-type]  # integers
            return "of another seed"
    return None


@dataclass(slots=True)
class RunLines:
    """The lines of a run's file by their part in it, each with its number from 1.

    count: episodes. failed: the last failed attempt of each episode that no later line supersedes. superseded: failed
    attempts that were played again. foreign: line -> why it is no part of the run.
    """

    manifest: Mapping[str, Any]
    count: int = 0
    failed: dict[object, int] = field(default_factory=dict)
    finished: set[object] = field(default_factory=set)
    superseded: set[int] = field(default_factory=set)
    foreign: dict[int, str] = field(default_factory=dict)

    @property
    def reasons(self) -> Counter[str]:
        """Foreign lines by reason."""
        return Counter(self.foreign.values())

    def add(self, number: int, episode: Any) -> str | None:
        """Add a line, and return why it is no part of the run, else None."""
        if not isinstance(episode, dict):  # left for the pass that reads it
            self.count += 1
            return None
        key = (str(episode.get("task")), str(episode.get("sample")))
        reason = mismatch(episode, self.manifest) or (DOUBLED if key in self.finished else None)
        if reason is not None:
            self.foreign[number] = reason
            return reason
        if key in self.failed:
            self.superseded.add(self.failed.pop(key))
        else:
            self.count += 1
        if episode.get("error") is not None:
            self.failed[key] = number
        else:
            self.finished.add(key)
        return None

    def scan(self, path: Path) -> tuple[int, bool]:
        """Add the lines of a file; return the end of the last usable one in bytes, and whether another is torn."""
        end = 0
        with open_file(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    episode = json.loads(line)
                except (ValueError, RecursionError):
                    episode = None
                if episode is None and not line.endswith(b"\n"):
                    return end, True
                end += len(line)
                if line.strip():
                    self.add(number, episode)
        return end, False


@dataclass(frozen=True, slots=True)
class Repair:
    """The outcome of a repair. lines: that stay. removed: reason -> lines that were moved to `REMOVED`."""

    lines: int
    removed: Mapping[str, int]


def repair_run(folder: str | Path) -> Repair:
    """Move the lines that are no part of a run, are doubled or cannot be read to `REMOVED`, beside its episodes.

    Raises DataError where there is no run or no manifest, and ConfigError while another process writes it.
    """
    run = read_run(folder)
    if not run.manifest:
        raise DataError(
            f"{run.folder} has no {MANIFEST}, which says to what run its lines belong: it cannot be repaired"
        )
    path, lines, removed = run.folder / EPISODES, RunLines(run.manifest), Counter[str]()
    lock = open_locked(path)
    try:
        rejected: list[bytes] = []
        with open_file(path) as source, atomic_file(path, force=True, draft=f".{path.name}.part") as target:
            for number, line in enumerate(source, 1):
                if not line.strip():
                    continue
                where = f"{path} line {number}"
                try:
                    episode = _json_object(line, where)
                    _check_episode(episode, where)
                    reason = lines.add(number, episode)
                except DataError:
                    reason = "no episode"
                if reason is None:
                    target.write(line if line.endswith(b"\n") else line + b"\n")
                else:
                    removed[reason] += 1
                    rejected.append(line if line.endswith(b"\n") else line + b"\n")
            # Before the file takes its name: a line is in one of the two at any time.
            append_bytes(run.folder / REMOVED, b"".join(rejected))
    finally:
        os.close(lock)
    return Repair(lines.count + len(lines.superseded), dict(removed.most_common()))


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


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text:.40} is no JSON number")


def _finite(text: str) -> float:
    """Parse a number. Raises ValueError where it is beyond those of IEEE 754's double precision."""
    number = float(text)
    if isinf(number):
        _refuse_number(text)
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_finite)


def _json_object(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = _DECODER.decode(data.decode())
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
