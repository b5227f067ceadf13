"""Trainers that are not ours: a class in a user's file, and a command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evolve_runs import evolution, small

from factgym.agents.resolve import find_model
from factgym.core.errors import ConfigError, FactgymError
from factgym.training.trainer import find_trainer, open_dataset


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


OWN_TRAINER = '''
import json
from pathlib import Path

class Constant:
    """Learns which label its data holds more often, and says that one ever after."""

    def __init__(self, verdict=None):
        self.verdict = verdict or {"label": "Attributable", "confidence": 0.5}

    def start(self, seed):
        return self

    def act(self, messages, tools):
        return json.dumps(self.verdict)

    def describe(self):
        return {"kind": "constant", "verdict": self.verdict}

    async def close(self):
        pass

class Majority:
    def __init__(self, flip=False):
        self.flip = flip
        self.trained = 0

    async def train(self, model, dataset, folder, seed):
        self.trained += 1
        labels = [json.loads(messages[-1]["content"])["label"] for messages in dataset.conversations()]
        most = sorted(set(labels), key=lambda one: (labels.count(one), one))[0 if self.flip else -1]
        found = {"label": most, "confidence": 0.75, "seen": len(labels)}
        (Path(folder) / "constant.json").write_text(json.dumps(found))
        return Constant(found)

    def load(self, folder):
        return Constant(json.loads((Path(folder) / "constant.json").read_text()))
'''


def test_a_trainer_of_ones_own_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_TRAINER)
    trainer = find_trainer(f"{tmp_path / 'mine.py'}:Majority", {"flip": True})
    own = small(warm_up=0, replay=0.0)
    out = tmp_path / "out"
    evolution(out, own, start=lambda: find_model("nli"), trainer=trainer).run(["weakness"], 2)
    assert trainer.trained == 1  # type: ignore[attr-defined]
    message = load(out / "weakness" / "round-2" / "metrics.json")["benchmarks"]["generated-ood"]["said"]
    assert set(message) == {"Not Attributable"}  # without replay, probes teach one label
    evolution(out, own, start=lambda: find_model("nli"), trainer=trainer).run(["weakness"], 3, resume=True)
    assert trainer.trained == 2  # type: ignore[attr-defined]
    profile = load(out / "weakness" / "round-3" / "profile.json")
    assert profile["unbinned"] == 0
    measured = (out / "weakness" / "round-3" / "metrics.json").read_bytes()
    (out / "weakness" / "round-3" / "metrics.json").unlink()
    evolution(out, own, start=lambda: find_model("nli"), trainer=trainer).run(["weakness"], 3, resume=True)
    assert trainer.trained == 2  # type: ignore[attr-defined]  # what was trained is loaded
    assert (out / "weakness" / "round-3" / "metrics.json").read_bytes() == measured


def test_trainers_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Half:\n    def train(self, model, dataset, folder, seed): ...\n")
    with pytest.raises(ConfigError, match="has no load"):
        find_trainer(f"{tmp_path / 'mine.py'}:Half")
    with pytest.raises(ConfigError, match="there is no trainer 'feature'"):
        find_trainer("feature")
    with pytest.raises(ConfigError, match="does not take these settings"):
        find_trainer("features", {"speed": 1})
    with pytest.raises(ConfigError, match="nothing can be learned"):
        find_model("oracle")


SCRIPT = """
import json, sys
from pathlib import Path
data, out, model, seed = sys.argv[1:]
rows = [json.loads(line) for line in open(data)]
print("lines", len(rows), "from", model, "seed", seed)
(Path(out) / "verifier.py").write_text("def act(messages, tools):\\n    return '{\\"label\\": \\"no\\", \\"confidence\\": 1}'\\n")
(Path(out) / "agent.txt").write_text(str(Path(out) / "verifier.py") + ":act")
"""


def test_a_command_as_a_trainer(tmp_path: Path) -> None:
    (tmp_path / "train it.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "train it.py"), "{data}", "{out}", "{model}", "{seed}"]
    trainer = find_trainer("command", {"command": command})
    out = tmp_path / "a folder; $(touch no)"
    own = evolution(out, small(warm_up=0), trainer=trainer)
    own.run(["weakness"], 2)
    folder = out / "weakness" / "round-2"
    lines = open_dataset(folder / "train.jsonl").lines
    log = (folder / "model" / "command.log").read_text()
    assert log.startswith(f"lines {lines} from seva-feature-verifier seed ")
    assert set(load(folder / "metrics.json")["benchmarks"]["generated-ood"]["said"]) == {"Not Attributable"}
    own.run(["weakness"], 2, resume=True)


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        ("raise SystemExit('no room left')", None, "exit code 1.*no room left"),
        ("import time; time.sleep(60)", 0.3, "more than 0.3 seconds"),
        ("import pathlib, sys; pathlib.Path(sys.argv[1], 'agent.txt').write_text('oracle')", None, "names no model"),
    ],
)
def test_a_command_that_fails_says_how(code: str, timeout: float | None, message: str, tmp_path: Path) -> None:
    trainer = find_trainer("command", {"command": [sys.executable, "-c", code, "{out}"], "timeout": timeout})
    with pytest.raises(FactgymError, match=f"(?s){message}"):
        evolution(tmp_path, small(warm_up=20), trainer=trainer).run(["weakness"], 1)
    assert not (tmp_path / "round-0" / "trained.json").exists()


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    trainer = find_trainer("command", {"command": ["/no/such/program"]})
    with pytest.raises(FactgymError, match="'/no/such/program' could not be started"):
        evolution(tmp_path, small(warm_up=20), trainer=trainer).run(["weakness"], 1)
    with pytest.raises(ConfigError, match="a list of arguments"):
        find_trainer("command", {"command": "python train.py"})


def test_a_killed_run_ends_its_training_command(tmp_path: Path) -> None:
    """`kill -9` of the run, which can clean nothing up, also ends the command and what the command started."""
    child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}, sys.argv[1]])"
    run = (
        "import asyncio, sys; from pathlib import Path; from factgym.agents.feature_verifier import FeatureVerifier; "
        "from factgym.training.trainer import CommandTrainer, open_dataset; data = Path(sys.argv[1], 'rows'); "
        "data.write_text(''); trainer = CommandTrainer([sys.executable, '-c', sys.argv[2], sys.argv[3]]); "
        "asyncio.run(trainer.train(FeatureVerifier(), open_dataset(data), Path(sys.argv[1]), 0))"
    )
    marker = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", run, str(tmp_path), command, str(marker)])
    wait_until(lambda: marker.exists() and bool(marker.read_text()))
    pid = int(marker.read_text())
    process.kill()
    process.wait()
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")
