"""Words of several tokens where one token is many times as frequent as the other: every way the kernels search."""

from __future__ import annotations

import itertools
import random

import pytest

from factgym.corpora.cooccurrence import CooccurrenceIndex, memory_index
from factgym.corpora.cooccurrence.engine import has_numba

pytestmark = pytest.mark.skipif(not has_numba(), reason="compiled kernels need the extra counting")

SHARES = {"a": 0.3, "b": 0.1, "c": 0.02, "d": 0.004, "e": 0.0008, "f": 0.0001}
"""Neighbours differ by factors of 3 to 8, others of up to 3,000."""


def corpus() -> list[list[str]]:
    rng = random.Random(3)
    words, weights = [*SHARES, "z"], [*SHARES.values(), 1 - sum(SHARES.values())]
    return [rng.choices(words, weights, k=rng.randrange(1, 400)) for _ in range(600)]


DOCUMENTS = corpus()
PAIRS = ["-".join(pair) for pair in itertools.product(SHARES, repeat=2)]


@pytest.fixture(scope="module")
def fast() -> CooccurrenceIndex:
    return memory_index([" ".join(one) for one in DOCUMENTS], engine="numba")


def test_phrases_occur_where_their_words_stand_side_by_side(fast: CooccurrenceIndex) -> None:
    phrases = [*PAIRS, "a-b-a", "c-a-a", "a-a-d", "b-c-z", "e-a-b"]
    for phrase in phrases:
        parts = phrase.split("-")
        by_hand = sum(one[i : i + len(parts)] == parts for one in DOCUMENTS for i in range(len(one)))
        assert fast.count_many([[phrase]])[0] == by_hand, phrase
        assert fast.count_up_to([[phrase]], 7)[0] == min(by_hand, 7)


@pytest.mark.parametrize("semantics", ["infini-gram", "window"])
def test_both_engines_count_alike_for_every_ratio_of_frequencies(semantics: str) -> None:
    texts = [" ".join(one) for one in DOCUMENTS]
    fast, plain = (
        memory_index(texts, engine=engine, semantics=semantics, window=30)  # type: ignore[arg-type]
        for engine in ("numba", "numpy")
    )
    rng = random.Random(5)
    terms = [*SHARES, *PAIRS]
    queries = [rng.sample(terms, rng.randrange(2, 5)) for _ in range(150)]
    queries += [list(pair) for pair in itertools.permutations(SHARES, 2)]
    for most in (1, 20, 1 << 40):
        assert fast.count_up_to(queries, most).tolist() == plain.count_up_to(queries, most).tolist()
