"""What every export shares: files that appear whole or not at all, JSON lines that any reader takes, and the tally.

A lone surrogate, which no UTF-8 file can hold, becomes U+FFFD. The line ends that Unicode has beside the newline are
escaped, because some readers split lines at them.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from json import JSONEncoder
from pathlib import Path
from typing import IO, Any

from factgym.core.errors import ConfigError, DataError
from factgym.core.strict_json import clean_text

_encode = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def json_text(value: Any) -> str:
    """Compact JSON on one line, encodable as UTF-8, keys in the order they have."""
    text = clean_text(_encode(value))
    return text if text.isascii() else text.translate(_LINE_ENDS)


def json_line(value: Any) -> bytes:
    """One line of a JSONL file."""
    return json_text(value).encode() + b"\n"


@dataclass(slots=True)
class Summary:
    """What became of the episodes of an export.

    episodes: read. kept: of these, in the file. lines: of the file, each of them one `noun`. left_out: reason -> how
    many episodes (or pairs, where the reason says so).
    """

    out: Path
    noun: str
    episodes: int = 0
    kept: int = 0
    lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """One line for people."""
        said = f"{_count(self.lines, self.noun)} from {self.kept} of {_count(self.episodes, 'episode')}: {self.out}"
        return f"{said}; left out: {self.reasons()}" if self.left_out else said

    def reasons(self) -> str:
        """Why others were left out, most frequent first."""
        parts = [f"{number} {reason}" for reason, number in sorted(self.left_out.items(), key=lambda one: -one[1])]
        return ", ".join(parts) or "nothing"

    def check_not_empty(self) -> None:
        """Raises DataError when the file would hold nothing."""
        if not self.lines:
            read = _count(self.episodes, "episode")
            raise DataError(f"nothing to write: no {self.noun} came out of {read}; left out: {self.reasons()}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextmanager
def whole_file(out: Path, force: bool) -> Iterator[IO[bytes]]:
    """A binary file that takes its name when everything is written and on the disk, and is gone when something fails.

    Raises ConfigError when `out` is there (unless `force`), is a folder, or cannot be written.
    """
    target = _free_target(out, force)
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _free_target(out, force)
        draft.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise ConfigError(f"cannot write {out} ({error.strerror or error}): choose another file with --out") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _free_target(out: Path, force: bool) -> Path:
    if out.is_dir():
        raise ConfigError(f"{out} is a folder: name a file with --out")
    if out.exists() and not out.is_file():
        raise ConfigError(f"{out} is no plain file: name another with --out")
    if out.exists() and not force:
        raise ConfigError(f"{out} is already there: choose another file with --out, or overwrite it with --force")
    return Path(os.path.realpath(out))


def _sync_folder(folder: Path) -> None:
    """The new name on the disk as well; not every system can open a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
