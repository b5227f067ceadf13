"""BCa intervals: against SciPy's on the same replicates and on its own, by brute force, and by coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from factgym.benchmarks.statistics.bootstrap import (
    Bootstrap,
    bca,
    bca_mean,
    bca_score,
    bootstrap,
    paired_bca,
    sample_of,
)
from factgym.benchmarks.statistics.classification import confusion, table_score
from factgym.benchmarks.statistics.intervals import LEVEL, NO_DATA, Estimate
from factgym.core.errors import ConfigError

A, N = "Attributable", "Not Attributable"
LABELS = (A, N)


def of_mean(sums: Any) -> Any:
    return sums[..., 0] / sums[..., 1]


def with_ones(values: Any) -> Any:
    return np.column_stack([values, np.ones(len(values))])


def verifier(n: int, false_positive: float, false_negative: float, seed: int, missing: float = 0.0) -> Any:
    """Gold labels (the same for every verifier of this size) and predictions with these error rates."""
    gold = np.random.default_rng(n).random(n) < 0.5
    rng = np.random.default_rng(seed)
    predictions = gold ^ (rng.random(n) < np.where(gold, false_negative, false_positive))
    absent = rng.random(n) < missing
    return (
        [LABELS[int(item)] for item in gold],
        [None if out else LABELS[int(item)] for item, out in zip(predictions, absent, strict=True)],
    )


def as_numbers(labels: Sequence[str | None]) -> Any:
    return np.array([2 if label is None else LABELS.index(label) for label in labels])


def plain_macro_f1(gold: Any, predictions: Any, axis: int = -1) -> Any:
    """Written out for label numbers; 2 is a missing prediction."""
    scores = []
    for label in (0, 1):
        right = ((gold == label) & (predictions == label)).sum(axis)
        scores.append(2 * right / np.maximum((gold == label).sum(axis) + (predictions == label).sum(axis), 1))
    return (scores[0] + scores[1]) / 2


def plain_gain(gold: Any, first: Any, second: Any, axis: int = -1) -> Any:
    return plain_macro_f1(gold, second, axis) - plain_macro_f1(gold, first, axis)


# Few values are in eighths: SciPy compares sums that were rounded differently, and then does not see their ties.
DATA = {
    "skewed": np.random.default_rng(2).lognormal(0, 1.2, 40),
    "left-skewed": 1 - np.random.default_rng(3).beta(0.5, 3, 75),
    "few values": np.random.default_rng(4).choice([0.125, 0.375, 1.0], 200),
    "one outlier": np.array([0.0] * 29 + [1.0]),
    "two": np.array([0.25, 0.75]),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_interval_is_scipys_on_the_same_replicates(name: str, level: float) -> None:
    """SciPy finds z0, a and the two quantiles from our replicates: nothing is left to chance."""
    values = DATA[name]
    result = bootstrap(sample_of(with_ones(values)), of_mean, resamples=3000, seed=5)
    computed = result.interval(level)
    expected = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=0,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=result.replicates),
        confidence_level=level,
        method="BCa",
        vectorized=True,
    ).confidence_interval
    assert (computed.low, computed.high) == (
        pytest.approx(expected.low, rel=1e-9),
        pytest.approx(expected.high, rel=1e-9),
    )
    assert computed.value == pytest.approx(values.mean())
    assert computed.n == len(values)


@pytest.mark.parametrize("name", DATA)
def test_bias_and_acceleration_by_hand(name: str) -> None:
    values = DATA[name]
    result = bootstrap(sample_of(with_ones(values)), of_mean, resamples=3000, seed=6)
    around = values - values.mean()
    assert result.acceleration == pytest.approx((around**3).sum() / (6 * (around**2).sum() ** 1.5), abs=1e-12)
    same = np.isclose(result.replicates, values.mean(), rtol=1e-10)
    below = ((result.replicates < values.mean()) & ~same).mean() + same.mean() / 2
    assert result.bias == pytest.approx(special.ndtri(below), abs=1e-12)


@pytest.mark.parametrize("name", ["skewed", "left-skewed", "few values"])
def test_mean_agrees_with_scipy_within_monte_carlo_error(name: str) -> None:
    values = DATA[name]
    computed = bca_mean(values.tolist(), resamples=40_000, seed=1)
    expected = stats.bootstrap((values,), np.mean, n_resamples=40_000, method="BCa", rng=9, batch=2000)
    assert computed.low is not None and computed.high is not None
    within = 0.05 * float(expected.standard_error)
    assert computed.low == pytest.approx(expected.confidence_interval.low, abs=within)
    assert computed.high == pytest.approx(expected.confidence_interval.high, abs=within)


def test_macro_f1_agrees_with_scipy_within_monte_carlo_error() -> None:
    golds, predictions = verifier(300, 0.36, 0.25, 1, missing=0.05)
    computed = bca_score(golds, predictions, resamples=20_000)
    expected = stats.bootstrap(
        (as_numbers(golds), as_numbers(predictions)),
        plain_macro_f1,
        n_resamples=20_000,
        paired=True,
        vectorized=True,
        method="BCa",
        batch=1000,
        rng=3,
    )
    assert computed.value == pytest.approx(table_score(confusion(golds, predictions), "macro_f1"))
    assert computed.low is not None and computed.high is not None
    within = 0.1 * float(expected.standard_error)
    assert computed.low == pytest.approx(expected.confidence_interval.low, abs=within)
    assert computed.high == pytest.approx(expected.confidence_interval.high, abs=within)


def test_paired_difference_agrees_with_scipy_within_monte_carlo_error() -> None:
    golds, first = verifier(300, 0.32, 0.39, 1, missing=0.1)
    _, second = verifier(300, 0.36, 0.25, 2)
    computed = paired_bca(golds, first, second, resamples=20_000)
    expected = stats.bootstrap(
        tuple(as_numbers(item) for item in (golds, first, second)),
        plain_gain,
        n_resamples=20_000,
        paired=True,
        vectorized=True,
        method="BCa",
        batch=1000,
        rng=3,
    )
    gain = computed.difference
    assert gain.value == pytest.approx(
        table_score(confusion(golds, second), "macro_f1") - table_score(confusion(golds, first), "macro_f1")
    )
    assert computed.first is not None and computed.second is not None
    assert gain.value == pytest.approx(computed.second - computed.first)
    assert gain.low is not None and gain.high is not None
    within = 0.1 * float(expected.standard_error)
    assert gain.low == pytest.approx(expected.confidence_interval.low, abs=within)
    assert gain.high == pytest.approx(expected.confidence_interval.high, abs=within)


def test_p_value_is_where_the_interval_ends_at_zero() -> None:
    golds, first = verifier(200, 0.32, 0.39, 1)
    _, second = verifier(200, 0.30, 0.32, 2)
    p = paired_bca(golds, first, second, resamples=20_000).p
    assert p is not None and 0.01 < p < 0.9, "the case must be neither clear nor empty"
    just_in = paired_bca(golds, first, second, resamples=20_000, level=1 - p * 0.93).difference
    just_out = paired_bca(golds, first, second, resamples=20_000, level=1 - p * 1.07).difference
    assert just_in.low is not None and just_in.high is not None and just_in.low <= 0 <= just_in.high
    assert just_out.low is not None and just_out.high is not None and not just_out.low <= 0 <= just_out.high


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_p_value_inverts_the_interval_of_skewed_data(level: float) -> None:
    result = bootstrap(sample_of(with_ones(DATA["skewed"])), of_mean, resamples=50_000, seed=2)
    assert result.acceleration > 0.05 and abs(result.bias) > 0.02, "else the corrections are not seen"
    interval = result.interval(level)
    for end in (interval.low, interval.high):
        assert end is not None and result.p_value(end) == pytest.approx(1 - level, rel=0.03)


def test_mirrored_predictions_have_a_symmetric_interval() -> None:
    """As many items that only the first has right as that only the second has: the two are exchangeable."""
    golds, first, second = [A, A, N, N, A, N], [A, N, N, A, A, N], [N, A, A, N, A, N]
    result = paired_bca(golds * 4, first * 4, second * 4, resamples=501)
    assert result.difference.value == 0
    assert result.difference.low is not None and result.difference.low < 0
    assert result.difference.high == pytest.approx(-result.difference.low)
    assert result.p == 1


def by_hand(units: Sequence[Sequence[int]], statistic: Callable[[Sequence[int]], float], resamples: int) -> Any:
    """Means and quantiles of a statistic on resampled units, unit by unit, and its values without each of them."""
    rng = np.random.default_rng(11)
    drawn = [
        statistic([item for unit in rng.integers(len(units), size=len(units)) for item in units[unit]])
        for _ in range(resamples)
    ]
    remaining = [statistic([item for unit in units if unit is not out for item in unit]) for out in units]
    return np.array(drawn), np.array(remaining)


@pytest.mark.parametrize("metric", ["macro_f1", "accuracy", "balanced_accuracy", "matthews"])
def test_every_metric_against_a_bootstrap_by_hand(metric: str) -> None:
    golds, predictions = verifier(60, 0.36, 0.25, 4, missing=0.05)

    def measure(items: Sequence[int]) -> float:
        return table_score(confusion([golds[i] for i in items], [predictions[i] for i in items], LABELS), metric)

    drawn, remaining = by_hand([[i] for i in range(60)], measure, 3000)
    twin = Bootstrap(measure(range(60)), drawn, remaining, np.ones(60, np.int64)).interval()
    computed = bca_score(golds, predictions, metric, labels=LABELS)
    assert computed.value == pytest.approx(twin.value)
    assert computed.low == pytest.approx(twin.low, abs=0.2 * drawn.std())
    assert computed.high == pytest.approx(twin.high, abs=0.2 * drawn.std())


def test_clusters_against_a_bootstrap_by_hand() -> None:
    golds, predictions = verifier(120, 0.36, 0.25, 5)
    sizes = [1, 2, 3, 6] * 10
    clusters = np.repeat(np.arange(40), sizes)
    right = [float(a == b) for a, b in zip(golds, predictions, strict=True)]
    units = [np.flatnonzero(clusters == i_).tolist() for i_ in range(40)]
    drawn, remaining = by_hand(units, lambda items: float(np.mean([right[i] for i in items])), 4000)
    twin = Bootstrap(float(np.mean(right)), drawn, remaining, np.ones(40, np.int64)).interval()
    for computed in (
        bca_mean(right, clusters=clusters.tolist()),
        bca_score(golds, predictions, "accuracy", clusters=clusters.tolist()),
    ):
        assert computed.n == 40
        assert computed.value == pytest.approx(twin.value)
        assert computed.low == pytest.approx(twin.low, abs=0.15 * drawn.std())
        assert computed.high == pytest.approx(twin.high, abs=0.15 * drawn.std())


def test_copies_of_items_do_not_narrow_an_interval_over_clusters() -> None:
    golds, predictions = verifier(80, 0.36, 0.25, 6)
    once = bca_score(golds, predictions)
    tasks = list(range(80)) * 3
    thrice = bca_score(golds * 3, predictions * 3, clusters=tasks)
    pretended = bca_score(golds * 3, predictions * 3)
    assert once.half_width is not None and thrice.half_width is not None and pretended.half_width is not None
    assert thrice.half_width == pytest.approx(once.half_width, rel=0.03)
    assert pretended.half_width < 0.65 * once.half_width
    paired = paired_bca(golds * 3, [A] * 240, predictions * 3, clusters=tasks)
    assert paired.difference.n == 80


def covered(draw: Callable[[int], Estimate], truth: float, repeats: int) -> tuple[float, float]:
    """The shares of intervals that lie wholly above and wholly below the truth."""
    result = [draw(i) for i in range(repeats)]
    above = sum(row.low is not None and row.low > truth for row in result)
    below = sum(row.high is not None and row.high < truth for row in result)
    return above / repeats, below / repeats


def test_coverage_on_skewed_data() -> None:
    """Exponential data, fifty items: near the level, and less one-sided than the plain percentiles."""
    plain_misses = [0, 0]

    def draw(seed: int) -> Estimate:
        values = np.random.default_rng([7, seed]).exponential(1.0, 50)
        result = bootstrap(sample_of(with_ones(values)), of_mean, resamples=1000, seed=seed)
        low, high = np.quantile(result.replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        plain_misses[0] += low > 1
        plain_misses[1] += high < 1
        return result.interval()

    above, below = covered(draw, 1.0, 600)
    assert 0.91 <= 1 - above - below <= 0.97
    assert abs(above - below) < 0.5 * abs(plain_misses[0] - plain_misses[1]) / 600


def test_coverage_of_macro_f1_and_of_a_paired_difference() -> None:
    """Items drawn from a known table of gold and two predictions, whose scores are known."""
    rng = np.random.default_rng(12)
    cells = [(g, a, b) for g in LABELS for a in LABELS for b in (*LABELS, None)]
    chance = np.array([0.28, 0.02, 0.05, 0.05, 0.08, 0.02, 0.03, 0.07, 0.03, 0.05, 0.29, 0.03])
    assert chance.sum() == pytest.approx(1)
    exact = np.repeat(np.arange(12), (chance * 100).round().astype(int))
    truth = [
        table_score(confusion([cells[i][0] for i in exact], [cells[i][item] for i in exact], LABELS), "macro_f1")
        for item in (1, 2)
    ]
    single, paired = [], []
    for seed in range(300):
        drawn = [cells[i] for i in rng.choice(12, 150, p=chance)]
        golds, first, second = (list(column) for column in zip(*drawn, strict=True))
        single.append(bca_score(golds, second, labels=LABELS, resamples=1000, seed=seed))
        paired.append(paired_bca(golds, first, second, labels=LABELS, resamples=1000, seed=seed).difference)
    for result, value in ((single, truth[1]), (paired, truth[1] - truth[0])):
        above, below = covered(result.__getitem__, value, 300)
        assert 0.92 <= 1 - above - below <= 0.985


@pytest.mark.parametrize(
    ("recalls", "value", "half"),
    [((0.682, 0.615), 0.649, 0.0245), ((0.641, 0.746), 0.690, 0.0245)],
    ids=["SFT", "GRPO"],
)
def test_intervals_of_the_papers_size(recalls: tuple[float, float], value: float, half: float) -> None:
    """SEVA, Table 15 and appendix O: 64.9 [62.4, 67.3] and 69.0 [66.5, 71.4] over 1,590 items, B = 10,000.

    The paper prints shares of its table's rows alone; with rows of equal size they give its F1 within 0.4 points.
    """
    golds, predictions = [], []
    for gold, second, recall in ((A, N, recalls[0]), (N, A, recalls[1])):
        golds += [gold] * 795
        predictions += [gold] * round(795 * recall) + [second] * (795 - round(795 * recall))
    result = bca_score(golds, predictions)
    assert result.value == pytest.approx(value, abs=0.004)
    assert result.half_width == pytest.approx(half, abs=0.003)


def test_seed_decides() -> None:
    golds, predictions = verifier(100, 0.3, 0.3, 1)
    values = DATA["skewed"].tolist()
    assert bca_score(golds, predictions, seed=4) == bca_score(golds, predictions, seed=4)
    assert bca_score(golds, predictions, seed=4) != bca_score(golds, predictions, seed=5)
    assert bca_mean(values, seed=4) == bca_mean(values, seed=4) != bca_mean(values, seed=5)


def test_both_ways_of_drawing_units_agree() -> None:
    """Narrow rows are added up, wide ones counted: a mean must not care about columns that it does not use."""
    values = DATA["skewed"]
    wide = np.column_stack([values, np.ones((len(values), 7))])
    narrow, counted = bca_mean(values.tolist(), seed=3), bca(sample_of(wide), of_mean, seed=3)
    assert (counted.low, counted.high) == (pytest.approx(narrow.low), pytest.approx(narrow.high))


def test_nothing_and_one_and_all_the_same() -> None:
    assert bca_mean([]) == NO_DATA
    assert bca_mean([0.3]) == Estimate(0.3, None, None, 1)
    assert bca_mean([0.3, 0.5], clusters=["task", "task"]) == Estimate(0.4, None, None, 1)
    same = bca_mean([0.1] * 30)
    assert (same.low, same.high) == (same.value, same.value) == (pytest.approx(0.1), pytest.approx(0.1))
    assert bca_score([], []) == NO_DATA
    assert bca_score([A], [A]) == Estimate(1.0, None, None, 1)
    assert bca_score([A, N] * 9, [A, N] * 9, "accuracy") == Estimate(1.0, 1.0, 1.0, 18)
    none = paired_bca([], [], [])
    assert (none.first, none.difference, none.p) == (None, NO_DATA, None)
    item = paired_bca([A], [N], [A], labels=LABELS)
    assert (item.first, item.second, item.difference, item.p) == (0.0, 0.5, Estimate(0.5, None, None, 1), None)
    equal = paired_bca([A, N] * 9, [A, A] * 9, [A, A] * 9)
    assert (equal.difference, equal.p) == (Estimate(0.0, 0.0, 0.0, 18), 1.0)
    clear = paired_bca([A, N] * 9, [N, A] * 9, [A, N] * 9, "accuracy", resamples=500)
    assert (clear.difference, clear.p) == (Estimate(1.0, 1.0, 1.0, 18), 1 / 500)


def test_infinite_bias_is_kept_finite() -> None:
    """All replicates above, or below, the value: the interval is the end of the replicates and finite."""
    replicates = np.linspace(1, 2, 100)
    jackknife, counts = np.array([0.4, 0.5, 0.6]), np.ones(3, np.int64)
    above, below = (Bootstrap(value, replicates, jackknife, counts) for value in (0.5, 2.5))
    assert above.bias == pytest.approx(special.ndtri(1 / 200))
    assert below.bias == pytest.approx(special.ndtri(199 / 200))
    for result, end in ((above, 1.0), (below, 2.0)):
        interval = result.interval()
        assert interval.low is not None and interval.high is not None
        assert 1 <= interval.low <= interval.high <= 2
        assert end in (pytest.approx(interval.low, abs=0.02), pytest.approx(interval.high, abs=0.02))
        assert 1 / 100 <= result.p_value() <= 1


def test_past_the_pole_of_the_acceleration() -> None:
    """One influence value a thousand times the others, and almost all replicates below the value."""
    jackknife, counts = np.array([-1.0, 0.0]), np.array([1, 999])
    result = Bootstrap(2.0, np.linspace(1, 2, 1001), jackknife, counts)
    assert result.acceleration > 0.15
    interval = result.interval(0.999999)
    assert interval.high == 2.0
    assert interval.low is not None and 1 <= interval.low <= 2


def test_many_labels_need_little_memory() -> None:
    """Forty labels: 4,000 resampled pairs of tables at once take 177 MB."""
    import tracemalloc

    rng = np.random.default_rng(1)
    golds, first, second = ([f"label {i}" for i in rng.integers(40, size=400)] for _ in range(3))
    tracemalloc.start()
    try:
        result = paired_bca(golds, first, second, resamples=4000).difference
        assert tracemalloc.get_traced_memory()[1] < 90 * 2**20
    finally:
        tracemalloc.stop()
    assert result.low is not None and result.high is not None and result.low < (result.value or 0) < result.high


def test_invalid_arguments_are_refused() -> None:
    for values in ([0.1, float("nan")], [0.1, float("inf")]):
        with pytest.raises(ValueError, match="NaN or infinite"):
            bca_mean(values)
    with pytest.raises(ValueError, match="3 items, but clusters for 2"):
        bca_mean([0.1, 0.2, 0.3], clusters=[1, 2])
    with pytest.raises(ValueError, match="shape"):
        sample_of([1.0, 2.0])
    with pytest.raises(ValueError, match="at least 2 and 1"):
        bootstrap(sample_of([[1.0], [2.0]]), lambda sums: sums[..., 0], resamples=0)
    with pytest.raises(ValueError, match="on a resample"), np.errstate(all="ignore"):
        bootstrap(sample_of([[0.0], [1.0]]), lambda sums: 1 / sums[..., 0], resamples=50)
    with pytest.raises(ConfigError, match="Did you mean 'macro_f1'"):
        bca_score([A], [A], "macro-f1")
    with pytest.raises(ValueError):
        paired_bca([A, N], [A, N], [A])


ITEMS = st.lists(
    st.tuples(*[st.sampled_from("xyz")] * 2, st.sampled_from(["x", "y", "z", None])), min_size=2, max_size=25
)


@given(ITEMS, st.randoms(use_true_random=False), st.sampled_from(["macro_f1", "accuracy", "matthews"]))
def test_exchanging_the_two_and_shuffling_the_items(items: list[Any], random: Any, metric: str) -> None:
    golds, first, second = zip(*items, strict=True)
    present = paired_bca(golds, first, second, metric, resamples=300)
    back = paired_bca(golds, second, first, metric, resamples=300)
    assert (present.first, present.second, present.p) == (back.second, back.first, pytest.approx(back.p))
    assert present.difference.value == pytest.approx(-(back.difference.value or 0.0))
    assert present.difference.low == pytest.approx(-(back.difference.high or 0.0), abs=1e-9)
    assert present.difference.high == pytest.approx(-(back.difference.low or 0.0), abs=1e-9)
    random.shuffle(items)
    assert paired_bca(*zip(*items, strict=True), metric, resamples=300) == present


@given(st.lists(st.floats(0, 1, width=16), min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_mean_is_in_range_and_knows_no_order(values: list[float], random: Any) -> None:
    result = bca_mean(values, resamples=300)
    assert result.low is not None and result.high is not None
    assert min(values) - 1e-12 <= result.low <= result.high <= max(values) + 1e-12
    random.shuffle(values)
    assert bca_mean(values, resamples=300) == result


def test_paired_macro_f1_is_scipys_on_the_same_replicates() -> None:
    """The jackknife over cells and SciPy's over items give one interval; rounded, so that ties are ties to both."""
    golds, first = verifier(90, 0.32, 0.39, 1, missing=0.1)
    _, second = verifier(90, 0.36, 0.25, 2)
    gold, a, b = (as_numbers(item) for item in (golds, first, second))
    rows = np.zeros((90, 18))
    rows[np.arange(90), gold * 9 + a * 3 + b] = 1

    def gain(sums: Any) -> Any:
        cube = sums.reshape(*sums.shape[:-1], 2, 3, 3)
        scores = []
        for table in (cube.sum(-1), cube.sum(-2)):
            right = table[..., 0, 0], table[..., 1, 1]
            ends = [table[..., i, :].sum(-1) + table[..., :, i].sum(-1) for i in (0, 1)]
            scores.append(sum(2 * hit / np.maximum(end, 1) for hit, end in zip(right, ends, strict=True)) / 2)
        return np.round(scores[1] - scores[0], 12)

    result = bootstrap(sample_of(rows), gain, resamples=4000, seed=1)
    computed = result.interval()
    expected = stats.bootstrap(
        (gold, a, b),
        lambda *columns, axis=-1: np.round(plain_gain(*columns, axis=axis), 12),
        n_resamples=0,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=result.replicates),
        paired=True,
        vectorized=True,
        method="BCa",
    ).confidence_interval
    assert (computed.low, computed.high) == (
        pytest.approx(expected.low, abs=1e-9),
        pytest.approx(expected.high, abs=1e-9),
    )
    public = paired_bca(golds, first, second).difference
    assert public.value == pytest.approx(computed.value)
    assert public.low == pytest.approx(computed.low, abs=0.1 * result.replicates.std())
    assert public.high == pytest.approx(computed.high, abs=0.1 * result.replicates.std())
