"""Paths that the system refuses, or that no reader may open: one of each kind, made in a folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def _link(path: Path) -> str:
    path.symlink_to(path)
    return str(path)


def _below(path: Path) -> str:
    path.touch()
    return str(path / "below")


def _fifo(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def _socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)  # the address of a socket is short
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)
    return str(path)


def _forbidden(path: Path) -> str:
    path.touch()
    return str(path)


KINDS: dict[str, Callable[[Path], str]] = {
    "long name": lambda path: str(path.with_name("x" * 4_000)),
    "long path": lambda path: str(path.joinpath(*["x" * 200] * 25)),
    "loop": _link,
    "null": lambda path: f"{path}/a\0b",
    "surrogate": lambda path: f"{path}/a\ud800b",
    "below a file": _below,
    "fifo": _fifo,
    "socket": _socket,
    "zero": lambda path: "/dev/zero",
    "full": lambda path: "/dev/full",
    "endless": lambda path: "/proc/self/pagemap",
    "proc": lambda path: "/proc/self/status",
    "unknown user": lambda path: "~nobody-of-this-name/file",
    "empty": lambda path: "",
    "forbidden": _forbidden,
}
"""A path of each kind, made at a free one. The file "forbidden" needs `forbid`, as root may read everything."""


def refused(kind: str, folder: Path) -> str:
    """A path of this kind in a folder of its own."""
    parent = folder / f"of-{kind.replace(' ', '-')}"
    if parent.exists():
        shutil.rmtree(parent)
    parent.mkdir()
    return KINDS[kind](parent / kind.replace(" ", "-"))


def forbid(monkeypatch, folder: Path) -> None:
    """Make the system refuse the path of the kind "forbidden", to root as well."""
    access = os.access

    def refuse(path, mode, **options):
        return Path(os.fsdecode(path)).name != "forbidden" and access(path, mode, **options)

    monkeypatch.setattr(os, "access", refuse)


class HungError(Exception):
    """A path was waited for."""


@contextmanager
def no_waiting(seconds: int = 60) -> Iterator[None]:
    """Raise HungError where the block waits, as for the writer of a FIFO, or reads without end."""

    def hang(*_):
        raise HungError

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
