"""Windows of words and sentences: properties, offsets in real policies, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import run_factgym
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.build import Split, build_corpus
from factgym.text.sentences import sentences

TEXTS = st.text(st.sampled_from("ab .!\n\té"), max_size=80)


@given(TEXTS, st.integers(1, 5), st.data())
def test_windows_hold_every_word_with_their_overlap(text: str, size: int, data: st.DataObject) -> None:
    """Against `str.split`, which knows no offsets."""
    overlap = data.draw(st.integers(0, size - 1))
    windows = [text[start:end].split() for start, end in Split("words", size, overlap).ranges(text)]
    words = text.split()
    step = size - overlap
    assert windows == [words[first : first + size] for first in range(0, len(words), step)][: len(windows)]
    assert not windows or windows[-1][-1:] == words[-1:]
    assert len(windows) == (0 if not words else 1 + max(0, -(-(len(words) - size) // step)))


@given(TEXTS, st.integers(1, 4))
def test_windows_of_sentences_begin_and_end_with_sentences(text: str, size: int) -> None:
    ranges = list(Split("sentences", size).ranges(text))
    assert [start for start, _ in ranges] == [start for start, _ in sentences(text)][::size]
    assert sum(len(sentences(text[start:end])) for start, end in ranges) >= len(ranges)


@pytest.mark.parametrize("split", [Split("words", 100, 20), Split("sentences", 3, 1)])
def test_every_passage_of_real_policies_leads_back_to_its_place(data_dir: Path, tmp_path: Path, split: Split) -> None:
    folder = data_dir / "policies_basecamp"
    corpus = build_corpus(folder, tmp_path / "out", split=split)
    assert corpus.meta["split"] == f"{split.size} {split.unit}, overlap {split.overlap}"
    for passage in corpus:
        document, start, end = corpus.source_of(passage.id)
        assert (folder / document).read_text("utf-8-sig")[start:end] == passage.text
    assert len({corpus.source_of(id_).document for id_ in corpus.ids}) > 10


def test_rows_and_records_are_cut(tmp_path: Path) -> None:
    text = "one two three four five six seven"
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "7", "title": "T", "text": text}) + "\n", "utf-8")
    done = run_factgym(["corpus", "build", "rows.jsonl", "out", "--words", "3", "--overlap", "1"], tmp_path)
    assert done.returncode == 0, done.stderr
    done = run_factgym(["corpus", "search", "out", "three", "--json"], tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["id"], row["title"], row["text"]) for row in rows] == [
        ("7#1", "T", "one two three"),
        ("7#2", "T", "three four five"),
    ]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("# Leave\n\nTwo *days*. Ask early.\n", "utf-8")
    corpus = build_corpus(tmp_path / "texts", tmp_path / "texts.corpus", split=Split("sentences", 1))
    assert [passage.text for passage in corpus][-2:] == ["Two *days*.", "Ask early."]


def test_sizes_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "7", "text": "x"}\n', "utf-8")
    with pytest.raises(ConfigError, match="overlap by 0 to 2, not by 3"):
        build_corpus(tmp_path / "rows.jsonl", tmp_path / "out", split=Split("words", 3, 3))
    for options, message in (
        ("--overlap 2", "goes with --words"),
        ("--words 3 --sentences 3", "leave one of them out"),
    ):
        done = run_factgym(f"corpus build rows.jsonl out {options}".split(), tmp_path)
        assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "out").exists()
