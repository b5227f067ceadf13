"""McNemar's test and stratified slices: against statsmodels and SciPy, by hand, and by their promise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from factgym.benchmarks.statistics.classification import confusion, macro_f1, mcnemar, seed_variance, stratified_slices

A, N = "Attributable", "Not Attributable"


def pairs(first_only: int, second_only: int, both: int = 50, neither: int = 20) -> tuple[list[bool], list[bool]]:
    cells = (
        [(True, False)] * first_only
        + [(False, True)] * second_only
        + [(True, True)] * both
        + [(False, False)] * neither
    )
    return [one for one, _ in cells], [one for _, one in cells]


@pytest.mark.parametrize(
    ("one", "two", "exact", "statistic", "p"),
    [
        (10, 22, True, 10, 0.050102459732443094),
        (10, 22, False, 3.78125, 0.05182992721790985),
        (40, 70, True, 40, 0.005447429511444476),
        (40, 70, False, 7.6454545454545455, 0.0056915552846872955),
        (1, 9, True, 1, 0.021484375),
        (1, 9, False, 4.9, 0.02685669550752441),
        (3, 3, True, 3, 1.0),
    ],
)
def test_mcnemar_against_numbers_from_statsmodels(one: int, two: int, exact: bool, statistic: float, p: float) -> None:
    """statsmodels 0.15.0, contingency_tables.mcnemar(exact=…, correction=True)."""
    found = mcnemar(*pairs(one, two), exact=exact)
    assert (found.first_only, found.second_only, found.exact) == (one, two, exact)
    assert (found.statistic, found.p) == (pytest.approx(statistic), pytest.approx(p, rel=1e-12))


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_mcnemar_against_statsmodels_and_scipy(one: int, two: int, exact: bool) -> None:
    found = mcnemar(*pairs(one, two), exact=exact)
    if exact and one + two:
        assert found.p == pytest.approx(stats.binomtest(one, one + two).pvalue)
    tables = pytest.importorskip("statsmodels.stats.contingency_tables", reason="needs statsmodels")
    if one != two:  # There it takes the correction off a difference of 0.
        theirs = tables.mcnemar(np.array([[50, one], [two, 20]]), exact=exact, correction=True)
        assert (found.statistic, found.p) == (pytest.approx(theirs.statistic), pytest.approx(theirs.pvalue))
    else:
        assert found.p == 1.0
    back = mcnemar(*pairs(two, one), exact=exact)
    assert (back.first_only, back.statistic, back.p) == (found.second_only, found.statistic, found.p)


def test_mcnemar_chooses_exact_for_few_discordant_items() -> None:
    assert mcnemar(*pairs(10, 14)).exact and not mcnemar(*pairs(10, 15)).exact
    nothing = mcnemar([], [])
    assert (nothing.p, nothing.statistic, nothing.exact) == (1.0, 0.0, True)
    assert mcnemar(*pairs(0, 0), exact=False).p == 1.0
    with pytest.raises(ValueError):
        mcnemar([True], [])


def test_mcnemar_keeps_its_level() -> None:
    """Two equally good verifiers: at 5 % the test rejects in no more than about 5 % of the cases."""
    rng = np.random.default_rng(5)
    for wrong, exact in ((0.1, None), (0.3, False)):
        found = [mcnemar(*(rng.random((2, 200)) > wrong).tolist(), exact=exact).p < 0.05 for _ in range(800)]
        assert 0.01 < np.mean(found) < 0.06


LABELS = [A] * 1007 + [N] * 531 + ["Conflicting"] * 52


def test_slices_keep_the_shares_of_labels() -> None:
    slices = stratified_slices(LABELS, 200, seeds=[1, 2, 3])
    for one in slices:
        assert len(one) == len(set(one)) == 200 and list(one) == sorted(one)
        assert Counter(LABELS[i] for i in one) == {A: 127, N: 67, "Conflicting": 6}  # 126.7, 66.8, 6.5
    assert len({*slices}) == 3
    assert stratified_slices(LABELS, 200, seeds=[2]) == (slices[1],)


@given(st.lists(st.sampled_from("abcde"), max_size=60), st.data())
def test_slices_are_within_one_of_the_exact_shares(labels: list[str], data: Any) -> None:
    n = data.draw(st.integers(0, len(labels)))
    (one,) = stratified_slices(labels, n, [7])
    assert len(set(one)) == len(one) == n
    taken, all_of_them = Counter(labels[i] for i in one), Counter(labels)
    for label, count in all_of_them.items():
        assert abs(taken[label] - n * count / len(labels)) < 1


def test_every_item_of_a_label_is_drawn_equally_often() -> None:
    labels = ["a", "b", "b", "a", "b", "b", "a", "b", "a", "b"]
    drawn = Counter(i for one in stratified_slices(labels, 5, range(2000)) for i in one)
    counts = [drawn[i] for i in range(10)]
    assert sum(counts) == 10_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_slices_refuse_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="4 of 3"):
        stratified_slices(["a", "b", "c"], 4, [0])
    assert stratified_slices([], 0, [0, 1]) == ((), ())


def test_seed_variance_is_that_of_the_scores() -> None:
    rng = np.random.default_rng(8)
    said = [one if keep else N for one, keep in zip(LABELS, rng.random(len(LABELS)) < 0.7, strict=True)]
    slices = stratified_slices(LABELS, 200, [1, 2, 3])
    found = seed_variance(lambda some: macro_f1(confusion([LABELS[i] for i in some], [said[i] for i in some])), slices)
    assert found.mean == pytest.approx(np.mean(found.values))
    assert found.std == pytest.approx(np.std(found.values, ddof=1))
    assert (found.low, found.high) == (min(found.values), max(found.values)) and found.low < found.high
    assert seed_variance(lambda some: float(len(some)), slices[:1]).std is None
    with pytest.raises(ValueError, match="no slices"):
        seed_variance(lambda _: 0.0, [])
