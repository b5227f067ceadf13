"""A local model through the loop: it plays, a command makes the next one, and that one plays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra 'local'")
pytest.importorskip("transformers", reason="needs the extra 'local'")

import tiny_model
from evolve_runs import evolution, small

from factgym.agents.resolve import find_model
from factgym.training.trainer import find_trainer

SCRIPT = """
import pathlib, shutil, sys
model, data, out = map(pathlib.Path, sys.argv[1:])
assert data.is_file()
shutil.copytree(model, out, dirs_exist_ok=True)
print("copied", model)
"""


def test_a_local_model_is_trained_by_a_command(tmp_path: Path) -> None:
    seed = tiny_model.build_random(tmp_path / "seed")
    (tmp_path / "sft.py").write_text(SCRIPT)
    settings = {"max_tokens": 4, "device": "cpu"}
    command = [sys.executable, str(tmp_path / "sft.py"), "{model}", "{data}", "{out}"]
    trainer = find_trainer("command", {"command": command, "agent_settings": settings})
    out = tmp_path / "out"
    tiny = small(benchmarks=("generated-ood",), warm_up=0, size=10, budgets=(8,))
    own = evolution(out, tiny, start=lambda: find_model(f"hf:{seed}", settings), trainer=trainer)
    own.run(["weakness"], 2)
    folder = out / "weakness" / "round-2"
    assert (folder / "model" / "command.log").read_text().strip() == f"copied {seed}"
    run = json.loads((folder / "verify" / "generated-ood" / "manifest.json").read_text())
    assert run["agent_details"]["model"] == str(folder / "model")
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["train"]["lines"] > 0
    assert metrics["benchmarks"]["generated-ood"]["said"] == [None] * metrics["benchmarks"]["generated-ood"]["n"]
    # Continued, the third round begins from the folder that the second one left.
    own.run(["weakness"], 3, resume=True)
    log = out / "weakness" / "round-3" / "model" / "command.log"
    assert log.read_text().strip() == f"copied {folder / 'model'}"
