"""Vectors on disk: rankings against NumPy over the stored rows, a killed encoding, damage, other encoders."""

from __future__ import annotations

import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.corpora import stored_dense
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import SCORE_DIGITS, Encoder
from factgym.corpora.index import build_index
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_writer import SourcedPassage, write_corpus

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
    stored_dense.encode_corpus(corpus, Encoder(Hashed()))
    return corpus


def test_rankings_equal_those_of_numpy_over_the_stored_rows(
    encoded: StoredCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_dense, "_SEARCH_ROWS", 700)
    encoder = Encoder(Hashed())
    rows = np.load(encoded.path / "dense" / "vectors.npy").reshape(-1, DIMENSION)
    assert rows.dtype == np.float16
    np.testing.assert_allclose(rows, encoder.passages(encoded), atol=1e-3)
    queries = ["a", "second query", " ", "text number 7"]
    index = build_index(encoded, "dense", encoder=encoder)
    results = pickle.loads(pickle.dumps(index)).search(queries, 9)
    assert results[2] == []
    for query, hits in zip(queries, results, strict=True):
        if query.strip():
            scores = rows.astype(np.float64) @ encoder.queries([query])[0].astype(np.float64)
            # Every text occurs twice, so half of the neighbours tie: corpus order decides.
            order = np.lexsort((np.arange(len(scores)), -scores.round(SCORE_DIGITS)))[:9]
            assert [hit.id for hit in hits] == [f"P{i}" for i in order]
            np.testing.assert_allclose([hit.score for hit in hits], scores[order], atol=2e-5)


def test_a_killed_encoding_resumes_to_the_same_bytes(encoded: StoredCorpus, tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", 2500)
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import test_stored_dense as t; "
        "t.stored_dense.encode_corpus(t.StoredCorpus(sys.argv[1]), t.Encoder(t.Slow(), 'e5'),"
        " progress=lambda p: print(p.done, flush=True))"
    )
    command = [sys.executable, "-c", program, str(corpus.path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"256\n"
        with pytest.raises(ConfigError, match="another process encodes"):
            stored_dense.encode_corpus(corpus, Encoder(Hashed()))
        process.send_signal(signal.SIGKILL)
    assert not (corpus.path / "dense").exists()
    # A torn row, as a kill may leave it.
    with (corpus.path / ".dense.partial" / "vectors.npy").open("ab") as file:
        file.write(b"torn")
    resumed: list[int] = []
    stored_dense.encode_corpus(corpus, Encoder(Hashed()), progress=lambda p: resumed.append(p.resumed))
    assert resumed[0] >= 256
    for name in ("vectors.npy", "manifest.json"):
        assert (corpus.path / "dense" / name).read_bytes() == (encoded.path / "dense" / name).read_bytes()


def test_other_encoders_and_other_corpora_are_refused(encoded: StoredCorpus, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="factgym corpus encode"):
        build_index(encoded, "dense", encoder=Hashed(), preset="plain")
    with pytest.raises(ConfigError, match="--force"):
        stored_dense.encode_corpus(encoded, Encoder(Hashed()))
    other = write(tmp_path / "other", 5)
    shutil.copytree(encoded.path / "dense", other.path / "dense")
    with pytest.raises(DataError, match="another corpus"):
        build_index(other, "dense", encoder=Hashed())


def test_flipped_bits_and_cut_files_are_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", 300)
    encoder = Encoder(Hashed())
    stored_dense.encode_corpus(corpus, encoder)
    expected = build_index(corpus, "dense", encoder=encoder).search(["query"], 5)
    rng = random.Random(5)
    for file in sorted((corpus.path / "dense").iterdir()):
        raw = file.read_bytes()
        for _ in range(25):
            damaged = bytearray(raw)
            damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            # An index of the file's white space or header may be unaffected; a wrong answer is never given.
            try:
                assert build_index(corpus, "dense", encoder=encoder).search(["query"], 5) == expected
            except DataError as error:
                assert "corpus encode" in str(error)
        file.write_bytes(raw[: len(raw) // 2])
        with pytest.raises(DataError, match="corpus encode"):
            build_index(corpus, "dense", encoder=encoder)
        file.write_bytes(raw)
