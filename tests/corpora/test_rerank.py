"""Reranking with an object, without libraries; with a cross-encoder, against `CrossEncoder.rank` of sentence-transformers.

The cross-encoder is a tiny BERT with random weights and a tiny vocabulary, which the test makes.
"""

from __future__ import annotations

import json
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

from factgym.cli.main import main
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import FingerprintedIndex, Hit, build_index
from factgym.corpora.rerank import Reranker, RerankIndex
from factgym.corpora.retrieved import RetrievedCorpus

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

_draw = random.Random("rerank")
PASSAGES = [Passage(f"P{i}", WORDS[i % 11], " ".join(_draw.choices(WORDS, k=6))) for i in range(60)]
PASSAGES += [Passage(f"twin{i}", PASSAGES[i].title, PASSAGES[i].text) for i in range(10)]
QUERIES = ["refund notice", "laptop audit days", "monthly leave", "flight", ""]


class Overlap:
    """Scores a pair by the share of the query's words that the passage has; remembers what it was given."""

    def __init__(self, result: Any = None) -> None:
        self.batches: list[list[tuple[str, str]]] = []
        self.result = result

    def predict(self, pairs: list[tuple[str, str]]) -> Any:
        self.batches.append(pairs)
        if self.result is not None:
            return self.result
        shared = [len(set(query.split()) & set(passage.split())) / len(query.split()) for query, passage in pairs]
        return np.array(shared, dtype=np.float32)


def test_an_object_orders_the_candidates_and_ties_fall_in_corpus_order() -> None:
    scorer = Overlap()
    index = build_index(PASSAGES, "rerank", reranker=scorer, depth=20)
    assert isinstance(index, RerankIndex) and isinstance(index, FingerprintedIndex)
    results = index.search(QUERIES, 5)
    assert len(scorer.batches) == 1, "a batch of queries is one call"
    corpus = Corpus(PASSAGES)
    for query, hits, first in zip(QUERIES, results, SmallBM25(PASSAGES).search(QUERIES, 20), strict=True):
        passages = [corpus.get(hit.id) for hit in first]
        share = {
            p.id: len(set(query.split()) & set(f"{p.title} {p.text}".split())) / len(query.split()) for p in passages
        }
        expected = sorted(share, key=lambda id_: (-round(share[id_], 5), corpus.position(id_)))[:5]
        assert [hit.id for hit in hits] == expected
        assert [hit.score for hit in hits] == pytest.approx([share[id_] for id_ in expected], abs=1e-5)
    assert results[4] == [] and index.search([], 3) == []


def test_a_pair_is_scored_once_and_texts_are_bounded() -> None:
    scorer = Overlap()
    passages = [Passage("a", "", "refund \ud800" + "x" * 100_000), Passage("b", "", "refund")]
    index = build_index(passages, "rerank", reranker=scorer)
    assert index.search(["refund", "refund"], 1) == [[Hit("a", 1.0)]] * 2
    assert sorted(len(passage) for _, passage in scorer.batches[0]) == [6, 32_768]
    index.search(["refund \udfff" + "y" * 100_000], 1)
    assert {len(query) for query, _ in scorer.batches[1]} == {16_384}
    assert all(text.isascii() for batch in scorer.batches for pair in batch for text in pair)


