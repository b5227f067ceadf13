"""A run on disk: `manifest.json`, and `episodes.jsonl` to which each finished episode is appended and flushed."""

from __future__ import annotations

import dataclasses
import json
import platform
from pathlib import Path
from typing import IO, Any, Self

import factgym
from factgym.agents.rollout import Record
from factgym.core.env import Env
from factgym.core.errors import ConfigError

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"


def manifest_of(env: Env[Any], agent: str, n: int, seed: int) -> dict[str, Any]:
    """What a run was made with. Two runs whose manifests agree (but for `agent`) can be compared."""
    return {
        "env": env.env_spec.id,
        "version": env.env_spec.version,
        "agent": agent,
        "n": n,
        "seed": seed,
        "config": _plain(env.config),
        "factgym": factgym.__version__,
        "python": platform.python_version(),
        "fingerprints": {"tasks": env.tasks.fingerprint()},
        "prompts": env.prompt_hashes(),
    }


def _plain(config: Any) -> dict[str, Any]:
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain_value(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return dict(value) if hasattr(value, "items") else f"{type(value).__module__}.{type(value).__qualname__}"


class RunWriter:
    """Writes a run into a folder that does not hold one yet. A context manager."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self._file: IO[str] = _open_new(folder, manifest)

    def add(self, episode: Record) -> None:
        """Append one episode; it is on its way to the disk when this returns."""
        self._file.write(json.dumps(episode, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def _open_new(folder: Path, manifest: dict[str, Any]) -> IO[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A lone surrogate cannot be encoded; written as an escape it is valid JSON and reads back as it was.
        file = (folder / EPISODES).open("x", encoding="utf-8", errors="backslashreplace", newline="\n")
        (folder / MANIFEST).write_text(
            json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8", "backslashreplace"
        )
    except FileExistsError:
        raise ConfigError(f"{folder} already holds a run: choose another folder with --out") from None
    except OSError as error:
        raise ConfigError(f"cannot write to {folder} ({error.strerror}): choose another folder with --out") from None
    return file


def free_folder(base: Path, name: str) -> Path:
    """`base/name`, or `base/name-2`, … where a run is already there."""
    folder = base / name
    number = 1
    while (folder / EPISODES).exists():
        number += 1
        folder = base / f"{name}-{number}"
    return folder
