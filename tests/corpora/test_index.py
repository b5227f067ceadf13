"""Indexes by name and users' own ones, the errors that people meet, and fusion against an example worked out by hand."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from factgym.core.errors import ConfigError, DataError, FactgymError, MissingExtraError
from factgym.corpora.bm25 import SMALL, Bm25sIndex, SmallBM25
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError
from factgym.corpora.dense import E5, Encoder, preset_of
from factgym.corpora.index import CheckedIndex, FingerprintedIndex, Hit, HybridIndex, Index, build_index, check_index

PASSAGES = [Passage("E1", "Vacation", "Two days of leave."), Passage("E2", "Refunds", "Paid within 30 days.")]


class Mine:
    """A user's index with a fixed answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def search(self, queries: Sequence[str], k: int) -> Any:
        return self.answer


class FakeEncoder:
    """Counts letters: enough of an encoder where no model is wanted."""

    def encode(self, texts: list[str], **options: Any) -> Any:
        return np.array([[text.count(letter) for letter in "aeiou"] for text in texts], dtype=np.float32)


def test_bm25_is_small_or_large_by_the_corpus() -> None:
    many = [Passage(f"E{i}", "", "refund days") for i in range(SMALL + 1)]
    assert isinstance(build_index(PASSAGES), SmallBM25)
    assert isinstance(build_index(many[:SMALL]), SmallBM25)
    assert isinstance(build_index(many), Bm25sIndex)
    assert isinstance(build_index(Corpus(PASSAGES), "bm25s"), Bm25sIndex)


def test_options_reach_the_index() -> None:
    index = build_index(PASSAGES, "bm25", k1=1.2)
    assert isinstance(index, SmallBM25) and index.k1 == 1.2
    hybrid = build_index(PASSAGES, "hybrid", indexes=["bm25", Mine([[Hit("E1", 1.0)]])], constant=10, k1=0.9)
    assert isinstance(hybrid, HybridIndex) and hybrid.constant == 10
    assert [hit.id for hit in hybrid.search(["refunds"], 2)[0]] == ["E1", "E2"]


