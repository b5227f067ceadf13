"""Counts against correctness: the paper's own numbers, SciPy's intervals, and files of annotated sentences."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from factgym.benchmarks.corver.calibration import EDGES, auc, calibrate, read_annotations, sentence_counter
from factgym.benchmarks.statistics.classification import share_difference
from factgym.benchmarks.statistics.intervals import wilson
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import memory_index
from factgym.rewards.corver.extraction import find_extractor
from factgym.rewards.corver.triplets import Triplet

TABLE_13 = (
    ((0,), 200, 48, 24.0, 18.6, 30.4),
    ((1, 2, 4), 100, 53, 53.0, 43.3, 62.5),
    ((5, 9), 100, 70, 70.0, 60.4, 78.1),
    ((10, 19), 100, 73, 73.0, 63.6, 80.7),
    ((20, 21, 5000), 200, 162, 81.0, 75.0, 85.8),
)


def table_13():
    """700 pairs whose counts lie anywhere in their bucket, in an order of their own."""
    pairs = []
    for counts, n, correct, *_ in TABLE_13:
        pairs += [(count, i < correct) for i, count in zip(range(n), itertools.cycle(counts), strict=False)]
    random.Random(3).shuffle(pairs)
    return pairs


def test_table_13_comes_out_of_our_intervals():
    result = calibrate(table_13())
    assert result.n == 700
    assert result.skipped == 0
    for bucket, (_, n, correct, share, low, high) in zip(result.buckets, TABLE_13, strict=True):
        assert (bucket.n, bucket.correct) == (n, correct)
        text = [round(100 * item, 1) for item in (bucket.share.value, bucket.share.low, bucket.share.high)]
        assert text == [share, low, high]
    assert [item.name for item in result.buckets] == ["c = 0", "1 ≤ c ≤ 4", "5 ≤ c ≤ 9", "10 ≤ c ≤ 19", "c ≥ 20"]


def test_the_jumps_are_those_of_the_text_and_two_of_them_are_within_chance():
    result = calibrate(table_13())
    assert [(jump.at, round(100 * jump.rise.value, 1)) for jump in result.jumps] == [
        (1, 29.0),
        (5, 17.0),
        (10, 3.0),
        (20, 8.0),
    ]
    assert result.monotone
    assert [jump.rise.low > 0 for jump in result.jumps] == [True, True, False, False]


def test_the_intervals_of_jumps_are_newcombes():
    """Newcombe 1998, table II, example (a): 56/70 against 48/80 gives .0524 to .3339 by method 10."""
    result = share_difference(wilson(48, 80), wilson(56, 70))
    assert result.value == pytest.approx(0.2)
    assert (round(result.low, 4), round(result.high, 4)) == (0.0524, 0.3339)
    back = share_difference(wilson(56, 70), wilson(48, 80))
    assert (back.low, back.high) == (-result.high, -result.low)


def test_the_chance_of_the_higher_count_is_scipys():
    stats = pytest.importorskip("scipy.stats", reason="compares with SciPy")
    rng = random.Random(0)
    pairs = [(rng.choice([0, 0, 1, 5, 5, 30]), rng.random() < 0.4) for _ in range(300)]
    right = [count for count, good in pairs if good]
    wrong = [count for count, good in pairs if not good]
    expected = stats.mannwhitneyu(right, wrong).statistic / (len(right) * len(wrong))
    assert auc(pairs) == pytest.approx(expected)
    assert auc([(3, True)]) is None


def test_order_does_not_matter_and_missing_counts_are_reported():
    pairs = [*table_13(), (None, True), (None, False)]
    result = calibrate(pairs)
    assert result.skipped == 2
    assert calibrate(pairs[::-1]).to_dict() == result.to_dict()


def test_a_falling_curve_is_not_monotone_and_empty_buckets_are_skipped():
    result = calibrate([(0, True), (0, True), (7, False), (7, True), (30, True)])
    assert not result.monotone
    assert [jump.at for jump in result.jumps] == [5, 20]
    assert result.buckets[1].share.value is None


@pytest.mark.parametrize("edges", [(), (1, 5), (0, 5, 5), (0, 9, 3)])
def test_edges_that_are_none(edges):
    with pytest.raises(ConfigError, match="edges start at 0"):
        calibrate([(0, True)], edges)


def test_a_negative_count_is_refused():
    with pytest.raises(ConfigError, match="0 or more"):
        calibrate([(-1, True)])


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_file_of_annotations_gives_the_same_curve(tmp_path):
    rows = [{"count": count, "correct": good, "sentence": "x"} for count, good in table_13()]
    file = write(tmp_path / "audit.jsonl", rows)
    assert calibrate(read_annotations(file)).to_dict() == calibrate(table_13(), EDGES).to_dict()


def test_every_word_for_right_and_wrong(tmp_path):
    values = [(True, True), (0, False), ("Correct", True), ("unsupported", False), ("wrong", False), ("right", True)]
    file = write(tmp_path / "a.jsonl", [{"count": None, "correct": item} for item, _ in values])
    assert read_annotations(file) == [(None, good) for _, good in values]


class Pairs:
    """Takes `head | relation | tail` at its word."""

    def extract(self, sentences):
        return [[Triplet(*sentence.split(" | "))] if sentence.count(" | ") == 2 else [] for sentence in sentences]

    def describe(self):
        return {"kind": "pairs"}


def test_sentences_are_counted_where_a_counter_is_given(tmp_path):
    corpus = ["Marie Curie was born in Warsaw.", "Warsaw is in Poland.", "Marie Curie taught in Paris."]
    count = sentence_counter(memory_index(corpus, semantics="window"), Pairs())
    rows = [
        {"sentence": "Marie Curie | born in | Warsaw", "correct": True},
        {"sentence": "Marie Curie | born in | Poland", "correct": False},
        {"sentence": "nothing to look up", "correct": True},
        {"sentence": "he | saw | Warsaw", "correct": True},
        {"sentence": "given", "count": 12, "correct": True},
    ]
    file = write(tmp_path / "a.jsonl", rows)
    assert read_annotations(file, count) == [(1, True), (0, False), (None, True), (None, True), (12, True)]
    with pytest.raises(DataError, match="4 of 5 lines have no 'count'"):
        read_annotations(file)


@pytest.mark.parametrize(
    ("line", "expected_text"),
    [
        ('{"count"', "line 1: not valid JSON"),
        ('"a"', "line 1: a JSON object"),
        ('{"count": 1}', "'correct' is true or false"),
        ('{"count": -1, "correct": true}', "whole number"),
        ('{"count": 1.5, "correct": true}', "whole number"),
        ('{"count": true, "correct": true}', "whole number"),
        ('{"correct": true}', "'count' or 'sentence'"),
        ("", "holds no annotated sentence"),
    ],
)
def test_bad_annotations_name_the_line(tmp_path, line, expected_text):
    (tmp_path / "a.jsonl").write_text(line, "utf-8")
    with pytest.raises(DataError, match=expected_text):
        read_annotations(tmp_path / "a.jsonl")


def test_counts_go_the_right_way_on_facts_that_people_labelled(data_dir):
    """FActScore's labelled facts, counted in six thousand Wikipedia passages that are about none of its people."""
    rows = [json.loads(line) for line in (data_dir / "factscore" / "ChatGPT.jsonl").read_text("utf-8").splitlines()]
    parts = [part for row in rows for part in row["annotations"] or ()]
    facts = [item for part in parts for item in part.get("human-atomic-facts") or () if item["label"] in ("S", "NS")]
    passages = json.loads((data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json").read_text("utf-8"))
    counter = memory_index((f"{passage['title']} {passage['text']}" for passage in passages), semantics="window")
    counts = sentence_counter(counter, find_extractor("rule"))([fact["text"] for fact in facts])
    result = calibrate(zip(counts, (fact["label"] == "S" for fact in facts), strict=True), (0, 1))
    none, some = result.buckets
    assert result.n + result.skipped == len(facts) == 4886
    assert some.n > 100
    assert some.share.value > none.share.value
    assert result.auc > 0.5
