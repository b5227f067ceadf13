"""`factgym corpus` through real processes: what is built, counted and said, and how it fails."""

from __future__ import annotations

import bz2
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from factgym.cli.corpus import status
from factgym.cli.main import app
from factgym.corpora.cooccurrence import Progress, open_index

TEXTS = [
    "Messi was born in Rosario. Messi left Rosario for Barcelona.",
    "Rosario lies on the Paraná; it is far from Barcelona.",
    "The men's final ended 4-2.",
]


def corpus(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "factgym", "corpus", *args],
        cwd=cwd, capture_output=True, text=True, timeout=300, env={**os.environ, "COLUMNS": "100"}, check=False,
    )  # fmt: skip


def fails(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    return tmp_path


@pytest.fixture
def built(lines):
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1", cwd=lines)
    assert done.returncode == 0, done.stderr
    return lines


def test_index_count_and_info(built):
    done = corpus("count", "c.cooc", "Messi", "Rosario", cwd=built)
    assert done.stdout.splitlines() == [
        "2  Messi AND Rosario, within 1,000 (infini-gram)",
        "  2  Messi",
        "  3  Rosario",
    ]
    assert corpus("count", "c.cooc", "Barcelona", cwd=built).stdout == "2  Barcelona\n"
    done = corpus("count", "c.cooc", "Barcelona", "Paraná", "--semantics", "window", "--window", "9", cwd=built)
    assert done.stdout.startswith("1  Barcelona AND Paraná, within 9 (window)")
    done = corpus("count", "c.cooc", "men's", "4-2", cwd=built)
    assert done.stdout.startswith("1  men's AND 4-2")
    info = corpus("info", "c.cooc", "--verify", cwd=built)
    rows = dict(line.split(maxsplit=1) for line in info.stdout.splitlines())
    assert (rows["kind"], rows["documents"], rows["tokens"], rows["checksums"]) == ("cooccurrence", "3", "27", "hold")
    assert rows["fingerprint"] == open_index(built / "c.cooc").fingerprint()


def test_what_the_build_says(lines):
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1", cwd=lines)
    assert "1 file, 0.0 MB, in 1 part\n" in done.stderr
    assert done.stdout.startswith("c.cooc: 3 documents, 27 tokens, 23 words\n")
    assert "bytes a token" in done.stdout


@pytest.mark.parametrize("settled", [True, False])
def test_a_build_says_what_it_still_waits_for(lines, monkeypatch, settled):
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.wait_for_kernels", lambda seconds: settled)
    done = CliRunner().invoke(app, ["corpus", "index", str(lines / "c.jsonl"), "--out", str(lines / "c.cooc")])
    assert done.exit_code == 0, done.output
    assert ("numba compiles" in done.stderr) == (not settled)
    assert "numba" not in done.stdout


def test_an_index_that_is_there_is_kept(built):
    before = (built / "c.cooc").read_bytes()
    assert "c.cooc exists" in fails(corpus("index", "c.jsonl", "--out", "c.cooc", cwd=built))
    assert (built / "c.cooc").read_bytes() == before
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--force", "--case", "fold", "--workers", "1", cwd=built)
    assert done.returncode == 0
    assert corpus("count", "c.cooc", "MESSI", cwd=built).stdout == "2  MESSI\n"


def test_an_unknown_word_is_named(built):
    done = corpus("count", "c.cooc", "messi", "Rosario", cwd=built)
    assert done.stdout.startswith("0  messi AND Rosario")
    assert done.stderr == "not in this corpus: messi (capitals count)\n"


def test_broken_records(lines):
    with (lines / "c.jsonl").open("a") as file:
        file.write("broken\n")
    assert fails(corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1", cwd=lines)).startswith(
        "factgym: c.jsonl line 4: not valid JSON"
    )
    assert not (lines / "c.cooc").exists()
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "2", "--skip-bad", cwd=lines)
    assert "3 documents" in done.stdout
    assert "left out: 1 broken record\n  c.jsonl line 4: not valid JSON" in done.stderr


def test_two_workers_over_a_folder_of_packed_files(tmp_path):
    for n, text in enumerate(TEXTS):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"wiki_0{n}.bz2").write_bytes(bz2.compress(f'<doc id="{n}">\n{text}\n</doc>\n'.encode()))
    (tmp_path / "in" / "notes.pdf").write_text("x")
    done = corpus("index", "in", "--out", "c.cooc", "--workers", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "passed over: 1 (notes.pdf)" in done.stderr
    assert corpus("count", "c.cooc", "Messi", "Rosario", cwd=tmp_path).stdout.startswith("2  ")


def test_options_that_do_not_fit(built):
    assert "no such file or folder" in fails(corpus("index", "nowhere", "--out", "x", cwd=built))
    assert "no co-occurrence index" in fails(corpus("count", "c.jsonl", "Messi", cwd=built))
    assert "--tokenizer goes with" in fails(corpus("count", "c.cooc", "Messi", "--tokenizer", "t", cwd=built))
    assert "memory_mb" in fails(corpus("index", "c.jsonl", "--out", "x", "--memory-mb", "1", cwd=built))
    assert "--verify reads checksums" in fails(corpus("info", "infini-gram:c", "--verify", cwd=built))


def test_an_infinigram_index(tmp_path):
    pytest.importorskip("infini_gram", reason="needs the extra infini-gram")
    from factgym.corpora.cooccurrence import tokenize
    from perf.cooccurrence_peer import write_infinigram

    write_infinigram(map(tokenize, TEXTS), tmp_path / "ig")
    assert corpus("count", "infini-gram:ig", "Messi", "Rosario", cwd=tmp_path).stdout.startswith("2  Messi AND")
    info = corpus("info", "infini-gram:ig", cwd=tmp_path).stdout
    assert "kind" in info
    assert "bytes per token" in info
    (tmp_path / "ig" / "table.0").unlink()
    assert "table.0 is missing" in fails(corpus("count", "infini-gram:ig", "Messi", cwd=tmp_path))


def test_the_live_line():
    assert status(None, 3.2) == "reading · 3 s"
    reading = status(Progress("read", 3, 12, 5_120_000, 8_000), 4.0)
    assert reading == "reading 3/12 · 5,120,000 tokens · 8,000 documents · 1,280,000 tokens/s · 4 s"
    assert status(Progress("merge", 1, None, 5, 8), 4.0) == "merging 1 · 5 tokens · 8 documents · 4 s"
