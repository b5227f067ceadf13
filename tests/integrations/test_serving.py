"""The shell of `factgym serve …` on its own: rights, errors, the event loop, slow readers, signals. Attacks: `test_serve_attacks.py`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs factgym[serve]")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

import serve_attacks
from retrieval_served import start, write_passages
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket

from factgym.core.errors import ConfigError
from factgym.integrations import serving
from factgym.integrations.frameworks import Shell
from factgym.integrations.serving import Guard, read_json, serve

URL = "http://127.0.0.1"


async def get_text(request: Request) -> Response:
    return PlainTextResponse("hello")


async def fail(request: Request) -> Response:
    raise RuntimeError("secret\nof two lines")


async def complain(request: Request) -> Response:
    return JSONResponse({"detail": "x" * 10_000}, 400)


async def parse(request: Request) -> Response:
    return JSONResponse({"values": len(await read_json(request))})


async def send_much(request: Request) -> Response:
    return Response(bytes(20 * 2**20))


APP = Starlette(
    routes=[
        Route("/", get_text),
        Route("/fail", fail),
        Route("/complain", complain),
        Route("/parse", parse, methods=["POST"]),
        Route("/much", send_much),
    ]
)


def client(shell: Shell | None = None, url: str = URL, **options: Any) -> TestClient:
    return TestClient(Guard(APP, shell or Shell(), **options), base_url=url, raise_server_exceptions=False)


@contextlib.contextmanager
def in_thread(shell: Shell) -> Iterator[int]:
    """The port of a server in this process; its thread ends with it."""
    urls: list[str] = []
    up = threading.Event()

    def ready(url: str) -> None:
        urls.append(url)
        up.set()

    threading.Thread(target=lambda: asyncio.run(serve(Guard(APP, shell), ready)), daemon=True).start()
    assert up.wait(60)
    yield int(urls[0].rpartition(":")[2])


def connect(port: int, head: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 60)
    connection.sendall(head + b"\r\nHost: 127.0.0.1\r\n\r\n")
    return connection


@pytest.mark.parametrize(
    ("shell", "names", "foreign"),
    [
        (Shell(), ["localhost", "127.9.9.9", "[::1]"], ["10.0.0.5", "retriever", "[fd00::1]", socket.gethostname()]),
        (Shell(allow_hosts=("Retriever", "::2")), ["retriever:80", "[::2]", "localhost"], ["retriever.evil.example"]),
        (Shell("0.0.0.0"), ["10.0.0.5", "[fd00::1]:8", socket.gethostname(), "localhost"], ["retriever", "10.0.5"]),
        (Shell("db.example"), ["db.example", "10.0.0.5"], ["example", "a.db.example"]),
        (Shell(token="x" * 16), ["any.example"], []),
        (Shell(allow_hosts=("*",)), ["any.example"], []),
    ],
)
def test_names_of_the_server(shell: Shell, names: list[str], foreign: list[str]) -> None:
    headers = {"Authorization": f"Bearer {shell.token}"}
    for name in names:
        assert client(shell).get("/", headers={"Host": name, **headers}).status_code == 200, name
    for name in foreign:
        refused = client(shell).get("/", headers={"Host": name})
        assert refused.status_code == 421 and "--allow-host" in refused.json()["detail"], name
    assert client(shell).get("/", headers={"Host": "a@127.0.0.1", **headers}).status_code == 421


def test_an_allowed_page_may_use_the_server_and_no_other() -> None:
    """With the headers of the Fetch standard, which Starlette's CORSMiddleware writes."""
    shell = Shell(allow_origins=("https://app.example",), token="x" * 16)
    own = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    permitted = client(shell).options("/", headers={**own, **ask})
    assert permitted.status_code == 200
    assert permitted.headers["Access-Control-Allow-Origin"] == "https://app.example"
    answered = client(shell).get("/", headers={**own, "Authorization": "Bearer " + "x" * 16})
    assert answered.text == "hello" and answered.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert client(shell).get("/", headers=own).status_code == 401
    for origin in ("https://app.example.evil.example", "http://app.example", "https://app.example:8443", "null"):
        refused = client(shell).options("/", headers={**ask, "Origin": origin})
        assert refused.status_code == 403 and "Access-Control-Allow-Origin" not in refused.headers, origin
    assert client(Shell(allow_origins=("*",))).get("/", headers={"Origin": "null"}).status_code == 200


