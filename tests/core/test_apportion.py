"""Largest remainders against their defining property, by brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from factgym.core.apportion import apportion


@given(st.integers(0, 500), st.lists(st.fractions(0, 10), min_size=1, max_size=6).filter(any))
def test_parts_add_up_and_stay_within_one(total: int, weights: list[Fraction]) -> None:
    parts = apportion(total, dict(enumerate(weights)))
    assert sum(parts.values()) == total
    assert all(abs(parts[at] - total * weight / sum(weights)) < 1 for at, weight in enumerate(weights))


@given(st.integers(0, 7), st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any))
def test_no_other_division_is_nearer_to_the_exact_shares(total: int, weights: list[int]) -> None:
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]

    def distance(parts: tuple[int, ...]) -> Fraction:
        return sum((abs(part - share) for part, share in zip(parts, exact, strict=True)), Fraction(0))

    parts = tuple(apportion(total, dict(enumerate(weights))).values())
    divisions = [other for other in product(range(total + 1), repeat=len(weights)) if sum(other) == total]
    assert distance(parts) == min(map(distance, divisions))


def test_of_equal_remainders_the_first_is_rounded_up() -> None:
    assert apportion(4, {"b": 1, "a": 1, "c": 1}) == {"b": 2, "a": 1, "c": 1}
