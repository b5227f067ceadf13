"""Paths that a user names: the one place where they are inspected, opened and refused.

The system refuses some paths (too long, a loop of links, no permission), and some name neither a file nor a folder: a
device never ends, and a FIFO blocks until somebody writes. Every function raises PathError, one line that names the
setting where it is given, the path (bounded), the reason and the remedy.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import IO, Literal

from factgym.core.errors import PathError

SHARED_VARIABLE = "FACTGYM_SHARED"
"""Environment variable: set, new transcripts get the permissions that the umask leaves."""

_MAX_CHARS = 160
_MAX_HOST_CHARS = 253
_REMEDIES = {
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "its links lead in a circle; name the file itself",
    errno.ENOSPC: "make room, or choose a path on another disk",
    errno.EDQUOT: "make room, or choose a path on another disk",
    errno.EROFS: "choose a path that can be written to",
}
_KINDS = {stat.S_ISFIFO: "a FIFO", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}

Kind = Literal["file", "folder"]


def show_path(path: str | os.PathLike[str]) -> str:
    """Return a path for a message: escaped, and its middle cut out where it is long."""
    text = os.fspath(path)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return (
        text
        if len(text) <= _MAX_CHARS
        else f"{text[: _MAX_CHARS // 2]}…{text[-_MAX_CHARS // 4 :]} ({len(text):,} characters)"
    )


def path_error(path: str | os.PathLike[str], reason: OSError | str, remedy: str = "", setting: str = "") -> PathError:
    """The refusal of a path. reason: a clause after the path, or the system's error."""
    if isinstance(reason, OSError):
        remedy = remedy or _REMEDIES.get(reason.errno or 0, "")
        reason = f"cannot be used ({reason.strerror or reason})"
    named = f"{setting}: {show_path(path)}" if setting else show_path(path)
    return PathError(f"{named} {reason}: {remedy or 'name a file or folder that you can read'}")


@contextmanager
def refusals(path: str | os.PathLike[str], action: str = "read", remedy: str = "") -> Iterator[None]:
    """Turn the system's errors within the context into the refusal of a path. action: in "cannot be read"."""
    try:
        yield
    except OSError as error:
        reason = f"cannot be {action} ({error.strerror or error})"
        raise path_error(path, reason, remedy or _REMEDIES.get(error.errno or 0, "")) from None


def user_path(path: str | os.PathLike[str], setting: str = "") -> Path:
    """Return a path with `~` expanded, which need not exist. Raises PathError for one that cannot be used."""
    text = os.fspath(path)
    if text.startswith("~"):
        _check_text(text, setting)
        try:
            text = str(Path(text).expanduser())
        except RuntimeError:
            raise path_error(text, "names a user who does not exist", "write the folder out", setting) from None
    kind_of(text, setting)
    return Path(text)


def _check_text(text: str, setting: str) -> None:
    if not text:
        raise PathError(f"{setting or 'a path'} is empty: name a file or folder, or leave it out")
    if "\0" in text or not is_utf8(text):
        raise path_error(text, "has a character that no file name can have", "name another", setting)


def kind_of(path: str | os.PathLike[str], setting: str = "") -> Kind | None:
    """Whether a path names a file or a folder; None where nothing has the name. Raises PathError for anything else."""
    _check_text(os.fspath(path), setting)
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise path_error(path, error, setting=setting) from None
    is_directory = stat.S_ISDIR(status.st_mode)
    special = next((name for test, name in _KINDS.items() if test(status.st_mode)), "")
    if special or status.st_dev in _kernel_devices():
        reason = f"is {special or 'made by the kernel'}, not a plain file or folder"
        raise path_error(path, reason, "copy its content into a file", setting)
    if not os.access(path, os.R_OK | (os.X_OK if is_directory else 0)):
        raise path_error(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)), setting=setting)
    return "folder" if is_directory else "file"


def model_name(name: str | os.PathLike[str], setting: str) -> str:
    """Return a model's name on the hub, or its folder with `~` expanded. Raises PathError for a path without a folder."""
    text = os.fspath(name)
    path = user_path(text, setting)
    kind = kind_of(path)
    if kind == "file":
        raise path_error(path, "is a file", "name the folder of the model", setting)
    if kind is None and (text.startswith(("/", ".", "~")) or text.count("/") > 1):
        raise path_error(path, "does not exist", "name the folder of a model, or a model of the hub", setting)
    return text if kind is None else str(path)


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded: it has no lone surrogates, which stand for undecodable bytes in file names."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_host(text: str) -> bool:
    """Whether a text can be the name or address of a machine: the resolver raises other errors for anything else."""
    try:
        return len(text) <= _MAX_HOST_CHARS and text.isprintable() and bool(text.encode("idna"))
    except UnicodeError:
        return False


@cache
def _kernel_devices() -> frozenset[int]:
    # Their files have no size, may never end (/proc/self/pagemap) or block (/proc/kmsg).
    return frozenset(folder.stat().st_dev for folder in (Path("/proc"), Path("/sys")) if folder.is_mount())


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file. Raises PathError, as the next ones do, for a path that cannot be used."""
    return kind_of(path) == "file"


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a folder."""
    return kind_of(path) == "folder"


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file or folder."""
    return kind_of(path) is not None


def open_file(path: str | os.PathLike[str], setting: str = "") -> BufferedReader:
    """Open a file for reading bytes."""
    kind = kind_of(path, setting)
    if kind != "file":
        reason = "is a folder" if kind else f"cannot be read ({os.strerror(errno.ENOENT)})"
        raise path_error(path, reason, "name a file", setting)
    with refusals(path):
        return Path(path).open("rb")


def read_bytes(path: str | os.PathLike[str], setting: str = "") -> bytes:
    """The content of a file."""
    with open_file(path, setting) as file, refusals(path):
        return file.read()


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8", setting: str = "") -> str:
    """The content of a text file, with `\\n` as its line ends."""
    return decode_text(read_bytes(path, setting), path, encoding)


def decode_text(data: bytes, path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of a file's bytes, with `\\n` as its line ends."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise path_error(path, f"is not UTF-8 text (byte {error.start:,})", "save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def private_mode(folder: bool = False) -> int:
    """The permissions of new transcripts: their owner's alone, or what the umask leaves where FACTGYM_SHARED is set."""
    if os.environ.get(SHARED_VARIABLE):
        return 0o777 if folder else 0o666
    return 0o700 if folder else 0o600


def create_file(path: str | os.PathLike[str], mode: Literal["wb", "ab"] = "wb") -> IO[bytes]:
    """Open a file for writing; a new one has `private_mode` before it has content, an old one keeps its permissions."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, private_mode()))


def make_folder(path: Path) -> None:
    """Make a folder with `private_mode` where there is none; its parents get the usual permissions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(private_mode(folder=True), exist_ok=True)


def list_folder(path: str | os.PathLike[str]) -> list[Path]:
    """The files and folders of a folder, sorted by name."""
    if kind_of(path) != "folder":
        raise path_error(path, "is not a folder" if exists(path) else "does not exist", "name a folder")
    with refusals(path):
        return sorted(Path(path).iterdir())
