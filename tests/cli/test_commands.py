"""The commands through real processes: what they print, what they write, how they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run_factgym
from timeless import timeless

from factgym.core.registry import list_envs


def factgym(*args: str, cwd: Path, text: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "FACTGYM_DATA"} | {"COLUMNS": "100"}
    if not env:
        return run_factgym(args, cwd, text=text or "", env=clean)
    command = [sys.executable, "-m", "factgym", *args]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, input=text, timeout=300, env={**clean, **env}, check=False
    )


def one_line_error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_list_shows_every_environment(tmp_path):
    done = factgym("list", cwd=tmp_path)
    assert done.returncode == 0
    assert all(env_id in done.stdout for env_id in list_envs())


@pytest.mark.parametrize(
    "env_id, honest",
    [("claimcheck-multihop", "nli"), ("seva", "nli"), ("profact", "workflow"), ("corver-qa", "student")],
)
def test_eval_plays_the_honest_baseline_by_default(tmp_path, env_id, honest):
    done = factgym("eval", env_id, "-n", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / f"{env_id}-{honest}" / "manifest.json").is_file()


def test_eval_plays_the_tasks_that_a_file_names(tmp_path):
    first = factgym("eval", "corver-qa", "-n", "5", "--out", "some", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    played = [
        json.loads(line)["task"] for line in (tmp_path / "some" / "episodes.jsonl").read_text("utf-8").splitlines()
    ]
    (tmp_path / "tasks.txt").write_text("\n".join(sorted(played)[:3]), "utf-8")
    again = factgym("eval", "corver-qa", "--tasks", "tasks.txt", "--out", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    lines = (tmp_path / "again" / "episodes.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["task"] for line in lines) == sorted(played)[:3]
    spread = factgym("eval", "corver-qa", "--tasks", "tasks.txt", "--workers", "2", "--out", "spread", cwd=tmp_path)
    assert spread.returncode == 0, spread.stderr
    lines = (tmp_path / "spread" / "episodes.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["task"] for line in lines) == sorted(played)[:3]


@pytest.mark.parametrize("env_id", list_envs())
def test_info_shows_card_settings_and_agents(tmp_path, env_id):
    done = factgym("info", env_id, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("Turn protocol", "Known exploits", "max_turns", "oracle"):
        assert text in done.stdout


def test_eval_writes_one_line_per_episode_and_a_table(tmp_path):
    done = factgym("eval", "claimcheck-multihop", "--agent", "oracle", "-n", "7", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("reward", "evidence", "format", "grounding", "coverage", "calibration", "safety", "1.000"):
        assert text in done.stdout
    episodes = [json.loads(line) for line in (tmp_path / "out" / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert [episode["reward"]["total"] for episode in episodes] == pytest.approx([1.0] * 7)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["config"]["source"] == "multihop"
    assert set(manifest["prompts"]) == {"system", "judged", "task"}


def test_the_same_run_gives_the_same_episodes(tmp_path):
    """In the same order, whatever the hash seed, but for the seconds."""
    runs = []
    for name, hash_seed in (("a", "1"), ("b", "2")):
        done = factgym(
            "eval", "claimcheck", "--agent", "nli", "-n", "6", "--seed", "3", "--out", name, cwd=tmp_path, PYTHONHASHSEED=hash_seed
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / name / "episodes.jsonl").read_text("utf-8").splitlines()
        runs.append([json.dumps(timeless(json.loads(line))) for line in lines])
    assert runs[0] == runs[1]


def test_eval_never_overwrites_a_run(tmp_path):
    args = ("eval", "claimcheck-multihop", "--agent", "random", "-n", "1")
    assert factgym(*args, "--out", "out", cwd=tmp_path).returncode == 0
    assert "already holds a run" in one_line_error(factgym(*args, "--out", "out", cwd=tmp_path))
    for _ in range(2):
        assert factgym(*args, cwd=tmp_path).returncode == 0
    assert sorted(folder.name for folder in (tmp_path / "runs").iterdir()) == [
        "claimcheck-multihop-random",
        "claimcheck-multihop-random-2",
    ]


def test_eval_plays_groups_and_continues_a_run(tmp_path):
    args = ("eval", "claimcheck-multihop", "--agent", "random", "-n", "6", "-k", "3")
    assert factgym(*args, "--resume", cwd=tmp_path).returncode == 0
    file = tmp_path / "runs" / "claimcheck-multihop-random" / "episodes.jsonl"
    before = file.read_bytes()
    lines = before.splitlines(keepends=True)
    assert len(lines) == 18
    file.write_bytes(b"".join(lines[:7]) + lines[7][:99])
    done = factgym(*args, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = [[timeless(json.loads(line)) for line in data.splitlines()] for data in (before, file.read_bytes())]
    assert runs[0] == runs[1]
    assert "n: 6 then, 7 now" in one_line_error(factgym(*args[:5], "7", "-k", "3", "--resume", cwd=tmp_path))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("eval", "claimcheck-multihopp"), "Did you mean 'claimcheck-multihop'?"),
        (("info", "nothing-like-it"), "factgym.list_envs()"),
        (("eval", "claimcheck", "--agent", "oracel"), "Did you mean 'oracle'?"),
        (("eval", "claimcheck", "--split", "tset"), "It has: validation, train"),
        (("eval", "claimcheck", "--reward", "v3"), "use r0, gated, v2"),
        (("eval", "claimcheck", "--set", "haystak=true"), "Did you mean 'haystack'?"),
        (("eval", "claimcheck", "--set", "haystack=7"), "haystack should be a valid boolean"),
        (("eval", "claimcheck", "--set", "oops"), "KEY=VALUE"),
        (("eval", "claimcheck", "--set", "index=bm52"), "Did you mean 'bm25'?"),
        (("eval", "claimcheck-docs"), "--path"),
        (("eval", "claimcheck-docs", "--path", "nowhere"), "nowhere"),
        (("eval", "claimcheck-contracts", "--path", "nowhere.json"), "nowhere.json"),
        (("eval", "claimcheck", "--out", "/proc/nope/run"), "choose another folder with --out"),
        (("view", "nowhere"), "nowhere"),
        (("view", "nowhere", "--watch", "--out", "page.html"), "leave out --out"),
        (("eval", "claimcheck", "--agent", "missing.py:Mine"), "there is no file"),
        (("eval", "claimcheck", "--agent", "oracle", "--temperature", "0"), "takes no settings"),
        (("eval", "claimcheck", "--agent", "oracle", "--timeout", "0"), "greater than 0"),
        (("eval", "claimcheck", "--prices", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_bad_input_is_one_line_that_names_the_fix(tmp_path, args, message):
    assert message in one_line_error(factgym(*args, cwd=tmp_path))


def test_a_broken_document_line_is_named(tmp_path):
    lines = [json.dumps({"id": str(i), "text": f"Staff must return key {i} within {i + 2} days."}) for i in range(30)]
    lines[16] = '{"id": "17", "text": '
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "policies.jsonl").write_text("\n".join(lines), "utf-8")
    error = one_line_error(factgym("eval", "claimcheck-docs", "--path", "docs", cwd=tmp_path))
    assert "policies.jsonl" in error
    assert "line 17" in error


def test_a_broken_episode_line_is_named(tmp_path):
    assert factgym("eval", "claimcheck", "--agent", "random", "-n", "20", "--out", "out", cwd=tmp_path).returncode == 0
    file = tmp_path / "out" / "episodes.jsonl"
    lines = file.read_text("utf-8").splitlines()
    lines[16] = lines[16][:40]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    assert "line 17" in one_line_error(factgym("view", "out", cwd=tmp_path))


def test_view_writes_one_page(tmp_path):
    assert factgym("eval", "claimcheck", "--agent", "oracle", "-n", "2", "--out", "out", cwd=tmp_path).returncode == 0
    done = factgym("view", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path, done.stdout.strip()).read_text("utf-8").startswith("<!doctype html>")


def test_a_person_plays_to_the_end(tmp_path):
    typed = "help\nlist\nsearch approval\nread E1\nwhat now\nsubmit\nsupported\nE1\nno quote\n" + "s\nE1\nx\n" * 8
    done = factgym("play", "claimcheck-multihop", "--task", "3", cwd=tmp_path, text=typed)
    assert done.returncode == 0, done.stderr
    assert "Question:" in done.stdout
    assert "Error (no_tool_call)" in done.stdout


def test_a_person_submits_raw_json(tmp_path):
    claim = {"claim": "x", "status": "supported", "evidence_ids": [], "quote": ""}
    action = json.dumps({"tool": "submit", "arguments": {"claims": [claim], "final_verdict": "supported"}})
    done = factgym("play", "claimcheck-multihop", "--task", "3", cwd=tmp_path, text=action + "\n")
    assert done.returncode == 0, done.stderr
    assert "Gold verdict:" in done.stdout


def test_play_ends_with_the_input(tmp_path):
    done = factgym("play", "claimcheck", cwd=tmp_path, text="")
    assert done.returncode == 0
    assert "nothing was submitted" in done.stdout


def test_version(tmp_path):
    assert factgym("--version", cwd=tmp_path).stdout.strip() == "0.1.0"
