"""Slices of a set of questions, drawn by a seed with the strata of the whole in proportion.

A stratum is a quarter of the popularity where every question has one (`popularity_quartiles`), else the "kind" that a
data set gives its questions, else the whole set. A slice keeps the order of the whole.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from typing import overload

from factgym.core.errors import ConfigError
from factgym.core.tasks import SharedByArguments
from factgym.datasets.questions.question import Question, Questions


class QuestionSlice(SharedByArguments, Sequence[Question]):
    """The questions of `whole` at `places`, in their order."""

    def __init__(self, whole: Questions, places: Iterable[int]) -> None:
        self._whole = whole
        self._places = tuple(sorted(places))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Question]: ...
    def __getitem__(self, index: int | slice) -> Question | Sequence[Question]:
        if isinstance(index, slice):
            return tuple(self._whole[place] for place in self._places[index])
        return self._whole[self._places[index]]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the whole's and the places."""
        return hashlib.sha256(f"{self._whole.fingerprint()}:{self._places}".encode()).hexdigest()


def popularity_quartiles(values: Sequence[float | None]) -> list[int | None]:
    """The quarter, 1 (rarest) to 4, in which each popularity lies; None where it is None.

    The bounds are the 25th, 50th and 75th percentiles (linear between neighbours) of the values that are there; a value
    equal to a bound is in the lower quarter.
    """
    import numpy as np

    known = [value for value in values if value is not None]
    if not known:
        return [None] * len(values)
    bounds = np.percentile(known, [25, 50, 75])
    return [None if value is None else 1 + int(np.searchsorted(bounds, value, side="left")) for value in values]


def stratified_questions(questions: Questions, size: int, seed: int = 0) -> QuestionSlice:
    """`size` questions with the strata in the proportion of the whole, by largest remainder.

    Raises ConfigError for a size below 1 or above the number of questions.
    """
    total = len(questions)
    if not 1 <= size <= total:
        raise ConfigError(f"a slice has 1 to {total} questions here, not {size}")
    strata = _strata(questions)
    exact = {name: size * len(places) / total for name, places in strata.items()}
    counts = {name: int(share) for name, share in exact.items()}
    for name in sorted(strata, key=lambda one: (counts[one] - exact[one], one))[: size - sum(counts.values())]:
        counts[name] += 1
    drawn: list[int] = []
    for name, places in strata.items():
        drawn += random.Random(f"factgym question slice {seed} {name}").sample(places, counts[name])
    return QuestionSlice(questions, drawn)


def _strata(questions: Questions) -> dict[str, list[int]]:
    popularity = [questions[place].popularity for place in range(len(questions))]
    if None not in popularity:
        names = [f"quarter {quarter}" for quarter in popularity_quartiles(popularity)]
    else:
        names = [str(questions[place].meta.get("kind", "")) for place in range(len(questions))]
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name, []).append(place)
    return found
