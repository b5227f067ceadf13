"""Every command and example of the guides runs, in order, in one folder, against a local server without a model.

A command that ends in `&` is a server, which runs until the guide ends; a free port takes the place of its own. `text`
blocks need a model, a GPU, another service or hours, and are shown, not run: each of their lines, on every page, is held
against the real command line, environments, recipes, measurements and extras.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from contextlib import ExitStack, chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import typer
from commands import run_python
from retrieval_served import start, stop
from served import ADDRESS, served
from test_readme import factgym, run

from factgym.agents.resolve import _MAKERS, scripted_agents
from factgym.cli.main import app
from factgym.core.errors import RELEASED
from factgym.core.registry import list_envs, spec
from factgym.corpora.index import _KINDS
from perf.__main__ import NAMES

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *map(ROOT.joinpath, ("README.md", "AGENTS.md", "CONTRIBUTING.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# file: (\S+\.py)\n")
"""First line of a block that is a part of a file; the parts are joined in their order."""
OPTION = r"(?<![\w-])--[a-z][a-z-]+"
OTHERS = {
    "vllm serve ": "needs a GPU and a model of the hub",
    "python -m sglang.launch_server ": "needs a GPU and a model of the hub",
    "python -m verl.trainer.main_ppo ": "needs GPUs; tests/integrations/test_verl_training.py makes a step of its trainer, up to the advantages",
    "python train.py ": "SkyRL needs GPUs; tests/integrations/test_skyrl.py runs its generator",
    "uv run rl ": "prime-rl needs GPUs; tests/integrations/test_verifiers_commands.py reads its file",
    "gym env ": "NeMo-Gym has an environment of its own; tests/integrations/test_recipe_nemo_gym.py runs its agent",
    "gym eval ": "as `gym env`",
    "ray start ": "run by test_guides_models.py",
    "prime env install ": "run by tests/integrations/test_verifiers_commands.py",
    "vf-eval ": "run by tests/integrations/test_verifiers_commands.py",
    "inspect eval ": "run by tests/integrations/test_inspect.py",
}
"""Shown commands of other projects -> why no test of the guides runs them."""


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


def curl(line: str) -> None:
    """Do what a line with curl does: a request with headers and data."""
    words = iter(shlex.split(line)[1:])
    url, headers, data = "", {}, None
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-d":
            data = next(words).encode()
        else:
            url = word
    with urlopen(Request(url, data, headers)) as reply:
        assert json.loads(reply.read())


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_runs_from_top_to_bottom(guide: Path, tmp_path: Path) -> None:
    text = guide.read_text("utf-8")
    with ExitStack() as stack:
        url = stack.enter_context(served()) if ADDRESS in text else ADDRESS
        servers: dict[str, str] = {}
        for language, block in BLOCK.findall(text):
            code = at_real_addresses(block, servers)
            if language == "bash":
                for line in code.strip().splitlines():
                    if line.endswith("&"):
                        address, real = run_server(line, tmp_path, stack)
                        servers[address] = real
                        continue
                    if line.startswith("curl "):
                        curl(at_real_addresses(line, servers))
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


def options_of(command: Any) -> set[str]:
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


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The command of a `factgym …` line and its parameters, by the real command line. Raises for a wrong line."""
    command, name, words = typer.main.get_command(app), "factgym", shlex.split(line, comments=True)[1:]
    while hasattr(command, "commands"):
        child, command, words = command.resolve_command(command.context_class(command, info_name=name), words)
        name = f"{name} {child}"
    return name, command.make_context(name, [word for word in words if word != "…"]).params


