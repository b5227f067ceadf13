"""The assignment: against brute force over permutations, and by its own facts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from factgym.core.errors import DataError
from factgym.rewards.profact import MAX_PREDICTIONS, best_matching, match_texts, meteor

MATRICES = arrays.arrays(
    np.float64,
    st.tuples(st.integers(0, 5), st.integers(1, 5)),
    elements=st.floats(0, 1, allow_subnormal=False),
)


def brute_force(matrix: np.ndarray) -> float:
    """The largest sum over one-to-one assignments, by trying every one."""
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    rows, columns = matrix.shape
    return max(sum(matrix[i, j] for i, j in enumerate(order)) for order in permutations(range(columns), rows))


@settings(deadline=None)
@given(MATRICES)
def test_the_best_of_all_assignments(matrix: np.ndarray) -> None:
    found = best_matching(matrix)
    assert found.score == pytest.approx(brute_force(matrix) / matrix.shape[1], abs=1e-12)
    assert len({one.prediction for one in found.matches}) == len({one.gold for one in found.matches})
    assert len(found.matches) == min(matrix.shape)
    assert all(matrix[one.prediction, one.gold] == one.similarity for one in found.matches)
    assert sum(found.shares(matrix.shape[1]).values()) == pytest.approx(found.score, abs=1e-12)


@settings(deadline=None)
@given(MATRICES)
def test_order_does_not_count(matrix: np.ndarray) -> None:
    shuffled = matrix[::-1, ::-1]
    assert best_matching(shuffled).score == pytest.approx(best_matching(matrix).score, abs=1e-12)


def test_greedy_would_lose() -> None:
    found = best_matching(np.array([[0.9, 0.8], [0.8, 0.1]]))
    assert found.score == pytest.approx(0.8)
    assert [(one.prediction, one.gold) for one in found.matches] == [(0, 1), (1, 0)]


def test_the_sum_is_over_the_gold_items() -> None:
    golds = ["Did the mayor resign?", "When did it happen?", "Who reported it first?"]
    assert match_texts(golds, golds).score == pytest.approx(sum(meteor(one, one) for one in golds) / 3)
    assert match_texts(golds[:1], golds).score == pytest.approx(meteor(golds[0], golds[0]) / 3)
    assert match_texts(golds * 2, golds).score == pytest.approx(match_texts(golds, golds).score)


def test_copies_of_one_question_earn_once() -> None:
    golds = ["Did the mayor resign?", "How many people voted in 2019?"]
    one, five = match_texts(golds[:1], golds), match_texts(golds[:1] * 5, golds)
    assert five.score - one.score < 0.1  # only what the copy has in common with the other question


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
