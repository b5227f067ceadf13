"""The stages' components, the presets, AVeriTeC's strings and cutoffs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.rewards.profact import (
    COMPONENTS,
    CUTOFFS,
    LABELS,
    NOPROCESS,
    PROCESS,
    RUBRICS,
    ProFactGold,
    averitec_correct,
    comparison_strings,
    find_rubric,
    gold_of,
    score_stages,
)

RECORD: dict[str, Any] = {
    "claim": "The mayor resigned.",
    "label": "Refuted",
    "questions": [
        {
            "question": "Did the mayor resign?",
            "answers": [
                {"answer": "No", "answer_type": "Boolean", "boolean_explanation": "She is still in office."},
                {"answer": "Her office denied it.", "answer_type": "Abstractive"},
            ],
        },
        {"question": "Who said so?", "answers": []},
        {"question": "When?", "answers": {"answer": "In 2019."}},
    ],
}
PAIRS = (
    "Did the mayor resign? No. She is still in office.",
    "Did the mayor resign? Her office denied it.",
    "Who said so? No answer could be found.",
    "When? In 2019.",
)


def test_strings_are_the_official_ones() -> None:
    gold = gold_of(RECORD)
    assert gold.questions == ("Did the mayor resign?", "Who said so?", "When?")
    assert gold.pairs == PAIRS


def test_gold_answers_score_nearly_everything() -> None:
    gold = gold_of(RECORD)
    pairs = [("Did the mayor resign?", one) for one in ("No. She is still in office.", "Her office denied it.")]
    pairs += [("Who said so?", "No answer could be found."), ("When?", "In 2019.")]
    score = score_stages(gold.questions, pairs, "Refuted", gold)
    assert list(score.components) == list(COMPONENTS)
    assert min(score.components.values()) > 0.95
    assert PROCESS.total(score.components, {}) == pytest.approx(sum(score.components.values()))
    assert PROCESS.total(score.components, {}) <= 3
    assert NOPROCESS.total(score.components, {}) == 1


@pytest.mark.parametrize("verdict", [None, "", "refuted", "Supported", "Refuted "])
def test_nothing_scores_nothing(verdict: str | None) -> None:
    score = score_stages([], [], verdict, gold_of(RECORD))
    assert score.components == {"question": 0, "qa": 0, "verdict": 0}
    assert score_stages([""], [("", "")], verdict, gold_of(RECORD)).components == score.components


def test_a_stage_does_not_touch_another() -> None:
    gold = gold_of(RECORD)
    asked = score_stages(gold.questions, [], None, gold).components
    assert asked["question"] > 0.9
    assert asked["qa"] == asked["verdict"] == 0
    assert score_stages([], [], "Refuted", gold).components == {"question": 0, "qa": 0, "verdict": 1}


def test_presets() -> None:
    assert find_rubric("process") is PROCESS
    assert find_rubric("noprocess") is NOPROCESS
    for rubric in RUBRICS.values():
        rubric.check(COMPONENTS, ())
    with pytest.raises(ConfigError, match="Did you mean 'process'"):
        find_rubric("proces")


@pytest.mark.parametrize(
    "broken", [{}, {"label": "Refuted"}, {"label": "Refuted", "questions": [{}]}, {"label": "Refuted", "questions": 3}]
)
def test_other_records_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="not a record of AVeriTeC"):
        gold_of(broken)


def test_gold_that_cannot_be_scored_is_refused() -> None:
    with pytest.raises(DataError, match="no question"):
        ProFactGold((), (), "Refuted")
    with pytest.raises(DataError, match="Did you mean 'Refuted'"):
        ProFactGold(("a?",), ("a? b",), "refuted")


def test_cutoffs() -> None:
    assert averitec_correct(True, 0.25)
    assert not averitec_correct(True, 0.25, strict=True)
    assert not averitec_correct(True, 0.2499)
    assert not averitec_correct(False, 1.0)
    assert [averitec_correct(True, 0.35, cutoff) for cutoff in CUTOFFS] == [True] * 4 + [False] * 2


@pytest.mark.data
def test_real_gold_records(data_dir: Path) -> None:
    records = json.loads((data_dir / "averitec" / "dev.json").read_text("utf-8"))
    golds = [gold_of(record) for record in records]
    assert len(golds) == 500
    assert {gold.verdict for gold in golds} == set(LABELS)
    assert [list(gold.pairs) for gold in golds] == [comparison_strings(record["questions"]) for record in records]
    for gold in golds[:50]:
        assert score_stages(gold.questions, [], gold.verdict, gold).components["question"] > 0.8
