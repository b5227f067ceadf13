"""The TRL page and the example of each family, run with a tiny random model."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs factgym[trl]")

from guide_pages import ROOT, run_page
from tiny_trl import model, tokenizer

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


SMALLER = {
    "max_steps=200": "max_steps=1",
    "max_steps=100": "max_steps=1",
    "per_device_train_batch_size=8": "per_device_train_batch_size=2",
    "num_generations=8": "num_generations=2",
    "max_completion_length=4096": "max_completion_length=96",
    "limit=100": "limit=2",
    "tasks=32": "tasks=4",
    "--episodes 20": "--episodes 2",
}


def test_the_page_runs(tiny: str, tmp_path: Path) -> None:
    said = [done.stdout for _, done in run_page("trl", tmp_path, {"Qwen/Qwen3-0.6B": tiny, **SMALLER})]
    assert said[0].splitlines()[-1].startswith("0."), said[0]
    reward, turns = said[1].splitlines()[-1].split()
    assert 0.0 <= float(reward) <= 1.0
    assert float(turns) >= 1
    prompt, completion = (int(word) for word in said[2].split())
    assert prompt > 300
    assert completion > 300


EXAMPLES = [
    ("claimcheck", ["--env", "claimcheck-multihop"]),
    ("claimcheck", ["--env", "claimcheck-offline"]),
    ("seva", ["--env", "seva-repair"]),
    ("profact", []),
    ("corver", []),
    ("corver", ["--env", "corver-qa-search"]),
    ("eve", []),
    ("eve", ["--env", "eve-proposer"]),
]


@pytest.mark.parametrize(("name", "flags"), EXAMPLES, ids=[f"{name} {' '.join(flags)}" for name, flags in EXAMPLES])
def test_an_example_trains(
    name: str, flags: list[str], tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ["--tasks", "2", "--steps", "1", "--group", "2", "--completion-tokens", "64", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [name, "--model", tiny, *flags, *small])
    runpy.run_path(str(ROOT / "examples" / "trl" / f"{name}.py"), run_name="__main__")
    assert (tmp_path / "model.safetensors").is_file()