@pytest.mark.parametrize(
    ("index", "options", "message"),
    [
        ("bm52", {}, "Did you mean 'bm25'"),
        ("bm25", {"k": 3}, "no option 'k'.*Did you mean 'k1'"),
        ("hybrid", {"constnt": 3}, "Did you mean 'constant'"),
        ("hybrid", {"indexes": "bm25"}, "indexes is a list"),
        ("hybrid", {"indexes": ["bm25"], "preset": "e5"}, "'preset'.* belong to no index"),
        ("dense", {"preset": "e6", "encoder": FakeEncoder()}, "Did you mean 'e5'"),
        ("dense", {"encoder": 5}, "a model name, a folder or an object with encode"),
        (7, {}, "int has no search"),
        (Mine([]), {"k1": 1}, "configure your own object"),
        (lambda passages: passages, {}, "returned tuple"),
        (FakeEncoder, {}, "FakeEncoder"),
    ],
)
def test_mistakes_are_named(index: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        build_index(PASSAGES, index, **options)


@pytest.mark.parametrize("absent", ["faiss", "sentence_transformers"])
def test_a_missing_library_names_its_extra(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingExtraError, match="needs the extra 'dense'"):
        if absent == "sentence_transformers":
            Encoder("some-model", "plain")
        else:
            build_index(PASSAGES, "dense", encoder=FakeEncoder())


def test_a_choice_can_be_checked_without_building_it() -> None:
    for good, options in (("bm25", {"k1": 2}), ("dense", {"encoder": "no/such/model"}), (Mine([]), {}), (Mine, {})):
        check_index(good, **options)
    for bad, options, message in (
        ("bm26", {}, "Did you mean 'bm25'"),
        ("bm25", {"k2": 1}, "no option 'k2'"),
        (Mine([]), {"k1": 1}, "configure your own object"),
        (None, {}, "index"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_index(bad, **options)


def test_an_encoder_object_gets_prefixes_and_unit_norm() -> None:
    observed: list[str] = []

    class Recorder(FakeEncoder):
        def encode(self, texts: list[str], **options: Any) -> Any:
            observed.extend(texts)
            return super().encode(texts, **options)

    encoder = Encoder(Recorder(), "e5")
    assert np.linalg.norm(encoder.queries(["leave", "refund"]), axis=1) == pytest.approx([1, 1])
    encoder.passages(PASSAGES)
    assert observed == [
        "query: leave",
        "query: refund",
        "passage: Vacation\nTwo days of leave.",
        "passage: Refunds\nPaid within 30 days.",
    ]
    assert preset_of("e5") is E5 and E5.model == "intfloat/e5-base-v2"


def test_an_encoder_of_the_wrong_shape_is_named() -> None:
    class Flat(FakeEncoder):
        def encode(self, texts: list[str], **options: Any) -> Any:
            return np.zeros(len(texts))

    with pytest.raises(ConfigError, match=r"gave shape \(2,\) for 2 texts"):
        Encoder(Flat(), "plain").queries(["a", "b"])


def test_a_users_index_is_used_as_it_is() -> None:
    custom = Mine([[("E2", 3), Hit("E1", 1.5)]])
    index = build_index(PASSAGES, custom)
    assert isinstance(index, CheckedIndex) and index.inner is custom
    assert index.search(["anything"], 2) == [[Hit("E2", 3.0), Hit("E1", 1.5)]]
    assert isinstance(index, FingerprintedIndex) and "Mine" in index.fingerprint()


def test_a_callable_and_a_class_build_from_the_passages() -> None:
    made = build_index(PASSAGES, lambda passages: SmallBM25(passages[:1]))
    assert made.search(["leave"], 1)[0][0].id == "E1"
    of_class = build_index(PASSAGES, SmallBM25)
    assert of_class.search(["refunds"], 1)[0][0].id == "E2"
    assert isinstance(of_class, FingerprintedIndex)
    assert of_class.fingerprint() == SmallBM25(PASSAGES).fingerprint()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Mine.search gave NoneType for 1 queries"),
        ([], "gave 0 lists for 1 queries"),
        ([Hit("E1", 1.0)], "expected a pair|gave"),
        ([["E1"]], "expected a pair"),
        ([[("E1", 1.0, 2)]], "expected a pair"),
        ([[(1, 1.0)]], "expected a pair"),
        ([{"E1": 1.0}], "gave dict"),
        ([[("E9", 1.0)]], "Mine.search returned 'E9', which is no passage"),
        ([[("E1", 1.0), ("E1", 0.5)]], "'E1' twice"),
        ([[("E1", "high")]], "score 'high'"),
        ([[("E1", float("nan"))]], "score 'nan'"),
        ([[("E1", 2), ("E2", 1), ("E3", 0)]], "gave 3 hits"),
    ],
)
def test_results_of_a_users_index_are_checked(answer: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CheckedIndex(Mine(answer), Corpus(PASSAGES)).search(["query"], 2)


def test_every_index_satisfies_the_contract() -> None:
    for name in ("bm25", "bm25s", "multi-hop"):
        index = build_index(PASSAGES, name)
        assert isinstance(index, Index) and isinstance(index, FingerprintedIndex)
        assert CheckedIndex(index, Corpus(PASSAGES)).search(["leave", "days", ""], 5)[2] == []


LETTERS = [Passage(name, "", name) for name in "abcd"]


class Fixed:
    """Gives the same ranking for every query."""

    def __init__(self, ranking: str) -> None:
        self.ranking = ranking
        self.depths: list[int] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.depths.append(k)
        return [[Hit(name, 9.0 - i) for i, name in enumerate(self.ranking)][:k] for _ in queries]


def test_fusion_worked_out_by_hand() -> None:
    """First ranking c a b, second b d c.

    c: 1/61 + 1/63 = .0322664; b: 1/63 + 1/61 = the same, and earlier in the corpus; a: 1/62; d: 1/62, later.
    """
    fused = HybridIndex(LETTERS, [Fixed("cab"), Fixed("bdc")]).search(["q", "r"], 4)
    assert fused[0] == fused[1]
    assert [hit.id for hit in fused[0]] == ["b", "c", "a", "d"]
    assert [hit.score for hit in fused[0]] == pytest.approx([0.0322664585, 0.0322664585, 0.0161290323, 0.0161290323])


def test_the_constant_decides_between_one_first_place_and_two_second_places() -> None:
    parts = [Fixed("ab"), Fixed("cb")]
    assert HybridIndex(LETTERS, parts).search(["q"], 1)[0][0].id == "b"
    assert HybridIndex(LETTERS, parts, constant=0).search(["q"], 1)[0][0] == Hit("a", 1.0)


def test_depth_is_requested_from_each_index() -> None:
    part = Fixed("dcba")
    index = HybridIndex(LETTERS, [part], depth=2)
    assert [hit.id for hit in index.search(["q"], 1)[0]] == ["d"]
    assert [hit.id for hit in index.search(["q"], 3)[0]] == ["d", "c", "b"]
    assert part.depths == [2, 3]


def test_no_hits_in_any_part_give_no_hits() -> None:
    assert HybridIndex(LETTERS, [Fixed(""), Fixed("")]).search(["q"], 3) == [[]]


def test_settings_are_checked_and_fingerprinted() -> None:
    with pytest.raises(ConfigError, match="at least one index"):
        HybridIndex(LETTERS, [])
    prints = {HybridIndex(LETTERS, [Fixed("a")], constant=c).fingerprint() for c in (60, 60, 1)}
    assert len(prints) == 2


# Corpora.

LETTER_PASSAGES = [Passage("E2", "B", "second"), Passage("E1", "A", "first"), Passage("E10", "C", "\ud800 é")]


def test_order_lookup_and_membership() -> None:
    corpus = Corpus(iter(LETTER_PASSAGES))
    assert list(corpus) == LETTER_PASSAGES == list(corpus.passages)
    assert corpus.ids == ("E2", "E1", "E10")
    assert len(corpus) == 3 and "E1" in corpus and "E3" not in corpus
    assert corpus.get("E1").text == "first"


def test_an_unknown_id_is_a_lookup_error_with_a_suggestion() -> None:
    corpus = Corpus(LETTER_PASSAGES)
    with pytest.raises(UnknownPassageError, match=r"no passage 'E11' in this corpus of 3\. Did you mean 'E1"):
        corpus.get("E11")
    with pytest.raises(LookupError) as caught:
        corpus.get("x" * 1_000_000)
    assert isinstance(caught.value, FactgymError) and len(str(caught.value)) < 200


def test_a_repeated_id_is_refused() -> None:
    with pytest.raises(DataError, match="'E1'"):
        Corpus([*LETTER_PASSAGES, Passage("E1", "", "again")])


def test_fingerprint_depends_on_every_field_and_the_order() -> None:
    variants = [
        LETTER_PASSAGES,
        LETTER_PASSAGES[::-1],
        LETTER_PASSAGES[:2],
        [Passage("E2", "Bs", "econd"), *LETTER_PASSAGES[1:]],
        [Passage("E", "2B", "second"), *LETTER_PASSAGES[1:]],
        [],
    ]
    prints = [Corpus(variant).fingerprint() for variant in variants]
    assert len(set(prints)) == len(prints)
    assert all(len(digest) == 64 for digest in prints)
    assert prints[0] == Corpus(LETTER_PASSAGES).fingerprint()
    assert Corpus([Passage("E1", "A", "first")]).fingerprint() == (
        # sha256 of the line ["E1", "A", "first"], computed with coreutils
        "16c52d2dbf040486854c1358cf95198944dc99a4e169c5d9e37af4414577eb35"
    )


def test_copies_are_the_corpus_itself_and_pickles_are_equal() -> None:
    corpus = Corpus(LETTER_PASSAGES)
    assert copy.copy(corpus) is corpus and copy.deepcopy([corpus])[0] is corpus
    again = pickle.loads(pickle.dumps(corpus))
    assert list(again) == LETTER_PASSAGES and again.fingerprint() == corpus.fingerprint()
    assert Corpus.of(corpus) is corpus and list(Corpus.of(LETTER_PASSAGES)) == LETTER_PASSAGES
