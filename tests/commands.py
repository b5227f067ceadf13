"""`factgym …` in a process of its own that starts at once: it is forked from a server that has imported the package."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SECONDS = 300
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "factgym.cli.main",
        "factgym.agents.runs.collect",
        "factgym.benchmarks.tables",
        "factgym.envs.claimcheck.env",
        "factgym.envs.corver.env",
        "factgym.envs.seva.env",
    ]
)


def run_factgym(
    words: Sequence[str], folder: Path, *, text: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder. text: standard input. env: the whole environment; this process's by default."""
    with tempfile.TemporaryDirectory() as temporary:
        streams = [str(Path(temporary, name)) for name in ("stdin", "stdout", "stderr")]
        Path(streams[0]).write_text(text, "utf-8")
        environment = dict(os.environ if env is None else env)
        process = _CONTEXT.Process(target=_main, args=(list(words), str(folder), environment, streams))
        process.start()
        process.join(_SECONDS)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"factgym {' '.join(words)} ran longer than {_SECONDS} seconds")
        output, errors = (Path(stream).read_text("utf-8") for stream in streams[1:])
        return subprocess.CompletedProcess(list(words), process.exitcode or 0, output, errors)


def _main(words: list[str], folder: str, env: dict[str, str], streams: list[str]) -> None:
    from factgym.cli.main import main

    for descriptor, path in enumerate(streams):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, flags), descriptor)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["factgym", *words]
    main()
