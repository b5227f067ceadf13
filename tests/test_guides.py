"""Every command and example of the guides runs, in order, in one folder, against a local server without a model."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from commands import run_python
from served import ADDRESS, served
from test_readme import factgym, run

GUIDES = sorted((Path(__file__).resolve().parents[1] / "docs" / "guides").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# file: (\S+\.py)\n")
"""First line of a block that is a part of a file; the parts are joined in their order."""
NEEDS_MORE = re.compile(r"pip install|vllm serve|sglang|hf:path|--ray|-m perf")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_runs_from_top_to_bottom(guide: Path, tmp_path: Path) -> None:
    text = guide.read_text("utf-8")
    with served() as url:
        for language, code in BLOCK.findall(text):
            if language == "bash":
                for line in code.strip().splitlines():
                    done = factgym(line.replace(ADDRESS, url), tmp_path)
                    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            elif language == "python" and (named := FILE.match(code)):
                file = tmp_path / named[1]
                file.parent.mkdir(exist_ok=True)
                with file.open("a", encoding="utf-8") as out:
                    out.write(code)
            elif language == "python":
                (tmp_path / "mine.py").write_text(code, "utf-8")
                done = run_python(code, tmp_path)
                assert done.returncode == 0, f"{code}\n{done.stderr}"
            elif language == "toml":
                (tmp_path / "prices.toml").write_text(code, "utf-8")
            else:
                assert language == "text"
                assert all(NEEDS_MORE.search(line) for line in code.strip().splitlines()), code


def test_the_options_in_the_guides_exist(tmp_path: Path) -> None:
    commands = (
        "audit",
        "eval",
        "export",
        "benchmark",
        "evolve seva",
        "evolve eve",
        "filter",
        "corpus index",
        "corpus count",
    )
    shown = " ".join(factgym(f"factgym {name} --help", tmp_path, COLUMNS="300").stdout for name in commands)
    shown += run([sys.executable, "-m", "factgym.agents.script_server", "--help"], tmp_path).stdout
    for guide in GUIDES:
        for option in re.findall(
            r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"```text.*?```", "", guide.read_text("utf-8"), flags=re.DOTALL)
        ):
            assert option in shown, f"{guide.name}: {option}"
