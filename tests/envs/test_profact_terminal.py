"""ProFact in a terminal: a person plays it, an agent is evaluated on it, its reward is audited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from profact_claims import write_claims


def factgym(*args: str, cwd: Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "FACTGYM_DATA"}
    return subprocess.run(
        [sys.executable, "-m", "factgym", *args],
        cwd=cwd, capture_output=True, text=True, input=text, timeout=300, env={**clean, "COLUMNS": "100"}, check=False,
    )  # fmt: skip


def test_a_person_plays_through_the_stages(tmp_path: Path) -> None:
    claims = write_claims(tmp_path)
    typed = [
        "search bridge",
        "submit", "What of part 0 of bridge 1?", "What else?", "",
        "search bridge report zq1x0",
        "submit", "The bridge report zq1x0 tells of steel and of stone.",
        "submit", "",
        "submit", "ref", "The report says so.",
    ]  # fmt: skip
    done = factgym("play", "profact", "--path", claims, "--task", "1", cwd=tmp_path, text="\n".join(typed) + "\n")
    assert done.returncode == 0, done.stderr
    for text in (
        "Error (wrong_stage)",
        "Questions posed: 2.",
        "zq1x0",
        "Now question 2: What else?",
        "All questions are",
    ):
        assert text in done.stdout
    assert "Gold label: Refuted" in done.stdout and "verdict   1.000 × 1" in done.stdout
    assert "Evidence: a gold haystack of 24 passages" in done.stdout


def test_eval_writes_records_that_say_what_was_searched(tmp_path: Path) -> None:
    done = factgym("eval", "profact", "--agent", "oracle", "-n", "5", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    episodes = [json.loads(line) for line in (tmp_path / "out" / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert len(episodes) == 5 and all(one["reward"]["total"] > 2.99 for one in episodes)
    assert all("generated haystack" in one["reward"]["metrics"]["store"]["note"] for one in episodes)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert set(manifest["prompts"]) == {"system", "claim", "ask", "search", "record", "verdict"}
    page = factgym("view", "out", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    audit = factgym("audit", "profact", "-n", "5", cwd=tmp_path)
    for said in (done.stdout, audit.stdout, (tmp_path / "out" / "index.html").read_text("utf-8")):
        assert "Evidence: a generated haystack of" in " ".join(said.split())


def test_the_audit_judges_the_rewards(tmp_path: Path) -> None:
    done = factgym("audit", "profact", "-n", "40", cwd=tmp_path)
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


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for args in (("--reward", "proces"), ("--path", "nowhere"), ("--split", "test2"), ("--set", "index=bm26")):
        done = factgym("eval", "profact", "--agent", "oracle", "-n", "1", *args, cwd=tmp_path)
        assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, (args, done.stderr)
