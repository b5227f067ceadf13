"""The client of a retrieval server: real servers that die and come back, and scripted ones that lie."""

from __future__ import annotations

import copy
import json
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from retrieval_served import Answer, ScriptedServer, serving, start, stop, write_passages

import factgym
from factgym.core.errors import ConfigError
from factgym.corpora import http_client
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Corpus
from factgym.corpora.http_client import ServerUnavailableError
from factgym.corpora.index import Index, build_index, check_index
from factgym.corpora.remote import RemoteIndex

QUERIES = ["refunds", "office in Lisbon", "days of leave", "nothing of it"]


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_passages(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


@pytest.fixture(scope="module")
def corpus(corpus_file: Path) -> Corpus:
    return read_passages(corpus_file)


@pytest.fixture(scope="module")
def url(corpus_file: Path) -> Iterator[str]:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    with serving("retrieval", str(corpus_file), "--port", "0", "--max-queries", "3") as address:
        yield address


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(http_client, "MAX_PAUSE", 0.05)


def answer_of(index: Index, body: Any) -> Answer:
    """What a faithful server answers to `/retrieve`."""
    rows = index.search(body["queries"], body["topk"])
    return 200, {"result": [[{"document": {"id": id_}, "score": score} for id_, score in row] for row in rows]}


def test_hits_and_fingerprint_are_those_of_the_local_index(url: str, corpus: Corpus) -> None:
    local, index = build_index(corpus), build_index(corpus, url)
    assert isinstance(index, RemoteIndex)
    assert index.search(QUERIES, 2) == local.search(QUERIES, 2)
    assert index.search([], 2) == []
    assert index.fingerprint() == local.fingerprint()
    assert copy.deepcopy(index) is index
    again = pickle.loads(pickle.dumps(build_index(corpus, f"{url}/retrieve", connections=2)))
    assert again.url == url and again.search(QUERIES, 3) == local.search(QUERIES, 3)
    hybrid = build_index(corpus, "hybrid", indexes=["bm25", url])
    assert [hit.id for hit in hybrid.search(QUERIES, 1)[1]] == ["3"]


def test_an_environment_searches_by_the_server(url: str, corpus_file: Path) -> None:
    observations = []
    for index in ("bm25", url):
        env = factgym.make("eve-solver", corpus=str(corpus_file), index=index)
        env.reset(seed=0)
        observations.append(env.step({"tool": "search", "arguments": {"query": "refunds days"}})[0])
    assert observations[0] == observations[1] and "Refund policy" in observations[1]


def test_a_refusal_names_the_reason(url: str, corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match=r"refused a request \(status 422\): topk 101: the limit is 100"):
        build_index(corpus, url).search(QUERIES, 101)


def test_another_corpus_is_refused(url: str, corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match=r"serves another corpus \(3 passages.*\(2 passages.*factgym serve retrieval"):
        build_index(corpus.passages[:2], url)


@pytest.mark.parametrize(
    ("index", "options", "message"),
    [
        ("http://", {}, "no address of a server"),
        ("http://host:port", {}, "no address of a server"),
        ("http://user:secret@host", {}, "no address of a server"),
        ("http://host/?x=1", {}, "no address of a server"),
        ("http://host", {"timout": 3}, "Did you mean 'timeout'"),
        ("htp://host", {}, "http://HOST:PORT"),
    ],
)
def test_an_address_is_checked_before_anything_is_sent(index: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_index(index, **options)


def test_no_server_is_an_error_that_says_how_to_start_one(corpus: Corpus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerUnavailableError, match=f"{address} .*refused.*factgym serve retrieval"):
        build_index(corpus, address, retry_seconds=0)
    with pytest.raises(ConfigError, match="timeout above 0"):
        build_index(corpus, address, timeout=0)


def test_a_server_that_dies_and_comes_back_loses_no_search(corpus_file: Path, corpus: Corpus) -> None:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    expected = build_index(corpus).search(QUERIES, 3)
    process, url = start("retrieval", str(corpus_file), "--port", "0")
    port, results, errors = url.rpartition(":")[2], [0] * 6, []
    ready, finish = threading.Barrier(7), threading.Event()
    index = build_index(corpus, url, connections=3)

    def search(number: int) -> None:
        try:
            while not finish.is_set():
                assert index.search(QUERIES, 3) == expected
                results[number] += 1
                if results[number] == 3:
                    ready.wait(60)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=search, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    try:
        ready.wait(60)
        stop(process)
        process, again = start("retrieval", str(corpus_file), "--port", port)
        assert again == url
        before = sum(results)
        while sum(results) < before + 20 and not errors:
            threading.Event().wait(0.01)
    finally:
        finish.set()
        for thread in threads:
            thread.join()
        stop(process)
    assert not errors and min(results) >= 3


def test_faults_of_a_server_are_tried_again(corpus: Corpus) -> None:
    faults: list[Answer | None] = [*((503, {"detail": "busy"}), (500, b"\xff"), None, (502, b"<html>"), (429, b""))]
    seen = []

    def answer(path: str, body: Any) -> Answer | None:
        seen.append(path)
        if path == "/health":
            return 404, b"no"
        return faults.pop() if faults else answer_of(local, body)

    local = build_index(corpus)
    with ScriptedServer(answer) as server:
        index = build_index(corpus, server.url)
        assert index.search(QUERIES, 2) == local.search(QUERIES, 2)
        assert seen.count("/retrieve") == 6 and seen.count("/health") >= 2
        assert index.fingerprint() != local.fingerprint()
        faults[:] = [(503, {"detail": "still\nloading"})] * 9
        with pytest.raises(ServerUnavailableError, match="status 503: still loading"):
            build_index(corpus, server.url, retry_seconds=0.02).search(QUERIES, 2)


def test_a_server_that_comes_back_with_another_corpus_is_refused(corpus: Corpus) -> None:
    health, faults = {"corpus": corpus.fingerprint(), "passages": 3}, [None]
    local = build_index(corpus)

    def answer(path: str, body: Any) -> Answer | None:
        if path == "/health":
            return 200, health
        return faults.pop() if faults else answer_of(local, body)

    with ScriptedServer(answer) as server:
        index = build_index(corpus, server.url)
        assert index.search(QUERIES, 2) == local.search(QUERIES, 2)
        faults.append(None)
        health["corpus"] = "0" * 64
        with pytest.raises(ConfigError, match="serves another corpus"):
            index.search(QUERIES, 2)


def hit(id_: Any = "1", score: Any = 1.0) -> dict[str, Any]:
    return {"document": {"id": id_}, "score": score}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", 'no JSON object with a "result"'),
        (b"<html>\x1b[31m\n</html>", r'no JSON object with a "result": <html> \[31m </html>'),
        (b"[" * 100_000, "no JSON object"),
        ([], "no JSON object"),
        ({"result": None}, "NoneType for 1 queries"),
        ({"result": [[], []]}, "2 lists for 1 queries"),
        ({"result": [{}]}, "dict where a list"),
        ({"result": [[hit("1"), hit("2"), hit("3")]]}, "3 hits where a list of at most topk=2"),
        ({"result": [["1"]]}, "without"),
        ({"result": [[{"id": "1", "contents": "bare"}]]}, "without"),
        ({"result": [[hit(True)]]}, "without"),
        ({"result": [[hit(score="1")]]}, "no number"),
        ({"result": [[hit(score=None)]]}, "no number"),
        (b'{"result": [[{"document": {"id": "1"}, "score": NaN}]]}', "no number"),
        (b'{"result": [[{"document": {"id": "1"}, "score": 1e999}]]}', "no number"),
        (b'{"result": [[{"document": {"id": "1"}, "score": 1%s}]]}' % (b"0" * 400), "no number"),
        ({"result": [[hit(), hit()]]}, "twice"),
        ({"result": [[hit("../../etc/passwd\n" + "x" * 10_000)]]}, r"'../../etc/passwd x{1,80}', which is not in the"),
        ({"result": [[hit(10**100)]]}, "not in the corpus"),
    ],
)
def test_an_answer_that_is_not_of_the_protocol_is_refused(corpus: Corpus, answer: Any, message: str) -> None:
    with ScriptedServer(lambda path, body: (404, b"") if path == "/health" else (200, answer)) as server:
        with pytest.raises(ConfigError, match=message) as caught:
            build_index(corpus, server.url).search(["refunds"], 2)
        assert len(str(caught.value)) < 600 and str(caught.value).isprintable()


