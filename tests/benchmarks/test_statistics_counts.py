"""Tables and scores against scikit-learn: live where it is installed, else against numbers that it once gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.statistics.classification import (
    METRICS,
    Confusion,
    accuracy,
    balanced_accuracy,
    confusion,
    counts_of,
    label_scores,
    macro_f1,
    matthews,
)
from factgym.benchmarks.statistics.intervals import NO_DATA, wilson

LABELS = ["false", "mixed", "true"]
GOLDS = [LABELS[i * i % 7 % 3] for i in range(60)]
SAID = [LABELS[(i * i + (i % 4 == 0) * (i // 4)) % 7 % 3] for i in range(60)]
SOME_MISSING = [None if i % 11 == 3 else one for i, one in enumerate(SAID)]

Labelled = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", "c", "d", None])), min_size=1, max_size=40
)


def sklearn_metrics() -> Any:
    return pytest.importorskip("sklearn.metrics", reason="needs scikit-learn (the numbers it gave are tested too)")


def test_table_against_numbers_from_scikit_learn() -> None:
    """scikit-learn 1.9.1: confusion_matrix, accuracy_score, f1_score, balanced_accuracy_score, matthews_corrcoef."""
    table = confusion(GOLDS, SAID)
    assert table == Confusion(tuple(LABELS), tuple(LABELS), ((9, 0, 0), (6, 28, 0), (2, 2, 13)))
    assert accuracy(table) == wilson(50, 60)
    assert macro_f1(table) == pytest.approx(0.8113247863247862)
    assert balanced_accuracy(table) == pytest.approx(0.8627450980392156)
    assert matthews(table) == pytest.approx(0.7447720342646009)
    scores = label_scores(table)
    assert [one.f1 for one in scores.values()] == pytest.approx([0.6923076923076923, 0.875, 0.8666666666666667])
    assert [one.precision for one in scores.values()] == pytest.approx([0.5294117647058824, 0.9333333333333333, 1.0])
    assert [one.recall for one in scores.values()] == pytest.approx([1.0, 0.8235294117647058, 0.7647058823529411])
    assert [(one.gold, one.predicted, one.right) for one in scores.values()] == [
        (9, 17, 9),
        (34, 30, 28),
        (17, 13, 13),
    ]


def test_missing_predictions_against_numbers_from_scikit_learn() -> None:
    """scikit-learn 1.9.1, with the missing ones as a label "none" that `labels=` leaves out of the averages."""
    table = confusion(GOLDS, SOME_MISSING)
    assert table.predictions == (*LABELS, "none")
    assert [row[-1] for row in table.counts] == [1, 3, 2]
    assert accuracy(table) == wilson(45, 60)
    assert macro_f1(table) == pytest.approx(0.7636968766001023)
    assert balanced_accuracy(table) == pytest.approx(0.7668845315904139)
    assert matthews(table) == pytest.approx(0.6346800723040298)
    assert list(label_scores(table)) == LABELS
    assert METRICS["accuracy"](counts_of(table)) == accuracy(table).value == 45 / 60


def test_a_label_that_never_occurs_counts_as_zero() -> None:
    """scikit-learn 1.9.1, f1_score(labels=…, zero_division=0): 0.6084935897435897."""
    table = confusion(GOLDS, SAID, [*LABELS, "never"])
    assert macro_f1(table) == pytest.approx(0.6084935897435897)
    assert balanced_accuracy(table) == balanced_accuracy(confusion(GOLDS, SAID))
    never = label_scores(table)["never"]
    assert (never.precision, never.recall, never.f1, never.gold, never.predicted) == (0, 0, 0, 0, 0)


@settings(deadline=None)
@given(Labelled)
def test_everything_against_scikit_learn(items: list[tuple[str, str | None]]) -> None:
    metrics = sklearn_metrics()
    golds, said = [one for one, _ in items], [one for _, one in items]
    table = confusion(golds, said, "abcd")
    theirs = [one or "none" for one in said]
    # Given no prediction outside the labels their table is ours; "none" is a row of theirs that stays empty.
    square = metrics.confusion_matrix(golds, theirs, labels=[*"abcd", "none"])
    width = len(table.predictions)
    assert [list(row) for row in table.counts] == square[:4, :width].tolist()
    shared: dict[str, Any] = {"labels": list("abcd"), "zero_division": 0, "average": None}
    scores = label_scores(table).values()
    assert [one.precision for one in scores] == pytest.approx(
        metrics.precision_score(golds, theirs, **shared).tolist()
    )
    assert [one.recall for one in scores] == pytest.approx(metrics.recall_score(golds, theirs, **shared).tolist())
    assert [one.f1 for one in scores] == pytest.approx(metrics.f1_score(golds, theirs, **shared).tolist())
    macro = metrics.f1_score(golds, theirs, labels=list("abcd"), average="macro", zero_division=0)
    assert macro_f1(table) == pytest.approx(macro)
    assert accuracy(table).value == pytest.approx(metrics.accuracy_score(golds, theirs))
    present = sorted(set(golds))
    recall = metrics.recall_score(golds, theirs, labels=present, average="macro", zero_division=0)
    assert balanced_accuracy(table) == pytest.approx(recall)
    if len({*golds, *theirs}) > 1:
        assert matthews(table) == pytest.approx(metrics.matthews_corrcoef(golds, theirs), abs=1e-12)


@given(Labelled, st.randoms(use_true_random=False))
def test_order_of_items_and_names_of_labels_do_not_matter(items: list[tuple[str, str | None]], random: Any) -> None:
    def scores(pairs: Sequence[tuple[str, str | None]]) -> list[float]:
        table = confusion([a for a, _ in pairs], [b for _, b in pairs])
        return [float(score(counts_of(table))) for score in METRICS.values()]

    before = scores(items)
    new = dict(zip("abcd", random.sample("wxyz", 4), strict=True))
    renamed = [(new[a], None if b is None else new[b]) for a, b in items]
    assert scores(renamed) == pytest.approx(before)
    random.shuffle(items)
    assert scores(items) == before


@pytest.mark.parametrize("name", METRICS)
def test_a_stack_of_tables_is_each_of_them(name: str) -> None:
    score: Callable[[Any], Any] = METRICS[name]
    tables = np.random.default_rng(1).integers(0, 9, (5, 7, 3, 4)).astype(float)
    tables[0, 0] = 0
    tables[0, 1, 1:] = 0
    stacked = score(tables)
    assert stacked.shape == (5, 7)
    for i, j in np.ndindex(5, 7):
        assert stacked[i, j] == pytest.approx(float(score(tables[i, j])))


def test_tables_of_a_run_are_read_as_well() -> None:
    """A run's own table may lack rows for labels that only were predicted."""
    episodes = [
        {"env": "e", "task": str(i), "stop": "submitted", "turns": [], "error": None}
        | {"reward": {"total": 1.0, "status": "scored", "metrics": {"gold_verdict": gold, "verdict": said}}}
        for i, (gold, said) in enumerate([("a", "a"), ("a", "b"), ("c", None), ("c", "c")])
    ]
    table = summarise(episodes).confusion
    assert table is not None and table.golds == ("a", "c") and len(table.predictions) == 4
    assert macro_f1(table) == macro_f1(confusion(["a", "a", "c", "c"], ["a", "b", None, "c"])) == pytest.approx(4 / 9)


def test_empty_and_refused() -> None:
    empty = confusion([], [])
    assert accuracy(empty) == NO_DATA
    assert (macro_f1(empty), balanced_accuracy(empty), matthews(empty)) == (0, 0, 0)
    nothing = confusion([], [], LABELS)
    assert (macro_f1(nothing), balanced_accuracy(nothing)) == (0, 0)
    with pytest.raises(ValueError, match=r"'tru' is none of .*Did you mean 'true'"):
        confusion(["true"], ["tru"], LABELS)
    with pytest.raises(ValueError, match="repeated"):
        confusion([], [], ["a", "a"])
    with pytest.raises(ValueError, match="use None"):
        confusion(["a"], ["none"])
    with pytest.raises(ValueError):
        confusion(["a", "b"], ["a"])
