"""Keys come from the environment, go to the right server only, and never come out again."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle

import pytest
from fault_server import FaultServer, error, message, reply

from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.settings import Redactor, find_address
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError

KEY = "sk-ab12CD34ef56GH78yz"
LOCAL = "http://127.0.0.1:8000/v1"
ASK = [{"role": "user", "content": "Answer to check: x"}]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "FACTGYM_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "named", "environ", "found"),
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
def test_which_key_goes_where(url, named, environ, found):
    address = find_address(url, named, environ)
    assert (address.url, address.key) == found
    assert KEY not in repr(address)


@pytest.mark.parametrize(
    ("url", "named", "environ", "says"),
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
def test_what_cannot_be_used_is_said_without_repeating_it(url, named, environ, says):
    with pytest.raises(ConfigError, match=says) as caught:
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
        *("host", "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type"),
        *("user-agent", "x-stainless-retry-count", "x-stainless-read-timeout"),
    }


def test_the_key_that_was_meant_is_sent_once(monkeypatch):
    headers = sent_headers(
        monkeypatch, FACTGYM_API_KEY=KEY, OPENAI_CUSTOM_HEADERS="authorization: Bearer other-key-0123456789"
    )
    assert [value for name, value in headers if name.lower() == "authorization"] == [f"Bearer {KEY}"]


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_to_another_server_gets_no_key(monkeypatch, status):
    monkeypatch.setenv("FACTGYM_API_KEY", KEY)
    other = FaultServer(keep=True)

    async def run():
        async with other as there:
            location = f"Location: {there}/chat/completions\r\n".encode()
            async with FaultServer(schedule=[reply(status, {}, location)]) as url:
                endpoint = Endpoint("m", url, tools="native", max_retries=0)
                try:
                    await endpoint.act(ASK, [])
                finally:
                    await endpoint.close()

    asyncio.run(run())
    assert other.heads and not [head for head in other.heads if KEY.encode() in head]


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
    shown = Redactor(KEY).error(f"HTTP 401: {echo}")
    pieces = [KEY[at : at + 6] for at in range(len(KEY) - 5)]
    assert not [piece for piece in pieces if piece in shown]
    assert "sk-ab" not in shown and "8yz" not in shown
    assert shown.startswith("HTTP 401: ") and "[key]" in shown


def test_ordinary_words_stay():
    said = "This model's maximum context length is 4096 tokens... However, you requested 5000 tokens (see the docs)."
    assert Redactor(KEY).error(said) == said
    assert Redactor(None).error(said) == said


def everything(monkeypatch, caplog, server, tools=(), **settings):
    """All that comes out of one call: message, description, error with its chain, log lines of every library."""
    monkeypatch.setenv("FACTGYM_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_LOG", "debug")
    caplog.set_level(logging.DEBUG)
    found = []

    async def run():
        async with server as url:
            endpoint = Endpoint("m", url, **{"tools": "native", "max_retries": 1, "max_wait": 0.01, **settings})
            try:
                found.append(json.dumps(await endpoint.start(1).act(ASK, tools)))
            except PolicyError as error:
                while error is not None:
                    found.append(f"{error!r} {error} {vars(error)}")
                    error = error.__cause__ or error.__context__
            found.append(json.dumps(endpoint.describe()))
            found.append(repr(endpoint.settings) + repr(endpoint.address))
            await endpoint.close()

    asyncio.run(run())
    assert any(KEY.encode() in head for head in server.heads), "the key was sent, as it should be"
    return "\n".join([*found, *(record.getMessage() + str(record.args) for record in caplog.records)])


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
