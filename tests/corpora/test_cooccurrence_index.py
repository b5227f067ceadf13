"""Counts of the index: hand-checked cases, random ones against the brute-force reference, bounds, and phrases."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import random
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import CooccurrenceIndex, Counter, build_index, memory_index, open_counter, tokenize
from factgym.corpora.cooccurrence import engine as engine_module
from factgym.corpora.cooccurrence.engine import LazyModule, _after_fork, has_numba, wait_for_kernels
from tests.corpora.brute_force import brute_count

LETTERS = "ABCDE"


@pytest.fixture(params=["numpy", "numba"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both implementations of the rules; the compiled one where the extra "counting" is installed."""
    if request.param == "numba":
        pytest.importorskip("numba", reason="needs the extra 'counting'")
    return str(request.param)


CHECKED = [
    # (documents, query, window, count of the reference engine, count in clean windows)
    (["A B B B"], "AB", 1000, 1, 1),
    (["A B A B A"], "AB", 1000, 2, 2),
    (["A x x B x x C"], "ABC", 3, 1, 0),
    (["A x x B x x C"], "ABC", 6, 1, 1),
    (["A x x B x x C"], "ABC", 5, 1, 0),
    (["B", "A B"], "AB", 5, 0, 1),
    (["B x x x x x x", "A B"], "AB", 5, 1, 1),
    (["A"], "AA", 5, 1, 1),
    (["A", "B"], "AB", 1000, 0, 0),
    (["A x B"], "AB", 1, 0, 0),
    (["A x B"], "AB", 2, 1, 1),
    (["A B"], "AX", 2, 0, 0),
    ([""], "A", 2, 0, 0),
    ([], "A", 2, 0, 0),
]
"""The first six and the eighth stand in the notes on the engine, which was asked for them."""


@pytest.mark.parametrize(("documents", "query", "window", "chained", "clean"), CHECKED)
def test_hand_checked_counts(
    documents: list[str], query: str, window: int, chained: int, clean: int, engine: str
) -> None:
    for semantics, expected in (("infini-gram", chained), ("window", clean)):
        index = memory_index(documents, semantics=semantics, window=window, engine=engine)
        assert index.count(list(query)) == expected, semantics


terms = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3).map("-".join)
queries = st.lists(st.lists(terms, min_size=1, max_size=3), min_size=1, max_size=5)
documents_of = st.lists(st.lists(st.sampled_from(LETTERS + "xyz"), max_size=60), max_size=6)


@given(documents_of, queries, st.integers(1, 40), st.sampled_from(["infini-gram", "window"]))
def test_counts_are_those_of_the_plain_twin(
    documents: list[list[str]], cnf: list[list[str]], window: int, semantics: str
) -> None:
    expected = brute_count(documents, [[term.split("-") for term in clause] for clause in cnf], window, semantics)
    for engine in ("numpy", "numba") if has_numba() else ("numpy",):
        index = memory_index(map(" ".join, documents), semantics=semantics, window=window, engine=engine)
        assert index.count_cnf(cnf) == expected, engine


def long_documents(seed: int, tokens: int = 40_000) -> list[str]:
    """Documents with words of all frequencies, from one occurrence to a tenth of the text, many blocks long."""
    random = np.random.default_rng(seed)
    words = np.minimum(random.pareto(0.5, tokens) * 2, 3000).astype(int)
    lengths = random.integers(0, 2000, 80)
    return [" ".join(f"w{word}" for word in part) for part in np.split(words, np.cumsum(lengths)) if len(part) < 10_000]


@pytest.mark.parametrize("semantics", ["infini-gram", "window"])
def test_long_lists_are_counted_as_by_the_plain_twin(semantics: str, engine: str) -> None:
    """Lists of many blocks, of which the one engine searches some and merges others."""
    documents = long_documents(1, 5_000)
    tokens = [text.split() for text in documents]
    random = np.random.default_rng(2)
    for window in (3, 150):
        index = memory_index(documents, semantics=semantics, window=window, engine=engine)
        frequencies = sorted(((index.frequency(f"w{i}"), f"w{i}") for i in range(3000)), reverse=True)
        frequent, rare = [word for _, word in frequencies[:12]], [word for n, word in frequencies[12:] if n]
        for _ in range(4):
            words = [*random.choice(frequent, 2), *random.choice(rare, 1)][: int(random.integers(2, 4))]
            random.shuffle(words)
            assert index.count(words) == brute_count(tokens, [[word] for word in words], window, semantics), words


