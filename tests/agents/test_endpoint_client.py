"""The endpoint's client: keys reach their own server only and no record; connections, proxies and waits."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import random
import shutil
import ssl
import subprocess
import time

import pytest
from fault_server import FaultServer, error, message, reply
from hypothesis import given
from hypothesis import strategies as st

from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.client import backoff
from factgym.agents.endpoint.faults import requested_wait
from factgym.agents.endpoint.settings import Redactor, find_address
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError
from factgym.core.seeds import derive

KEY = "sk-ab12CD34ef56GH78yz"
LOCAL = "http://127.0.0.1:8000/v1"
ASK = [{"role": "user", "content": "Answer to check: x"}]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "FACTGYM_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "named", "environ", "expected"),
    [
        (LOCAL, None, {}, (LOCAL, "none")),
        (LOCAL + "/", None, {"OPENAI_API_KEY": KEY}, (LOCAL, "none")),
        (LOCAL, None, {"FACTGYM_API_KEY": f" {KEY}\n", "OPENAI_API_KEY": "o" * 20}, (LOCAL, KEY)),
        (LOCAL, "MINE", {"MINE": KEY, "FACTGYM_API_KEY": "f" * 20}, (LOCAL, KEY)),
        (LOCAL, "OPENAI_API_KEY", {"OPENAI_API_KEY": KEY}, (LOCAL, KEY)),
        (None, None, {"OPENAI_BASE_URL": LOCAL}, (LOCAL, "none")),
        (None, None, {"OPENAI_BASE_URL": LOCAL, "OPENAI_API_KEY": KEY, "FACTGYM_API_KEY": "f" * 20}, (LOCAL, KEY)),
        (None, None, {"OPENAI_API_KEY": KEY}, ("https://api.openai.com/v1", KEY)),
    ],
)
def test_each_server_gets_its_own_key_only(url, named, environ, expected):
    address = find_address(url, named, environ)
    assert (address.url, address.key) == expected
    assert KEY not in repr(address)


@pytest.mark.parametrize(
    ("url", "named", "environ", "expected"),
    [
        (None, None, {}, "OPENAI_API_KEY is not set"),
        ("https://api.openai.com/v1", None, {"OPENAI_API_KEY": KEY}, "name it with api_key_env"),
        (LOCAL, "MINE", {}, "MINE, which is not set"),
        (LOCAL, "MINE", {"MINE": "  "}, "MINE, which is not set"),
        (LOCAL, "MINE", {"MINE": "two words"}, "MINE holds characters"),
        (LOCAL, "MINE", {"MINE": "l\u00ednea"}, "MINE holds characters"),
        ("http://user:pass@host/v1", None, {}, "user name or password"),
        ("http://token@host/v1", None, {}, "user name or password"),
        ("http://host/v1?api-key=abc", None, {}, "query string"),
        ("http://host/v1#x", None, {}, "fragment"),
        ("host:8000", None, {}, "http://127.0.0.1:8000/v1"),
        ("ftp://host", None, {}, "http://127.0.0.1:8000/v1"),
        ("http://host:99999/v1", None, {}, "not a URL"),
        ("http://ho st/v1\n", None, {}, "URL like"),
        (None, None, {"OPENAI_BASE_URL": "http://a:b@host"}, "OPENAI_BASE_URL holds a user name"),
    ],
)
def test_unusable_urls_and_keys_are_errors_that_do_not_repeat_them(url, named, environ, expected):
    with pytest.raises(ConfigError, match=expected) as caught:
        find_address(url, named, environ)
    for secret in ("user:pass", "token@", "abc", "two words", "a:b"):
        assert secret not in str(caught.value)


def sent_headers(monkeypatch, **environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    server = FaultServer(keep=True)

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, tools="native")
            await endpoint.act(ASK, [])
            await endpoint.close()

    asyncio.run(run())
    lines = server.heads[0].decode().split("\r\n")[1:]
    return [line.partition(": ")[::2] for line in lines]


def test_openais_own_settings_do_not_reach_a_server_that_was_typed(monkeypatch):
    headers = sent_headers(
        monkeypatch,
        OPENAI_API_KEY=KEY,
        OPENAI_ADMIN_KEY="admin-" + KEY,
        OPENAI_ORG_ID="org-secret",
        OPENAI_PROJECT_ID="project-secret",
    )
    assert [value for name, value in headers if name.lower() == "authorization"] == ["Bearer none"]
    assert not [value for _, value in headers if KEY in value or "secret" in value]
    assert {name.lower() for name, _ in headers} == {
        *("host", "accept", "accept-encoding", "authorization", "content-length", "content-type", "user-agent")
    }


def test_the_key_that_was_meant_is_sent_once(monkeypatch):
    headers = sent_headers(
        monkeypatch,
        FACTGYM_API_KEY=KEY,
        OPENAI_CUSTOM_HEADERS="authorization: Bearer other-key-0123456789\nX-Team: a:b",
    )
    assert [value for name, value in headers if name.lower() == "authorization"] == [f"Bearer {KEY}"]
    assert ("X-Team", "a:b") in headers


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_to_another_server_gets_no_key(monkeypatch, status):
    monkeypatch.setenv("FACTGYM_API_KEY", KEY)
    other = FaultServer(keep=True)

    async def run():
        async with other as present:
            location = f"Location: {present}/chat/completions\r\n".encode()
            async with FaultServer(schedule=[reply(status, {}, location)]) as url:
                endpoint = Endpoint("m", url, tools="native", max_retries=0)
                try:
                    await endpoint.act(ASK, [])
                finally:
                    await endpoint.close()

    with pytest.raises(PolicyError, match="redirects"):
        asyncio.run(run())
    assert not other.heads


ECHOES = [
    f"Incorrect API key provided: {KEY}. You can find it at https://platform.openai.com",
    "Incorrect API key provided: sk-ab***yz.",
    "Incorrect API key provided: sk-ab12********************GH78yz.",
    "bad key ab12CD34ef56",
    "bad key '…GH78yz'",
    "bad key sk-ab1...8yz!",
    f"header was Authorization: Bearer {KEY}",
    f'{{"api_key": "{KEY}"}}',
    f"split {KEY[:9]}\x00{KEY[9:]}",
]


@pytest.mark.parametrize("echo", ECHOES)
def test_echoes_are_taken_out_of_errors(echo):
    visible = Redactor(KEY).error(f"HTTP 401: {echo}")
    pieces = [KEY[at : at + 6] for at in range(len(KEY) - 5)]
    assert not [piece for piece in pieces if piece in visible]
    assert "sk-ab" not in visible and "8yz" not in visible
    assert visible.startswith("HTTP 401: ") and "[key]" in visible


def test_ordinary_words_stay():
    text = "This model's maximum context length is 4096 tokens... However, you requested 5000 tokens (see the docs)."
    assert Redactor(KEY).error(text) == text
    assert Redactor(None).error(text) == text


def everything(monkeypatch, caplog, server, tools=(), **settings):
    """All that comes out of one call: message, description, error with its chain, log lines of every library."""
    monkeypatch.setenv("FACTGYM_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_LOG", "debug")
    caplog.set_level(logging.DEBUG)
    result = []

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, **{"tools": "native", "max_retries": 1, "max_wait": 0.01, **settings})
            try:
                result.append(json.dumps(await endpoint.start(1).act(ASK, tools)))
            except PolicyError as error:
                while error is not None:
                    result.append(f"{error!r} {error} {vars(error)}")
                    error = error.__cause__ or error.__context__
            result.append(json.dumps(endpoint.describe()))
            result.append(repr(endpoint.settings) + repr(endpoint.address))
            await endpoint.close()

    asyncio.run(run())
    assert any(KEY.encode() in head for head in server.heads), "the key was sent, as it should be"
    return "\n".join([*result, *(record.getMessage() + str(record.args) for record in caplog.records)])


MASKED = f"Incorrect API key provided: {KEY[:5]}***{KEY[-2:]} or {KEY}"


@pytest.mark.parametrize(
    "schedule",
    [
        ["ok"],
        [error(401, MASKED)],
        [error(400, MASKED)],
        [error(429, MASKED), "ok"],
        [error(500, MASKED)] * 2,
        [reply(502, f"<html>{MASKED}</html>".encode(), kind=b"text/html")] * 2,
        [reply(200, f"not json {MASKED}".encode())] * 2,
        [reply(200, {"error": {"message": MASKED, "code": 401}})],
        [error(404, MASKED)],
        [message({"role": "assistant", "content": f"your key is {KEY}", KEY: KEY})],
    ],
)
def test_no_key_in_anything_that_comes_out(monkeypatch, caplog, schedule):
    out = everything(monkeypatch, caplog, FaultServer(schedule=schedule, keep=True))
    assert KEY not in out
    assert "sk-ab" not in out and "8yz" not in out


def test_a_placeholder_is_no_secret():
    assert Redactor(find_address(LOCAL, "K", {"K": "EMPTY"}).secret).reply(b"EMPTY cup") == b"EMPTY cup"


def test_a_pickled_endpoint_holds_no_key_and_reads_it_where_it_wakes(monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    packed = pickle.dumps(Endpoint("m", LOCAL, api_key_env="MINE", temperature=0.5))
    assert KEY.encode() not in packed
    monkeypatch.setenv("MINE", "another-key-0123")
    woken = pickle.loads(packed)
    assert woken.address.key == "another-key-0123"
    assert woken.describe()["temperature"] == 0.5


# Connections of an endpoint: reused, bounded, encrypted, given back; and the waits between requests.

ASK = [{"role": "user", "content": "Answer to check: x"}]


def test_connections_are_reused_and_no_more_are_open_than_allowed():
    server = FaultServer(delay=0.01)
    peak = 0
    original = server.chat

    def chat(connection, request):
        nonlocal peak
        peak = max(peak, len(server.connections))
        original(connection, request)

    server.chat = chat

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", connections=8)
            policies = [endpoint.start(seed) for seed in range(40)]
            for _ in range(2):
                await asyncio.gather(*(policy.act(ASK, []) for policy in policies))
            opened = len(server.connections)
            await endpoint.close()
            return opened

    assert asyncio.run(run()) == 8
    assert (peak, server.requests) == (8, 80)


def test_waiting_for_a_free_connection_is_no_timeout():
    async def run():
        async with FaultServer(delay=0.15) as url:
            endpoint = Endpoint("m", url, tools="native", connections=1, timeout=0.5)
            replies = await asyncio.gather(*(endpoint.act(ASK, []) for _ in range(6)))
            await endpoint.close()
            return replies

    assert [reply["completion"]["requests"] for reply in asyncio.run(run())] == [1] * 6


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


def certificate(tmp_path):
    """A server's context and the file of its certificate, for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def test_encrypted_connections_check_the_certificate(tmp_path, monkeypatch):
    context, certificate_file = certificate(tmp_path)

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
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file))
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
            text = [await endpoint.act(ASK, []) for _ in range(2)]
            await endpoint.close()
            return text

    first, second = asyncio.run(run())
    assert server.heads[0].startswith(b"POST http://model.invalid/v1/chat/completions HTTP/1.1")
    assert first["completion"]["requests"] == 1
    assert [retry["cause"] for retry in second["completion"]["retries"]] == ["bad_reply", "connection"]


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
def test_retry_after_headers(headers, seconds):
    assert requested_wait(headers, now=1445412480.0) == seconds


@given(
    seed=st.integers(), attempt=st.integers(0, 200), max_wait=st.floats(0, 1e6), requested=st.none() | st.floats(0, 1e6)
)
def test_waits_are_bounded_and_never_shorter_than_requested(seed, attempt, max_wait, requested):
    waited = backoff(random.Random(seed), attempt, max_wait, requested)
    assert 0 <= waited <= max_wait
    if requested is None:
        assert waited <= 0.5 * 2**attempt
    else:
        assert waited >= min(requested, max_wait)


def test_the_wait_of_retry_after_is_respected():
    server = FaultServer(schedule=[error(429, "slow down", b"retry-after-ms: 60\r\n")])

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, tools="native", max_wait=1.0)
            start = time.monotonic()
            reply = await endpoint.start(derive(1)).act(ASK, [])
            await endpoint.close()
            return reply["completion"]["retries"], time.monotonic() - start

    (retry,), seconds = asyncio.run(run())
    assert 0.06 <= retry["waited"] <= 0.066
    assert seconds >= 0.06
