"""Transcripts are their owner's alone, before they have content, and shared folders stay as they are."""

from __future__ import annotations

import os
import stat
import sys

import pytest

import factgym
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import append_bytes, atomic_file, write_bytes
from factgym.core.caching import SqliteCache
from factgym.core.paths import SHARED_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def usual_umask(monkeypatch):
    monkeypatch.delenv(SHARED_VARIABLE, raising=False)
    before = os.umask(0o022)
    yield
    os.umask(before)


def play(folder):
    env = factgym.make("claimcheck-mini", split="train")
    collect(env, find_agent("random", "claimcheck-mini", {}), folder, n=2)


def test_a_run_is_its_owners_alone(tmp_path):
    play(tmp_path / "runs" / "mine")
    assert mode(tmp_path / "runs" / "mine") == 0o700
    files = [*(tmp_path / "runs" / "mine").iterdir()]
    assert len(files) >= 2 and {mode(file) for file in files} == {0o600}


def test_a_setting_leaves_it_to_the_umask(tmp_path, monkeypatch):
    monkeypatch.setenv(SHARED_VARIABLE, "1")
    play(tmp_path / "run")
    assert mode(tmp_path / "run") == 0o755
    assert {mode(file) for file in (tmp_path / "run").iterdir()} == {0o644}


def test_a_shared_folder_and_a_shared_file_keep_their_permissions(tmp_path):
    (tmp_path / "team").mkdir()
    (tmp_path / "team").chmod(0o2775)
    play(tmp_path / "team")
    assert mode(tmp_path / "team") == 0o2775
    file = tmp_path / "table.json"
    file.touch()
    file.chmod(0o640)
    write_bytes(file, b"new")
    append_bytes(file, b"er")
    assert (mode(file), file.read_bytes()) == (0o640, b"newer")


def test_a_file_is_private_before_it_has_content(tmp_path):
    with atomic_file(tmp_path / "out.jsonl", force=False, draft=".draft") as file:
        assert mode(tmp_path / ".draft") == 0o600
        file.write(b"a transcript")
        file.flush()
    assert mode(tmp_path / "out.jsonl") == 0o600
    (tmp_path / ".draft").write_bytes(b"of a killed process")
    (tmp_path / ".draft").chmod(0o666)
    with atomic_file(tmp_path / "out.jsonl", force=True, draft=".draft"):
        assert mode(tmp_path / ".draft") == 0o600


def test_a_cache_of_answers_is_private(tmp_path):
    class Answers(SqliteCache):
        content, table, application = "cache", "entries", 7

    cache = Answers(tmp_path / "answers.sqlite")
    cache.put("key", {"answer": "text"})
    assert {mode(file) for file in tmp_path.iterdir()} == {0o600}
    cache.close()
