"""`factgym …` and Python code in processes of their own that start at once: forked from a server with all imports."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

_SECONDS = 300
FORKSERVER = multiprocessing.get_context("forkserver")
"""A process has a single fork server: who forks from it uses this object, so that the imports are always the same."""
_IMPORTED = """
aiohttp jinja2 jsonschema matplotlib.backends.backend_svg matplotlib.figure openai.resources.chat rich.live
rich.progress rich.table scipy.optimize scipy.special
factgym.agents.endpoint factgym.agents.export factgym.agents.feature_verifier factgym.agents.judges
factgym.agents.runs.collect factgym.benchmarks.audit factgym.benchmarks.benchmark factgym.benchmarks.tables
factgym.benchmarks.viewer factgym.cli.evolve factgym.cli.filter factgym.cli.main factgym.envs.claimcheck.agents
factgym.envs.claimcheck.env factgym.envs.corver.agents factgym.envs.corver.env factgym.envs.eve.proposer_agents
factgym.envs.eve.solver_agents factgym.envs.profact.agents factgym.envs.seva.agents factgym.envs.seva.env
factgym.training.difficulty_filter factgym.training.eve factgym.training.seva killed_runs
"""
FORKSERVER.set_forkserver_preload(_IMPORTED.split())


def run_factgym(
    words: Sequence[str], folder: Path, *, text: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder. text: standard input. env: the whole environment; this process's by default."""
    return _run(_run_command, list(words), folder, text, dict(os.environ if env is None else env))


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a folder as `python -W error -c CODE` does."""
    return _run(_run_code, [code], folder, "", dict(os.environ))


def _run(
    target: Callable[[list[str]], None], words: list[str], folder: Path, text: str, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as temporary:
        streams = [str(Path(temporary, name)) for name in ("stdin", "stdout", "stderr")]
        Path(streams[0]).write_text(text, "utf-8")
        process = FORKSERVER.Process(target=_main, args=(target, words, str(folder), env, streams))
        process.start()
        process.join(_SECONDS)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"{words} ran longer than {_SECONDS} seconds")
        output, errors = (Path(stream).read_text("utf-8") for stream in streams[1:])
        return subprocess.CompletedProcess(words, process.exitcode or 0, output, errors)


def _main(
    target: Callable[[list[str]], None], words: list[str], folder: str, env: dict[str, str], streams: list[str]
) -> None:
    for descriptor, path in enumerate(streams):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, flags), descriptor)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    target(words)


def _run_command(words: list[str]) -> None:
    from factgym.cli.main import main

    sys.argv = ["factgym", *words]
    main()


def _run_code(words: list[str]) -> None:
    warnings.simplefilter("error")
    sys.path.insert(0, "")
    exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
