"""Attacks on a running `factgym serve …`: each is sent over a socket of its own, and has one outcome for each server.

`python tests/serve_attacks.py` writes the table of outcomes into the documentation.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from chrome import REBOUND, Chromium, find_chromium
from retrieval_served import TOKEN, ScriptedServer, start, stop, write_passages

from factgym.corpora.cooccurrence import build_index
from factgym.corpora.cooccurrence.sources import Source

MEGABYTE = 2**20
CONNECTIONS = 100
"""Limit of the server with a token."""
HALF_OPEN = 1200
CANARY = "canary-8f3a"
_TIMEOUT = 60.0
PAGE = Path(__file__).parent.parent / "docs" / "guides" / "servers.md"


@dataclass
class Target:
    """A server in two processes: one with default limits, one with a token and low limits.

    path, body_with, headers: a request that is answered with status 200, whatever text its body has. socket_path: of its
    WebSocket.
    """

    name: str
    words: tuple[str, ...]
    path: str
    body_with: Callable[[str], Any]
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    socket_path: str | None = None
    port: int = 0
    token_port: int = 0

    @contextlib.contextmanager
    def serving(self) -> Iterator[Target]:
        """Start both processes, and check at the end that they live."""
        limits = ("--token", TOKEN, "--request-seconds", "1", "--max-connections", str(CONNECTIONS))
        processes = []
        try:
            for more in ((), limits):
                process, url = start(*self.words, "--port", "0", *more)
                processes.append(process)
                setattr(self, "token_port" if more else "port", urlsplit(url).port)
            yield self
            assert [process.poll() for process in processes] == [None, None]
        finally:
            for process in processes:
                stop(process)

    def request(
        self,
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        *,
        host: str | None = "{}",
        path: str | None = None,
        method: str | None = None,
        body: bytes | None = None,
        version: str = "1.1",
        with_token: bool = False,
    ) -> bytes:
        """The good request in bytes, with changes. headers: further ones. host: {} is the server's own; None sends none."""
        if body is None and method != "GET":
            body = json.dumps(self.body_with("refunds")).encode()
        method = method or ("GET" if body is None else "POST")
        lines = [f"{method} {path or self.path} HTTP/{version}"]
        port = self.token_port if with_token else self.port
        if host is not None:
            lines.append("Host: " + host.replace("{}", f"127.0.0.1:{port}").replace("PORT", str(port)))
        own = {name.lower() for name, _ in _pairs(headers)}
        lines += [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in own]
        lines += [f"{name}: {value.replace('PORT', str(port))}" for name, value in _pairs(headers)]
        if with_token:
            lines.append(f"Authorization: Bearer {TOKEN}")
        if body is not None and not own & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + (body or b"")

    def connect(self, with_token: bool = False) -> socket.socket:
        """A connection to the server."""
        return socket.create_connection(("127.0.0.1", self.token_port if with_token else self.port), _TIMEOUT)

    def send(self, data: bytes, with_token: bool = False) -> str:
        """The outcome of bytes."""
        parts = (data[start : start + 65536] for start in range(0, len(data), 65536))
        return _stream(self, parts, with_token)

    def is_alive(self, with_token: bool = False) -> bool:
        """Whether the good request is answered."""
        return self.send(self.request(with_token=with_token), with_token) == "200"


def make_target(name: str, folder: Path) -> Target:
    """A server over small documents."""
    passages = str(write_passages(folder / "passages.jsonl"))
    claims = ("claimcheck-multihop", "--set", "size=12")
    mcp = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if name == "check":
        (folder / "handbook.md").write_text("# Refunds\n\nRefunds are paid within 14 days.\n", "utf-8")
        words: tuple[str, ...] = ("check", str(folder / "handbook.md"))
        return Target(name, words, "/check", lambda text: {"text": f"Refunds are paid within 14 days, {text}."})
    if name == "retrieval":
        return Target(name, ("retrieval", passages), "/retrieve", lambda text: {"queries": [text]})
    if name == "counts":
        words = ("counts", str(build_index(Source(Path(passages)), folder / "counts.idx", workers=1).path))
        return Target(name, words, "/", lambda text: {"query_type": "count", "query": text})
    if name == "openenv":
        words = ("openenv", *claims)
        return Target(name, words, "/reset", lambda text: {"seed": 1, "episode_id": text}, socket_path="/ws")
    words = ("mcp", *(claims if name == "mcp" else ("--corpus", passages)), "--transport", "http")
    return Target(name, words, "/mcp", _initialize, mcp)