@pytest.mark.parametrize("semantics", ["infini-gram", "window"])
def test_compiled_and_plain_engine_agree(semantics: str) -> None:
    pytest.importorskip("numba", reason="needs the extra 'counting'")
    documents = long_documents(3, 150_000)
    random = np.random.default_rng(4)
    queries = [[f"w{int(word)}" for word in random.pareto(0.6, random.integers(1, 6)) * 2] for _ in range(600)]
    for window in (1, 20, 1000):
        plain, compiled = (
            memory_index(documents, semantics=semantics, window=window, engine=engine_name)
            for engine_name in ("numpy", "numba")
        )
        counts = plain.count_many(queries)
        assert np.array_equal(counts, compiled.count_many(queries))
        assert 0 < np.count_nonzero(counts) < len(counts)


def test_words_of_several_tokens_are_adjacent(engine: str) -> None:
    index = memory_index(["the Men's team won 4-2", "Men who s team 4 and 2"], semantics="window", engine=engine)
    assert index.frequency("Men") == 2
    assert index.frequency("Men's") == 1 == index.frequency("Men’s")
    assert index.count(["Men's", "4-2", "team"]) == 1
    assert index.count(["Men", "s", "team"]) == 2
    assert index.frequency("team-Men") == 0  # one ends a document, the other begins the next


def test_an_or_counts_all_its_words_and_a_shared_place_twice_or_once(engine: str) -> None:
    texts = ["A B C", "A D", "E C"]
    chained = memory_index(texts, window=1, engine=engine)
    assert chained.count_cnf([["A", "E"], ["C", "D"]]) == 2
    assert chained.count_cnf([["A", "A-B"]]) == 3
    assert memory_index(texts, window=1, semantics="window", engine=engine).count_cnf([["A", "A-B"]]) == 2
    assert chained.count_cnf([["A", "unheard"]]) == 2
    assert chained.count_cnf([["unheard"], ["A"]]) == 0


def test_a_batch_is_its_queries_one_by_one(engine: str) -> None:
    index = memory_index(long_documents(5), window=50, threads=2, engine=engine)
    queries = [["w1", "w3"], ["w2"], ["w1", "nowhere"], ["w1", "w3"], ["w0", "w1-w0"]] * 40
    counts = index.count_many(queries)
    assert counts.dtype == np.int64
    assert counts.tolist() == [index.count(query) for query in queries]
    assert index.count_many([]).tolist() == []


def test_the_cap_is_described_and_changes_no_count(engine: str) -> None:
    texts = ["A B " * 30]
    free, capped = (memory_index(texts, max_frequency=cap, engine=engine) for cap in (30, 29))
    assert free.count(["A", "B"]) == capped.count(["A", "B"]) == 30
    assert (free.describe()["max_frequency"], capped.describe()["max_frequency"]) == (30, 29)


@pytest.mark.parametrize("query", [[], [[]], [["A"], []]])
def test_an_empty_query_is_an_error(query: list[list[str]], engine: str) -> None:
    index = memory_index(["A"], engine=engine)
    with pytest.raises(ConfigError, match="at least one word"):
        index.count_cnf(query)


def test_mistakes_are_told(engine: str) -> None:
    index = memory_index(["A"], engine=engine)
    with pytest.raises(ConfigError, match="not a bare string"):
        index.count_many(["A B"])
    with pytest.raises(ConfigError, match="not a bare string"):
        index.count("AB")
    with pytest.raises(ConfigError, match="not a bare string"):
        index.count_cnf(["AB"])
    with pytest.raises(ConfigError, match="Did you mean 'window'"):
        memory_index(["A"], semantics="windows")
    for option in ("window", "max_frequency", "memory_mb", "threads"):
        with pytest.raises(ConfigError, match=f"{option} is at least 1"):
            memory_index(["A"], **{option: 0})
    with pytest.raises(ConfigError, match="case is"):
        memory_index(["A"], case="lower")  # type: ignore[arg-type]


