"""The counting benchmark: its corpus is what both sides get, its queries are what it says, and its table adds up."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import tokenize
from perf.cooccurrence import BANDS, Plan, measure_cooccurrence, parse_tokens
from perf.cooccurrence import _queries as queries_of
from perf.cooccurrence_text import Draw, read_text


def test_both_sides_get_the_same_documents(tmp_path):
    prose = "The naïve reader’s “first” look is over. It doesn't end: 4-2 wins. Nobody counts the words of this one!"
    (tmp_path / "t.txt").write_text(f"{prose}\n\nAnother paragraph stands\nhere on two lines.", "utf-8")
    text = read_text(tmp_path / "t.txt", 100)
    assert len(text.sentences) == 4
    draw = Draw(text, 5_000)
    draw.write(tmp_path / "c.jsonl")
    lines = (tmp_path / "c.jsonl").read_text("utf-8").splitlines()
    assert [tokenize(json.loads(line)["text"]) for line in lines] == list(draw.token_lists())
    assert 4_000 < sum(map(len, draw.token_lists())) < 6_000


def test_sentences_with_rare_words_are_left_out(tmp_path):
    (tmp_path / "t.txt").write_text("a b c d e. " + "a b c d f. a b c d f g. b a c d f.", "utf-8")
    assert read_text(tmp_path / "t.txt", 5).vocabulary == 5
    with pytest.raises(ConfigError, match="no sentence"):
        read_text(tmp_path / "t.txt", 2)


def test_words_of_a_query_have_a_frequency_of_its_band():
    draw = Draw(read_text(None, 0), 100_000)
    frequency = Counter(word for document in draw.token_lists() for word in document)
    result = queries_of(draw, 10)
    assert {band for band, _ in result} == {0, 1}
    for (band, size), lists in result.items():
        low, high = BANDS[band]
        for query in (*lists[0], *lists[1]):
            assert len(set(query)) == size
            assert all(low <= frequency[word] < high for word in query)


def test_a_small_run_has_no_mismatch(tmp_path):
    pytest.importorskip("infini_gram", reason="needs the extra infini-gram")
    lines = list(measure_cooccurrence(Plan(60_000, queries=6, workers=1, memory_mb=1024, keep=tmp_path / "k")))
    compared = [match.groups() for line in lines if (match := re.search(r"(\d+) of (\d+)$", line))]
    assert len(compared) >= 5
    assert set(compared) == {("6", "6")}
    again = list(measure_cooccurrence(Plan(60_000, queries=1, workers=1, keep=tmp_path / "k", peer=False)))
    assert sum("built before" in line for line in again) == 1


@pytest.mark.parametrize(("text", "tokens"), [("50M", 50_000_000), ("500k", 500_000), ("7", 7), ("1G", 10**9)])
def test_numbers_of_tokens(text, tokens):
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize("text", ["", "M", "0", "-5M", "5 M", "1e6"])
def test_invalid_numbers_of_tokens(text):
    with pytest.raises(ConfigError):
        parse_tokens(text)
