"""Builds of corpora: killed and resumed, in one process and in several, with the same bytes."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_runs import kill_until_done, size_of

from factgym.core.errors import ConfigError, DataError
from factgym.corpora import store_chunks
from factgym.corpora.build import Split, build_corpus, iter_passages
from factgym.corpora.cooccurrence.sources import BadRecords
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.documents import iter_folder, read_folder
from factgym.corpora.estimates import estimate_build
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import BuildProgress, building_folder, write_corpus


def write_rows(path: Path, count: int) -> Path:
    """JSON lines of random words."""
    draw = random.Random("rows")
    words = [f"{stem}{number}" for number in range(800) for stem in ("a", "größe", "日本")]
    rows = [{"id": f"r{i}", "contents": f"T{i % 7}\n{' '.join(draw.choices(words, k=30))}"} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def build_in_chunks(source: Path, out: Path, jobs: int) -> None:
    store_chunks.CHUNK_ITEMS = 150
    build_corpus(source, out, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_build_goes_on_to_the_same_bytes(tmp_path: Path, jobs: int) -> None:
    rows, out = write_rows(tmp_path / "a.jsonl", 3_000), tmp_path / "out"
    expected = content(build_corpus(rows, tmp_path / "whole").path)
    kills = kill_until_done(build_in_chunks, (rows, out, jobs), building_folder(out), 2_000_000, seed=jobs)
    assert kills >= 2
    assert content(out) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "out", "whole"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_chunks, "CHUNK_ITEMS", 100)


@pytest.mark.parametrize("split", [None, Split("words", 7, 2)])
@pytest.mark.usefixtures("small_chunks")
def test_processes_and_chunks_do_not_change_a_byte(
    tmp_path: Path, split: Split | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(tmp_path / "a.jsonl", 1_050)
    several = build_corpus(rows, tmp_path / "several", jobs=3, split=split)
    monkeypatch.setattr(store_chunks, "CHUNK_ITEMS", 10**6)
    assert content(build_corpus(rows, tmp_path / "single", split=split).path) == content(several.path)
    if split is None:
        assert several.fingerprint() == Corpus(iter_passages(rows)).fingerprint()


@pytest.mark.usefixtures("small_chunks")
def test_finished_chunks_are_used_unless_they_are_damaged_or_of_another_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, out = write_rows(tmp_path / "a.jsonl", 1_000), tmp_path / "out"
    expected = content(build_corpus(rows, tmp_path / "whole").path)
    written: list[int] = []
    write_chunk = store_chunks.write_chunk

    def stop_at_eighth(task: store_chunks.ChunkTask) -> store_chunks.Counted:
        written.append(task.number)
        if task.number == 7:
            raise KeyboardInterrupt
        return write_chunk(task)

    def interrupted() -> list[int]:
        written.clear()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("factgym.corpora.store_writer.write_chunk", stop_at_eighth)
            build_corpus(rows, out)
        return written

    assert interrupted() == list(range(8))
    assert interrupted() == [7]
    damaged = building_folder(out) / "chunk-000003.terms"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert interrupted() == [3, 7]
    os.utime(rows, (1, 1))
    assert interrupted() == list(range(8))
    assert content(build_corpus(rows, out).path) == expected


@pytest.mark.usefixtures("small_chunks")
def test_a_broken_line_far_down_loses_nothing(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "a.jsonl", 950), tmp_path / "out"
    rows.write_text(rows.read_text() + "{broken\n")
    with pytest.raises(DataError, match="line 951"):
        build_corpus(rows, out)
    finished = {file: file.stat().st_mtime_ns for file in building_folder(out).glob("chunk-*")}
    assert len(finished) == 18  # of passages and terms
    times: list[dict[Path, int]] = []

    def watch(_: BuildProgress) -> None:
        times.append({file: file.stat().st_mtime_ns for file in finished})

    bad = BadRecords()
    stored = build_corpus(rows, out, skip_bad=True, bad=bad, progress=watch)
    assert (len(stored), bad.count, stored.meta["left_out"]) == (950, 1, 1)
    assert times and all(state == finished for state in times)


def test_two_builds_of_one_corpus_do_not_meet(tmp_path: Path) -> None:
    def passages() -> Iterator[SourcedPassage]:
        yield SourcedPassage(Passage("a", "", "text"))
        with pytest.raises(ConfigError, match="another process is building"):
            write_corpus([], tmp_path / "out", source="test")

    write_corpus(passages(), tmp_path / "out", source="test")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_of_the_user_in_the_way_is_left_alone(tmp_path: Path) -> None:
    existing = building_folder(tmp_path / "out")
    existing.mkdir()
    (existing / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is in the way"):
        build_corpus(write_rows(tmp_path / "a.jsonl", 3), tmp_path / "out")
    assert size_of(existing) == 4


def test_a_folder_of_documents_is_never_in_memory_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    draw = random.Random("docs")
    words = [f"word{number}" * 6 for number in range(500)]  # few, as each is a token
    for number in range(260):
        (docs / f"{number:03}.txt").write_text(f"Title {number}\n\n{' '.join(draw.choices(words, k=500))}.\n")
    total = size_of(docs)
    monkeypatch.setattr("factgym.corpora.documents._SPOOL_BYTES", 50_000)
    tracemalloc.start()
    longest = count = 0
    for document in iter_folder(docs):
        longest, count = max(longest, tracemalloc.get_traced_memory()[1]), count + 1
        del document
    tracemalloc.stop()
    assert count == 260
    assert longest < total / 10
    # The chunks of a build hold no more texts than their bound of characters.
    monkeypatch.setattr(store_chunks, "CHUNK_CHARS", 75_000)
    stored = build_corpus(docs, tmp_path / "out")
    assert list(stored) == [passage for document in read_folder(docs).documents for passage in document.passages]


@pytest.mark.usefixtures("small_chunks")
def test_estimates_of_rows_are_near_what_is_written(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "a.jsonl", 4_000), tmp_path / "out"
    estimate = estimate_build([rows], 1)
    largest = 0

    def watch(_: BuildProgress) -> None:
        nonlocal largest
        largest = max(largest, sum(size_of(file) for file in building_folder(out).glob("chunk-*")))

    stored = build_corpus(rows, out, progress=watch)
    assert estimate.bytes == rows.stat().st_size
    assert stored.folder.bytes / 2 < estimate.disk < 2 * stored.folder.bytes
    assert largest / 2 < estimate.building < 2 * largest


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.xml.bz2", "a.parquet", "a.md", "a.html", "a.pdf", "a.tsv", "a.json"])
def test_every_kind_of_source_is_estimated_and_grows_with_its_size(tmp_path: Path, name: str) -> None:
    small, large = tmp_path / name, tmp_path / f"b{name}"
    small.write_bytes(bytes(10_000))
    large.touch()
    os.truncate(large, 90_000_000)  # takes no room on the disk
    first, second = estimate_build([small], 2), estimate_build([small, large], 2)
    assert (first.files, second.files) == (1, 2)
    assert all(0 < low < high for low, high in zip(first[1:], second[1:], strict=True))
    assert estimate_build([large], 4).seconds < estimate_build([large], 1).seconds