def test_case_is_kept_or_folded() -> None:
    retained, folded = memory_index(["Rose rose ROSE"]), memory_index(["Rose rose ROSE Straße"], case="fold")
    assert retained.frequency("Rose") == 1
    assert folded.frequency("rOSE") == 3
    assert folded.frequency("STRASSE") == 1


def test_a_long_or_needs_memory_that_it_may_have() -> None:
    index = memory_index(["A B " * 40_000], memory_mb=1)
    with pytest.raises(ConfigError, match="memory_mb"):
        index.count_cnf([["A", "B"]])


def test_copies_pickles_and_fingerprints() -> None:
    index = memory_index(["A B", "B C"], window=7)
    assert isinstance(index, Counter)
    assert copy.deepcopy(index) is index
    again: CooccurrenceIndex = pickle.loads(pickle.dumps(index))
    assert again.count(["A", "B"]) == index.count(["A", "B"]) == 1
    assert again.fingerprint() == index.fingerprint() == memory_index(["A B", "B C"], window=7).fingerprint()
    remaining = [
        memory_index(["A B", "B C"], window=8),
        memory_index(["A B", "B C"], window=7, semantics="window"),
        memory_index(["A B", "C B"], window=7),
        memory_index(["A B", "B C"], window=7, case="fold"),
        memory_index(["A B B C"], window=7),
    ]
    assert index.fingerprint() not in {second_word.fingerprint() for second_word in remaining}
    assert index.describe()["tokens"] == index.tokens == 4
    assert (index.documents, index.words) == (2, 3)


