"""ProFact's stages: the assignment against brute force, components, presets, AVeriTeC's strings and cutoffs."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from factgym.core.errors import DataError
from factgym.datasets.averitec import LABELS, evidence_strings, read_fact_checks
from factgym.rewards.profact.meteor import MAX_PREDICTIONS, best_matching, match_texts, meteor
from factgym.rewards.profact.stages import (
    COMPONENTS,
    CUTOFFS,
    GATES,
    NOPROCESS,
    PROCESS,
    RUBRICS,
    ProFactGold,
    averitec_correct,
    comparison_strings,
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


GOLD = ProFactGold(("Did the mayor resign?", "Who said so?", "When?"), PAIRS, "Refuted")


def test_strings_are_the_official_ones() -> None:
    assert tuple(comparison_strings(RECORD["questions"])) == PAIRS


def test_gold_answers_score_nearly_the_maximum() -> None:
    answers = ("No. She is still in office.", "Her office denied it.")
    pairs = [("Did the mayor resign?", answer) for answer in answers]
    pairs += [("Who said so?", "No answer could be found."), ("When?", "In 2019.")]
    score = score_stages(GOLD.questions, pairs, "Refuted", GOLD, grounded=[True] * 4)
    assert list(score.components) == list(COMPONENTS)
    assert min(score.components.values()) > 0.95
    assert PROCESS.total(score.components, {}) == pytest.approx(sum(score.components[name] for name in COMPONENTS[:3]))
    assert PROCESS.total(score.components, {}) <= 3
    assert NOPROCESS.total(score.components, {}) == 1


@pytest.mark.parametrize("verdict", [None, "", "refuted", "Supported", "Refuted "])
def test_an_empty_submission_scores_zero(verdict: str | None) -> None:
    score = score_stages([], [], verdict, GOLD)
    assert {**score.components, "informed_verdict": 0} == dict.fromkeys(COMPONENTS, 0)
    assert score_stages([""], [("", "")], verdict, GOLD).components == score.components


def test_a_stage_does_not_touch_another() -> None:
    questions_only = score_stages(GOLD.questions, [], None, GOLD).components
    assert questions_only["question"] > 0.9
    assert questions_only["qa"] == questions_only["verdict"] == 0
    verdict_only = score_stages([], [], "Refuted", GOLD).components
    assert verdict_only == dict.fromkeys(COMPONENTS, 0) | {"verdict": 1, "informed_verdict": 1}


def test_presets() -> None:
    assert list(RUBRICS) == ["process", "noprocess", "guarded"]
    for rubric in RUBRICS.values():
        rubric.check(COMPONENTS, GATES)
    for rubric in (PROCESS, NOPROCESS):
        rubric.check(COMPONENTS[:3], ())


def test_gold_that_cannot_be_scored_is_refused() -> None:
    with pytest.raises(DataError, match="no question"):
        ProFactGold((), (), "Refuted")
    with pytest.raises(DataError, match="Did you mean 'Refuted'"):
        ProFactGold(("a?",), ("a? b",), "refuted")


def test_cutoffs() -> None:
    """The paper and AVeriTeC's scorer: the score exceeds the cutoff."""
    assert averitec_correct(True, 0.2501)
    assert not averitec_correct(True, 0.25)
    assert not averitec_correct(False, 1.0)
    assert [averitec_correct(True, 0.35, cutoff) for cutoff in CUTOFFS] == [True] * 4 + [False] * 2


@pytest.mark.data
def test_real_gold_records(data_dir: Path) -> None:
    records = json.loads((data_dir / "averitec" / "dev.json").read_text("utf-8"))
    checks = read_fact_checks(data_dir / "averitec" / "dev.json")
    assert len(records) == len(checks) == 500
    assert {check.label for check in checks} == set(LABELS)
    assert [list(evidence_strings(check)) for check in checks] == [
        comparison_strings(record["questions"]) for record in records
    ]
    for check in checks[:50]:
        gold = ProFactGold(
            tuple(question.question for question in check.questions), evidence_strings(check), check.label
        )
        assert score_stages(gold.questions, [], gold.verdict, gold).components["question"] > 0.8


# The assignment.

MATRICES = arrays.arrays(
    np.float64, st.tuples(st.integers(0, 5), st.integers(1, 5)), elements=st.floats(0, 1, allow_subnormal=False)
)


def brute_force(matrix: np.ndarray) -> float:
    """The largest sum over one-to-one assignments, by trying every one."""
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    rows, columns = matrix.shape
    return max(sum(matrix[i, j] for i, j in enumerate(order)) for order in permutations(range(columns), rows))


@given(MATRICES)
def test_the_best_of_all_assignments(matrix: np.ndarray) -> None:
    matching = best_matching(matrix)
    matches = matching.matches
    assert matching.score == pytest.approx(brute_force(matrix) / matrix.shape[1], abs=1e-12)
    assert len({match.prediction for match in matches}) == len({match.gold for match in matches})
    assert len(matches) == min(matrix.shape)
    assert all(matrix[match.prediction, match.gold] == match.similarity for match in matches)
    assert sum(match.similarity for match in matches) / matrix.shape[1] == pytest.approx(matching.score, abs=1e-12)


@given(MATRICES)
def test_order_does_not_matter(matrix: np.ndarray) -> None:
    shuffled = matrix[::-1, ::-1]
    assert best_matching(shuffled).score == pytest.approx(best_matching(matrix).score, abs=1e-12)


def test_greedy_would_lose() -> None:
    matching = best_matching(np.array([[0.9, 0.8], [0.8, 0.1]]))
    assert matching.score == pytest.approx(0.8)
    assert [(match.prediction, match.gold) for match in matching.matches] == [(0, 1), (1, 0)]


def test_the_sum_is_over_the_gold_items() -> None:
    golds = ["Did the mayor resign?", "When did it happen?", "Who reported it first?"]
    assert match_texts(golds, golds).score == pytest.approx(sum(meteor(gold, gold) for gold in golds) / 3)
    assert match_texts(golds[:1], golds).score == pytest.approx(meteor(golds[0], golds[0]) / 3)
    assert match_texts(golds * 2, golds).score == pytest.approx(match_texts(golds, golds).score)


def test_copies_of_one_question_earn_once() -> None:
    golds = ["Did the mayor resign?", "How many people voted in 2019?"]
    single, copies = match_texts(golds[:1], golds), match_texts(golds[:1] * 5, golds)
    assert copies.score - single.score < 0.1  # the words that a copy shares with the other question


def test_no_prediction_is_zero_and_no_gold_is_refused() -> None:
    assert match_texts([], ["a question"]).score == 0
    assert match_texts([], ["a question"]).matches == ()
    for predictions in ([], ["a question"]):
        with pytest.raises(DataError, match="no gold items"):
            match_texts(predictions, [])


def test_only_the_first_ten_take_part() -> None:
    predictions = ["nothing alike"] * MAX_PREDICTIONS + ["Did the mayor resign?"]
    golds = ["Did the mayor resign?"]
    assert match_texts(predictions, golds).score == 0
    assert match_texts(predictions, golds, limit=None).score > 0.9
