"""The retrieval server: the protocol of Search-R1's clients in a process of its own, batches, limits and metrics."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs factgym[serve]")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

from retrieval_served import TOKEN, check_token, ids, request, serving, start, stop, write_passages

from factgym.core.errors import ConfigError
from factgym.corpora.build import read_passages
from factgym.corpora.http_client import HttpClient
from factgym.corpora.index import build_index
from factgym.integrations.frameworks import Shell
from factgym.integrations.retrieval import MicroBatcher, RetrievalLimits, RetrievalServer
from factgym.integrations.serving import Guard, serve

SMALL_LIMITS = ("--max-queries", "4", "--max-query-chars", "100", "--max-topk", "5", "--max-body-mb", "0.01")


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_passages(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


@pytest.fixture(scope="module")
def url(corpus_file: Path) -> Iterator[str]:
    with serving("retrieval", str(corpus_file), "--port", "0", "--topk", "2", *SMALL_LIMITS) as address:
        yield address


def test_the_answer_is_what_clients_of_search_r1_read(url: str, corpus_file: Path) -> None:
    corpus = read_passages(corpus_file)
    expected = build_index(corpus).search(["refunds", "Lisbon office"], 3)
    status, answer = request(
        f"{url}/retrieve", {"queries": ["refunds", "Lisbon office"], "topk": 3, "return_scores": True}
    )
    assert status == 200 and set(answer) == {"result"}
    assert [[(hit["document"]["id"], hit["score"]) for hit in hits] for hits in answer["result"]] == expected
    assert answer["result"][1][0]["document"] == {
        "id": "3",
        "contents": "Offices\nThe office in Lisbon opened in 2011.",
    }
    assert {hit["document"]["contents"].split("\n")[0] for hit in answer["result"][0]} == {
        *("Refund policy", "Annual leave")
    }


@pytest.mark.parametrize("extra", [{}, {"topk": None}, {"topk": None, "return_scores": None, "other": 1}])
def test_missing_and_null_keys_take_the_defaults(url: str, extra: dict[str, Any]) -> None:
    status, answer = request(f"{url}/retrieve", {"queries": ["refunds days office", "xyz"], **extra})
    assert status == 200
    assert [len(hits) for hits in answer["result"]] == [2, 0]
    assert set(answer["result"][0][0]) == {"id", "contents"}


def test_a_single_query_is_a_list_of_it(url: str) -> None:
    answer = request(f"{url}/retrieve", {"query": "office", "topk": 1})[1]
    assert [ids(hits) for hits in answer["result"]] == [["3"]]
    assert request(f"{url}/retrieve", {"queries": []}) == (200, {"result": []})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"queries": ["x"] * 5}, 422, "5 queries in one request: the limit is 4"),
        ({"queries": ["x" * 101]}, 422, "101 characters: the limit is 100"),
        ({"queries": ["x"], "topk": 6}, 422, "topk 6: the limit is 5"),
        ({"queries": ["x"], "topk": 0}, 422, "topk"),
        ({"queries": ["x"], "topk": "3"}, 422, "topk"),
        ({"queries": "x"}, 422, "queries"),
        ({"queries": [7]}, 422, "queries.0"),
        ({"topk": 3}, 422, '"queries"'),
        ([], 422, "must be an object"),
        (b"{", 400, "no JSON"),
        (b"[" * 9000, 400, "no JSON"),
        (b"\xff", 400, "no JSON"),
        (b"x" * 20_000, 413, "larger than 10,485 bytes"),
    ],
)
def test_limits_and_faults_are_one_clear_sentence(url: str, body: Any, status: int, message: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    actual, answer = request(f"{url}/retrieve", raw=raw)
    assert actual == status
    assert set(answer) == {"detail"} and message in answer["detail"] and "\n" not in answer["detail"]


def test_no_text_of_a_request_is_a_path(url: str) -> None:
    for path in ("/retrieve/../health/x", "/%2e%2e/etc/passwd", "/passages.jsonl"):
        assert request(url + path)[0] == 404
    status, answer = request(f"{url}/retrieve", {"queries": ["../../etc/passwd", "file:///etc/passwd", "\ud800 \0"]})
    assert status == 200 and answer["result"] == [[], [], []]


def test_health_names_corpus_index_and_limits(url: str, corpus_file: Path) -> None:
    corpus = read_passages(corpus_file)
    status, health = request(f"{url}/health")
    assert status == 200
    assert (health["status"], health["passages"], health["name"], health["topk"]) == ("ok", 3, "bm25", 2)
    assert (health["corpus"], health["index"]) == (corpus.fingerprint(), build_index(corpus).fingerprint())
    assert health["limits"]["max_queries"] == 4


def test_metrics_and_the_schema(url: str) -> None:
    request(f"{url}/retrieve", {"queries": ["office", "leave"]})
    text = request(f"{url}/metrics")[1]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["factgym_retrieval_queries_total"]) >= 2
    assert float(values["factgym_retrieval_queries_per_second"]) > 0
    assert float(values['factgym_retrieval_batch_size{quantile="0.5"}']) >= 1
    assert float(values['factgym_retrieval_request_seconds{quantile="0.95"}']) > 0
    status, schema = request(f"{url}/openapi.json")
    assert status == 200 and set(schema["paths"]) == {"/retrieve", "/health", "/metrics"}
    body = schema["paths"]["/retrieve"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"queries", "query", "topk", "return_scores"}


def test_an_occupied_port_is_an_error_of_one_line(url: str, corpus_file: Path) -> None:
    with pytest.raises(AssertionError, match="choose another --port"):
        stop(start("retrieval", str(corpus_file), "--port", url.rpartition(":")[2])[0])


def test_waiting_queries_are_one_batch() -> None:
    """While the first call is held, all others gather: those of the same k are one call, equal queries searched once."""
    release, calls = threading.Event(), []

    def search(queries: list[str], k: int) -> list[str]:
        calls.append((queries, k))
        if len(calls) == 1:
            assert release.wait(30)
        if "bad" in queries:
            raise ValueError("bad")
        return [f"{query}{k}" for query in queries]

    async def run() -> None:
        sizes: list[int] = []
        batcher = MicroBatcher(search, 4, sizes.append)
        first = asyncio.create_task(batcher.search(["first"], 1))
        while not calls:
            await asyncio.sleep(0.001)
        tasks = [
            asyncio.create_task(batcher.search(queries, k))
            for queries, k in ((["a", "b"], 3), (["c"], 5), (["b"], 3), (["gone"], 3), (["d"], 3), (["e"], 3))
        ]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.sleep(0)
        assert len(batcher) == 7
        release.set()
        done = await asyncio.gather(*tasks[:3], *tasks[4:])
        assert [await first, *done] == [["first1"], ["a3", "b3"], ["c5"], ["b3"], ["d3"], ["e3"]]
        assert calls == [(["first"], 1), (["a", "b", "d"], 3), (["c"], 5), (["e"], 3)]
        assert sizes == [1, 4, 1, 1]
        with pytest.raises(ValueError, match="bad"):
            await batcher.search(["bad", "good"], 3)
        assert await batcher.search(["good"], 3) == ["good3"]

    asyncio.run(run())


def test_clients_that_return_are_searched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight clients, of which one came first: after its answer a batch waits for all eight."""
    monkeypatch.setattr("factgym.integrations.retrieval._GATHERING", 1e4)
    release, started = threading.Event(), threading.Event()

    def search(queries: list[str], k: int) -> list[str]:
        started.set()
        assert release.wait(30)
        return queries

    async def client(batcher: MicroBatcher, name: str, rounds: int) -> None:
        for number in range(rounds):
            query = f"{name} {number}"
            assert await batcher.search([query], 1) == [query]

    async def run() -> list[int]:
        sizes: list[int] = []
        batcher = MicroBatcher(search, 64, sizes.append)
        first = asyncio.create_task(client(batcher, "first", 5))
        while not started.is_set():
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(client(batcher, f"other {i}", 4)) for i in range(7)]
        await asyncio.sleep(0.001)
        release.set()
        await asyncio.gather(first, *others)
        return sizes

    assert asyncio.run(run()) == [1, 8, 8, 8, 8]


