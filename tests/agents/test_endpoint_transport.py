"""The transport: HTTP answers in any pieces, connections reused, bounded, encrypted, given back."""

from __future__ import annotations

import asyncio
import random
import shutil
import ssl
import subprocess
import time

import pytest
from fault_server import FaultServer, error
from hypothesis import given
from hypothesis import strategies as st

from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.http import Answer, BadAnswerError
from factgym.agents.endpoint.retry import asked_wait, backoff
from factgym.agents.endpoint.transport import Connections
from factgym.agents.seeds import derive

ASK = [{"role": "user", "content": "Answer to check: x"}]
BODY = '{"a":"ü"}'.encode()
ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-A: b: c\r\n\r\n" + BODY, True),
    "chunked": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\n" + BODY[:3] + b"\r\n07\r\n" + BODY[3:] + b"\r\n0\r\n\r\n",
        True,
    ),
    "trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n" + BODY + b"\r\n0\r\nX-B: c\r\n\r\n",
        True,
    ),
    "continue": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + BODY, True),
    "close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\n" + BODY, False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\n" + BODY, False),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@given(cuts=st.lists(st.integers(1, 140), max_size=12))
def test_an_answer_reads_the_same_in_any_pieces(name, cuts):
    data, reusable = ANSWERS[name]
    answer = Answer()
    places = sorted({min(cut, len(data) - 1) for cut in cuts})
    done = [answer.feed(data[a:b]) for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    assert done == [False] * len(places) + [True]
    assert (answer.status, bytes(answer.body), answer.reusable) == (200, BODY, reusable)


def test_a_body_without_a_length_ends_with_the_connection():
    answer = Answer()
    assert not answer.feed(b"HTTP/1.1 200 OK\r\n\r\nab")
    assert not answer.feed(b"c")
    assert answer.end() and bytes(answer.body) == b"abc" and not answer.reusable


@pytest.mark.parametrize("cut", ["length", "chunked", "continue"])
def test_an_answer_that_breaks_off_is_not_complete(cut):
    answer = Answer()
    assert not answer.feed(ANSWERS[cut][0][:-1])
    assert not answer.end()


def test_an_empty_status_has_no_body():
    answer = Answer()
    assert answer.feed(b"HTTP/1.1 204 No Content\r\n\r\n") and answer.reusable


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 50_000,
    ],
    ids=lambda data: repr(data[:40]),
)
def test_what_is_no_http_is_refused(data):
    with pytest.raises(BadAnswerError):
        Answer().feed(data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
    ],
)
def test_a_body_above_the_limit_is_refused_before_it_is_read(data):
    with pytest.raises(BadAnswerError, match="more than 100 bytes"):
        Answer(limit=100).feed(data)


def test_connections_are_reused_and_no_more_are_open_than_allowed():
    server = FaultServer(delay=0.01)
    most = 0
    original = server.chat

    def chat(connection, request):
        nonlocal most
        most = max(most, len(server.connections))
        original(connection, request)

    server.chat = chat

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", connections=8)
            policies = [endpoint.start(seed) for seed in range(40)]
            for _ in range(2):
                await asyncio.gather(*(one.act(ASK, []) for one in policies))
            opened = len(server.connections)
            await endpoint.close()
            return opened

    assert asyncio.run(run()) == 8
    assert (most, server.requests) == (8, 80)


def test_waiting_for_a_free_connection_is_no_timeout():
    async def run():
        async with FaultServer(delay=0.15) as url:
            endpoint = Endpoint("m", url, tools="native", connections=1, timeout=0.5)
            said = await asyncio.gather(*(endpoint.act(ASK, []) for _ in range(6)))
            await endpoint.close()
            return said

    assert [one["completion"]["requests"] for one in asyncio.run(run())] == [1] * 6


def test_a_connection_that_the_server_closed_while_idle_is_not_used_again():
    async def run():
        server = FaultServer()
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", max_retries=0)
            for _ in range(3):
                await endpoint.act(ASK, [])
                for connection in tuple(server.connections):
                    connection.close()
                while server.connections:
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.01)
            await endpoint.close()
        return server.requests

    assert asyncio.run(run()) == 3


def test_encrypted_connections_check_the_certificate(tmp_path, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
    ]
    files = ["subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def exchange(trusted):
        async def run():
            server = FaultServer()
            server.tls = context
            async with server as url:
                port = int(url.rsplit(":", 1)[1].partition("/")[0])
                client = ssl.create_default_context(cafile=certificate if trusted else None)
                connections = Connections(tls=lambda: client)
                request = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
                try:
                    answers = [await connections.exchange(("https", "127.0.0.1", port), request, 5.0) for _ in "ab"]
                    return [answer.status for answer in answers], len(server.connections)
                finally:
                    connections.close()

        return asyncio.run(run())

    assert exchange(True) == ([200, 200], 1)
    with pytest.raises(ssl.SSLCertVerificationError):
        exchange(False)


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    """The proxy here is the fault server: it sees the whole URL in the request line, and a body that is too long ends."""
    server = FaultServer(schedule=["ok", "huge_chunked", "drop_body"], keep=True)

    async def run():
        async with server as url:
            monkeypatch.setenv("http_proxy", url.removesuffix("/v1"))
            for name in ("no_proxy", "NO_PROXY"):
                monkeypatch.delenv(name, raising=False)
            endpoint = Endpoint("m", "http://model.invalid/v1", tools="native", max_wait=0.01)
            said = [await endpoint.act(ASK, []) for _ in range(2)]
            await endpoint.close()
            return said

    first, second = asyncio.run(run())
    assert server.heads[0].startswith(b"POST http://model.invalid/v1/chat/completions HTTP/1.1")
    assert first["completion"]["requests"] == 1
    assert [one["cause"] for one in second["completion"]["retries"]] == ["bad_reply", "connection"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({}, None),
    ],
)
def test_what_a_server_asks_to_wait(headers, seconds):
    assert asked_wait(headers, now=1445412480.0) == seconds


@given(seed=st.integers(), attempt=st.integers(0, 200), most=st.floats(0, 1e6), asked=st.none() | st.floats(0, 1e6))
def test_waits_are_bounded_and_never_shorter_than_asked(seed, attempt, most, asked):
    waited = backoff(random.Random(seed), attempt, most, asked)
    assert 0 <= waited <= most
    if asked is None:
        assert waited <= 0.5 * 2**attempt
    else:
        assert waited >= min(asked, most)


def test_a_wait_of_the_server_is_kept():
    server = FaultServer(schedule=[error(429, "slow down", b"retry-after-ms: 60\r\n")])

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", max_wait=1.0)
            start = time.monotonic()
            said = await endpoint.start(derive(1)).act(ASK, [])
            await endpoint.close()
            return said["completion"]["retries"], time.monotonic() - start

    (retry,), seconds = asyncio.run(run())
    assert 0.06 <= retry["waited"] <= 0.066
    assert seconds >= 0.06
