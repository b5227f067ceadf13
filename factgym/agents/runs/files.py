"""Files of runs, exports and training: their names, atomic writes, JSON lines that any reader takes, folder locks."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from json import JSONEncoder
from pathlib import Path
from typing import IO, Any

from factgym.core.errors import ConfigError, DataError
from factgym.core.paths import create_file, kind_of, make_folder, private_mode, read_bytes
from factgym.core.processes import lock
from factgym.core.secrets import redact
from factgym.core.strict_json import clean_text

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"
FILTER_SUMMARY = "filter.json"  # a difficulty filter's, beside its run

# A self-evolution's folders and files.
EVE_EVOLUTION = "factgym evolve eve"  # the manifest's "what" of EVE's
EVOLUTION_DATA = "data"
TRIPLES, DOCUMENTS = "triples.jsonl", "documents.jsonl"  # rows of the data set, and the documents that they quote
ROLLOUTS = "rollouts"
PROFILE = "profile.json"
ALLOCATION = "allocation.json"
PROBES = "probes.jsonl"
DROPPED = "dropped.jsonl"
REPORT = "probes.json"
RULES = "rules.md"
TRAIN = "train.jsonl"
MODEL = "model"
TRAINED = "trained.json"  # written when training is over: without it, the model is incomplete and rebuilt
VERIFY = "verify"
METRICS = "metrics.json"  # written last: a round that has it is finished

# Keys of the manifest that may differ between the calls of one run, or follow from the rest.
_FREE_KEYS = frozenset({"python", "platform", "caveats", "reward_bounds"})
_FREE_AGENT_SETTINGS = frozenset(
    f"agent_details.{name}"
    for name in (
        *("base_url", "api_key_env", "timeout", "max_retries", "max_wait", "max_outage", "connections"),
        *("send_seed", "stream", "overflow_pattern"),
    )
)
"""Settings of an endpoint about reaching it: none of them changes the distribution of answers."""

_DISCOVERED = frozenset({"tools_found", "adapted"})
"""Facts about a server that a run discovers."""

_MAX_VALUE_CHARS = 80
_MAX_DIFFERENCES = 5

_encode = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}


def json_text(value: Any) -> str:
    """Compact JSON on one line, encodable as UTF-8, keys in their given order.

    A lone surrogate, which no UTF-8 file can hold, becomes U+FFFD. The line ends that Unicode has besides the newline
    are escaped, because some readers split lines at them.
    """
    return json_bytes(value).decode()


def json_bytes(value: Any) -> bytes:
    """`json_text` in UTF-8."""
    text = _encode(value)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = clean_text(text).encode()
    if not text.isascii():
        for line_end, escape in _LINE_ENDS.items():
            data = data.replace(line_end, escape)
    return data


def json_line(value: Any) -> bytes:
    """One line of a JSONL file."""
    return json_bytes(value) + b"\n"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. Raises ConfigError."""
    # A draft of one name: a process that is killed leaves a single draft, and the next process overwrites it.
    with atomic_file(path, force=True, draft=f".{path.name}.part") as file:
        file.write(data)


def append_bytes(path: Path, data: bytes) -> None:
    """Append to a file and force it to the disk; nothing for no data. Raises ConfigError."""
    if not data:
        return
    try:
        with create_file(path, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror or error})") from None


def write_json(path: Path, data: Any) -> None:
    """JSON data, indented; keys in their given order."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode("utf-8", "replace"))


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """JSON lines."""
    write_bytes(path, b"".join(json_line(row) for row in rows))


def write_once(path: Path, rows: Iterable[Any]) -> None:
    """Write JSON lines unless the file exists: its content is the same whenever it is written."""
    if not path.exists():
        write_lines(path, rows)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises DataError that names the file."""
    data = read_bytes(path)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise DataError(f"{path} holds no valid JSON: move its folder away and run again") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold an object")
    return value


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file. Raises DataError that names file and line."""
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{path} line {number}: no valid JSON") from None
        if not isinstance(row, dict):
            raise DataError(f"{path} line {number}: an object is needed")
        yield row


def open_locked(path: Path, flags: int = 0) -> int:
    """Open a file for reading and writing, made with its folder where it is missing, and lock it for this process.

    Raises ConfigError when it cannot be opened, or another process holds the lock. There is no lock where the system
    or its file system has none.
    """
    try:
        make_folder(path.parent)
        file = os.open(path, os.O_RDWR | os.O_CREAT | flags, private_mode())
    except OSError as error:
        raise ConfigError(
            f"cannot write to {path.parent} ({error.strerror}): choose another folder with --out"
        ) from None
    if not lock(file):
        os.close(file)
        raise ConfigError(f"{path.parent} is being written by another process: wait for it, or stop it")
    return file


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other writers. Raises ConfigError when another process does."""
    file = open_locked(folder / ".lock")
    try:
        yield
    finally:
        os.close(file)