def test_an_answer_is_bounded_and_a_cut_one_is_tried_again(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_ANSWER_BYTES", 5000)
    local, cuts = build_index(corpus), [300, 20]

    def answer(path: str, body: Any) -> Answer | bytes:
        if path == "/health":
            return 404, b""
        status, content = answer_of(local, body)
        data = json.dumps(content).encode() + b" " * (6000 if body["queries"] == ["large"] else 0)
        if not cuts:
            return status, data
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data[: cuts.pop()]

    with ScriptedServer(answer) as server:
        index = build_index(corpus, server.url)
        assert index.search(QUERIES, 3) == local.search(QUERIES, 3) and not cuts
        with pytest.raises(ConfigError, match="more than 5,000 bytes"):
            index.search(["large"], 2)


def test_integer_ids_are_those_of_the_corpus(corpus: Corpus) -> None:
    with ScriptedServer(lambda path, body: (404, b"") if path == "/health" else (200, {"result": [[hit(2, 1)]]})) as it:
        assert build_index(corpus, it.url).search(["x"], 1) == [[("2", 1.0)]]


def test_searches_that_wait_at_the_same_time_are_one_request(corpus: Corpus) -> None:
    """One request at a time: while the first is held, eight searches gather; a refused one harms no other."""
    local, release, bodies = build_index(corpus), threading.Event(), []

    def answer(path: str, body: Any) -> Answer | None:
        if path == "/health":
            return 404, b""
        bodies.append(body)
        assert release.wait(30)
        return (422, {"detail": "bad query"}) if "bad" in body["queries"] else answer_of(local, body)

    with ScriptedServer(answer) as server:
        index = build_index(corpus, server.url, connections=1)
        assert isinstance(index, RemoteIndex)
        results: dict[Any, Any] = {}

        def search(query: str, k: int) -> None:
            try:
                results[query, k] = index.search([query], k)
            except ConfigError as error:
                results[query, k] = str(error)

        def start_search(query: str, k: int, waiting: int) -> threading.Thread:
            thread = threading.Thread(target=search, args=(query, k))
            thread.start()
            while len(bodies) < 1 or len(index._combiner._waiting) < waiting:
                threading.Event().wait(0.001)
            return thread

        threads = [start_search("first", 2, 0)]
        for number, (query, k) in enumerate([("refunds", 2), ("office", 2), ("leave", 2), ("leave", 1), ("days", 2)]):
            threads.append(start_search(query, k, number + 1))
        release.set()
        for thread in threads:
            thread.join()
        sizes = sorted((body["topk"], len(body["queries"])) for body in bodies)
        assert sizes == [(1, 1), (2, 1), (2, 4)]
        assert all(hits == local.search([query], k) for (query, k), hits in results.items())

        bodies.clear(), results.clear(), release.clear()
        threads = [start_search("first", 2, 0), start_search("bad", 2, 1), start_search("office", 2, 2)]
        release.set()
        for thread in threads:
            thread.join()
        assert "bad query" in results["bad", 2]
        assert results["office", 2] == local.search(["office"], 2)
        assert sorted(len(body["queries"]) for body in bodies) == [1, 1, 1, 2]