def _initialize(text: str) -> Any:
    client = {"name": text, "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def _pairs(headers: dict[str, str] | list[tuple[str, str]] | None) -> list[tuple[str, str]]:
    return list(headers.items()) if isinstance(headers, dict) else headers or []


def read_response(connection: socket.socket) -> bytes:
    """Bytes up to the end of the first response, or of the connection."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
            head, end, body = data.partition(b"\r\n\r\n")
            if not end:
                continue
            if head.startswith((b"HTTP/1.1 101", b"HTTP/1.1 404")) and b"content-length" not in head.lower():
                break
            if b"transfer-encoding: chunked" in head.lower():
                if body.endswith(b"0\r\n\r\n"):
                    break
            elif len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0"):
                break
    return data


def outcome(connection: socket.socket) -> str:
    """Status of the first response, "closed" without one. An error is one short line of JSON, or a page; all have our headers."""
    head, _, body = read_response(connection).partition(b"\r\n\r\n")
    if not head:
        return "closed"
    status = int(head.split()[1])
    names = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert CANARY.encode() not in head + body
    assert b"access-control-allow-origin" not in names
    if status >= 400:
        assert names[b"content-type"] == b"application/json", head
        assert len(body) <= 4096 and b"\n" not in body
        (text,) = [value for name, value in json.loads(body).items() if name in ("detail", "error")] or [body.decode()]
        assert "Traceback" not in str(text)
    if status != 101 and names.get(b"connection") != b"close":
        assert names[b"x-content-type-options"] == b"nosniff"
        assert b"frame-ancestors" in names[b"content-security-policy"]
        assert b"no-" in names[b"cache-control"] and names[b"cross-origin-resource-policy"] == b"same-origin"
    return str(status)


Attack = Callable[[Target], str]
ATTACKS: dict[str, tuple[Attack, str | dict[str, str]]] = {}
"""Name -> attack, and its outcome: for all servers, or by server with "" for the others."""


def attack(name: str, expected: str | dict[str, str]) -> Callable[[Attack], Attack]:
    """Register an attack."""

    def register(function: Attack) -> Attack:
        assert name not in ATTACKS
        ATTACKS[name] = function, expected
        return function

    return register


def expected_of(name: str, server: str) -> str:
    """The right outcome."""
    expected = ATTACKS[name][1]
    return expected if isinstance(expected, str) else expected.get(server, expected[""])


# Hosts: RFC 9110, 7.2, and the forms that URL parsers read in two ways.
for _host, _status in {
    "evil.example": "421",
    "evil.example:PORT": "421",
    "localhost.evil.example": "421",
    "127.0.0.1.evil.example:PORT": "421",
    "localhost@evil.example": "421",
    "evil.example@localhost": "421",
    "evil.example#localhost": "421",
    "evil.example/localhost": "421",
    "localhost,evil.example": "421",
    "localhost:1:2": "421",
    "localhost.": "421",
    "127.1": "421",
    "2130706433": "421",
    "[::1]evil.example": "421",
    "[::1%25eth0]": "421",
    "[2001:db8::1]:PORT": "421",
    "192.168.0.7": "421",
    "": "421",
    "LOCALHOST:PORT": "200",
    "[::1]:PORT": "200",
    "[::ffff:127.0.0.1]": "200",
}.items():
    attack(f"`Host: {_host}`" if _host else "an empty Host", _status)(
        lambda target, host=_host: target.send(target.request(host=host))
    )

for _origin, _status in {
    "https://evil.example": "403",
    "null": "403",
    "http://localhost.evil.example:PORT": "403",
    "http://127.0.0.1:PORT@evil.example": "403",
    "http://127.0.0.1:1": "403",
    "http://localhost:PORT": "403",
    "http://127.0.0.1:PORT.evil.example": "403",
    "file://": "403",
    "http://127.0.0.1:PORT": "200",
}.items():
    attack(f"`Origin: {_origin}`", _status)(
        lambda target, origin=_origin: target.send(target.request({"Origin": origin}))
    )


def _raw(name: str, expected: str | dict[str, str], build: Callable[[Target], bytes]) -> None:
    """Register bytes. "4xx": status 400 or 422."""

    def send(target: Target) -> str:
        status = target.send(build(target))
        return "4xx" if status in ("400", "422") and expected_of(name, target.name) == "4xx" else status

    attack(name, expected)(send)


_raw("no Host", "400", lambda target: target.request(host=None))
_raw("no Host, HTTP/1.0", "400", lambda target: target.request(host=None, version="1.0"))
_raw("two Hosts", "400", lambda target: target.request({"Host": "evil.example"}))
_raw("absolute URI of another host", "400", lambda target: target.request(path="http://evil.example/"))
_raw("`OPTIONS *`", "400", lambda target: target.request(path="*", method="OPTIONS"))
_raw("two Origins", "400", lambda target: target.request([("Origin", "null"), ("Origin", "http://127.0.0.1:PORT")]))
_raw(
    "`X-Forwarded-Host` of ours", "421", lambda target: target.request({"X-Forwarded-Host": "{}"}, host="evil.example")
)
_raw("CORS preflight", "403", lambda target: target.request(
    {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, method="OPTIONS"))  # fmt: skip
_raw("embedded in a foreign page", "403", lambda target: target.request(
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}))  # fmt: skip
_raw("framed by a foreign page", "403", lambda target: target.request(
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}))  # fmt: skip
_raw("linked from a foreign page", "200", lambda target: target.request(
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}))  # fmt: skip
_raw("`X-HTTP-Method-Override: DELETE`", "200", lambda target: target.request({"X-HTTP-Method-Override": "DELETE"}))
_raw("`TRACE`", {"": "405", "mcp": "404", "mcp --corpus": "404"}, lambda target: target.request(
    path="/health", method="TRACE", body=b""))  # fmt: skip
_raw("hostile headers", "404", lambda target: target.request({"X-" + CANARY: CANARY}, path="/" + CANARY, method="GET"))


@attack("path traversal, in 6 forms", "404")
def _traverse(target: Target) -> str:
    forms = ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..%2f..%2fetc/passwd",
             "/\\..\\etc\\passwd", "/.%00./etc/passwd")  # fmt: skip
    (status,) = {target.send(target.request(path=form, method="GET")) for form in forms}
    return status


# The token.
def _token(name: str, expected: str, **changes: Any) -> None:
    attack(name, expected)(lambda target: target.send(_token_request(target, **changes), True))


def _token_request(target: Target, *values: str, authorization: tuple[str, ...] = (), **changes: Any) -> bytes:
    headers = [("Host", f"127.0.0.1:{target.token_port}"), *changes.pop("headers", [])]
    return target.request([*headers, *(("Authorization", value) for value in authorization)], host=None, **changes)


_token("no token", "401")
_token("wrong token", "401", authorization=(f"Bearer {TOKEN[:-1]}x",))
_token("token cut short", "401", authorization=(f"Bearer {TOKEN[:-1]}",))
_token("token of another scheme", "401", authorization=(f"Token {TOKEN}",))
_token("token in the address", "401", path="/?token=" + TOKEN)
_token("token that is no ASCII", "401", authorization=("Bearer \u00e9" * 9,))
_token("two tokens, one right", "400", authorization=(f"Bearer {TOKEN}", "Bearer x"))
_token("right token", "200", authorization=(f"Bearer {TOKEN}",))
_token(
    "right token, foreign page", "403", authorization=(f"Bearer {TOKEN}",), headers=[("Origin", "https://a.example")]
)
_raw("user and password in the address", "400", lambda target: target.request(path="http://a:b@127.0.0.1/"))


# Sizes. `{}` is the body's limit: 100 MB are above it everywhere.
def _stream(target: Target, parts: Iterator[bytes], with_token: bool = False) -> str:
    """Send as long as the server neither answers nor hangs up."""
    with target.connect(with_token) as connection:
        readable = select.poll()
        readable.register(connection, select.POLLIN)
        with contextlib.suppress(ConnectionError):
            for part in parts:
                if readable.poll(0):
                    break
                connection.sendall(part)
        return outcome(connection)


@attack("body of 100 MB", "413")
def _large_body(target: Target) -> str:
    head = target.request({"Content-Length": str(100 * MEGABYTE)}, body=b"")
    return _stream(target, chain([head], repeat(b"x" * MEGABYTE, 100)))


@attack("body of 100 MB in chunks", "413")
def _large_chunks(target: Target) -> str:
    head = target.request({"Transfer-Encoding": "chunked"}, body=b"")
    return _stream(target, chain([head], repeat(b"100000\r\n" + b"x" * MEGABYTE + b"\r\n", 100)))


_raw("gzip of 100 MB", "415", lambda target: target.request(
    {"Content-Encoding": "gzip"}, body=gzip.compress(bytes(100 * MEGABYTE))))  # fmt: skip
_raw("headers of 1 MB", "431", lambda target: target.request({"X-A": "x" * MEGABYTE}))
_raw("10,000 headers", "431", lambda target: target.request({f"X-{number}": "x" for number in range(10_000)}))
_raw("101 headers", "431", lambda target: target.request({f"X-{number}": "x" for number in range(101)}))
_raw("address of 1 MB", "431", lambda target: target.request(path="/" + "x" * MEGABYTE))
_raw("a million values", "413", lambda target: target.request(body=b"[" + b"0," * 1_000_000 + b"0]"))


# Time and connections: of the server with low limits.
def _drip(head: bytes) -> Iterator[bytes]:
    """Bytes one at a time, without end."""
    yield head
    while True:
        time.sleep(0.1)
        yield b"x"


@attack("headers, a byte at a time", "closed")
def _slow_headers(target: Target) -> str:
    return _stream(target, _drip(b"GET / HTTP/1.1\r\nX-A: "), True)


@attack("body, a byte at a time", "408")
def _slow_body(target: Target) -> str:
    head = target.request({"Content-Length": "1000"}, body=b"", with_token=True)
    return _stream(target, _drip(head), True)


@attack("silence", "closed")
def _silence(target: Target) -> str:
    return target.send(b"", True)


@attack("1,200 half-open connections", "200, then all closed")
def _half_open(target: Target) -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * HALF_OPEN if hard == resource.RLIM_INFINITY else min(2 * HALF_OPEN, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(min(HALF_OPEN, limit - 200)):
            connections.append(stack.enter_context(target.connect(True)))
            with contextlib.suppress(ConnectionError):
                connections[-1].sendall(b"GET / HTTP/1.1\r\nHost:")
        status = target.send(target.request(with_token=True), True)
        closed = [outcome(connection) for connection in connections]  # waits for each
    return f"{status}, then all closed" if set(closed) == {"closed"} else f"{status}, {set(closed)}"


# Framing: RFC 9112, 6.3 and 11.2.
_raw("Content-Length and chunks", "400", lambda target: target.request(
    {"Content-Length": "5", "Transfer-Encoding": "chunked"}, body=b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"))  # fmt: skip
for _name, _headers in {
    "two Content-Lengths": [("Content-Length", "5"), ("Content-Length", "6")],
    "`Content-Length: +5`": [("Content-Length", "+5")],
    "`Content-Length: -1`": [("Content-Length", "-1")],
    "`Content-Length` of 5,000 digits": [("Content-Length", "9" * 5000)],
    "`Transfer-Encoding: xchunked`": [("Transfer-Encoding", "xchunked")],
    "two Transfer-Encodings": [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
    "space before the colon": [("Transfer-Encoding ", "chunked")],
    "NUL in a header": [("X-A", "a\0b")],
    "CR in a header": [("X-A", "a\rX-B: b")],
}.items():
    _raw(_name, "400", lambda target, headers=_headers: target.request(headers, body=b"hello"))
_raw("no HTTP at all", "400", lambda target: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
_raw("chunk of a wrong size", {"": "400"}, lambda target: target.request(
    {"Transfer-Encoding": "chunked"}, body=b"zz\r\nhello\r\n0\r\n\r\n"))  # fmt: skip


@attack("two requests at once", "200 200")
def _pipeline(target: Target) -> str:
    with target.connect() as connection:
        connection.sendall(2 * target.request())
        data = b""
        while data.count(b"HTTP/1.1 ") < 2 and (part := connection.recv(65536)):
            data += part
    return " ".join(part[:3].decode() for part in data.split(b"HTTP/1.1 ")[1:])


# JSON: RFC 8259, 9, and what Python's parser takes beyond it.
JSON_ATTACKS: dict[str, bytes] = {
    "brackets, 30,000 deep": b"[" * 30_000,
    "objects, 10,000 deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "NaN": b'{"queries": NaN, "query": NaN, "text": NaN, "action": NaN, "id": NaN}',
    "a number of 10,000 digits": b'{"topk": ' + b"9" * 10_000 + b"}",
    "`1e999999`": b'{"topk": 1e999999, "queries": ["a"], "query": 1e999999, "text": 1e999999, "jsonrpc": 1e999999}',
    "invalid UTF-8": b'{"query": "\xff\xfe", "text": "\xff\xfe"}',
    "UTF-16": '{"query": "a", "text": "a"}'.encode("utf-16"),
    "an empty body": b"",
    "a text": b'"text"',
}
for _name, _body in JSON_ATTACKS.items():
    # OpenEnv resets without arguments where the body is empty.
    _raw(
        _name,
        {"": "4xx", "openenv": "200"} if not _body else "4xx",
        lambda target, body=_body: target.request(body=body),
    )


@attack("lone surrogates and NUL in texts", {"": "200", "mcp": "400", "mcp --corpus": "400", "openenv": "422"})
def _surrogates(target: Target) -> str:
    return target.send(target.request(body=json.dumps(target.body_with("half \ud83d and \0")).encode()))


# WebSockets: RFC 6455, 4.2 and 10.2. A server without one answers the request as if it asked for no upgrade.
def _upgrade(headers: dict[str, str] | None = None, with_token: bool = False, **changes: Any) -> Attack:
    def send(target: Target) -> str:
        key = base64.b64encode(b"0123456789abcdef").decode()
        own = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        method = "GET" if target.socket_path else "POST"
        path = target.socket_path or target.path
        if with_token:
            changes["host"] = f"127.0.0.1:{target.token_port}"
        return target.send(target.request({**own, **(headers or {})}, path=path, method=method, **changes), with_token)

    return send


attack("WebSocket of a foreign page", "403")(_upgrade({"Origin": "https://evil.example"}))
attack("WebSocket of a null origin", "403")(_upgrade({"Origin": "null"}))
attack("WebSocket to a foreign host", "421")(_upgrade(host="evil.example"))
attack("WebSocket without a token", "401")(_upgrade(with_token=True))
attack("WebSocket with 101 headers", "431")(_upgrade({f"X-{number}": "x" for number in range(101)}))
attack("WebSocket of our own page", {"": "200", "openenv": "101"})(_upgrade({"Origin": "http://127.0.0.1:PORT"}))


# From pages in a browser.
_SCRIPT = """
(async () => {
  const results = [], url = 'http://ADDRESS', body = BODY;
  const attempt = (promise) => promise.then((response) => results.push(response.type), () => results.push('refused'));
  await attempt(fetch(url));
  await attempt(fetch(url, {method: 'POST', body}));
  await attempt(fetch(url, {method: 'POST', body, headers: {'Content-Type': 'application/json'}}));
  await attempt(fetch(url, {mode: 'no-cors'}));
  await attempt(fetch(url, {method: 'POST', mode: 'no-cors', body}));
  await attempt(fetch(url, {method: 'POST', mode: 'no-cors', body, referrerPolicy: 'no-referrer'}));
  results.push(await new Promise((done) => {
    const image = new Image();
    image.onload = () => done('loaded'), image.onerror = () => done('refused'), image.src = url;
  }));
  results.push(await new Promise((done) => {
    const frame = document.createElement('iframe'), form = document.createElement('form');
    frame.name = 'frame', frame.srcdoc = '', document.body.append(frame, form);
    form.target = 'frame', form.method = 'POST', form.action = url;
    frame.onload = () => { frame.onload = () => done('sent'), form.submit(); };
  }));
  results.push(await new Promise((done) => {
    const socket = new WebSocket('ws://SOCKET');
    socket.onopen = () => done('open'), socket.onerror = () => done('refused');
  }));
  return results.join();
})()
"""
_RESULTS = "refused,refused,refused,refused,refused,refused,refused,sent,refused"


def _statuses(browser: Chromium, server: str) -> list[int]:
    """The statuses of the responses of a server."""
    events = [(event["method"], event["params"]) for event in browser.events if "requestId" in event.get("params", {})]
    own = {
        values["requestId"]
        for name, values in events
        if name == "Network.requestWillBeSent" and values["request"]["url"].startswith(server)
    }
    answered = [values for name, values in events if name == "Network.responseReceivedExtraInfo"]
    return [values["statusCode"] for values in answered if values["requestId"] in own]


def attack_from_pages(target: Target, folder: Path) -> None:
    """Let pages of another origin, and of a name that leads to this machine, do all that browsers let pages do."""
    binary = find_chromium()
    if binary is None:
        pytest.skip("needs Chromium: install the package 'chromium', or put google-chrome on the PATH")
    body = json.dumps(json.dumps(target.body_with("refunds")))
    site = ScriptedServer(lambda path, body: (200, b"<!doctype html><link rel=icon href=data:,>"))
    with site, Chromium(binary, folder / "profile") as browser:
        for host, status in (("127.0.0.1", 403), (REBOUND, 421)):
            browser.open(f"http://{host}:{site.server_address[1]}/")
            browser.events.clear()
            script = _SCRIPT.replace("ADDRESS", f"{host}:{target.port}{target.path}").replace("BODY", body)
            script = script.replace("SOCKET", f"{host}:{target.port}{target.socket_path or target.path}")
            assert browser.run(script) == _RESULTS
            # Every request was answered, the preflight and the image's too, and none was let in.
            while len(statuses := _statuses(browser, f"http://{host}:{target.port}/")) < 8 or not (
                errors := [
                    event["params"] for event in browser.events if event["method"] == "Network.webSocketFrameError"
                ]
            ):
                browser.run("new Promise((done) => setTimeout(done, 20))")
            assert set(statuses) == {status}, statuses
            assert f"Unexpected response code: {status}" in errors[0]["errorMessage"]
    assert target.is_alive()


def table(servers: tuple[str, ...]) -> str:
    """Attacks and outcomes in Markdown."""
    lines = [
        "| attack | " + " | ".join(f"`{server}`" for server in servers) + " |",
        "| --- |" + " --- |" * len(servers),
    ]
    for name in ATTACKS:
        cells = [expected_of(name, server) for server in servers]
        lines.append("| " + " | ".join([name.replace("|", "\\|"), *cells]) + " |")
    return "\n".join(lines)


SERVERS = ("check", "retrieval", "counts", "mcp", "mcp --corpus", "openenv")
_MARKS = "<!-- attacks -->\n\n", "\n\n<!-- end of attacks -->"


def page_with_table(text: str) -> str:
    """The page with the table in its place."""
    before, _, rest = text.partition(_MARKS[0])
    return before + _MARKS[0] + table(SERVERS) + _MARKS[1] + rest.partition(_MARKS[1])[2]


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page_with_table(PAGE.read_text("utf-8")), "utf-8") == 0)