def test_websockets_of_an_allowed_page_are_accepted_and_no_others() -> None:
    async def greet(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    app = Guard(Starlette(routes=[WebSocketRoute("/ws", greet)]), Shell(allow_origins=("https://app.example",)))
    client = TestClient(app, base_url=URL)
    for origin in ("https://app.example", "HTTP://127.0.0.1"):
        with client.websocket_connect("/ws", headers={"Origin": origin, "Host": "127.0.0.1"}) as socket:
            assert socket.receive_text() == "hello"
    for origin, host in (
        ("https://evil.example", "127.0.0.1"),
        ("null", "127.0.0.1"),
        ("http://a.example", "a.example"),
    ):
        with (
            pytest.raises(WebSocketDenialResponse) as denial,
            client.websocket_connect("/ws", headers={"Origin": origin, "Host": host}),
        ):
            pass
        assert denial.value.status_code == (403 if host == "127.0.0.1" else 421)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token": "short"}, "16 or more"),
        ({"allow_hosts": ("http://a.example",)}, "--allow-host"),
        ({"allow_hosts": ("a.example:80",)}, "without scheme and port"),
        ({"allow_origins": ("app.example",)}, "--allow-origin"),
        ({"allow_origins": ("https://app.example/",)}, "--allow-origin"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Shell(**settings)


def test_errors_are_short_json_and_a_fault_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        failed = client().get("/fail")
    assert (failed.status_code, failed.json()) == (500, {"detail": "Internal Server Error"})
    assert caplog.messages == ["a request failed: RuntimeError: secret of two lines"]
    assert client().get("/complain").json() == {"detail": "Bad Request"}
    missing = client().get("/missing")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    assert int(missing.headers["content-length"]) == len(missing.content)


def test_a_large_body_is_parsed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser waits until the loop has answered another request: on the loop it would wait for ever."""
    answered = threading.Event()
    original: Callable[[bytes], Any] = serving._parse

    def slow(body: bytes) -> Any:
        assert answered.wait(60)
        return original(body)

    monkeypatch.setattr(serving, "_parse", slow)
    body = json.dumps(["x" * 100] * 1000).encode()
    with in_thread(Shell(port=0)) as port:
        head = f"POST /parse HTTP/1.1\r\nContent-Length: {len(body)}".encode()
        with connect(port, head) as parsing:
            parsing.sendall(body)
            for _ in range(20):
                with connect(port, b"GET / HTTP/1.1") as ping:
                    assert serve_attacks.outcome(ping) == "200"
            answered.set()
            assert serve_attacks.read_response(parsing).endswith(b'{"values":1000}')


def test_separators_in_strings_are_no_tokens() -> None:
    """Against the tokens of texts that json writes: each string, comma and opening bracket outside strings."""
    count = serving.MAX_JSON_TOKENS
    for values, is_refused in (
        (["a"] * (count // 2), False),  # a bracket, and a comma less than strings
        (["a"] * (count // 2 + 1), True),
        (["," * 2 * count, '"[\\"' * count], False),
        ([[]] * (count // 2), False),
        ([[]] * (count // 2 + 1), True),
        ({str(number): "" for number in range(count // 3)}, False),
        ({str(number): "" for number in range(count // 3 + 1)}, True),
    ):
        text = json.dumps(values)
        assert client(max_body_bytes=2**30).post("/parse", content=text).status_code == (413 if is_refused else 200)


def test_a_client_that_reads_nothing_is_cut_off_and_a_slow_one_gets_everything() -> None:
    size, request, pause = 20 * 2**20, b"GET /much HTTP/1.1", threading.Event()
    with (
        in_thread(Shell(port=0, request_seconds=0.4)) as port,
        connect(port, request) as slow,
        connect(port, request) as idle,
    ):
        data = slow.recv(1000)
        received = len(data.partition(b"\r\n\r\n")[2])
        while received < size and (part := slow.recv(2**20)):
            received += len(part)
            pause.wait(0.05)  # after each of some twenty parts or more: longer than the limit
        assert received == size
        received = 0
        with contextlib.suppress(ConnectionError):
            while part := idle.recv(2**20):
                received += len(part)
        assert 0 < received < size


@pytest.mark.parametrize(
    ("number", "times", "status"), [(signal.SIGTERM, 1, 143), (signal.SIGINT, 1, 130), (signal.SIGINT, 3, 130)]
)
def test_a_signal_ends_the_command_with_its_status_and_no_word(
    number: signal.Signals, times: int, status: int, tmp_path: Path
) -> None:
    words = ("retrieval", str(write_passages(tmp_path / "passages.jsonl")), "--port", "0")
    process, url = start(*words)
    port = int(url.rpartition(":")[2])
    with connect(port, b"GET /health HTTP/1.1") as idle:
        assert serve_attacks.outcome(idle) == "200"
        with socket.create_connection(("127.0.0.1", port)):  # half open
            for _ in range(times):
                process.send_signal(number)
            assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == status


def test_a_websocket_is_refused_where_the_server_can_send_no_response() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"evil.example")]}
    asyncio.run(Guard(APP, Shell())(scope, None, send))
    assert [message["type"] for message in sent] == ["websocket.close"] and sent[0]["code"] == 1008


def test_the_documented_outcomes_are_those_of_the_tests() -> None:
    text = serve_attacks.PAGE.read_text("utf-8")
    assert serve_attacks.page_with_table(text) == text, "run python tests/serve_attacks.py"
