"""Late interaction: an object worked out by hand; a model against brute force, and the similarity of sentence-transformers.

The model is a tiny BERT with random weights and a random projection, which the test saves as a `MultiVectorEncoder`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_bert import WORDS, save_bert

import factgym.corpora.late
from factgym.cli.main import main
from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.dense import SCORE_DIGITS
from factgym.corpora.encode import encode_corpus, is_encoded
from factgym.corpora.index import FingerprintedIndex, Hit, build_index
from factgym.corpora.late import LateEncoder, LateIndex
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_writer import SourcedPassage, write_corpus

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


# On disk.


class Hashed(Letters):
    """A vector for each word, drawn from its bytes. delay: seconds of a call; for_queries: passages are refused."""

    def __init__(self, delay: float = 0, for_queries: bool = False) -> None:
        self.delay, self.for_queries = delay, for_queries

    def vectors(self, texts: list[str]) -> list[Any]:
        rows = ([np.random.default_rng(list(word.encode())).normal(size=6) for word in text.split()] for text in texts)
        return [np.array(of_text).reshape(-1, 6) for of_text in rows]

    def encode_document(self, texts: list[str], **options: Any) -> Any:
        assert not self.for_queries, "a passage is encoded"
        time.sleep(self.delay)
        return self.vectors(texts)


def write(path: Path, count: int = 1300) -> StoredCorpus:
    passages = [dataclasses.replace(PASSAGES[i % 310], id=f"{i}") for i in range(count - 1)] + [
        Passage("empty", "", "")
    ]
    write_corpus(map(SourcedPassage, passages), path, source="test")
    return StoredCorpus(path)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> StoredCorpus:
    corpus = write(tmp_path_factory.mktemp("late") / "corpus")
    encode_corpus(corpus, LateEncoder(Hashed()))
    return corpus


def test_rankings_equal_brute_force_over_the_rows_on_disk(encoded: StoredCorpus) -> None:
    """The twin reads the files with NumPy alone; each passage is there four times, so that ties are many."""
    rows = np.load(encoded.path / "late" / "vectors.npy").astype(np.float64)
    starts = np.load(encoded.path / "late" / "starts.npy")
    assert rows.shape[1] == 6 and len(starts) == 1301 and starts[-1] == len(rows)
    index = build_index(encoded, "late", model=Hashed(for_queries=True))
    assert isinstance(index, LateIndex)
    queries = [*QUERIES, "days refund " * 30]
    for k in (1, 7, 5000):
        results = pickle.loads(pickle.dumps(index)).search(queries, k)
        assert results[4] == []
        for query, hits in zip(queries, results, strict=True):
            if query.strip():
                (vectors,) = (row.astype(np.float32) for row in Hashed().vectors([query]))
                scores = [brute_force(vectors, rows[a:b]) for a, b in itertools.pairwise(starts)]
                order = sorted(range(1300), key=lambda i: (-round(scores[i], SCORE_DIGITS), i))[:k]
                assert [hit.id for hit in hits] == [encoded.id_at(i) for i in order]
                assert [hit.score for hit in hits] == pytest.approx([scores[i] for i in order], abs=2e-5)
    # In memory, in shards and behind another index: the same scores.
    in_memory = build_index(list(encoded), "late", model=Hashed())
    assert in_memory.search(queries, 9) == index.search(queries, 9)
    assert in_memory.fingerprint() == index.fingerprint()  # type: ignore[attr-defined]
    parts = [index.shard(*bounds).search(queries, 9) for bounds in ((0, 500), (500, 501), (501, 1300))]
    for hits, *of_parts in zip(index.search(queries, 9), *parts, strict=True):
        assert sorted((hit for own in of_parts for hit in own), key=lambda hit: -hit.score)[:9] == hits
    reranked, computed = (
        build_index(corpus, "late", model=model, base="bm25", depth=1300)
        for corpus, model in ((encoded, Hashed(for_queries=True)), (list(encoded), Hashed()))
    )
    assert reranked.search(queries[:3], 9) == computed.search(queries[:3], 9)
    assert pickle.loads(pickle.dumps(reranked)).search(queries[:1], 9) == computed.search(queries[:1], 9)
    with pytest.raises(ConfigError, match="corpus encode CORPUS --late"):
        in_memory.shard(0, 3)  # type: ignore[attr-defined]


def test_a_killed_encoding_resumes_to_the_same_bytes(encoded: StoredCorpus, tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus")
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import test_late as t; "
        "t.encode_corpus(t.StoredCorpus(sys.argv[1]), t.LateEncoder(t.Hashed(0.1)),"
        " progress=lambda p: print(p.done, flush=True))"
    )
    command = [sys.executable, "-c", program, str(corpus.path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"256\n"
        process.send_signal(signal.SIGKILL)
    assert not (corpus.path / "late").exists()
    with (corpus.path / ".late.partial" / "vectors.npy").open("ab") as file:
        file.write(b"torn")
    resumed: list[int] = []
    encode_corpus(corpus, LateEncoder(Hashed()), progress=lambda p: resumed.append(p.resumed))
    assert resumed[0] >= 256
    for name in ("vectors.npy", "starts.npy", "manifest.json", "page_sums.npy"):
        assert (corpus.path / "late" / name).read_bytes() == (encoded.path / "late" / name).read_bytes()


def test_other_models_and_corpora_and_damage_are_refused(encoded: StoredCorpus, tmp_path: Path) -> None:
    for model, message in ((Letters(), "--force"), ("no/such-model", "not of 'no/such-model'"), (None, "give model=")):
        with pytest.raises(ConfigError, match=message):
            build_index(encoded, "late", **({} if model is None else {"model": model}))
    with pytest.raises(ConfigError, match="--force"):
        encode_corpus(encoded, LateEncoder(Letters()))
    assert is_encoded(encoded, Hashed(), None) and not is_encoded(encoded, Letters(), None)
    other = write(tmp_path / "other", 5)
    shutil.copytree(encoded.path / "late", other.path / "late")
    with pytest.raises(DataError, match="another corpus"):
        build_index(other, "late", model=Hashed())
    corpus = write(tmp_path / "corpus", 40)
    encode_corpus(corpus, LateEncoder(Hashed()))
    expected, rng = build_index(corpus, "late", model=Hashed()).search(QUERIES, 5), random.Random(5)
    for file in sorted((corpus.path / "late").iterdir()):
        raw = file.read_bytes()
        for _ in range(50):
            damaged = bytearray(raw)
            damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            try:
                assert build_index(corpus, "late", model=Hashed()).search(QUERIES, 5) == expected
            except DataError as error:
                assert "corpus encode" in str(error) and "--late" in str(error)
        file.write_bytes(raw[: len(raw) // 2])
        with pytest.raises(DataError, match="corpus encode"):
            build_index(corpus, "late", model=Hashed())
        file.write_bytes(raw)

    class Large(Hashed):
        def vectors(self, texts: list[str]) -> list[Any]:
            return [1e6 * rows for rows in super().vectors(texts)]

    with pytest.raises(DataError, match="half precision"):
        encode_corpus(corpus, LateEncoder(Large()), replace=True)


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
    documents = [rows.astype(np.float16).astype(np.float32) for rows in documents]
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
    assert LateEncoder.shared(colbert) is LateEncoder.shared(colbert)
    others = [build_index(PASSAGES, "late", model=colbert, base="bm25", depth=depth) for depth in (5, 6)]
    assert len({made.fingerprint() for made in (index, *others)}) == 3  # type: ignore[attr-defined]


def test_a_model_without_a_trained_projection_is_refused(colbert: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="was not trained for late interaction"):
        LateEncoder(save_bert(tmp_path / "encoder", "BertModel"))
    with pytest.raises(ConfigError, match=r"model: .*nothing-here does not exist"):
        LateEncoder(tmp_path / "nothing-here")


def test_commands_encode_describe_search_and_serve(
    colbert: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    from retrieval_served import serving

    corpus = write(tmp_path / "corpus", 60)

    def output(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["factgym", "corpus", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert (stop.value.code or 0) == code
        captured = capfd.readouterr()
        return captured.out + captured.err

    expected = [hit.id for hit in build_index(list(corpus), "late", model=colbert).search(QUERIES[:1], 3)[0]]
    encode = ["encode", str(corpus.path), "--late", "--encoder", colbert]
    assert "60 passages" in output(*encode)
    assert "already" in output(*encode)
    assert "60 passages" in output(*encode, "--force", "--device", "cpu,cpu")
    assert "--late" in output(*encode, "--preset", "e5", code=2)
    assert "late encoder" in (description := output("info", str(corpus.path), "--verify")) and "hold" in description
    # The model is that of the vectors.
    lines = output("search", str(corpus.path), QUERIES[0], "--index", "late", "-k", "3", "--json").splitlines()
    assert [json.loads(line)["id"] for line in lines] == expected
    with serving("retrieval", str(corpus.path), "--index", "late", "--port", "0") as url:
        assert [hit.id for hit in build_index(corpus, url).search(QUERIES[:1], 3)[0]] == expected
