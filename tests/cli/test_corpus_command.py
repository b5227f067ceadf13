"""`factgym corpus`: building, counting and describing an index, its messages and its errors."""

from __future__ import annotations

import bz2
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from factgym.cli.corpus import format_progress
from factgym.cli.main import main
from factgym.corpora.build import read_passages
from factgym.corpora.cooccurrence import Progress, build_index, open_index
from factgym.corpora.cooccurrence.sources import Source

TEXTS = [
    "Messi was born in Rosario. Messi left Rosario for Barcelona.",
    "Rosario lies on the Paraná; it is far from Barcelona.",
    "The men's final ended 4-2.",
]


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Result]


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a corpus of JSON lines."""
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def index_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    return build_index(Source(folder / "c.jsonl"), folder / "c.cooc", workers=1).path


@pytest.fixture
def built(lines: Path, index_file: Path) -> Path:
    """The working directory, with an index as well."""
    shutil.copy(index_file, lines / "c.cooc")
    return lines


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `factgym corpus …` in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["factgym", "corpus", *args])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *capsys.readouterr())

    return run


def error_of(result: Result) -> str:
    assert result.returncode == 2, result
    return result.stderr.strip().splitlines()[-1]


def test_a_process_builds_an_index_and_counts_in_it(lines: Path) -> None:
    for args, start in (
        (["index", "c.jsonl", "--out", "c.cooc"], "c.cooc: 3 documents"),
        (["count", "c.cooc", "Messi"], "2  Messi"),
    ):
        command = [sys.executable, "-m", "factgym", "corpus", *args]
        env = {**os.environ, "COLUMNS": "100"}
        done = subprocess.run(command, cwd=lines, capture_output=True, text=True, timeout=300, env=env, check=True)
        assert done.stdout.startswith(start)


def test_a_corpus_is_built_described_and_replaced_on_request(lines: Path, corpus: Command) -> None:
    done = corpus("build", "c.jsonl", "built", "--k1", "0.9")
    assert done.stdout.startswith("built: 3 passages, ") and "passages a second" in done.stdout
    assert "1 file, 0.0 MB; about 0.0 MB on disk and 0.0 MB more while it is built" in done.stderr
    assert "MB of memory, 1 s with " in done.stderr
    rows = dict(line.rsplit(maxsplit=1) for line in corpus("info", "built", "--verify").stdout.splitlines())
    assert (rows["kind"], rows["passages"], rows["bm25 k1"], rows["checksums"]) == ("corpus", "3", "0.9", "hold")
    assert rows["fingerprint"] == read_passages(lines / "c.jsonl").fingerprint()
    assert "built exists: name another folder, or replace it with --force" in error_of(
        corpus("build", "c.jsonl", "built")
    )
    (lines / "c.jsonl").write_text('{"text": "a"}\n{"text": 5}\n')
    assert "c.jsonl line 2: the text of a passage" in error_of(corpus("build", "c.jsonl", "built", "--force"))
    assert corpus("info", "built").stdout.splitlines()[1].split() == ["passages", "3"]
    (lines / "built" / "fields.npy").write_bytes(b"")
    assert "factgym corpus build SOURCE FOLDER" in error_of(corpus("info", "built"))
    (lines / "c.jsonl").write_text('{"text": "a"}\n')
    assert corpus("build", "c.jsonl", "built", "--force").stdout.startswith("built: 1 passages")


def test_index_count_and_info(built: Path, corpus: Command) -> None:
    done = corpus("count", "c.cooc", "Messi", "Rosario")
    assert done.stdout.splitlines() == [
        "2  Messi AND Rosario, within 1,000 (infini-gram)",
        "  2  Messi",
        "  3  Rosario",
    ]
    assert corpus("count", "c.cooc", "Barcelona").stdout == "2  Barcelona\n"
    done = corpus("count", "c.cooc", "Barcelona", "Paraná", "--semantics", "window", "--window", "9")
    assert done.stdout.startswith("1  Barcelona AND Paraná, within 9 (window)")
    done = corpus("count", "c.cooc", "men's", "4-2")
    assert done.stdout.startswith("1  men's AND 4-2")
    info = corpus("info", "c.cooc", "--verify")
    rows = dict(line.split(maxsplit=1) for line in info.stdout.splitlines())
    assert (rows["kind"], rows["documents"], rows["tokens"], rows["checksums"]) == ("cooccurrence", "3", "27", "hold")
    assert rows["fingerprint"] == open_index(built / "c.cooc").fingerprint()


def test_messages_of_a_build(lines: Path, corpus: Command) -> None:
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1")
    assert "1 file, 0.0 MB, in 1 part\n" in done.stderr
    assert done.stdout.startswith("c.cooc: 3 documents, 27 tokens, 23 words\n")
    assert "bytes a token" in done.stdout


@pytest.mark.usefixtures("lines")
@pytest.mark.parametrize("loaded", [True, False])
def test_a_build_names_what_it_still_waits_for(corpus: Command, monkeypatch: pytest.MonkeyPatch, loaded: bool) -> None:
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.wait_for_kernels", lambda seconds: loaded)
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert ("numba compiles" in done.stderr) == (not loaded)
    assert "numba" not in done.stdout


def test_an_index_that_is_there_is_kept(built: Path, corpus: Command) -> None:
    before = (built / "c.cooc").read_bytes()
    assert "c.cooc exists" in error_of(corpus("index", "c.jsonl", "--out", "c.cooc"))
    assert (built / "c.cooc").read_bytes() == before
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--force", "--case", "fold", "--workers", "1")
    assert done.returncode == 0
    assert corpus("count", "c.cooc", "MESSI").stdout == "2  MESSI\n"


def test_an_unknown_word_is_named(built: Path, corpus: Command) -> None:
    done = corpus("count", "c.cooc", "messi", "Rosario")
    assert done.stdout.startswith("0  messi AND Rosario")
    assert done.stderr == "not in this corpus: messi (capitals count)\n"


def test_broken_records(lines: Path, corpus: Command) -> None:
    with (lines / "c.jsonl").open("a") as file:
        file.write("broken\n")
    assert error_of(corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1")).startswith(
        "factgym: c.jsonl line 4: not valid JSON"
    )
    assert not (lines / "c.cooc").exists()
    done = corpus("index", "c.jsonl", "--out", "c.cooc", "--workers", "1", "--skip-bad")
    assert "3 documents" in done.stdout
    assert "left out: 1 broken record\n  c.jsonl line 4: not valid JSON" in done.stderr


def test_two_workers_over_a_folder_of_packed_files(tmp_path: Path, corpus: Command) -> None:
    for n, text in enumerate(TEXTS):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"wiki_0{n}.bz2").write_bytes(bz2.compress(f'<doc id="{n}">\n{text}\n</doc>\n'.encode()))
    (tmp_path / "in" / "notes.pdf").write_text("x")
    done = corpus("index", "in", "--out", "c.cooc", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "ignored: 1 (notes.pdf)" in done.stderr
    assert corpus("count", "c.cooc", "Messi", "Rosario").stdout.startswith("2  ")


def test_options_that_do_not_fit(built: Path, corpus: Command) -> None:
    assert "no such file or folder" in error_of(corpus("index", "nowhere", "--out", "x"))
    assert "no co-occurrence index" in error_of(corpus("count", "c.jsonl", "Messi"))
    assert "--tokenizer goes with" in error_of(corpus("count", "c.cooc", "Messi", "--tokenizer", "t"))
    assert "memory_mb" in error_of(corpus("index", "c.jsonl", "--out", "x", "--memory-mb", "1"))
    assert "--verify reads checksums" in error_of(corpus("info", "infini-gram:c", "--verify"))


def test_an_infinigram_index(tmp_path: Path, corpus: Command) -> None:
    pytest.importorskip("infini_gram", reason="needs the extra infini-gram")
    from factgym.corpora.cooccurrence import tokenize
    from perf.cooccurrence_peer import write_infinigram

    write_infinigram(map(tokenize, TEXTS), tmp_path / "ig")
    assert corpus("count", "infini-gram:ig", "Messi", "Rosario").stdout.startswith("2  Messi AND")
    info = corpus("info", "infini-gram:ig").stdout
    assert "kind" in info
    assert "bytes per token" in info
    (tmp_path / "ig" / "table.0").unlink()
    assert "table.0 is missing" in error_of(corpus("count", "infini-gram:ig", "Messi"))


def test_progress_line() -> None:
    assert format_progress(None, 3.2) == "reading · 3 s"
    reading = format_progress(Progress("read", 3, 12, 5_120_000, 8_000), 4.0)
    assert reading == "reading 3/12 · 5,120,000 tokens · 8,000 documents · 1,280,000 tokens/s · 4 s"
    assert format_progress(Progress("merge", 1, None, 5, 8), 4.0) == "merging 1 · 5 tokens · 8 documents · 4 s"


def test_thresholds_are_calibrated_against_another_index(built: Path, corpus: Command) -> None:
    text = "Lionel Messi was born in Rosario."
    (built / "t.txt").write_text(text)
    for name, copies in (("small", 6), ("large", 30)):
        (built / f"{name}.txt").write_text("\n\n".join([text] * copies))
        corpus("index", f"{name}.txt", "--unit", "paragraph", "--out", f"{name}.cooc")
    options = ["--semantics", "window", "--set", "semantics=window"]
    done = corpus("calibrate", "small.cooc", "t.txt", "--against", "large.cooc", *options)
    assert done.stdout.splitlines() == [
        "1 queries; same tier with the published thresholds: 0.0%",
        "low_count=5 high_count=5: 100.0%",
    ]
    (built / "t.txt").write_text("It rains.")
    assert "there is no query to calibrate with" in error_of(
        corpus("calibrate", "small.cooc", "t.txt", "--against", "large.cooc")
    )
