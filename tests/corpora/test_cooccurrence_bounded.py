"""Counting that stops at a bound, and the phrases that the compiled engine works out: against the plain twin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import memory_index
from factgym.corpora.cooccurrence.engine import has_numba
from tests.corpora.brute_force import brute_count
from tests.corpora.test_cooccurrence_index import documents_of, engine, long_documents, terms

assert engine  # the fixture

queries_of = st.lists(st.lists(terms, min_size=1, max_size=5), min_size=1, max_size=4)
SEMANTICS = ["infini-gram", "window"]


@given(documents_of, queries_of, st.integers(1, 40), st.sampled_from(SEMANTICS), st.integers(1, 30))
@settings(max_examples=120, deadline=None)
def test_a_bounded_count_is_the_smaller_of_bound_and_count(
    documents: list[list[str]], queries: list[list[str]], window: int, semantics: str, most: int
) -> None:
    counts = [brute_count(documents, [[term.split("-")] for term in query], window, semantics) for query in queries]
    for each in ("numpy", "numba") if has_numba() else ("numpy",):
        index = memory_index(map(" ".join, documents), semantics=semantics, window=window, engine=each)
        assert index.count_up_to(queries, most).tolist() == [min(count, most) for count in counts], each
        assert index.count_many(queries).tolist() == counts, each


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_long_lists_are_read_in_growing_steps_to_the_bound(semantics: str, engine: str) -> None:
    """Bounds below, at and above what the first step of anchors, the next ones and all of them find."""
    index = memory_index(long_documents(11, 150_000), semantics=semantics, window=40, engine=engine)
    words = sorted((f"w{i}" for i in range(60)), key=index.frequency)[-16:]
    queries = [list(pair) for pair in itertools.combinations(words, 2)]
    counts = index.count_many(queries)
    assert counts.max() > 3000 > 700 > counts.min()
    for most in (1, 20, 64, 700, int(np.median(counts)), int(counts.max()), 10**15):
        assert np.array_equal(index.count_up_to(queries, most), np.minimum(counts, most)), most


def test_phrases_of_every_frequency_are_those_of_the_text(engine: str) -> None:
    """Pairs and triples of words that the engine finds by its filter, by search and in a last block, all at once."""
    documents = long_documents(12, 60_000)
    tokens = [text.split() for text in documents]
    found: dict[str, int] = {}
    for text in tokens:
        for size in (2, 3):
            for place in range(len(text) - size + 1):
                phrase = "-".join(text[place : place + size])
                found[phrase] = found.get(phrase, 0) + 1
    phrases = sorted(found, key=lambda phrase: -found[phrase])
    chosen = [*phrases[:80], *phrases[80 :: len(phrases) // 200], "w0-w0-w0-w0", "w2999-w0", "w0-w2999", "w0-nowhere"]
    index = memory_index(documents, engine=engine, threads=2)
    expected = [
        brute_count(tokens, [[phrase.split("-")]]) if phrase.count("-") == 3 else found.get(phrase, 0)
        for phrase in chosen
    ]
    assert index.count_many([[phrase] for phrase in chosen]).tolist() == expected
    assert expected[0] > 500


def test_what_the_kernels_remember_is_forgotten_beyond_the_memory() -> None:
    pytest.importorskip("numba", reason="needs the extra 'counting'")
    letters = "abcdefghij"
    texts = [" ".join(letters) + " " + " ".join(letters[::2]) * 2] * 300
    index, plain = (memory_index(texts, engine=each) for each in ("numba", "numpy"))
    index._clauses._memory = 60_000
    phrases = [f"{one}-{other}" for one, other in itertools.product(letters, letters)]
    for phrase in phrases:
        assert (
            index.count_many([[phrase, "a"], [phrase]]).tolist()
            == plain.count_many([[phrase, "a"], [phrase]]).tolist()
        )
        assert index._clauses.table().nbytes <= 30_000
    with pytest.raises(ConfigError, match="larger memory_mb"):
        index._clauses._memory = 1_000
        index.count(["a-b-c"])


@pytest.mark.parametrize("most", [0, -3])
def test_a_bound_is_at_least_one(most: int) -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        memory_index(["A"]).count_up_to([["A"]], most)
