"""Late interaction: an object worked out by hand; a model against brute force, and the similarity of sentence-transformers.

The model is a tiny BERT with random weights and a random projection, which the test saves as a `MultiVectorEncoder`.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_bert import WORDS, save_bert

import factgym.corpora.late
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import FingerprintedIndex, Hit, build_index
from factgym.corpora.late import LateEncoder, LateIndex, shared_late_encoder

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

_draw = random.Random("late")
PASSAGES = [Passage(f"P{i}", WORDS[i % 11], " ".join(_draw.choices(WORDS, k=3 + i % 9))) for i in range(300)]
PASSAGES += [Passage(f"twin{i}", PASSAGES[i].title, PASSAGES[i].text) for i in range(10)]
QUERIES = ["refund notice", "laptop audit days", "monthly leave", "flight", " "]


class Letters:
    """A vector of two numbers for each word: its length and its count of the letter a."""

    def vectors(self, texts: list[str]) -> list[Any]:
        return [np.array([[len(word), word.count("a")] for word in text.split()]).reshape(-1, 2) for text in texts]

    def encode_query(self, texts: list[str], **options: Any) -> Any:
        return self.vectors(texts)

    def encode_document(self, texts: list[str], **options: Any) -> Any:
        return self.vectors(texts)


def test_scores_are_worked_out_by_hand() -> None:
    """Query "aa b": (2, 2), (1, 0). p: (3, 0), (1, 1): max(6, 4) + max(3, 1) = 9; q: (2, 2): 8 + 2 = 10; r has no token."""
    passages = [Passage("p", "", "ccc a"), Passage("q", "", "aa"), Passage("r", "", ""), Passage("s", "", "aa")]
    index = build_index(passages, "late", model=Letters())
    assert isinstance(index, LateIndex) and isinstance(index, FingerprintedIndex)
    assert index.search(["aa b", ""], 9) == [[Hit("q", 10), Hit("s", 10), Hit("p", 9), Hit("r", 0)], []]
    assert index.search(["aa b"], 1) == [[Hit("q", 10)]]
    of_base = build_index(passages, "late", model=Letters(), base="bm25", k1=1.0)
    assert of_base.search(["aa b ccc"], 9)[0] == [Hit("p", 18), Hit("q", 16), Hit("s", 16)]
    assert build_index([], "late", model=Letters()).search(["aa"], 2) == [[]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 5}, "an object with encode_query"),
        ({"model": Letters(), "depth": 0}, "depth is a whole number"),
        ({"model": Letters(), "modle": 1}, "Did you mean 'model'"),
        ({"model": Letters(), "k1": 1}, "no option 'k1'"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_index(PASSAGES[:4], "late", **options)


def test_arrays_of_other_shapes_and_too_large_corpora_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flat(Letters):
        def encode_document(self, texts: list[str], **options: Any) -> Any:
            return np.zeros((len(texts), 2))

    with pytest.raises(ConfigError, match=r"arrays of shapes .* for 4 texts"):
        build_index(PASSAGES[:4], "late", model=Flat())
    monkeypatch.setattr(factgym.corpora.late, "MAX_VECTOR_BYTES", 100)
    with pytest.raises(ConfigError, match="name a base"):
        build_index(PASSAGES[:40], "late", model=Letters())


def test_the_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'late-interaction'"):
        build_index(PASSAGES, "late", model="some/model")


# With a model.


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> str:
    encoder = save_bert(tmp_path_factory.mktemp("bert"), "BertModel")
    sentence_transformers = pytest.importorskip("sentence_transformers", minversion="6", reason="needs the extra")
    folder = tmp_path_factory.mktemp("colbert")
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng():
        # The library draws the projection.
        torch.manual_seed(11)
        sentence_transformers.MultiVectorEncoder(encoder, device="cpu").save_pretrained(str(folder))
    return str(folder)


def brute_force(query: Any, passage: Any) -> float:
    return sum(max(float(np.dot(own, other)) for other in passage) for own in query)


def test_it_ranks_as_brute_force_and_the_library_do(colbert: str) -> None:
    from sentence_transformers import MultiVectorEncoder

    model = MultiVectorEncoder(colbert, device="cpu")
    queries = model.encode_query(QUERIES[:4], convert_to_numpy=True)
    texts = [f"{passage.title}\n{passage.text}" for passage in PASSAGES]
    documents = model.encode_document(texts, convert_to_numpy=True)
    theirs = np.asarray(model.similarity(queries, documents))
    results = build_index(PASSAGES, "late", model=colbert).search(QUERIES, len(PASSAGES))
    position = Corpus(PASSAGES).position
    for query, row, hits in zip(queries, theirs, results[:4], strict=True):
        assert [hit.score for hit in hits] == pytest.approx(sorted(row.tolist(), reverse=True), abs=2e-5)
        for hit in (*hits[:20], hits[-1]):
            assert hit.score == pytest.approx(brute_force(query, documents[position(hit.id)]), abs=2e-5)
        ranks = {hit.id: (hit.score, rank) for rank, hit in enumerate(hits)}
        assert len(ranks) == 310
        for i in range(10):
            # A twin that was encoded in another batch may differ in its last digit, and then in its rank.
            (score, rank), (score_of_twin, rank_of_twin) = ranks[f"P{i}"], ranks[f"twin{i}"]
            assert score == pytest.approx(score_of_twin, abs=2e-5)
            assert rank < rank_of_twin or score != score_of_twin
    assert results[4] == []


def test_candidates_of_a_base_have_the_same_scores(colbert: str) -> None:
    full = build_index(PASSAGES, "late", model=colbert).search(QUERIES, len(PASSAGES))
    depths: list[int] = []

    class Base:
        def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            depths.append(k)
            return SmallBM25(PASSAGES).search(queries, k)

    results = build_index(PASSAGES, "late", model=colbert, base=Base(), depth=30).search(QUERIES, 8)
    assert depths == [30]
    for query, hits, all_hits in zip(QUERIES, results, full, strict=True):
        candidates = {hit.id for hit in SmallBM25(PASSAGES).search([query], 30)[0]}
        assert [hit.id for hit in hits] == [hit.id for hit in all_hits if hit.id in candidates][:8]


def test_batches_threads_and_pickles_give_the_same_hits(colbert: str) -> None:
    index = build_index(PASSAGES, "late", model=colbert, batch_size=7)
    batched = index.search(QUERIES, 8)
    assert [index.search([query], 8)[0] for query in QUERIES] == batched
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: index.search(QUERIES, 8), range(4))) == [batched] * 4
    again = pickle.loads(pickle.dumps(index))
    assert again.search(QUERIES, 8) == batched and again.fingerprint() == index.fingerprint()
    assert shared_late_encoder(colbert) is shared_late_encoder(colbert)
    others = [build_index(PASSAGES, "late", model=colbert, base="bm25", depth=depth) for depth in (5, 6)]
    assert len({made.fingerprint() for made in (index, *others)}) == 3  # type: ignore[attr-defined]


def test_a_model_without_a_trained_projection_is_refused(colbert: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="was not trained for late interaction"):
        LateEncoder(save_bert(tmp_path / "encoder", "BertModel"))
    with pytest.raises(ConfigError, match=r"no model at .*nothing-here"):
        LateEncoder(tmp_path / "nothing-here")