def test_many_clients_get_their_own_answers(url: str) -> None:
    words = ["refunds", "leave", "office", "lisbon", "days", "xyz"]
    expected = {word: ids(request(f"{url}/retrieve", {"queries": [word]})[1]["result"][0]) for word in words}
    answers: list[tuple[str, list[str]]] = []

    def ask(word: str) -> None:
        answers.append((word, ids(request(f"{url}/retrieve", {"queries": [word]})[1]["result"][0])))

    threads = [threading.Thread(target=ask, args=(words[i % len(words)],)) for i in range(48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 48 and all(expected[word] == hits for word, hits in answers)


class BrokenIndex:
    """An index that fails, with a message that is nobody's business."""

    def search(self, queries: Sequence[str], k: int) -> Any:
        raise RuntimeError("secret")


def asgi_call(app: Any, body: bytes) -> tuple[int, Any]:
    """Status and answer of `POST /retrieve` without a server."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/retrieve",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


def test_a_fault_of_the_index_is_status_500_and_a_full_queue_503(corpus_file: Path) -> None:
    corpus = read_passages(corpus_file)
    server = RetrievalServer(corpus, BrokenIndex())
    assert asgi_call(server.app, b'{"queries": ["x"]}') == (500, {"detail": "The search failed (RuntimeError)."})
    server = RetrievalServer(corpus, build_index(corpus), limits=RetrievalLimits(max_waiting=1))
    assert asgi_call(server.app, b'{"queries": ["x"]}') == (200, {"result": [[]]})
    assert asgi_call(server.app, b'{"queries": ["x", "y"]}')[0] == 503


def test_settings_are_checked(corpus_file: Path) -> None:
    corpus = read_passages(corpus_file)
    with pytest.raises(ConfigError, match="max_batch is at least 1"):
        RetrievalLimits(max_batch=0)
    with pytest.raises(ConfigError, match="max_topk"):
        RetrievalServer(corpus, build_index(corpus), topk=101)


def test_answers_do_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm is off: an answer of two packets would wait 40 ms for the client."""
    listeners: list[socket.socket] = []
    create = socket.create_server
    monkeypatch.setattr(
        socket, "create_server", lambda *args, **kw: listeners.append(create(*args, **kw)) or listeners[0]
    )

    class StartedError(Exception):
        pass

    def ready(url: str) -> None:
        assert listeners[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        raise StartedError

    with pytest.raises(StartedError):
        asyncio.run(serve(Guard(None, Shell(port=0)), ready))  # type: ignore[arg-type]


def test_a_token_guards_every_address(corpus_file: Path) -> None:
    with serving("retrieval", str(corpus_file), "--port", "0", "--token", TOKEN) as url:
        check_token(f"{url}/retrieve", {"queries": ["refunds"]})
        check_token(f"{url}/health")


def test_the_client_sends_its_token_to_a_server_that_asks_for_it(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = read_passages(corpus_file)
    monkeypatch.delenv("FACTGYM_TOKEN", raising=False)
    with serving("retrieval", str(corpus_file), "--port", "0", "--token", TOKEN) as url:
        for token, problem in ((None, "wants a token"), (f"{TOKEN}x", "refuses the token"), ("a\nb", "line breaks")):
            if token is not None:
                monkeypatch.setenv("FACTGYM_TOKEN", token)
            with pytest.raises(ConfigError, match=f"{problem}.*") as refusal:
                build_index(corpus, url)
            assert "FACTGYM_TOKEN" in str(refusal.value) and TOKEN not in str(refusal.value)
        monkeypatch.setenv("FACTGYM_TOKEN", TOKEN)
        index = build_index(corpus, url)
        assert index.search(["refunds"], 2) == build_index(corpus, "bm25").search(["refunds"], 2)


def test_a_server_that_asks_for_no_token_never_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTGYM_TOKEN", TOKEN)
    headers = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(self.headers.get("Authorization"))
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = HttpClient(f"http://127.0.0.1:{server.server_port}", 10, "server", "start it")
        assert client.exchange("GET", "/health", None, 1)[0] == 404
        server.shutdown()
    assert headers == [None]
