"""The plain twin of the counting rules: examples worked by hand, and the engine of `infini-gram` beside it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.cooccurrence import memory_index, tokenize
from tests.corpora.brute_force import brute_count

WIDE = 1000


def docs(*texts: str) -> list[list[str]]:
    return [text.split() for text in texts]


def words(text: str) -> list[list[str]]:
    return [[word] for word in text.split()]


# What the engine was seen to answer, by the rule that explains it.
ENGINE = [
    ("the rarest word's occurrences are counted", docs("A B B B"), "A B", WIDE, 1),
    ("whatever the order of the query", docs("A B B B"), "B A", WIDE, 1),
    ("each of them", docs("A B A B A"), "A B", WIDE, 2),
    ("the window chains from clause to clause", docs("A x x B x x C"), "A B C", 3, 1),
    ("and ends one place beyond", docs("A x x B x x x C"), "A B C", 3, 0),
    ("a nearer word in the neighbouring document costs the anchor", docs("B", "A B"), "A B", 5, 0),
    ("unless it is too far away", docs("B x x x x x", "A B"), "A B", 5, 1),
    ("the separator is a place too", docs("B x x", "A B"), "A B", 3, 1),
    ("so one place less is near", docs("B x x", "A B"), "A B", 4, 0),
    ("a word pairs with itself", docs("A"), "A A", WIDE, 1),
    ("and with the one before, also over a border", docs("A", "A"), "A A", WIDE, 1),
    ("one clause is a frequency", docs("A B A", "A"), "A", 1, 3),
    ("an unknown word is nowhere", docs("A B"), "A Z", WIDE, 0),
    ("no document, no count", [], "A", WIDE, 0),
]


@pytest.mark.parametrize(("why", "corpus", "query", "window", "count"), ENGINE, ids=[row[0] for row in ENGINE])
def test_rules_of_the_engine(why, corpus, query, window, count):
    assert brute_count(corpus, words(query), window) == count


WINDOW = [
    ("anchors are the rarest word's", docs("A B B B"), "A B", WIDE, 1),
    ("all words within one window", docs("A x x B x x C"), "A B C", 3, 0),
    ("which may lie anywhere around the anchor", docs("A x x B x x C"), "A B C", 6, 1),
    ("the anchor inside it", docs("B x A x B C C"), "A B C", 3, 1),
    ("a neighbouring document is another world", docs("B", "A B"), "A B", 5, 1),
    ("in both directions", docs("A B", "B"), "A B", 1, 1),
    ("one that holds only one word gives nothing", docs("A", "B"), "A B", WIDE, 0),
    ("a repeated word changes nothing", docs("A x B"), "A A B", 2, 1),
    ("the places may not each be near the anchor alone", docs("B x A x C"), "A B C", 2, 0),
    ("one clause is a frequency", docs("A B A", "A"), "A", 1, 3),
]


@pytest.mark.parametrize(("why", "corpus", "query", "window", "count"), WINDOW, ids=[row[0] for row in WINDOW])
def test_rules_of_the_clean_window(why, corpus, query, window, count):
    assert brute_count(corpus, words(query), window, "window") == count


def test_terms_of_several_tokens_stand_side_by_side_in_one_document():
    corpus = docs("New York City", "New", "York City")
    assert brute_count(corpus, [[("New", "York")]]) == 1
    assert brute_count(corpus, [[("York", "City")]]) == 2
    assert brute_count(corpus, [[("New", "York")], ["City"]], 2) == 1
    assert brute_count(corpus, [[("New", "York")], ["City"]], 1) == 0  # a term is where its first token is


def test_terms_of_a_clause_are_alternatives_and_a_shared_place_is_two_anchors_for_the_engine():
    corpus = docs("A B x", "C B")
    assert brute_count(corpus, [["A", "C"]]) == 2
    assert brute_count(corpus, [["A", ("A", "B")]]) == 2
    assert brute_count(corpus, [["A", ("A", "B")]], semantics="window") == 1


def test_the_order_of_a_query_decides_between_equally_frequent_clauses_for_the_engine_alone():
    """Its count can therefore depend on it."""
    corpus = docs("A B B x x x x x A")
    assert [brute_count(corpus, words(query), 2, "infini-gram") for query in ("A B", "B A")] == [1, 2]
    assert [brute_count(corpus, words(query), 2, "window") for query in ("A B", "B A")] == [1, 1]
    actual = memory_index(["A B B x x x x x A"], semantics="window", window=2)
    assert [int(n) for n in actual.count_many([["A", "B"], ["B", "A"]])] == [1, 1]
    assert actual.count_cnf([["B"], ["A"]]) == 1


@pytest.mark.parametrize(
    ("cnf", "window", "semantics"),
    [([], 5, "window"), ([[]], 5, "window"), ([[()]], 5, "window"), ([["A"]], 0, "window"), ([["A"]], 5, "windows")],
)
def test_what_is_no_query(cnf, window, semantics):
    with pytest.raises(ConfigError):
        brute_count(docs("A"), cnf, window, semantics)


TERM = st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=2).map(" ".join)
CNF = st.lists(st.lists(TERM, min_size=1, max_size=2), min_size=1, max_size=5)
CORPUS = st.lists(st.lists(st.sampled_from("ABCDEx"), max_size=25), max_size=8)


@settings(deadline=None, max_examples=60)
@given(CORPUS, CNF, st.integers(1, 30), st.sampled_from(["infini-gram", "window"]))
def test_the_index_counts_as_the_plain_rules_do(corpus, cnf, window, semantics):
    index = memory_index([" ".join(document) for document in corpus], window=window, semantics=semantics)
    split = [[tokenize(term) for term in clause] for clause in cnf]
    assert index.count_cnf(cnf) == brute_count(corpus, split, window, semantics)
