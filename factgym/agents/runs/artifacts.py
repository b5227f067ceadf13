"""What a round leaves on disk: each file whole or not at all, and a folder that is made anew until it is complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from factgym.agents.export.files import json_line
from factgym.agents.runs.write import check_same, lock
from factgym.core.errors import ConfigError, DataError

MANIFEST = "manifest.json"
PROFILE = "profile.json"
ALLOCATION = "allocation.json"
PROBES = "probes.jsonl"
DROPPED = "dropped.jsonl"
REPORT = "probes.json"
RULES = "rules.md"
TRAIN = "train.jsonl"
MODEL = "model"
TRAINED = "trained.json"
"""Written when training is over: without it, the folder of the model is half filled and made anew."""
VERIFY = "verify"
METRICS = "metrics.json"
"""Written last: a round that has it is finished."""


def write_bytes(path: Path, data: bytes) -> None:
    """A file, whole or not at all: written beside and on the disk before it takes its name."""
    beside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path} ({error.strerror or error}): choose another folder with --out"
        ) from None


def write_json(path: Path, data: Any) -> None:
    """JSON data, indented; keys in the order that they have."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode("utf-8", "replace"))


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """JSON lines."""
    write_bytes(path, b"".join(json_line(row) for row in rows))


def write_once(path: Path, rows: Iterable[Any]) -> None:
    """JSON lines, where the file is not there yet; what it holds is the same whenever it is written."""
    if not path.exists():
        write_lines(path, rows)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of ours. Raises DataError that names the file."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} holds no valid JSON: move its folder away and run again") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} must hold an object")
    return found


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file. Raises DataError that names file and line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{path} line {number}: no valid JSON") from None
        if not isinstance(row, dict):
            raise DataError(f"{path} line {number}: an object is needed")
        yield row


def begin(folder: Path, manifest: Mapping[str, Any], *, resume: bool) -> None:
    """Write a folder's manifest, or check that what is there was made with the same.

    Raises ConfigError for a folder that is in use without `resume`, and for one that was made with other settings.
    """
    path = folder / MANIFEST
    if not path.exists():
        write_json(path, manifest)
        return
    if not resume:
        raise ConfigError(f"{folder} already holds an evolution: continue it with --resume, or choose another --out")
    check_same(folder, manifest)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Nobody else writes to the folder meanwhile. Raises ConfigError when another process does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder} ({error.strerror}): choose another folder with --out") from None
    try:
        lock(file, folder / ".lock")
        yield
    finally:
        os.close(file)


def fresh_folder(path: Path) -> Path:
    """An empty folder; what an interrupted call left there is removed."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path
