"""A chat server that fails on a seeded schedule, and otherwise plays the ClaimCheck script.

`async with FaultServer(seed=1, rates={"drop_body": 0.05, "http_500": 0.1}) as url`. What a request meets follows from
the seed, the request's bytes and how often they came before, never from the order of arrival. `schedule` instead names
the faults of the first requests one by one. `counts` tells what was done.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from typing import Any

from factgym.agents.script_server import Connection, Request, ScriptServer, completion, scripted_reply

Fault = Callable[["FaultServer", Connection, Request], None]

OK = "ok"


def reply(status: int, body: Any, headers: bytes = b"", kind: bytes = b"application/json") -> Fault:
    """A fault that answers with these."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda server, connection, request: connection.send(status, data, headers, kind)


def error(status: int, message: str, headers: bytes = b"", **fields: Any) -> Fault:
    return reply(status, {"error": {"message": message, **fields}}, headers)


def message(given: Any, **fields: Any) -> Fault:
    """A well-formed completion around any message."""
    return reply(200, completion(given, **fields))


def calls(*given: Any, **fields: Any) -> Fault:
    return message({"role": "assistant", "content": None, "tool_calls": list(given)}, **fields)


def call(name: Any, arguments: Any, call_id: Any = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _drop_before(server: FaultServer, connection: Connection, request: Request) -> None:
    connection.drop()


def _drop_head(server: FaultServer, connection: Connection, request: Request) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\ncontent-type: applica")
    connection.close()


def _drop_body(server: FaultServer, connection: Connection, request: Request) -> None:
    body = scripted_reply(request.body)
    connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body[: len(body) // 2]))
    connection.close()


def _truncated(server: FaultServer, connection: Connection, request: Request) -> None:
    body = scripted_reply(request.body)
    connection.send(200, body[: len(body) * 2 // 3])


def _slow(server: FaultServer, connection: Connection, request: Request) -> None:
    connection.send_later(server.slow, 200, scripted_reply(request.body))


def _huge(server: FaultServer, connection: Connection, request: Request) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + b" " * 65536)


def _huge_chunked(server: FaultServer, connection: Connection, request: Request) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(3):
        connection.write(b"180000\r\n" + b" " * 0x180000 + b"\r\n")
    connection.close()


def _garbage(server: FaultServer, connection: Connection, request: Request) -> None:
    connection.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    connection.close()


def _date(server: FaultServer, connection: Connection, request: Request) -> None:
    wait = b"retry-after: %b\r\n" % formatdate(time.time(), usegmt=True).encode()
    connection.send(429, b'{"error":{"message":"slow down"}}', wait)


_HTML = b"<html><head><style>p {}</style></head><body><h1>502 Bad Gateway</h1>nginx</body></html>"
_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."

FAULTS: Mapping[str, Fault] = {
    "drop_before": _drop_before,
    "drop_head": _drop_head,
    "drop_body": _drop_body,
    "slow": _slow,
    "rate_limit_seconds": error(429, "slow down", b"Retry-After: 0\r\n"),
    "rate_limit_ms": error(429, "slow down", b"retry-after-ms: 4\r\nRetry-After: 3600\r\n"),
    "rate_limit_date": _date,
    "rate_limit_silent": error(429, "slow down"),
    "http_500": error(500, "internal error"),
    "http_502": reply(502, _HTML, kind=b"text/html"),
    "http_503": error(503, "overloaded"),
    "http_529": error(529, "overloaded"),
    "html": reply(200, _HTML, kind=b"text/html"),
    "invalid_json": reply(200, b'{"choices": [}'),
    "truncated_json": _truncated,
    "garbage": _garbage,
    "empty_choices": reply(200, {"object": "chat.completion", "choices": []}),
    "no_message": reply(200, {"choices": [{"index": 0}]}),
    "wrong_types": message({"role": "assistant", "content": 42, "tool_calls": "none"}),
    "huge": _huge,
    "huge_chunked": _huge_chunked,
    "empty": reply(200, {"choices": [{"message": {"role": "assistant", "content": ""}}], "usage": {}}),
    "empty_said": message({"role": "assistant", "content": ""}, completion_tokens=3),
    "length": message({"role": "assistant", "content": '<tool_call>{"name": "search", "arg'}, finish_reason="length"),
    "malformed_arguments": calls(call("search", '{"query": "a')),
    "duplicate_ids": calls(call("search", '{"query": "a"}'), call("search", '{"query": "b"}')),
    "overflow": error(400, _LONG, type="invalid_request_error", code="context_length_exceeded"),
}
"""Name -> action. See INFRASTRUCTURE and POLICY for the cause."""

POLICY = frozenset({"empty_said", "length", "malformed_arguments", "duplicate_ids", "overflow"})
"""Faults of the model itself: answered or scored, never retried."""

INFRASTRUCTURE = frozenset(FAULTS) - POLICY
"""Faults of the infrastructure: retried."""


LLAMA_CPP = error(500, "The model produced output that does not match the expected peg-native format", code=500)
LLAMA_CPP_GRAMMAR = error(
    500, "got exception: Unexpected empty grammar stack after accepting piece: <tool_call>{oops (1759)", code=500
)
GROQ = error(400, "Failed to call a function.", code="tool_use_failed", failed_generation="<function=search{oops>")


class RateLimitedServer(ScriptServer):
    """Takes `limit` requests in each window of `window` seconds, and refuses further ones with status 429.

    `refused` counts these. announced: say in Retry-After-ms how long the window lasts.
    """

    def __init__(self, limit: int, window: float, *, announced: bool = True) -> None:
        super().__init__()
        self.limit, self.window, self.announced = limit, window, announced
        self.refused = 0
        self._ends = 0.0
        self._taken = 0

    def chat(self, connection: Connection, request: Request) -> None:
        now = time.monotonic()
        if now >= self._ends:
            self._ends, self._taken = now + self.window, 0
        self._taken += 1
        if self._taken <= self.limit:
            super().chat(connection, request)
            return
        self.refused += 1
        header = b"retry-after-ms: %d\r\n" % (1000 * (self._ends - now) + 1) if self.announced else b""
        connection.send(429, b'{"error":{"message":"slow down"}}', header)


class FaultServer(ScriptServer):
    """rates: fault -> share of the requests that meet it. schedule: faults of the first requests, "ok" for none.

    slow: seconds that a "slow" reply takes. bodies: the requests as they came, with keep=True only.
    """

    def __init__(
        self,
        seed: int = 0,
        rates: Mapping[str, float] | None = None,
        schedule: Sequence[str | Fault] = (),
        *,
        delay: float = 0.0,
        slow: float = 30.0,
        keep: bool = False,
    ) -> None:
        super().__init__(delay=delay)
        assert sum((rates or {}).values()) <= 1 and set(rates or ()) <= set(FAULTS)
        self.seed = seed
        self.rates = dict(rates or {})
        self.schedule = list(schedule)
        self.slow = slow
        self.counts: Counter[str] = Counter()
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self._keep = keep
        self._seen: Counter[bytes] = Counter()

    def chat(self, connection: Connection, request: Request) -> None:
        if self._keep:
            self.heads.append(request.head)
            self.bodies.append(request.body)
        fault = self._next(request.body)
        self.counts[fault if isinstance(fault, str) else "custom"] += 1
        if fault == OK:
            super().chat(connection, request)
        else:
            (FAULTS[fault] if isinstance(fault, str) else fault)(self, connection, request)

    def _next(self, body: bytes) -> str | Fault:
        if self.requests <= len(self.schedule):
            return self.schedule[self.requests - 1]
        if not self.rates:
            return OK
        key = hashlib.sha256(body).digest()
        self._seen[key] += 1
        draw = random.Random(f"{self.seed} {key.hex()} {self._seen[key]}").random()
        for name, rate in self.rates.items():
            draw -= rate
            if draw < 0:
                return name
        return OK