def test_threads_count_alike(engine: str) -> None:
    index = memory_index(long_documents(6), window=20, engine=engine)
    queries = [[f"w{i}", f"w{i // 3}", f"w{i % 5}"] for i in range(300)]
    expected = index.count_many(queries).tolist()
    fresh = memory_index(long_documents(6), window=20, engine=engine)
    answers: list[list[int]] = []
    workers = [threading.Thread(target=lambda: answers.append(fresh.count_many(queries).tolist())) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers == [expected] * 4


@pytest.mark.parametrize("semantics", ["infini-gram", "window"])
def test_a_costly_query_is_split_between_threads(semantics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts with parts of a block of anchors and more are those of one thread, which never splits."""
    pytest.importorskip("numba", reason="needs the extra 'counting'")
    texts = long_documents(8, 40_000)
    single, threaded = (
        memory_index(texts, semantics=semantics, window=20, engine="numba", threads=threads) for threads in (1, 3)
    )
    words = sorted((f"w{i}" for i in range(200)), key=single.frequency)[-40:]
    queries = [[before, right, "w7-w8"][: 2 + (n % 2)] for n, (before, right) in enumerate(itertools.pairwise(words))]
    queries += [[words[-1]], ["nowhere", words[0]], [words[-1], words[-1]], words[-5:]]
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine._MIN_PARALLEL_COST", 50)
    part_counts: list[int] = []
    split_costly = engine_module._split_costly

    def split(
        batch: engine_module.Batch, costs: NDArray[np.int64]
    ) -> tuple[engine_module.Batch, NDArray[np.int64]] | None:
        parts = split_costly(batch, costs)
        part_counts.append(0 if parts is None else int(np.bincount(parts[1]).max()))
        return parts

    monkeypatch.setattr(engine_module, "_split_costly", split)
    for limit in (3, 90, 10**12):
        expected = single.count_up_to(queries, limit).tolist()
        assert threaded.count_up_to(queries, limit).tolist() == expected, limit
        assert [threaded.count_up_to([query], limit).item() for query in queries] == expected, limit
    assert max(part_counts) > 10
    assert max(expected) > 500


def test_counting_does_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the kernels are loaded, NumPy answers; when they are there, they do."""
    ready, calls = threading.Event(), []

    class Slow(LazyModule):
        def _load(self) -> None:
            ready.wait(60)
            self.module = types.SimpleNamespace(count_batch=lambda *args: calls.append(args))

    loading = Slow("compiled")
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.counting_module", loading)
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.has_numba", lambda: True)
    monkeypatch.setattr("factgym.corpora.cooccurrence.index.LARGE_INDEX", 1)
    index = memory_index(["A B A"])
    assert index.count(["A", "B"]) == 1
    assert loading._thread is not None
    assert loading._thread.is_alive()
    assert not wait_for_kernels(0.01)
    ready.set()
    loading.wait()
    assert wait_for_kernels(0)
    index.count(["A", "B"])
    assert len(calls) == 1


def test_a_small_index_does_not_load_numba_before_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[bool] = []
    monkeypatch.setattr(
        "factgym.corpora.cooccurrence.index.counting_kernels", lambda engine, load: requested.append(load)
    )
    index = memory_index(["A B"])
    index.count_many([["A"], ["B"]])
    assert not any(requested)
    index.count_many([[f"w{i}"] for i in range(1000)])
    assert requested[-1]


def test_worked_out_clauses_are_kept_within_the_memory() -> None:
    index = memory_index(["a b c d e f g h i j " * 2000], engine="numpy")
    index._clauses._memory = 90_000
    letters = "abcdefghij"
    for first_word, second_word in itertools.product(letters, letters):
        assert index.frequency(f"{first_word}-{second_word}") in (0, 1999, 2000)
    made = index._clauses._cache
    assert 1 < len(made) < 60
    assert sum(clause.postings.data.nbytes for clause in made.values()) <= 45_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_forked_while_numba_loads_counts_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = LazyModule("compiled")
    loading._thread = threading.Thread()
    loading._thread.start()
    monkeypatch.setattr("factgym.corpora.cooccurrence.engine.counting_module", loading)
    _after_fork([loading, LazyModule("compiled_words")])
    assert memory_index(["A B"]).count_many([["A", "B"]] * 2).tolist() == [1, 1]
    with pytest.raises(ConfigError, match="forked while numba was loading"):
        memory_index(["A B"], engine="numba")


def test_open_counter_names_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        "factgym.corpora.cooccurrence.index.InfinigramCounter",
        lambda path, **options: opened.append((path, options)) or memory_index([]),
    )
    open_counter("infini-gram:some/where", window=9)
    assert opened == [("some/where", {"window": 9})]
    with pytest.raises(DataError, match="cannot be read"):
        open_counter(tmp_path / "nothing")


@given(st.text(max_size=200))
def test_words_do_not_depend_on_their_neighbours(text: str) -> None:
    """Splitting is local: text beside a separator yields the same words, ASCII (a path of its own) or not."""
    assert tokenize(f"{text} — é") == [*tokenize(text), "é"]


def test_tokenize_as_documented() -> None:
    text = "Men's 4-2 win over the U.S. on 1,000 m² snake_case"
    assert tokenize(text) == [
        "Men",
        "s",
        "4",
        "2",
        "win",
        "over",
        "the",
        "U",
        "S",
        "on",
        "1",
        "000",
        "m2",
        "snake",
        "case",
    ]
    assert tokenize("東京タワー in Tokyo") == [*"東京タワー", "in", "Tokyo"]
    assert tokenize("cafe\u0301 हिन्दी") == ["café", "हिन्दी"]
    assert tokenize("– … —") == []


queries_of = st.lists(st.lists(terms, min_size=1, max_size=5), min_size=1, max_size=4)
SEMANTICS = ["infini-gram", "window"]


@given(documents_of, queries_of, st.integers(1, 40), st.sampled_from(SEMANTICS), st.integers(1, 30))
def test_a_bounded_count_is_the_smaller_of_bound_and_count(
    documents: list[list[str]], queries: list[list[str]], window: int, semantics: str, bound: int
) -> None:
    counts = [brute_count(documents, [[term.split("-")] for term in query], window, semantics) for query in queries]
    for engine_name in ("numpy", "numba") if has_numba() else ("numpy",):
        index = memory_index(map(" ".join, documents), semantics=semantics, window=window, engine=engine_name)
        assert index.count_up_to(queries, bound).tolist() == [min(count, bound) for count in counts], engine_name
        assert index.count_many(queries).tolist() == counts, engine_name


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_long_lists_are_read_in_growing_steps_to_the_bound(semantics: str, engine: str) -> None:
    """Bounds below, at and above what the first step of anchors, the next ones and all of them find."""
    index = memory_index(long_documents(11, 150_000), semantics=semantics, window=40, engine=engine)
    words = sorted((f"w{i}" for i in range(60)), key=index.frequency)[-16:]
    queries = [list(pair) for pair in itertools.combinations(words, 2)]
    counts = index.count_many(queries)
    assert counts.max() > 3000 > 700 > counts.min()
    for bound in (1, 20, 64, 700, int(np.median(counts)), int(counts.max()), 10**15):
        assert np.array_equal(index.count_up_to(queries, bound), np.minimum(counts, bound)), bound


def test_phrases_of_every_frequency_are_those_of_the_text(engine: str) -> None:
    """Pairs and triples of words that the engine finds by its filter, by search and in a last block, all at once."""
    documents = long_documents(12, 60_000)
    tokens = [text.split() for text in documents]
    occurrences: dict[str, int] = {}
    for text in tokens:
        for size in (2, 3):
            for position in range(len(text) - size + 1):
                phrase = "-".join(text[position : position + size])
                occurrences[phrase] = occurrences.get(phrase, 0) + 1
    phrases = sorted(occurrences, key=lambda phrase: -occurrences[phrase])
    chosen = [*phrases[:80], *phrases[80 :: len(phrases) // 200], "w0-w0-w0-w0", "w2999-w0", "w0-w2999", "w0-nowhere"]
    index = memory_index(documents, engine=engine, threads=2)
    expected = [
        brute_count(tokens, [[phrase.split("-")]]) if phrase.count("-") == 3 else occurrences.get(phrase, 0)
        for phrase in chosen
    ]
    assert index.count_many([[phrase] for phrase in chosen]).tolist() == expected
    assert expected[0] > 500


def test_the_kernels_cache_is_bounded() -> None:
    pytest.importorskip("numba", reason="needs the extra 'counting'")
    letters = "abcdefghij"
    texts = [" ".join(letters) + " " + " ".join(letters[::2]) * 2] * 300
    index, plain = (memory_index(texts, engine=engine_name) for engine_name in ("numba", "numpy"))
    index._clauses._memory = 60_000
    phrases = [f"{first_word}-{second_word}" for first_word, second_word in itertools.product(letters, letters)]
    for phrase in phrases:
        assert (
            index.count_many([[phrase, "a"], [phrase]]).tolist() == plain.count_many([[phrase, "a"], [phrase]]).tolist()
        )
        assert index._clauses.table().nbytes <= 30_000
    with pytest.raises(ConfigError, match="larger memory_mb"):
        index._clauses._memory = 1_000
        index.count(["a-b-c"])


@pytest.mark.parametrize("bound", [0, -3])
def test_a_bound_is_at_least_one(bound: int) -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        memory_index(["A"]).count_up_to([["A"]], bound)


needs_numba = pytest.mark.skipif(not has_numba(), reason="compiled kernels need the extra counting")

SHARES = {"a": 0.3, "b": 0.1, "c": 0.02, "d": 0.004, "e": 0.0008, "f": 0.0001}
"""Neighbours differ by factors of 3 to 8, others of up to 3,000."""


def skewed_corpus() -> list[list[str]]:
    rng = random.Random(3)
    words, weights = [*SHARES, "z"], [*SHARES.values(), 1 - sum(SHARES.values())]
    return [rng.choices(words, weights, k=rng.randrange(1, 400)) for _ in range(600)]


DOCUMENTS = skewed_corpus()
PAIRS = ["-".join(pair) for pair in itertools.product(SHARES, repeat=2)]


@pytest.fixture(scope="module")
def fast() -> CooccurrenceIndex:
    return memory_index([" ".join(document) for document in DOCUMENTS], engine="numba")


@needs_numba
def test_phrases_occur_where_their_words_are_adjacent(fast: CooccurrenceIndex) -> None:
    phrases = [*PAIRS, "a-b-a", "c-a-a", "a-a-d", "b-c-z", "e-a-b"]
    for phrase in phrases:
        parts = phrase.split("-")
        by_hand = sum(document[i : i + len(parts)] == parts for document in DOCUMENTS for i in range(len(document)))
        assert fast.count_many([[phrase]])[0] == by_hand, phrase
        assert fast.count_up_to([[phrase]], 7)[0] == min(by_hand, 7)


@needs_numba
@pytest.mark.parametrize("semantics", ["infini-gram", "window"])
def test_both_engines_count_alike_for_every_ratio_of_frequencies(semantics: str) -> None:
    texts = [" ".join(document) for document in DOCUMENTS]
    fast, plain = (
        memory_index(texts, engine=engine, semantics=semantics, window=30)  # type: ignore[arg-type]
        for engine in ("numba", "numpy")
    )
    rng = random.Random(5)
    terms = [*SHARES, *PAIRS]
    queries = [rng.sample(terms, rng.randrange(2, 5)) for _ in range(150)]
    queries += [list(pair) for pair in itertools.permutations(SHARES, 2)]
    for bound in (1, 20, 1 << 40):
        assert fast.count_up_to(queries, bound).tolist() == plain.count_up_to(queries, bound).tolist()


# The plain twin of the counting rules: examples worked by hand.

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


def test_terms_of_several_tokens_are_adjacent_in_one_document():
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
def test_impossible_queries(cnf, window, semantics):
    with pytest.raises(ConfigError):
        brute_count(docs("A"), cnf, window, semantics)


TERM = st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=2).map(" ".join)
CNF = st.lists(st.lists(TERM, min_size=1, max_size=2), min_size=1, max_size=5)
CORPUS = st.lists(st.lists(st.sampled_from("ABCDEx"), max_size=25), max_size=8)


@given(CORPUS, CNF, st.integers(1, 30), st.sampled_from(["infini-gram", "window"]))
def test_the_index_counts_as_the_plain_rules_do(corpus, cnf, window, semantics):
    index = memory_index([" ".join(document) for document in corpus], window=window, semantics=semantics)
    split = [[tokenize(term) for term in clause] for clause in cnf]
    assert index.count_cnf(cnf) == brute_count(corpus, split, window, semantics)


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, list[list[list[str]]]]:
    """A folder of three indexes, and the documents of each."""
    rng = random.Random(3)
    documents = [[[rng.choice(LETTERS) for _ in range(rng.randrange(1, 30))] for _ in range(6)] for _ in range(3)]
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(documents):
        texts = ((str(index), " ".join(words)) for index, words in enumerate(part))
        build_index(texts, tmp_path / "parts" / f"{number}.cooc", workers=1)
    return tmp_path / "parts", documents


@pytest.mark.parametrize("semantics", ["infini-gram", "window"])
def test_a_folder_counts_the_sum_of_its_indexes(parts, semantics):
    """The twin is brute force over each part."""
    folder, documents = parts
    counter = open_counter(folder, semantics=semantics, window=4)
    queries = [list(words) for size in (1, 2, 3) for words in itertools.product(LETTERS, repeat=size)]
    expected = [
        sum(brute_count(part, [[word] for word in words], 4, semantics) for part in documents) for words in queries
    ]
    assert counter.count_many(queries).tolist() == expected
    assert counter.count_up_to(queries, 7).tolist() == [min(7, count) for count in expected]
    assert counter.frequency("A") == expected[0] == counter.count(["A"]) == counter.count_cnf([["A"]])
    assert pickle.loads(pickle.dumps(counter)).fingerprint() == counter.fingerprint()
    assert counter.describe()["tokens"] == sum(len(words) for part in documents for words in part)


def test_a_folder_of_a_foreign_file_or_of_none_is_an_error(parts, tmp_path):
    folder, _ = parts
    fingerprint = open_counter(folder).fingerprint()
    (folder / "2.cooc").rename(folder / "a.cooc")
    assert open_counter(folder).fingerprint() == fingerprint
    (folder / "notes.txt").write_text("not an index")
    with pytest.raises(DataError, match=r"notes\.txt"):
        open_counter(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="corpus index"):
        open_counter(tmp_path / "empty")
