"""Every command and example of the guides runs, in order, in one folder, against a local server without a model.

A command that ends in `&` is a server, which runs until the guide ends; a free port takes the place of its own.
"""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack, chdir
from pathlib import Path

import click
import pytest
import typer
from commands import run_python
from retrieval_served import start, stop
from served import ADDRESS, served
from test_readme import factgym, run

from factgym.cli.main import app

GUIDES = sorted((Path(__file__).resolve().parents[1] / "docs" / "guides").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# file: (\S+\.py)\n")
"""First line of a block that is a part of a file; the parts are joined in their order."""
OPTION = r"(?<![\w-])--[a-z][a-z-]+"
NEEDS_MORE = re.compile(
    r"pip install|vllm serve|sglang|hf:path|--ray|-m perf|postgresql://|corpus encode|index=dense|index[ =](rerank|late)|factgym train [rc]|--agent nli:|--tensorboard|factgym serve check|^curl "
)


def at_real_addresses(text: str, servers: dict[str, str]) -> str:
    for address, real in servers.items():
        text = text.replace(address, real)
    return text


def run_server(line: str, folder: Path, stack: ExitStack) -> tuple[str, str]:
    """Start `factgym serve … --port NUMBER &`; return the address in the guide and the real one."""
    port = re.search(r"--port (\d+)", line)
    assert port is not None
    words = line.removesuffix("&").replace(port[0], "--port 0").split()[2:]
    with chdir(folder):
        process, url = start(*words)
    stack.callback(stop, process)
    return f"http://127.0.0.1:{port[1]}", re.match(r"http://[^/]+", url)[0]  # type: ignore[index]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_runs_from_top_to_bottom(guide: Path, tmp_path: Path) -> None:
    text = guide.read_text("utf-8")
    with served() as url, ExitStack() as stack:
        servers: dict[str, str] = {}
        for language, block in BLOCK.findall(text):
            code = at_real_addresses(block, servers)
            if language == "bash":
                for line in code.strip().splitlines():
                    if line.endswith("&"):
                        address, real = run_server(line, tmp_path, stack)
                        servers[address] = real
                        continue
                    done = factgym(at_real_addresses(line, servers).replace(ADDRESS, url), tmp_path)
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


def options_of(command: click.Command) -> set[str]:
    """Every option of a command and of the commands under it."""
    own = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
    return own.union(*(options_of(under) for under in getattr(command, "commands", {}).values()))


def test_the_options_in_the_guides_exist(tmp_path: Path) -> None:
    existing = options_of(typer.main.get_command(app))
    script_server = run([sys.executable, "-m", "factgym.agents.script_server", "--help"], tmp_path).stdout
    existing |= set(re.findall(OPTION, script_server))
    for guide in GUIDES:
        text = re.sub(r"```text.*?```", "", guide.read_text("utf-8"), flags=re.DOTALL)
        assert set(re.findall(OPTION, text)) <= existing, guide.name
