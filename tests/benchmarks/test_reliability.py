"""Reliability bins against scikit-learn's calibration curve, and what they cannot say against arithmetic by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.benchmarks.statistics.classification import Bin, Reliability, reliability
from factgym.benchmarks.statistics.intervals import NO_DATA, wilson

STATED = [(37 * i % 100) / 99 for i in range(120)]
RIGHT = [i * i * 13 % 17 < 17 * confidence for i, confidence in enumerate(STATED)]

Judged = st.lists(
    st.tuples(st.floats(0, 1) | st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.95, 1.0]), st.booleans()),
    min_size=1,
    max_size=60,
)


def curve(bins: tuple[Bin, ...]) -> tuple[list[float | None], list[float | None]]:
    return [bin_.accuracy.value for bin_ in bins if bin_.n], [bin_.confidence for bin_ in bins if bin_.n]


def test_against_numbers_from_scikit_learn() -> None:
    """scikit-learn 1.9.1: brier_score_loss, calibration_curve(n_bins=10) with both strategies."""
    result = reliability(STATED, RIGHT)
    assert result.brier == pytest.approx(0.19437302316090194)
    accuracies, stated = curve(result.bins)
    assert accuracies == pytest.approx([1 / 13, 5 / 12, 0.25, 5 / 12, 0.5, 0.5, 6 / 11, 0.75, 5 / 6, 11 / 12])
    assert stated[:3] == pytest.approx([0.04273504273504273, 0.14646464646464646, 0.24915824915824916])
    assert stated[7:] == pytest.approx([0.7483164983164984, 0.8510101010101011, 0.9537037037037037])
    accuracies, stated = curve(result.mass_bins)
    assert accuracies[:6] == pytest.approx([1 / 12, 1 / 3, 4 / 13, 4 / 11, 7 / 12, 6 / 13])
    assert stated[:3] == pytest.approx([0.03872053872053872, 0.13804713804713808, 0.24475524475524477])


@given(Judged, st.integers(1, 15))
def test_against_scikit_learn(judged: list[tuple[float, bool]], bins: int) -> None:
    calibration = pytest.importorskip("sklearn.calibration", reason="needs scikit-learn")
    metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
    stated, right = [item for item, _ in judged], [item for _, item in judged]
    result = reliability(stated, right, bins)
    brier = metrics.brier_score_loss(right, stated, pos_label=True, labels=[False, True])
    assert result.brier == pytest.approx(brier, abs=1e-12)
    for strategy, computed in (("uniform", result.bins), ("quantile", result.mass_bins)):
        parts = np.linspace(0, 1, bins + 1)
        edges = parts if strategy == "uniform" else np.percentile(stated, 100 * parts)
        gaps = np.abs(np.subtract.outer(edges, stated))
        if ((gaps > 0) & (gaps < 1e-9)).any():  # A rounding error of theirs decides on which side an item lies.
            continue
        try:
            expected = calibration.calibration_curve(right, stated, n_bins=bins, strategy=strategy)
        except ValueError:
            assert len(set(right)) < 2, "it wants both classes"
            continue
        accuracies, confidences = curve(computed)
        assert accuracies == pytest.approx(expected[0].tolist())
        assert confidences == pytest.approx(expected[1].tolist())


def by_hand(stated: list[float], right: list[bool], bins: int) -> float:
    """Guo et al. 2017, equation 3, item by item."""
    total = 0.0
    for i in range(bins):
        inside = [j for j, item in enumerate(stated) if i / bins < item <= (i + 1) / bins or (i == 0 and item == 0)]
        if inside:
            gap = sum(right[j] for j in inside) / len(inside) - sum(stated[j] for j in inside) / len(inside)
            total += len(inside) / len(stated) * abs(gap)
    return total


@given(Judged, st.integers(1, 12), st.randoms(use_true_random=False))
def test_calibration_error_by_hand_in_any_order(judged: list[tuple[float, bool]], bins: int, random: Any) -> None:
    stated, right = [item for item, _ in judged], [item for _, item in judged]
    result = reliability(stated, right, bins)
    assert result.ece == pytest.approx(by_hand(stated, right, bins))
    assert result.ece is not None and result.adaptive_ece is not None and result.brier is not None
    assert result.confidence is not None and result.accuracy.value is not None
    # Over one bin it is the overconfidence, and more bins can only add to it; Brier bounds the square of each.
    least = abs(result.confidence - result.accuracy.value)
    for error in (result.ece, result.adaptive_ece):
        assert least - 1e-9 <= error <= math.sqrt(result.brier) + 1e-9
    assert sum(bin_.n for bin_ in result.bins) == sum(bin_.n for bin_ in result.mass_bins) == result.n == len(judged)
    random.shuffle(judged)
    again = reliability([item for item, _ in judged], [item for _, item in judged], bins)
    assert again == result


def test_a_calibrated_and_an_overconfident_verifier() -> None:
    rng = np.random.default_rng(3)
    stated = rng.beta(4, 2, 20_000)
    honest = reliability(stated.tolist(), (rng.random(20_000) < stated).tolist())
    boastful = reliability(stated.tolist(), (rng.random(20_000) < stated - 0.2).tolist())
    assert honest.ece is not None and honest.adaptive_ece is not None and boastful.ece is not None
    assert honest.ece < 0.015 and honest.adaptive_ece < 0.015
    assert boastful.ece == pytest.approx(0.2, abs=0.02)
    # 6/7 of the bins and more should hold the diagonal: these are 95 % intervals.
    inside = [bin_.accuracy.low <= bin_.confidence <= bin_.accuracy.high for bin_ in honest.bins if bin_.n > 50]  # type: ignore[operator]
    assert np.mean(inside) > 0.8


def test_equal_confidences_stay_together() -> None:
    """A verifier that says 0.9 in 80 of 100 cases has two bins of mass, not ten that split the ties by order."""
    result = reliability([0.9] * 80 + [0.2] * 20, [True] * 60 + [False] * 40, bins=10)
    filled = [bin_ for bin_ in result.mass_bins if bin_.n]
    assert [(item.n, item.confidence) for item in filled] == [(20, pytest.approx(0.2)), (80, pytest.approx(0.9))]
    assert result.adaptive_ece == pytest.approx(0.2 * 0.2 + 0.8 * (0.9 - 60 / 80))


@given(Judged, st.integers(1, 9), st.integers(1, 9))
def test_quantiles_that_are_items_are_exact(judged: list[tuple[float, bool]], bins: int, times: int) -> None:
    """Where every edge is an item, each bin holds the items up to it: no rounding moves one over."""
    stated = sorted({item for item, _ in judged})
    stated = (stated * (bins * times + 1))[: bins * times + 1]
    result = reliability(stated, [True] * len(stated), bins)
    ordered = sorted(stated)
    edges = [ordered[i * times] for i in range(bins + 1)]
    assert [bin_.high for bin_ in result.mass_bins] == edges[1:]
    upto = np.cumsum([bin_.n for bin_ in result.mass_bins])
    assert upto.tolist() == [sum(confidence <= edge for confidence in stated) for edge in edges[1:]]


def test_bins_edges_and_empty_bins() -> None:
    result = reliability([0.0, 0.1, 0.3, 0.7, 1.0], [False, True, True, False, True])
    assert [bin_.n for bin_ in result.bins] == [2, 0, 1, 0, 0, 0, 1, 0, 0, 1]
    assert [(bin_.low, bin_.high) for bin_ in result.bins] == [(i / 10, (i + 1) / 10) for i in range(10)]
    assert result.bins[0] == Bin(0.0, 0.1, pytest.approx(0.05), wilson(1, 2))
    assert result.bins[1] == Bin(0.1, 0.2, None, NO_DATA)


def test_outside_is_cut_and_nothing_is_nothing() -> None:
    assert reliability([-0.5, 1.7], [False, True]) == reliability([0.0, 1.0], [False, True])
    empty = reliability([], [])
    assert empty == Reliability(0, empty.bins, (), *[None] * 5, NO_DATA)
    assert len(empty.bins) == 10


def test_invalid_arguments_are_refused() -> None:
    for item in (math.nan, math.inf):
        with pytest.raises(ValueError, match="of item 1"):
            reliability([0.5, item], [True, True])
    with pytest.raises(ValueError, match="2 confidences for 1 items"):
        reliability([0.5, 0.5], [True])
    with pytest.raises(ValueError, match="0 bins"):
        reliability([0.5], [True], bins=0)


def authors_ece(stated: list[float], right: list[bool], bins: int) -> float:
    """SEVA's published evaluation: bins [low, high), and 1 in the last one."""
    edges = [i / bins for i in range(bins + 1)]
    members: list[list[int]] = [[] for _ in range(bins)]
    for item, confidence in enumerate(stated):
        inside = (i for i in range(bins) if edges[i] <= confidence < edges[i + 1])
        members[next(inside, bins - 1)].append(item)
    means = [
        (sum(stated[i] for i in items) / len(items), sum(right[i] for i in items) / len(items), len(items))
        for items in members
        if items
    ]
    return sum(abs(confidence - accuracy) * n for confidence, accuracy, n in means) / len(stated)


@given(Judged, st.integers(1, 15))
def test_bins_closed_on_the_left_are_the_authors(judged: list[tuple[float, bool]], bins: int) -> None:
    stated, right = [item for item, _ in judged], [item for _, item in judged]
    assert reliability(stated, right, bins).ece_left == pytest.approx(authors_ece(stated, right, bins), abs=1e-12)


def test_a_confidence_on_an_edge_belongs_to_one_side_or_the_other() -> None:
    result = reliability([0.9, 0.95, 0.9, 0.85], [True, True, True, False])
    assert result.ece == pytest.approx((3 * abs(2 / 3 - 2.65 / 3) + 0.05) / 4)
    assert result.ece_left == pytest.approx((3 * (1 - 2.75 / 3) + 0.85) / 4)