def check_factgym(line: str) -> None:
    """A shown `factgym …` line names options, environments, settings, agents, indexes and recipes that exist."""
    name, values = parsed(line)
    target = values.get("env") or values.get("recipe")
    if str(target).endswith(".toml"):
        assert (ROOT / target).is_file(), line
    elif target is not None and (name, target) != ("factgym train", "verifier"):
        assert target in list_envs(), line
        fields = spec(target).load().Config.model_fields
        for setting in values.get("settings") or () if name != "factgym train" else ():
            assert setting.partition("=")[0] in fields, line
    for agent in re.findall(r"--(?:agent|model|attacker|proposer|solver) ([^\s-]\S*)", line):
        if not name.startswith("factgym serve") and not line.startswith("factgym view"):
            assert agent.partition(":")[0] in (*_MAKERS, "verifier") or agent in scripted_agents(
                target or "claimcheck"
            ), line
    index = values.get("index")
    assert not isinstance(index, str) or index in _KINDS or index.startswith("http://"), line


def check_pip(words: list[str]) -> None:
    """A shown installation asks for extras of this project, or for other projects under the pins of an extra or one version."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    pins = {pin for pinned in extras.values() for pin in pinned}
    for word in words:
        name, _, names = word.rstrip("]").partition("[")
        if name in (".", "factgym"):
            assert name == "." or RELEASED, f"{word}: not on the package index yet"
            assert set(filter(None, names.split(","))) <= extras.keys(), word
        elif word not in ("-e", "prime", "uv") and " @ git+https://" not in word:
            assert word in pins or re.fullmatch(r"[\w-]+==[\d.]+", word), word


def check_module(words: list[str], line: str) -> None:
    """`python -m MODULE …`: it can be imported, and of a measurement there is one of that name with these options."""
    assert find_spec(words[0]) is not None, line
    if words[0] == "perf":
        assert words[1] in NAMES, line
        source = (ROOT / "perf" / f"{words[1].replace('-', '_')}.py").read_text("utf-8")
        assert all(f'"{option}"' in source for option in words[2:] if option.startswith("--")), line
    elif words[0] != "factgym.agents.script_server":
        source = Path(find_spec(words[0]).origin).read_text("utf-8")  # type: ignore[union-attr, arg-type]
        assert all(f'"{option}"' in source for option in words[1:] if option.startswith("--")), line


SHOWN = [
    (page.relative_to(ROOT), block)
    for page in PAGES
    for language, block in BLOCK.findall(page.read_text("utf-8"))
    if language == "text"
]


@pytest.mark.parametrize(("page", "block"), SHOWN, ids=lambda value: " ".join(str(value).split()[:5]))
def test_a_block_that_is_shown_names_what_exists(page: Path, block: str) -> None:
    if block.startswith("# ") and ".py" in block.splitlines()[0]:
        compile(block, str(page), "exec")
        return
    if block.startswith("{"):
        (server,) = json.loads(block)["mcpServers"].values()
        check_factgym(shlex.join([server["command"], *server["args"]]))
        return
    if page.name in ("README.md", "index.md") and block.startswith("search →"):
        return  # output, which test_readme.py compares
    for line in block.strip().replace("\\\n", " ").splitlines():
        line = line.removesuffix("&").strip()
        words = shlex.split(line, comments=True)
        if words[:1] == ["factgym"]:
            check_factgym(line)
        elif "install" in words[:4] and "pip" in words[:3]:
            check_pip(words[words.index("install") + 1 :])
        elif words[:2] == ["python", "-m"] and not line.startswith(tuple(OTHERS)):
            check_module(words[2:], line)
        elif words[:2] == ["python", "train.py"]:
            assert any(block.startswith("# train.py") for other, block in SHOWN if other == page)
        else:
            assert line.startswith(tuple(OTHERS)), line


INLINE = [
    (page.relative_to(ROOT), line)
    for page in PAGES
    for line in re.findall(r"`(factgym [^`…]+)`", BLOCK.sub("", page.read_text("utf-8")))
    if any(word in list_envs() or word.endswith(".toml") for word in line.split())
]


@pytest.mark.parametrize(("page", "line"), INLINE)
def test_a_command_within_a_sentence_is_one_that_can_be_given(page: Path, line: str) -> None:
    """Of those that name an environment or a recipe; the others are names of commands."""
    check_factgym(line)
