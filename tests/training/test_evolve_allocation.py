"""Algorithm 2's arithmetic: examples by hand, a twin that counts in whole numbers, and what the ceiling promises."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.datasets.attribution import ERROR_TYPES
from factgym.training.seva.probes import quotas_by_source
from factgym.training.seva.profile import ceiling_allocation, random_allocation, split_by_share, weakness_weights

COUNTS = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)


def test_by_hand() -> None:
    accuracy = dict(
        zip(ERROR_TYPES, [Fraction(9, 10), Fraction(8, 10), Fraction(7, 10)] + [Fraction(1)] * 3, strict=True)
    )
    weights = weakness_weights(accuracy)
    assert list(weights.values()) == [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2), 0, 0, 0]
    assert list(ceiling_allocation(weights, 60).values()) == [10, 20, 30, 0, 0, 0]
    assert list(ceiling_allocation(weights, 61).values()) == [11, 21, 31, 0, 0, 0]  # 10.17, 20.33, 30.5


def test_the_papers_example_of_three_times_the_budget() -> None:
    """Entity substitution at 42 % gets about three times what fabrication at 78 % gets (section 2.5)."""
    accuracy = dict.fromkeys(ERROR_TYPES, Fraction(60, 100))
    accuracy |= {"entity_substitution": Fraction(42, 100), "fabrication": Fraction(78, 100)}
    counts = ceiling_allocation(weakness_weights(accuracy), 1122)
    assert weakness_weights(accuracy)["entity_substitution"] / weakness_weights(accuracy)["fabrication"] == Fraction(
        58, 22
    )
    assert 2.5 < counts["entity_substitution"] / counts["fabrication"] < 3


def test_a_ceiling_of_floats_would_be_one_too_many() -> None:
    weights = weakness_weights({"a": Fraction(9, 10), "b": Fraction(1, 10)})
    assert weights == {"a": Fraction(1, 10), "b": Fraction(9, 10)}
    assert ceiling_allocation(weights, 30) == {"a": 3, "b": 27}
    assert -int(-(0.1 * 3 * 10) // 1) == 4  # what floats make of it


def test_without_any_weakness_the_budget_is_spread_evenly() -> None:
    weights = weakness_weights(dict.fromkeys(ERROR_TYPES, Fraction(1)))
    assert set(weights.values()) == {Fraction(1, 6)}
    assert set(ceiling_allocation(weights, 100).values()) == {17}


@given(st.lists(COUNTS, min_size=1, max_size=8), st.integers(1, 3000))
def test_against_a_twin_in_whole_numbers(counts: list[list[int]], budget: int) -> None:
    """n is the least whole number with n · Σ ≥ B · weakness, found by counting up, over a common denominator."""
    accuracy = {str(at): Fraction(right, seen) if seen else Fraction(1, 2) for at, (right, seen) in enumerate(counts)}
    common = 1
    for value in accuracy.values():
        common *= value.denominator
    weakness = [common - value.numerator * (common // value.denominator) for value in accuracy.values()]
    total = sum(weakness)
    if not total:
        weakness, total = [1] * len(weakness), len(weakness)
    expected = []
    for weak in weakness:
        n = budget * weak // total
        while n * total < budget * weak:
            n += 1
        assert n == 0 or (n - 1) * total < budget * weak
        expected.append(n)
    assert list(ceiling_allocation(weakness_weights(accuracy), budget).values()) == expected


@given(st.lists(COUNTS, min_size=6, max_size=6), st.integers(1, 5000))
def test_the_total_exceeds_the_budget_by_less_than_six(counts: list[list[int]], budget: int) -> None:
    accuracy = {
        name: Fraction(right, seen) if seen else Fraction(1, 2)
        for name, (right, seen) in zip(ERROR_TYPES, counts, strict=True)
    }
    weights = weakness_weights(accuracy)
    assert sum(weights.values()) == 1
    allocation = ceiling_allocation(weights, budget)
    assert budget <= sum(allocation.values()) < budget + 6
    for name, weight in weights.items():
        assert 0 <= allocation[name] - weight * budget < 1
        assert (allocation[name] == 0) == (weight == 0)
    ordered = sorted(ERROR_TYPES, key=lambda name: accuracy[name])
    assert [allocation[name] for name in ordered] == sorted(allocation.values(), reverse=True)


def test_the_control_has_the_same_total_and_no_favourite() -> None:
    allocation = random_allocation(60_000, seed=3)
    assert sum(allocation.values()) == 60_000
    assert list(allocation) == list(ERROR_TYPES)
    # Five standard deviations of a multinomial cell.
    assert all(abs(n - 10_000) < 5 * (60_000 * 5 / 36) ** 0.5 for n in allocation.values())
    assert random_allocation(205, 1) == random_allocation(205, 1) != random_allocation(205, 2)


@given(st.integers(0, 500), st.lists(st.fractions(0, 10), min_size=1, max_size=6).filter(any))
def test_shares_add_up_and_stay_within_one(total: int, shares: list[Fraction]) -> None:
    named = {str(at): value for at, value in enumerate(shares)}
    allocation = split_by_share(total, named)
    assert sum(allocation.values()) == total
    assert all(abs(allocation[name] - total * value / sum(shares)) < 1 for name, value in named.items())


def test_quotas_keep_the_count_of_each_category() -> None:
    counts = {"negation_flip": 7, "fabrication": 1, "temporal_shift": 0}
    quotas = quotas_by_source(counts, {"fever": Fraction(2), "anli": Fraction(1)})
    assert quotas == {
        "fever": {"negation_flip": 5, "fabrication": 1, "temporal_shift": 0},
        "anli": {"negation_flip": 2, "fabrication": 0, "temporal_shift": 0},
    }


@pytest.mark.parametrize("value", [Fraction(-1, 10), Fraction(11, 10)])
def test_an_accuracy_outside_its_range_is_refused(value: Fraction) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        weakness_weights({"a": value})


def test_budgets_and_shares_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        ceiling_allocation({"a": Fraction(1)}, 0)
    with pytest.raises(ConfigError, match="at least 1"):
        random_allocation(0, 1)
    with pytest.raises(ConfigError, match="must not be negative"):
        split_by_share(3, {"a": Fraction(0)})
    with pytest.raises(ConfigError, match="at least one category"):
        weakness_weights({})
