"""Runs the blocks of an integration's page, in order, in one folder, with the framework's own environment first on the path.

`bash` blocks run line by line in a shell, `python` blocks as scripts with warnings of ours as errors; `toml`, `yaml` and
`json` blocks are written to the file that a first line `# file: NAME` names. `text` blocks are shown, not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


GUIDES = ROOT / "docs" / "guides" / "integrations"


BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


FILE = re.compile(r"\A(?:#|//) file: ([\w./-]+)\n")


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and text of every block of `docs/guides/integrations/NAME.md`."""
    return BLOCK.findall((GUIDES / f"{name}.md").read_text("utf-8"))


def run_page(
    name: str, folder: Path, replace: Mapping[str, str] | None = None, skip: str = "pip install", timeout: float = 600
) -> Iterator[tuple[str, subprocess.CompletedProcess[str]]]:
    """Run the page in `folder`; each command with what it said. Fails on the first that does not return 0.

    replace: text -> what to put in its place (a server's address). skip: lines that hold it are not run.
    """
    for language, code in blocks(name):
        for old, new in (replace or {}).items():
            code = code.replace(old, new)
        if match := FILE.match(code):
            (folder / match[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / match[1]).write_text(code, "utf-8")
        elif language == "bash":
            for line in code.strip().replace("\\\n", "").splitlines():
                if skip not in line:
                    yield line, run_line(line, folder, timeout)
        elif language == "python":
            yield code, _run([sys.executable, "-c", code], folder, timeout)
        else:
            assert language == "text", f"{name}: a {language} block is run by nobody; name its file"


def shown_lines(name: str, start: str = "factgym ") -> list[str]:
    """The lines of a page's `text` blocks that begin with a command: those that `run_page` does not run."""
    texts = [code.replace("\\\n", " ") for language, code in blocks(name) if language == "text"]
    return [line for text in texts for line in text.splitlines() if line.startswith(start)]


def run_line(line: str, folder: Path, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run a line of a page in a folder. Fails if it does not return 0."""
    return _run(["bash", "-euo", "pipefail", "-c", line], folder, timeout)


def _run(command: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PATH": path, "VIRTUAL_ENV": sys.prefix},
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


def write_files(folder: Path, *names: str) -> None:
    """Write the blocks of `recipes.md` that begin with `# file: NAME`."""
    texts = {match[1]: code for _, code in blocks("recipes") if (match := FILE.match(code))}
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(texts[name], "utf-8")
