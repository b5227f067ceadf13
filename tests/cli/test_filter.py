"""`factgym filter` from its options to what it prints and writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from served import served
from typer.testing import CliRunner

from factgym.agents.rollout.engine import RunAbortedError
from factgym.agents.rollout.jobs import Progress
from factgym.cli.filter import filter_command
from factgym.core.errors import ConfigError, FactgymError

POLICY = f"{Path(__file__).parents[1] / 'agents' / 'forgetful.py'}:Forgetful"
SMALL = ("corver-qa", "--agent", POLICY, "-G", "4", "--set", "size=40", "--out", "zone")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def invoke(*args: str) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(filter_command)
    return CliRunner().invoke(app, args)


def call(*args: str) -> str:
    done = invoke(*args)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return str(done.output)


def summary(folder: str = "zone") -> dict[str, Any]:
    return dict(json.loads(Path(folder, "filter.json").read_text("utf-8")))


def test_it_samples_prints_the_buckets_and_writes():
    output = call(*SMALL, "--anchors", "2")
    result = summary()
    assert result["pool"] == 40
    assert result["anchors"] == 2
    row = next(line for line in output.splitlines() if line.startswith("forgetful.py"))
    counts = [result[name] for name in ("never", "between", "always", "retained")]
    assert row.split()[1:5] == [str(n) for n in counts]
    assert f"{100 * result['share']:.1f} %" in row
    for part in ("n_c = 0", "1–3", "n_c = 4", "keep %", "kept: 1 ≤ n_c ≤ 3, and 2 anchors", "all samples are right"):
        assert part in output
    retained = Path("zone", "kept.jsonl").read_text("utf-8").splitlines()
    assert len(retained) == result["retained"] + 2 == len(Path("zone", "tasks.txt").read_text("utf-8").splitlines())
    assert f"{len(retained)} questions in {Path('zone', 'kept.jsonl')}" in output
    assert all(len(line.rstrip()) <= 80 for line in output.splitlines() if not line.startswith(("Kept", "Samples")))


def test_the_training_prompt_is_what_is_asked_with():
    call(*SMALL)
    config = json.loads(Path("zone", "manifest.json").read_text("utf-8"))["config"]
    assert config["prompt"] == "train"
    call(*SMALL[:-1], "other", "--set", "prompt=eval")
    assert json.loads(Path("other", "manifest.json").read_text("utf-8"))["config"]["prompt"] == "eval"


def test_another_zone_needs_no_samples():
    call(*SMALL)
    before = Path("zone", "episodes.jsonl").read_bytes()
    call(*SMALL, "--keep", "0:4", "--resume")
    assert summary()["retained"] == 40
    assert Path("zone", "episodes.jsonl").read_bytes() == before


def test_errors_are_reported_and_retried():
    output = call(*SMALL, "--agent-set", "fail=0.2", "--max-errors", "0")
    assert "without all 4 scored samples" in output
    assert "--resume plays them again" in " ".join(output.split())
    short = summary()["short"]
    assert short
    assert all(sample["scored"] + sample["errors"] == 4 for sample in short.values())
    assert summary()["pool"] == 40 - len(short)


def test_only_some_tasks_and_only_as_many():
    call(*SMALL)
    retained = summary()["retained"]
    call("corver-qa", "--agent", POLICY, "-G", "4", "--set", "size=40", "--tasks", "zone/tasks.txt", "--out", "again")
    assert summary("again")["pool"] == retained
    call(*SMALL[:-1], "few", "-n", "5")
    assert summary("few")["pool"] == 5


def test_a_model_samples_as_the_papers_filter():
    with served() as url:
        model = ("--base-url", url, "--temperature", "1.0", "--agent-set", "max_retries=7")
        call("corver-qa", "--agent", "openai:some", *model, "-G", "2", "-n", "2", "--out", "model")
    details = json.loads(Path("model", "manifest.json").read_text("utf-8"))["agent_details"]
    sampling = {name: details[name] for name in ("temperature", "top_p", "max_tokens", "max_retries")}
    assert sampling == {"temperature": 1.0, "top_p": 0.95, "max_tokens": 512, "max_retries": 7}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--keep", "3"), "LOW:HIGH"),
        (("--keep", "3:1"), "no range"),
        (("--keep", "0:4", "--anchors", "1"), "leave the anchors out"),
        (("--correct", "reward"), "give a threshold"),
        (("--correct", "nothing"), "says nothing about any"),
        (("--tasks", "nowhere.txt"), "cannot be read"),
        (("--set", "sise=3"), "size"),
        (("--agent-set", "oops"), "KEY=VALUE"),
    ],
)
def test_bad_input_names_the_fix(args: tuple[str, ...], message: str):
    with pytest.raises(FactgymError, match=message):
        call(*SMALL, *args)


def test_an_unknown_player_has_a_hint():
    with pytest.raises(ConfigError, match="Did you mean 'oracle'"):
        call("corver-qa", "--agent", "oracel", "--out", "x")


def test_a_dead_server_says_how_to_go_on_and_what_is_known():
    with pytest.raises(FactgymError, match=r"errors in a row.*continue with --resume") as raised:
        call(*SMALL, "--agent-set", "fail=1.0", "--max-errors", "5")
    assert isinstance(raised.value.__cause__, RunAbortedError)
    assert not Path("zone", "kept.jsonl").exists()
    call(*SMALL[:-1], "fine")


def test_an_interrupt_keeps_what_was_finished(monkeypatch: pytest.MonkeyPatch):
    calls = []

    def interrupted(self: Any, record: Any) -> None:
        calls.append(record)
        if len(calls) == 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "add", interrupted)
        done = invoke(*SMALL, "--concurrency", "1")
    assert done.exit_code == 130
    assert "continue with --resume" in " ".join(done.output.split())
    assert "incomplete" in done.output
    assert not Path("zone", "kept.jsonl").exists()
    call(*SMALL, "--resume")
    assert summary()["pool"] == 40


def test_sigterm_ends_it_as_ctrl_c_does(tmp_path: Path):
    args = [sys.executable, "-m", "factgym", "filter", *SMALL, "--agent-set", "wait=0.2", "--concurrency", "2"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    file = tmp_path / "zone" / "episodes.jsonl"
    while process.poll() is None and not (file.exists() and file.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate()
    assert process.returncode == 143, errors
    assert "continue with --resume" in " ".join(output.split())
    assert not (tmp_path / "zone" / "kept.jsonl").exists()
    assert file.read_bytes().endswith(b"\n")
