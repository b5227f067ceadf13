"""Snippets: which sentences are selected, where cuts are marked, how long they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.condense import condense, passage_sentences, query_weights
from factgym.corpora.corpus import Passage
from factgym.corpora.text import fold

PASSAGE = Passage(
    "E1",
    "Vendor policy",
    "Vendors sign an addendum first. The security team reviews each vendor every 12 months. Lunch is at noon.\n"
    "Contracts above $10,000 need approval by the chief financial officer. Exceptions expire after 90 days.",
)


def snippet(query: str, max_chars: int = 240) -> str:
    return condense(PASSAGE, query_weights(query), max_chars)


def test_overlapping_sentences_are_kept_in_text_order_and_cuts_are_marked() -> None:
    assert snippet("When do exceptions expire, and who signs contracts above 10,000?") == (
        "… Contracts above $10,000 need approval by the chief financial officer. Exceptions expire after 90 days."
    )
    assert snippet("vendors, exceptions") == "Vendors sign an addendum first. … Exceptions expire after 90 days."
    assert snippet("lunch") == "… Lunch is at noon. …"


def test_without_overlap_the_passage_shows_how_it_begins() -> None:
    assert snippet("zebra", 60) == "Vendors sign an addendum first. … Lunch is at noon. …"
    assert snippet("", 40) == "Vendors sign an addendum first. …"


def test_rarer_terms_win_with_an_index_that_knows_idf() -> None:
    passage = Passage("E1", "", "Plans and plans and plan days. The fee is waived.")
    remaining = [Passage(f"E{i}", "", "plans days") for i in range(2, 6)]
    weights = query_weights("plans days waived", SmallBM25([passage, *remaining]))
    assert weights["waived"] > weights["plans"] + weights["days"]
    assert condense(passage, weights, 30) == "… The fee is waived."
    assert condense(passage, query_weights("plans days waived"), 35) == "Plans and plans and plan days. …"


def test_one_long_sentence_is_cut_around_its_first_query_term() -> None:
    passage = Passage(
        "E1", "", "Alpha " + "filler words " * 30 + "the retention period is seven years " + "more " * 60
    )
    cut = condense(passage, query_weights("retention period"), 80)
    assert len(cut) <= 80
    assert "retention period is" in cut
    assert cut.startswith("… ") and cut.endswith(" …")
    assert fold(cut.strip("… ")) in fold(passage.text)


def test_white_space_is_folded_and_blank_passages_are_empty() -> None:
    wrapped = Passage("E1", "T", "Refunds take\n  some days.")
    assert condense(wrapped, query_weights("refunds")) == "Refunds take some days."
    assert condense(Passage("E1", "Title", " \n--- "), query_weights("title")) == ""


def test_a_length_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 24"):
        snippet("vendor", 10)


@given(
    st.lists(st.sampled_from(["refund.", "Refund", "days", "The", "x" * 50, "audit!", "\n", "a.", "…"]), max_size=80),
    st.lists(st.sampled_from(["refund", "days", "audit", "xyz"]), max_size=4),
    st.integers(24, 300),
)
def test_snippets_are_short_deterministic_and_verbatim(words: list[str], query: list[str], max_chars: int) -> None:
    passage = Passage("E1", "", " ".join(words))
    weights = query_weights(" ".join(query))
    text = condense(passage, weights, max_chars)
    assert len(text) <= max_chars
    assert text == condense(Passage("E1", "", " ".join(words)), weights, max_chars)
    assert bool(text) == bool(passage_sentences(passage))
    if "…" not in passage.text:
        for part in text.split("…"):
            assert " ".join(part.split()) in " ".join(passage.text.split())
