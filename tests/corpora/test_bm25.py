"""BM25 against the formula written out, against rank-bm25, and the two engines against each other.

rank-bm25's Okapi idf is Robertson's with a floor, so its scores are not comparable as they stand. Two comparisons are
valid and made here: with its idf table replaced by Lucene's (everything else, its term counts, lengths and
saturation, is its own; it multiplies by k1 + 1), and rankings of single-term queries whose idf the floor leaves alone,
where the idf is one factor for all passages.
"""

from __future__ import annotations

import copy
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from factgym.core.errors import ConfigError
from factgym.corpora.bm25 import Bm25sIndex, SmallBM25, passage_terms
from factgym.corpora.condense import condense, passage_sentences, query_weights
from factgym.corpora.corpus import Passage
from factgym.corpora.index import Hit
from factgym.text.folding import fold
from factgym.text.sentences import sentences
from factgym.text.words import terms

ENGINES = [SmallBM25, Bm25sIndex]
WORDS = ["refund", "days", "vendor", "audit", "leave", "notice", "the", "30", "4.2"]

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
corpora = st.lists(texts, min_size=1, max_size=9).map(
    lambda rows: [Passage(f"E{i}", "Vendor notes" if i % 3 else "", row) for i, row in enumerate(rows)]
)
queries_of = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=8).map(" ".join)


def brute_force(passages: Sequence[Passage], query: str, k: int, k1: float = 1.5, b: float = 0.75) -> list[Hit]:
    rows = [terms(f"{passage.title} {passage.text}") for passage in passages]
    vocabularies = [set(row) for row in rows]
    average = sum(map(len, rows)) / len(rows)
    hits = []
    for passage, row in zip(passages, rows, strict=True):
        score = 0.0
        for term in terms(query):
            df = sum(term in vocabulary for vocabulary in vocabularies)
            if tf := row.count(term):
                idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
                score += idf * tf / (tf + k1 * (1 - b + b * len(row) / average))
        if score > 0:
            hits.append(Hit(passage.id, score))
    return sorted(hits, key=lambda hit: -round(hit.score, 9))[:k]


def assert_same(hits: Sequence[Hit], expected: Sequence[Hit]) -> None:
    """Hold hits against all of the formula's: the same scores in order, each that of its passage.

    Passages whose scores are equal but for the order of the sum, which rounds, may come in either order.
    """
    scores = {hit.id: hit.score for hit in expected}
    assert len({hit.id for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected[: len(hits)]], rel=1e-9)
    assert [hit.score for hit in hits] == pytest.approx([scores[hit.id] for hit in hits], rel=1e-9)


@given(corpora, queries_of, st.integers(1, 10))
def test_engines_agree_with_the_formula_and_to_the_bit_with_each_other(
    passages: list[Passage], query: str, k: int
) -> None:
    small = SmallBM25(passages).search([query], k)
    assert small == Bm25sIndex(passages).search([query], k)
    expected = brute_force(passages, query, len(passages))
    assert len(small[0]) == min(k, len(expected))
    assert_same(small[0], expected)


@pytest.fixture(scope="module")
def policies(data_dir: Path) -> list[Passage]:
    """Paragraphs of real company policies."""
    passages = []
    for path in sorted((data_dir / "policies_basecamp").glob("*.md")):
        paragraphs = [part.strip() for part in path.read_text("utf-8").split("\n\n")]
        passages += [
            Passage(f"{path.stem}#{i}", path.stem, part) for i, part in enumerate(paragraphs) if len(part) > 80
        ]
    return passages


@pytest.fixture(scope="module")
def questions(policies: list[Passage]) -> list[str]:
    """Sentences drawn from them."""
    draw = random.Random("questions")
    chosen = []
    for passage in draw.sample(policies, 40):
        start, end = draw.choice(sentences(passage.text))
        chosen.append(passage.text[start:end])
    return chosen


@pytest.mark.data
def test_engines_agree_with_the_formula_on_real_policies(policies: list[Passage], questions: list[str]) -> None:
    assert len(policies) > 200
    small = SmallBM25(policies, k1=1.2, b=0.6).search(questions, 10)
    assert small == Bm25sIndex(policies, k1=1.2, b=0.6).search(questions, 10)
    for question, hits in zip(questions[:12], small, strict=False):
        assert_same(hits, brute_force(policies, question, 10, k1=1.2, b=0.6))


def rank_bm25_with_lucene_idf(passages: Sequence[Passage]) -> BM25Okapi:
    oracle = BM25Okapi([passage_terms(passage) for passage in passages], k1=1.5, b=0.75)
    for term in oracle.idf:
        df = sum(term in counts for counts in oracle.doc_freqs)
        oracle.idf[term] = math.log(1 + (oracle.corpus_size - df + 0.5) / (df + 0.5))
    return oracle


@pytest.mark.data
def test_scores_are_those_of_rank_bm25_with_lucenes_idf(policies: list[Passage], questions: list[str]) -> None:
    oracle = rank_bm25_with_lucene_idf(policies)
    engine = SmallBM25(policies)
    for question in questions:
        expected = oracle.get_scores(terms(question)) / (1.5 + 1)
        scores = {hit.id: hit.score for hit in engine.search([question], len(policies))[0]}
        assert [scores.get(passage.id, 0.0) for passage in policies] == pytest.approx(list(expected), rel=1e-9)


@pytest.mark.data
def test_single_terms_rank_as_plain_rank_bm25_ranks_them(policies: list[Passage]) -> None:
    oracle = BM25Okapi([passage_terms(passage) for passage in policies], k1=1.5, b=0.75)
    engine = Bm25sIndex(policies)
    common = [
        word for word in ("refund", "account", "basecamp", "data", "support", "law") if oracle.idf.get(word, 0) > 1
    ]
    assert len(common) >= 4
    for word in common:
        scores = [round(float(score), 9) for score in oracle.get_scores([word])]
        order = sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: (-scores[i], i))
        assert [hit.id for hit in engine.search([word], 20)[0]] == [policies[i].id for i in order[:20]]


FIVE = [
    Passage("E1", "Vacation", "Employees accrue two days of leave each month."),
    Passage("E2", "Refunds", "Refunds are paid within 30 days."),
    Passage("E3", "Refunds", "Refunds are paid within 30 days."),
    Passage("E4", "", ""),
    Passage("E5", "Vendors", "Vendors sign an addendum. Vendors are reviewed."),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_ties_fall_in_corpus_order_also_at_the_cut(engine: type[SmallBM25]) -> None:
    twins = [Passage(f"E{i}", "", "same words" if i % 2 else "other words here") for i in range(9)]
    assert [hit.id for hit in engine(twins).search(["same"], 3)[0]] == ["E1", "E3", "E5"]
    assert [hit.id for hit in engine(FIVE).search(["refunds"], 1)[0]] == ["E2"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("query", ["", "   ", "the of and", "zebra", "!!! ???", "\ud800", "\x00"])
def test_a_query_without_known_terms_has_no_hits(engine: type[SmallBM25], query: str) -> None:
    assert engine(FIVE).search([query, "vendors"], 3)[0] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_and_wordless_corpora_have_no_hits(engine: type[SmallBM25]) -> None:
    assert engine([]).search(["vendors"], 3) == [[]]
    assert engine([Passage("E1", "", "of the")]).search(["the", "vendors"], 3) == [[], []]
    assert engine(FIVE).search([], 3) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_title_counts_and_the_batch_keeps_its_order(engine: type[SmallBM25]) -> None:
    hits = engine(FIVE).search(["vacation", "addendum", "VACATION!"], 3)
    assert [[hit.id for hit in row] for row in hits] == [["E1"], ["E5"], ["E1"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_invalid_requests_are_refused(engine: type[SmallBM25]) -> None:
    with pytest.raises(ConfigError, match=r"search\(\['vendors'\], k\)"):
        engine(FIVE).search("vendors", 3)
    with pytest.raises(ConfigError, match="at least 1"):
        engine(FIVE).search(["vendors"], 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_outside_their_range_are_refused(engine: type[SmallBM25]) -> None:
    with pytest.raises(ConfigError, match="0 <= b <= 1"):
        engine(FIVE, b=1.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hostile_query_is_cut(engine: type[SmallBM25]) -> None:
    hits = engine(FIVE).search(["zebra " * 300 + "vendors", "vendors " * 1_000_000], 5)
    assert hits[0] == []
    assert [hit.id for hit in hits[1]] == ["E5"]


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_are_shared_and_pickles_search_alike(engine: type[SmallBM25]) -> None:
    index = engine(FIVE)
    index.search(["refunds vendors"], 3)
    assert copy.deepcopy(index) is index
    again = pickle.loads(pickle.dumps(index))
    assert again.search(["refunds days vendors"], 5) == index.search(["refunds days vendors"], 5)
    assert again.fingerprint() == index.fingerprint()


def test_the_fingerprint_covers_everything_the_ranking_depends_on() -> None:
    base = SmallBM25(FIVE).fingerprint()
    assert base == Bm25sIndex(FIVE).fingerprint()
    assert len({base, SmallBM25(FIVE, k1=1.2).fingerprint(), SmallBM25(FIVE[:4]).fingerprint()}) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_idf_is_lucenes(engine: type[SmallBM25]) -> None:
    index = engine(FIVE)
    assert index.idf("refunds") == pytest.approx(math.log(1 + 3.5 / 2.5))
    assert index.idf("zebra") == pytest.approx(math.log(1 + 5.5 / 0.5))


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_get_the_same_answers(engine: type[SmallBM25]) -> None:
    draw = random.Random("threads")
    passages = [Passage(f"E{i}", "", " ".join(draw.choices(WORDS, k=20))) for i in range(60)]
    queries = [" ".join(draw.choices(WORDS, k=4)) for _ in range(64)]
    expected = engine(passages).search(queries, 5)
    fresh = engine(passages)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda query: fresh.search([query], 5)[0], queries))
    assert results == expected


SCRIPT = """
from factgym.corpora.bm25 import Bm25sIndex, SmallBM25
from factgym.corpora.corpus import Passage
from factgym.corpora.condense import condense, query_weights
words = "refund vendor audit leave notice days month policy".split()
passages = [Passage(f"E{i}", "", ". ".join(f"The {w} {words[i % 5]} {words[i % 3]}" for w in words)) for i in range(20)]
for engine in (SmallBM25, Bm25sIndex):
    index = engine(passages)
    print(index.search(["policy month days refund", "vendor audit"], 7), index.fingerprint())
    print([condense(p, query_weights("audit month refund", index), 60) for p in passages])
"""


def test_the_same_bytes_under_every_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and b"E1" in outputs.pop()


# Condensed passages.

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
    passage = Passage("E1", "", "Alpha " + "filler words " * 30 + "the retention period is seven years " + "more " * 60)
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
    assert bool(text) == bool(passage_sentences(passage.text).texts)
    if "…" not in passage.text:
        for part in text.split("…"):
            assert " ".join(part.split()) in " ".join(passage.text.split())
