"""Every command and example of the README, of the first pages and of CONTRIBUTING runs; the generated pages are up to date."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commands import run_factgym, run_python
from served import ADDRESS, served

from factgym import __version__
from factgym.cli.docs import pages
from factgym.core import errors
from factgym.training.recipes.curves import held_out_chart, result_digest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
QUICKSTART, CONCEPTS, INSTALL = [
    (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("quickstart", "concepts", "install")
]


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(args: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        args, cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, **env}, check=False
    )


def factgym(line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of a page, with a dozen tasks where it asks for more; the verdict of an audit needs all."""
    if not line.startswith("factgym audit"):
        line = re.sub(r"(?<= -n )\d+", lambda number: str(min(int(number[0]), 12)), line)
    words = shlex.split(line)
    assert words[0] == "factgym"
    return run_factgym(words[1:], folder, env={**os.environ, **env})


@pytest.mark.parametrize(
    "code", blocks("python", QUICKSTART + CONCEPTS), ids=lambda code: f"{code.splitlines()[0]} {len(code)}"
)
def test_python_examples_run(code, tmp_path):
    done = run([sys.executable, "-W", "error", "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_example_with_a_model_prints_what_the_readme_shows(tmp_path):
    (code,) = blocks("python")
    (output,) = blocks("text")
    assert f"`python -m factgym.agents.script_server --port {urlsplit(ADDRESS).port}`" in README
    with served() as url:
        done = run([sys.executable, "-W", "error", "-c", code.replace(ADDRESS, url)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_the_readme_is_short_and_its_links_lead_somewhere():
    words = [word for word in README.split() if re.search("[A-Za-z]", word)]
    assert len(words) < 700
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_command_line_examples_run_in_order(tmp_path):
    with served() as url:
        for block in blocks("bash", QUICKSTART):
            for line in block.strip().splitlines():
                done = factgym(line.replace(ADDRESS, url), tmp_path)
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "runs" / "demo" / "index.html").exists()


def test_every_extra_is_described():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    rows = [line.split("|")[1] for line in INSTALL.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == set(extras)


def test_the_extras_that_exclude_each_other_are_those_that_are_resolved():
    """`.ci/extras` resolves those of pyproject.toml: each pair conflicts, and no others do."""
    pairs = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]["conflicts"]
    rows = re.findall(r"(?m)^\| `([\w-]+)` \| `([\w-]+)` \| .", INSTALL)
    assert rows == [tuple(part["extra"] for part in pair) for pair in pairs]


def test_the_first_command_installs_and_evaluates(tmp_path):
    """The installation itself runs in `.ci/run`; the evaluation behind `&&` runs here."""
    first, second = [block.strip() for block in blocks("bash") if "pip install" in block]
    install, _, evaluate = first.partition(" && ")
    assert install == "python -m pip install -e ."
    done = factgym(evaluate, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "reward" in done.stdout
    assert second == "python -m pip install -e '.[test]' && python -m pytest -n auto --dist loadfile"


def test_examples_over_real_data_run(tmp_path, data_dir):
    paths = {"path/to/folder": "policies_basecamp", "path/to/contract_nli": "contract_nli"}
    (session,) = [block for block in blocks("text", QUICKSTART) if "claimcheck-docs" in block]
    for line in session.strip().splitlines():
        for name, real in paths.items():
            line = line.replace(name, str(data_dir / real))
        done = factgym(f"{line} -n 20", tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_examples_that_take_long_run_on_less(tmp_path):
    """With fewer episodes than the lines say."""
    less = {
        "benchmark claimcheck": "--only mixed -n 10",
        "benchmark seva": "--only generated -n 10",
        "evolve": "--rounds 1 --budget 12 --size 24 --material 40 --warm-up 24",
        "benchmark profact": "-n 10",
        "benchmark corver": "--only synthetic -n 20",
        "benchmark eve": "--only synthetic -n 10",
        "evolve eve": "--iterations 1 --batch 4 --rows 4 --group 2 --prompts 4 --samples 1",
        "filter": "-n 10",
    }
    lines = [
        line
        for block in blocks("text", QUICKSTART)
        for line in block.strip().splitlines()
        if line.startswith("factgym")
    ]
    lines = [line for line in lines if "path/to" not in line]
    assert len(lines) == 8
    for line in lines:
        _, command, name, *_ = line.split()
        done = factgym(f"{line} {less.get(f'{command} {name}') or less[command]}", tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


SMALL = {
    "env": "--episodes 5 --repeats 1",
    "startup": "--repeats 1",
    "rollouts": "--episodes 8 --repeats 1 --concurrency 4 --delay-ms 1",
    "memory": "--episodes 20",
    "seva": "--repeats 1",
    "statistics": "--repeats 1",
    "meteor": "--repeats 1",
    "cooccurrence": "--tokens 100k --queries 3",
    "retrieval-server": "--passages 300 --clients 4 --seconds 0.2",
    "retrieval": "--passages 300 --queries 3 --processes 1 --no-memory",
    "corver": "--batches 1 --questions 2 --processes 1",
    "train": "--model scratch:50k --tuning 8 --groups 2 --samples 2 --steps 1 --repeats 1",
}
"""Options, after those of the line, that make a measurement short."""


def run_module(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a `python -m MODULE …` line in a process that has the imports already."""
    module, *arguments = shlex.split(line)[2:]
    code = "import runpy, sys, warnings; warnings.resetwarnings(); sys.argv = {!r}; runpy.run_module({!r}, run_name='__main__')"
    return run_python(code.format([module, *arguments], module), folder)


def test_the_benchmarks_run(tmp_path):
    (session,) = [block for block in blocks("text", INSTALL) if "-m perf" in block]
    for line in session.strip().splitlines():
        name = line.split()[-1]
        line = f"{line} {SMALL[name]}"
        # "env" with the interpreter's start and the imports.
        done = run([sys.executable, *shlex.split(line)[1:]], tmp_path) if name == "env" else run_module(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_generated_pages_are_up_to_date():
    for path, text in pages(ROOT).items():
        assert path.read_text("utf-8") == text, f"{path.name} is stale: run python -m factgym.cli.docs"


def test_one_switch_turns_the_lines_that_install_extras(monkeypatch):
    monkeypatch.setattr(errors, "RELEASED", True)
    texts = "".join(pages(ROOT).values())
    assert set(re.findall(r"pip install (-e )?'\.\[([\w-]+)", texts)) == {("-e ", "test")}
    assert "pip install 'factgym[train]'" in texts
    for path in (ROOT / "factgym").rglob("*.py"):
        assert not errors.INSTALL_LINE.search(path.read_text("utf-8")), f"{path}: call install_command"


def test_contributing_names_what_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for path in re.findall(r"`(factgym/[\w/.]+|tests/\w+|docs/\w+|\.ci/run)`", text):
        if "NAME" not in path:
            assert (ROOT / path).exists(), path
    assert len(text.split()) < 600, "CONTRIBUTING stays under a page"
    assert len((ROOT / "AGENTS.md").read_text("utf-8").split()) < 600, "AGENTS stays under a page"


def test_the_citation_has_what_its_format_asks_for():
    """Citation File Format 1.2: four keys have to be there; `version` is the package's."""
    lines = (ROOT / "CITATION.cff").read_text("utf-8").splitlines()
    values = dict(line.split(": ", 1) for line in lines if re.match(r"[a-z-]+: ", line))
    assert values["cff-version"] == "1.2.0" and values["version"] == __version__
    assert {"message", "title"} <= values.keys() and lines[lines.index("authors:") + 1].startswith("  - name: ")


def test_every_stored_curve_is_drawn_from_the_result_as_it_is_and_shown():
    guide, names = (ROOT / "docs/guides/training.md").read_text("utf-8"), []
    for path in sorted((ROOT / "recipes/results").glob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        if result.get("held_out"):
            names.append(path.stem)
            picture = (ROOT / f"docs/images/curve_{path.stem}.svg").read_text("utf-8")
            assert result_digest(result) in picture, "run: python -m factgym.cli.docs ."
    assert re.findall(r"images/curve_(\w+)\.svg", guide) == names != []


def test_the_stages_of_a_stored_curve_are_equally_wide():
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    result = json.loads((ROOT / "recipes/results/claimcheck_mini.json").read_text("utf-8"))
    ticks = dict(re.findall(r'x="([\d.]+)"[^>]*>(\d+)</text>', held_out_chart("reward", result, [2000, 200, 6000])))
    first, boundary, last = (
        next(float(x) for x, step in ticks.items() if step == name) for name in ("0", "2000", "2200")
    )
    assert boundary - first == pytest.approx(last - boundary, rel=1e-4)
