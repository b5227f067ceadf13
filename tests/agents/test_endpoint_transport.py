"""Connections of an endpoint: reused, bounded, encrypted, given back; and the waits between requests."""

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
from factgym.agents.endpoint.client import backoff
from factgym.agents.endpoint.reply import requested_wait
from factgym.core.policy import PolicyError
from factgym.core.seeds import derive

ASK = [{"role": "user", "content": "Answer to check: x"}]


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
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def ask_twice():
        server = FaultServer()
        server.tls = context
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", max_retries=0)
            try:
                for _ in range(2):
                    await endpoint.act(ASK, [])
                return server.requests, len(server.connections)
            finally:
                await endpoint.close()

    with pytest.raises(PolicyError, match="certificate") as caught:
        asyncio.run(ask_twice())
    assert caught.value.cause == "connection"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert asyncio.run(ask_twice()) == (2, 1)


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
    assert requested_wait(headers, now=1445412480.0) == seconds


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
