"""The corpus: lookup, order, fingerprint, sharing."""

from __future__ import annotations

import copy
import pickle

import pytest

from factgym.core.errors import DataError, FactgymError
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError

PASSAGES = [Passage("E2", "B", "second"), Passage("E1", "A", "first"), Passage("E10", "C", "\ud800 é")]


def test_order_lookup_and_membership() -> None:
    corpus = Corpus(iter(PASSAGES))
    assert list(corpus) == PASSAGES == list(corpus.passages)
    assert corpus.ids == ("E2", "E1", "E10")
    assert len(corpus) == 3 and "E1" in corpus and "E3" not in corpus
    assert corpus.get("E1").text == "first"


def test_an_unknown_id_is_a_lookup_error_with_a_suggestion() -> None:
    corpus = Corpus(PASSAGES)
    with pytest.raises(UnknownPassageError, match=r"no passage 'E11' in this corpus of 3\. Did you mean 'E1"):
        corpus.get("E11")
    with pytest.raises(LookupError) as caught:
        corpus.get("x" * 1_000_000)
    assert isinstance(caught.value, FactgymError) and len(str(caught.value)) < 200


def test_a_repeated_id_is_refused() -> None:
    with pytest.raises(DataError, match="'E1'"):
        Corpus([*PASSAGES, Passage("E1", "", "again")])


def test_fingerprint_depends_on_every_field_and_the_order() -> None:
    variants = [
        PASSAGES,
        PASSAGES[::-1],
        PASSAGES[:2],
        [Passage("E2", "Bs", "econd"), *PASSAGES[1:]],
        [Passage("E", "2B", "second"), *PASSAGES[1:]],
        [],
    ]
    prints = [Corpus(variant).fingerprint() for variant in variants]
    assert len(set(prints)) == len(prints)
    assert all(len(digest) == 64 for digest in prints)
    assert prints[0] == Corpus(PASSAGES).fingerprint()
    assert Corpus([Passage("E1", "A", "first")]).fingerprint() == (
        # sha256 of the line ["E1", "A", "first"], computed with coreutils
        "16c52d2dbf040486854c1358cf95198944dc99a4e169c5d9e37af4414577eb35"
    )


def test_copies_are_the_corpus_itself_and_pickles_are_equal() -> None:
    corpus = Corpus(PASSAGES)
    assert copy.copy(corpus) is corpus and copy.deepcopy([corpus])[0] is corpus
    again = pickle.loads(pickle.dumps(corpus))
    assert list(again) == PASSAGES and again.fingerprint() == corpus.fingerprint()
    assert Corpus.of(corpus) is corpus and list(Corpus.of(PASSAGES)) == PASSAGES
