"""Scores of evidence sentences, against the fixture of SciFact's official evaluator and by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from factgym.benchmarks.rationales import AbstractEvidence, scifact_f1, set_f1

PREDICTIONS = """
{"id": 1, "evidence": {}}
{"id": 3, "evidence": {}}
{"id": 5, "evidence": {"13734012": {"sentences": [4], "label": "CONTRADICT"}}}
{"id": 13, "evidence": {}}
{"id": 36, "evidence": {"33409100": {"sentences": [8], "label": "CONTRADICT"}}}
{"id": 42, "evidence": {"18174210": {"sentences": [1, 9, 10], "label": "CONTRADICT"}}}
{"id": 48, "evidence": {"13734012": {"sentences": [7], "label": "CONTRADICT"}}}
{"id": 49, "evidence": {"5953485": {"sentences": [2], "label": "SUPPORT"}}}
{"id": 50, "evidence": {}}
{"id": 51, "evidence": {"2140497": {"sentences": [6, 7], "label": "CONTRADICT"}}}
"""
EXPECTED = {
    "abstract_label_only": 0.4615384615384615,
    "abstract_rationalized": 0.30769230769230765,
    "sentence_selection": 0.4761904761904762,
    "sentence_label": 0.380952380952381,
}
"""fixture/predictions_small.jsonl and fixture/expected_metrics_small.json of allenai/scifact-evaluator (Apache-2.0)."""


def predicted(line: dict[str, Any]) -> dict[str, AbstractEvidence]:
    return {id_: AbstractEvidence(e["label"], (e["sentences"],)) for id_, e in line["evidence"].items()}


def gold(line: dict[str, Any]) -> dict[str, AbstractEvidence]:
    return {
        id_: AbstractEvidence(rationales[0]["label"], tuple(entry["sentences"] for entry in rationales))
        for id_, rationales in line["evidence"].items()
    }


def read(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.strip().splitlines()]


@pytest.mark.data
def test_the_official_evaluators_fixture(data_dir: Path) -> None:
    golds = read((data_dir / "scifact" / "evaluator_gold_small.jsonl").read_text("utf-8"))
    predictions = read(PREDICTIONS)
    assert [line["id"] for line in golds] == [line["id"] for line in predictions]
    assert scifact_f1([*map(gold, golds)], [*map(predicted, predictions)]) == pytest.approx(EXPECTED)
    # The dummy predictions point at an abstract that no claim cites: the evaluator prints zeros.
    dummy = read((data_dir / "scifact" / "evaluator_predictions_dummy.jsonl").read_text("utf-8"))[: len(golds)]
    assert set(scifact_f1([*map(gold, golds)], [*map(predicted, dummy)]).values()) == {0.0}
    perfect = scifact_f1([*map(gold, golds)], [*map(gold, golds)])
    assert perfect["abstract_label_only"] == perfect["sentence_label"] == 1.0


def test_the_set_that_fits_best_counts() -> None:
    assert set_f1({1, 2}, [{1, 2}, {7}]) == 1.0
    assert set_f1({1, 3}, [{1, 2}, {7}]) == 0.5
    assert set_f1((), [{1}]) == 0.0
