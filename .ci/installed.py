"""Use a factgym that was installed from its wheel, far from any checkout: play, audit, check and view.

    PYTHON .ci/installed.py SOURCE

PYTHON is that of the virtual environment; SOURCE is a folder with the package's source, all of whose files the wheel must
have. The first command that fails, prints a traceback, or writes no file ends it with an error.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

FACTGYM = str(Path(sys.executable).with_name("factgym"))
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FACTGYM", "PYTEST", "COLUMNS"))
} | {"COLUMNS": "120"}
POLICY = "# Refunds\n\nRefunds are paid within 14 days of the request. A refund above 500 euros needs an approval.\n"
ANSWER = "Refunds are paid within 30 days of the request. A refund above 500 euros needs an approval.\n"

COMMANDS = {
    "eval claimcheck-hard --split train --agent lexical -n 20 --out runs/demo": "runs/demo/episodes.jsonl",
    "eval claimcheck-hard --split train --agent teacher -n 20 --out runs/teacher": "runs/teacher/manifest.json",
    "eval claimcheck-multihop --agent {url} -n 8 --concurrency 4 --out runs/model": "runs/model/episodes.jsonl",
    "eval claimcheck-docs --path docs -n 1 --out runs/docs": "runs/docs/episodes.jsonl",
    "view runs/demo": "runs/demo/index.html",
    "view runs/demo runs/teacher --out both.html": "both.html",
    "compare runs/demo runs/teacher": "",
    "rescore runs/demo --reward r0 --out runs/again": "runs/again/episodes.jsonl",
    "export runs/demo --to sft --out sft.jsonl": "sft.jsonl",
    "report runs --out site": "site/index.html",
    "audit claimcheck-multihop -n 100": "",
    "audit seva -n 200": "",
    "check answer.md --docs docs --html check.html": "check.html",
    "check answer.md --docs docs --json": "",
    "corpus build docs corpus": "corpus",
    "benchmark claimcheck --only mixed -n 6": "",
    "train --help": "",
}
"""Words of a command -> the file or folder that it writes, "" for none."""


def missing_files(source: Path, installed: Path) -> list[str]:
    """Files of the source's package that the installed package lacks."""
    files = (file.relative_to(source) for file in source.rglob("*") if file.is_file())
    return sorted(str(file) for file in files if "__pycache__" not in file.parts and not (installed / file).is_file())


def run(words: list[str]) -> str:
    """Run a command in the present folder and return its output."""
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode or "Traceback" in done.stdout + done.stderr:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def model_server() -> Iterator[str]:
    """The address of a server with a scripted model."""
    command = [sys.executable, "-m", "factgym.agents.script_server", "--port", "0", "--delay-ms", "0"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(word for word in server.stdout.readline().split() if word.startswith("http"))
        finally:
            server.terminate()


def play_environments() -> int:
    """Play an episode of every environment that needs no data; the number of them."""
    import factgym
    from factgym.core.errors import ConfigError
    from factgym.core.registry import list_envs

    played = 0
    for name in list_envs():
        try:
            env = factgym.make(name)
        except ConfigError as error:
            if "FACTGYM_DATA" not in str(error):
                raise
            continue
        env.reset(seed=0)
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            done = terminated or truncated
        assert info["reward"].status == "scored", f"{name}: {info['reward'].status}"
        played += 1
    return played


def main() -> None:
    """Check the files, then run every command in an empty folder."""
    source = Path(sys.argv[1]).resolve()
    work = tempfile.mkdtemp(prefix="factgym-installed-")
    os.chdir(work)
    os.environ.pop("FACTGYM_DATA", None)
    sys.path = [path for path in sys.path if path and Path(path).resolve() != Path(__file__).resolve().parent]
    import factgym

    installed = Path(factgym.__file__).resolve().parent
    if source in installed.parents:
        sys.exit(f"factgym is that of the source: {installed}")
    if missing := missing_files(source / "factgym", installed):
        sys.exit(f"the wheel lacks {len(missing)} files of the package: {', '.join(missing)}")
    assert version("factgym") in run([FACTGYM, "--version"])
    played = play_environments()
    for path, text in (("docs/refunds.md", POLICY), ("answer.md", ANSWER)):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, "utf-8")
    with model_server() as url:
        for command, result in COMMANDS.items():
            output = run([FACTGYM, *command.format(url=url).split()])
            if not output or (result and not Path(result).exists()):
                sys.exit(f"factgym {command}: no {result or 'output'}\n{output}")
    sys.stdout.write(f"Python {sys.version.split()[0]}: {played} environments and {len(COMMANDS)} commands in {work}\n")


if __name__ == "__main__":
    main()