def test_depth_is_requested_of_the_base_and_more_where_more_is_wanted() -> None:
    depths: list[int] = []

    class Base:
        def search(self, queries: Any, k: int) -> Any:
            depths.append(k)
            return [[(passage.id, 1.0) for passage in PASSAGES[:k]] for _ in queries]

    index = build_index(PASSAGES, "rerank", base=Base(), reranker=Overlap(), depth=4)
    assert [len(index.search(["leave"], k)[0]) for k in (2, 9)] == [2, 9]
    assert depths == [4, 9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reranker": 5}, "an object with predict"),
        ({"reranker": Overlap(), "depth": 0}, "depth is a whole number"),
        ({"reranker": Overlap(), "depth": True}, "depth is a whole number"),
        ({"reranker": "some/model", "batch_size": 0}, "batch_size is a whole number"),
        ({"reranker": Overlap(), "depht": 3}, "Did you mean 'depth'"),
        ({"reranker": Overlap(), "encoder": "x"}, "no option 'encoder'"),
        ({"reranker": Overlap(), "base": "bm26"}, "Did you mean 'bm25'"),
        ({"reranker": Overlap(), "base": "bm25", "k1": -1}, "k1 >= 0"),
        ({"reranker": Overlap(np.zeros((3, 2)))}, r"shape \(3, 2\) for 4 pairs"),
        ({"reranker": Overlap([float("nan")] * 4)}, "not finite"),
        ({"reranker": Overlap(["high"] * 4)}, "expected one number each"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_index(PASSAGES[:4], "rerank", **options).search(["leave refund audit vendor"], 1)


def test_passages_that_are_elsewhere_are_reranked_from_the_hits() -> None:
    class Own:
        def search(self, queries: Sequence[str], k: int) -> Any:
            texts = {"a": "refund", "b": "refund notice", "c": "notice"}
            return [[{"document": {"id": id_, "text": text, "title": ""}} for id_, text in texts.items()][:k]]

    corpus = RetrievedCorpus(own := Own())
    index = build_index(corpus, "rerank", base=own, reranker=Overlap())
    assert [hit.id for hit in index.search(["refund notice"], 3)[0]] == ["b", "a", "c"]
    hops = build_index(corpus, "multi-hop", base=own)
    assert [hit.id for hit in hops.search(["refund notice"], 2)[0]] == ["a", "b"]
    for name in ("rerank", "late", "multi-hop"):
        with pytest.raises(ConfigError, match="are not here to be indexed"):
            build_index(corpus, name)


def test_the_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'dense'"):
        build_index(PASSAGES, "rerank", reranker="some/model")


# With a cross-encoder.


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_bert(tmp_path_factory.mktemp("cross-encoder"), num_labels=1)


def test_it_ranks_as_sentence_transformers_does(cross_encoder: str) -> None:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    theirs = CrossEncoder(cross_encoder)
    distinct = PASSAGES[:60]
    index = build_index(distinct, "rerank", reranker=cross_encoder, depth=60)
    corpus = Corpus(distinct)
    for query, hits in zip(QUERIES[:4], index.search(QUERIES[:4], 60), strict=True):
        candidates = SmallBM25(distinct).search([query], 60)[0]
        ids = sorted((hit.id for hit in candidates), key=corpus.position)
        documents = [f"{corpus.get(id_).title}\n{corpus.get(id_).text}" for id_ in ids]
        ranked = theirs.rank(query, documents, activation_fn=Identity())
        assert [hit.score for hit in hits] == pytest.approx([row["score"] for row in ranked], abs=2e-5)
        scores = {ids[row["corpus_id"]]: row["score"] for row in ranked}
        assert {hit.id for hit in hits} == set(ids)
        assert [scores[hit.id] for hit in hits] == pytest.approx([hit.score for hit in hits], abs=2e-5)
    assert len({hit.score for hit in hits}) > 5


def test_batches_threads_and_pickles_give_the_same_hits(cross_encoder: str) -> None:
    index = build_index(PASSAGES, "rerank", reranker=cross_encoder, batch_size=7)
    batched = index.search(QUERIES, 8)
    assert [[hit.id for hit in index.search([query], 8)[0]] for query in QUERIES] == [
        [hit.id for hit in hits] for hits in batched
    ]
    for hits in batched:
        ranks = {hit.id: rank for rank, hit in enumerate(hits)}
        assert all(ranks[f"P{i}"] < ranks[f"twin{i}"] for i in range(10) if {f"P{i}", f"twin{i}"} <= ranks.keys())
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: index.search(QUERIES, 8), range(4))) == [batched] * 4
    again = pickle.loads(pickle.dumps(index))
    assert again.search(QUERIES, 8) == batched and again.fingerprint() == index.fingerprint()


def test_a_model_is_shared_and_counts_by_its_content(cross_encoder: str, tmp_path: Path) -> None:
    assert Reranker.shared(cross_encoder) is Reranker.shared(cross_encoder)
    other = save_bert(tmp_path / "other", num_labels=1, hidden_act="relu")
    prints = {
        build_index(PASSAGES[:9], "rerank", reranker=model, depth=depth).fingerprint()
        for model, depth in ((cross_encoder, 5), (other, 5), (cross_encoder, 6), (cross_encoder, 5))
    }
    assert len(prints) == 3
    assert Reranker.shared(cross_encoder).name.startswith("folder:")


def test_a_model_that_scores_no_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BertModel, an encoder: a reranker is a cross-encoder"):
        Reranker(save_bert(tmp_path / "encoder", "BertModel"))
    with pytest.raises(ConfigError, match="gives 3 scores for a pair"):
        Reranker(save_bert(tmp_path / "three", num_labels=3))
    with pytest.raises(ConfigError, match=r"reranker: .*nothing-here does not exist"):
        Reranker(tmp_path / "nothing-here")


def test_the_commands(
    cross_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{passage.id}\t{passage.text}\t{passage.title}\n" for passage in PASSAGES)
    (tmp_path / "passages.tsv").write_text("id\ttext\ttitle\n" + rows, "utf-8")
    monkeypatch.chdir(tmp_path)
    expected = build_index(PASSAGES, "rerank", reranker=cross_encoder).search(["refund notice"], 2)[0]
    words = ["factgym", "corpus", "search", "passages.tsv", "refund notice", "-k", "2", "--index", "rerank", "--json"]
    for model, code in ((cross_encoder, 0), ("./nothing", 2)):
        monkeypatch.setattr(sys, "argv", [*words, "--set", f"reranker={model}"])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == code
    streams = capsys.readouterr()
    assert [json.loads(line)["id"] for line in streams.out.splitlines()] == [hit.id for hit in expected]
    assert "reranker: nothing does not exist" in streams.err
