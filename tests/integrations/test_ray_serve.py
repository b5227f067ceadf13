"""Search on a Ray cluster: two shards behind `/retrieve`, of which replicas are killed while eight clients search."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray.serve", reason="needs factgym[ray-serve]")
pytest.importorskip("starlette", reason="needs factgym[serve]")

import itertools

from retrieval_served import serving

from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import Encoder
from factgym.corpora.index import Hit, build_index
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import write_corpus
from factgym.integrations.ray_serve import ray_index

WORDS = [
    "red",
    "green",
    "blue",
    "black",
    "white",
    "grey",
    "pink",
    "brown",
    "gold",
    "plum",
    "lime",
    "teal",
    "navy",
    "rust",
    "sand",
    "jade",
]


def passages() -> Iterator[SourcedPassage]:
    """Texts of a few words, so that many scores tie."""
    rng = np.random.default_rng(0)
    for i in range(3001):
        yield SourcedPassage(Passage(f"P{i}", "", " ".join(rng.choice(WORDS, 4))))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> StoredCorpus:
    path = tmp_path_factory.mktemp("ray") / "corpus"
    write_corpus(passages(), path, source="test")
    return StoredCorpus(path)


def merged(index: object, size: int, queries: list[str], k: int) -> list[list[Hit]]:
    """The rankings of five shards, put together as `RayIndex` does."""
    bounds = [size * i // 5 for i in range(6)]
    parts = [index.shard(*pair).search(queries, k) for pair in itertools.pairwise(bounds)]  # type: ignore[attr-defined]
    return [
        sorted((hit for ranking in rankings for hit in ranking), key=lambda hit: -hit.score)[:k]
        for rankings in zip(*parts, strict=True)
    ]


def test_shards_together_rank_as_the_whole(corpus: StoredCorpus) -> None:
    queries = ["red blue", "gold", "jade jade sand", "nothing", "teal navy rust plum"]
    for k in (1, 10, 5000):
        index = build_index(corpus)
        assert merged(index, len(corpus), queries, k) == index.search(queries, k)


def test_shards_of_vectors_rank_as_the_whole(corpus: StoredCorpus) -> None:
    pytest.importorskip("faiss", reason="needs factgym[dense]")
    from factgym.corpora.encode import encode_corpus

    class Counts:
        def encode(self, texts: list[str], **_: object) -> object:
            return np.array([[text.count(word) for word in WORDS] for text in texts], np.float32)

    encoder = Encoder(Counts(), "plain")
    encode_corpus(corpus, encoder)
    index = build_index(corpus, "dense", encoder=encoder)
    for k in (1, 10, 5000):
        assert merged(index, len(corpus), ["red blue", "gold"], k) == index.search(["red blue", "gold"], k)


def test_killed_replicas_lose_no_query(corpus: StoredCorpus) -> None:
    expected = build_index(corpus)
    arguments = ("--ray", "local", "--shards", "2", "--port", "0")
    with serving("retrieval", str(corpus.path), *arguments) as url:
        client = build_index(corpus, url)
        assert client.fingerprint() == build_index(corpus, url).fingerprint()  # type: ignore[attr-defined]
        stop, faults, answered = threading.Event(), list[object](), [0] * 8

        def search(number: int) -> None:
            rng = np.random.default_rng(number)
            while not stop.is_set():
                queries = [" ".join(rng.choice(WORDS, 3)) for _ in range(4)]
                try:
                    if client.search(queries, 5) != expected.search(queries, 5):
                        faults.append(queries)
                except Exception as error:  # noqa: BLE001 - any lost query is the fault that is looked for
                    faults.append(error)
                answered[number] += 1

        threads = [threading.Thread(target=search, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        killed = replicas()
        assert len(killed) == 2
        for process in killed:
            time.sleep(0.5)
            os.kill(process, signal.SIGKILL)
        before = list(answered)
        deadline = time.monotonic() + 100
        while not all(now > then + 5 for now, then in zip(answered, before, strict=True)) and not faults:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        stop.set()
        for thread in threads:
            thread.join()
        assert not faults
        assert set(replicas()).isdisjoint(killed)


def replicas() -> list[int]:
    """The processes of Ray Serve's replicas, by their titles."""
    processes = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                title = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(b"ray::ServeReplica"):
                processes.append(int(path.name))
    return processes


def test_an_index_that_a_cluster_cannot_serve_is_refused(corpus: StoredCorpus) -> None:
    for index, shards, message in (("hybrid", 2, "cannot be divided"), ("bm52", 1, "bm25")):
        with pytest.raises(ConfigError, match=message), ray_index("local", corpus.path, index, shards=shards):
            pytest.fail("deployed")
    with pytest.raises(ConfigError, match="no Ray cluster"), ray_index("127.0.0.1:1", corpus.path):
        pytest.fail("connected")