def open_folder(folder: Path, manifest: Mapping[str, Any], *, resume: bool) -> None:
    """Write a folder's manifest, or check that the folder was made with the same.

    Raises ConfigError for a folder that is in use without `resume`, and for a folder that was made with other settings.
    """
    path, manifest = folder / MANIFEST, redact(manifest)
    if not path.exists():
        write_json(path, manifest)
        return
    if not resume:
        raise ConfigError(f"{folder} already holds an evolution: continue it with --resume, or choose another --out")
    check_same(folder, manifest)


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
    """Yield the settings that differ, by their path, without those that change no answer or that the server discovered."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            path = f"{name}.{key}" if name else str(key)
            discovered = path.startswith("agent_details.") and key in _DISCOVERED
            if path not in _FREE_KEYS and path not in _FREE_AGENT_SETTINGS and not discovered:
                yield from _differences(old.get(key), new.get(key), path)
    elif old != new and not (name == "agent" and is_url(old) and is_url(new)):
        values = [_printable(json.dumps(value, ensure_ascii=False)) for value in (old, new)]
        yield f"{_printable(name)}: {values[0]} then, {values[1]} now"


def _printable(text: str) -> str:
    """Return a text of a file for a message: bounded, and with escapes where it would move a terminal's cursor."""
    return (text if text.isprintable() else ascii(text)[1:-1])[:_MAX_VALUE_CHARS]


def is_url(name: Any) -> bool:
    """Whether an agent is named by its server's address: the model is in its details."""
    return isinstance(name, str) and name.startswith(("http://", "https://"))


def fresh_folder(path: Path) -> Path:
    """An empty folder; files of an interrupted call are removed."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
    make_folder(path)
    return path


@contextmanager
def atomic_file(out: Path, force: bool, draft: str | None = None) -> Iterator[IO[bytes]]:
    """A binary file that takes its name when all of it is on the disk, and is removed when an error occurs.

    draft: its name until then, by default one that no other process takes. Raises ConfigError when `out` exists (unless
    `force`), is a folder, or cannot be written.
    """
    # Write, fsync, rename, fsync the folder: after a crash the name has the old content or the new, never a part of it.
    try:
        target = _free_target(out, force)
        part = target.with_name(draft or f".{target.name[:100]}.{secrets.token_hex(4)}.part")
        try:
            make_folder(target.parent)
            with suppress(FileNotFoundError):
                part.unlink()  # of a process that was killed: its permissions may be others
            with create_file(part) as file:
                with suppress(FileNotFoundError):  # a file that is replaced keeps its permissions
                    part.chmod(target.stat().st_mode & 0o777)
                yield file
                file.flush()
                os.fsync(file.fileno())
            _free_target(out, force)
            part.replace(target)
        finally:
            with suppress(OSError):
                part.unlink()
        with suppress(OSError):  # the new name, too, is forced to the disk; not every system can open a folder
            handle = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise ConfigError(f"cannot write {out} ({error.strerror or error}): choose another --out") from None


def _free_target(out: Path, force: bool) -> Path:
    kind = kind_of(out)
    if kind == "folder":
        raise ConfigError(f"{out} is a folder: name a file with --out")
    if kind is not None and not force:
        raise ConfigError(f"{out} already exists: choose another file with --out, or overwrite it with --force")
    return Path(os.path.realpath(out))
