"""ProFact in a terminal: a person plays it, an agent is evaluated on it, its reward is audited."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from profact_claims import write_claims

from factgym import make
from factgym.cli.main import main

Command = Callable[..., Any]


@pytest.fixture
def factgym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in an empty folder; returns its exit code and output."""
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*args: str, text: str = "") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["factgym", *args])
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=output.out, stderr=output.err)

    return run


def test_a_person_plays_through_the_stages(tmp_path: Path, factgym: Command) -> None:
    claims = write_claims(tmp_path)
    typed = [
        "search bridge",
        "submit", "What of part 0 of bridge 1?", "What else?", "",
        "search bridge report zq1x0",
        "submit", "The bridge report zq1x0 tells of steel and of stone.",
        "submit", "",
        "submit", "ref", "The report says so.",
    ]  # fmt: skip
    done = factgym("play", "profact", "--path", claims, "--task", "1", text="\n".join(typed) + "\n")
    assert done.returncode == 0, done.stderr
    for text in (
        "Error (wrong_stage)",
        "Questions posed: 2.",
        "zq1x0",
        "Now question 2: What else?",
        "All questions are",
    ):
        assert text in done.stdout
    # A right verdict earns its rightness less its probability by the claim's words, by the rest of these few claims.
    tasks = make("profact", path=claims).tasks
    earned = (1 - tasks[1].gold.prior["Refuted"]) / (1 - tasks.chance)
    assert "Gold label: Refuted" in done.stdout and f"informed_verdict {earned:.3f} × 1" in done.stdout
    assert "Evidence: a gold haystack of 24 passages" in done.stdout


def test_eval_writes_records_that_name_the_evidence_store(tmp_path: Path, factgym: Command) -> None:
    done = factgym("eval", "profact", "--agent", "oracle", "-n", "5", "--out", "out")
    assert done.returncode == 0, done.stderr
    episodes = [json.loads(line) for line in (tmp_path / "out" / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert len(episodes) == 5 and all(episode["reward"]["total"] > 2.9 for episode in episodes)
    assert all("generated haystack" in episode["reward"]["metrics"]["store"]["note"] for episode in episodes)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert set(manifest["prompts"]) == {"system", "claim", "ask", "search", "record", "verdict", "scoring_guarded"}
    page = factgym("view", "out")
    assert page.returncode == 0, page.stderr
    audit = factgym("audit", "profact", "-n", "5")
    for text in (done.stdout, audit.stdout, (tmp_path / "out" / "index.html").read_text("utf-8")):
        assert "Evidence: a generated haystack of" in " ".join(text.split())


def test_the_audit_judges_the_rewards(factgym: Command) -> None:
    done = factgym("audit", "profact", "-n", "15")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "process",
        "noprocess",
        "guarded",
        "workflow",
        "copies",
        "boilerplate",
        "majority",
        "no-search",
        "PASS",
    ):
        assert text in done.stdout


def test_mistakes_are_one_line(factgym: Command) -> None:
    for args in (("--reward", "proces"), ("--path", "nowhere"), ("--split", "test2"), ("--set", "index=bm26")):
        done = factgym("eval", "profact", "--agent", "oracle", "-n", "1", *args)
        assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, (args, done.stderr)
