"""`factgym serve …` in a process of its own, requests to it, and scripted servers for its clients."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PASSAGES = (
    ("1", '"Refund policy"\nRefunds are paid within 30 days.'),
    ("2", "Annual leave\nTwo days of leave a month; refunds of unused days."),
    ("3", "Offices\nThe office in Lisbon opened in 2011."),
)


def write_passages(path: Path) -> Path:
    """Write `PASSAGES` as Search-R1 has its corpora."""
    path.write_text("".join(json.dumps({"id": id_, "contents": text}) + "\n" for id_, text in PASSAGES), "utf-8")
    return path


def start(*words: str) -> tuple[subprocess.Popen[str], str]:
    """Start `factgym serve WORDS`; return the process and its URL."""
    command = [sys.executable, "-m", "factgym", "serve", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:  # libraries may write before it
        lines.append(line)
        if line.startswith("Serving") and (url := re.search(r"http://\S+$", line)):
            return process, url[0]
    process.kill()
    raise AssertionError("".join(lines) + process.communicate()[1])


def stop(process: subprocess.Popen[str]) -> None:
    """Kill a server at once."""
    process.kill()
    process.communicate()


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """The URL of `factgym serve WORDS`."""
    process, url = start(*words)
    try:
        yield url
    finally:
        stop(process)


def request(
    url: str, body: Any = None, *, raw: bytes | None = None, authorization: str | None = None
) -> tuple[int, Any]:
    """Status and answer (JSON or text) of a request: POST where there is a body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    data = raw if body is None else json.dumps(body).encode()
    try:
        headers = {} if authorization is None else {"Authorization": authorization}
        connection.request("GET" if data is None else "POST", parts.path, data, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if "json" in answer.headers["content-type"] else text
    finally:
        connection.close()


TOKEN = "a-token-of-some-length"


def check_token(url: str, body: Any = None) -> None:
    """Assert that the server, started with `TOKEN`, answers a request with it, and no other."""
    for wrong in (
        None,
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer \xe9",
    ):
        status, answer = request(url, body, authorization=wrong)
        assert status == 401 and "Authorization: Bearer" in answer["detail"], wrong
    assert request(url, body, authorization=f"Bearer {TOKEN}")[0] == 200


def ids(hits: Sequence[Any]) -> list[str]:
    """The ids of bare hits, or of hits with scores."""
    return [hit.get("document", hit)["id"] for hit in hits]


Answer = tuple[int, Any]
"""Status and content: JSON data, or bytes."""


class ScriptedServer(ThreadingHTTPServer):
    """A server whose answers a function gives, of path and body: raw bytes are sent before it hangs up, None is nothing."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str, Any], Answer | bytes | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_GET(self) -> None:
        size = int(self.headers.get("content-length", 0))
        answer = self.server.answer(self.path, json.loads(self.rfile.read(size)) if size else None)
        if answer is None or isinstance(answer, bytes):
            self.wfile.write(answer or b"")
            self.close_connection = True
            return
        status, content = answer
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass
