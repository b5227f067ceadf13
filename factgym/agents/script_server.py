"""A chat server without a model, for tests of policies, harnesses and clients: `python -m factgym.agents.script_server`.

It speaks `/v1/models` and `/v1/chat/completions` as OpenAI-compatible servers do, with native tools, tools as text and
streams. It plays a fixed script of ClaimCheck (search for the answer's words, read the first hit, submit a verdict)
and answers after a fixed delay, however many requests are under way. Subclass `ScriptServer` for other replies.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import ssl
import sys
from dataclasses import dataclass
from json import JSONEncoder
from typing import Any, Self, cast

MODEL = "claimcheck-script"
"""The one model that the server has."""

MAX_REQUEST = 64 * 1024 * 1024
"""Bytes of one request; a longer one ends the connection."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,10})[ \t]*\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"
_JSON_TYPE = b"application/json"
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Request:
    """head: the request line and the headers, unchanged. body: exactly Content-Length bytes."""

    head: bytes
    body: bytes

    @property
    def path(self) -> bytes:
        """Such as `/v1/models`, with its query string."""
        return self.head.split(b" ", 2)[1] if self.head.count(b" ") >= 2 else b""


class Connection(asyncio.Protocol):
    """One client's connection. It answers requests in their order: the next is read when the last was answered.

    The least HTTP/1.1 that chat clients need: keep-alive and Content-Length bodies. It is written on asyncio's own
    protocols: the server shares its machine with the harness that it measures, and a client that goes away is noticed
    while its answer is due, which asyncio's streams do not report. Left out on purpose: chunked requests, `Expect`,
    compression.
    """

    __slots__ = ("answering", "buffer", "handle", "need", "server", "transport")

    def __init__(self, server: ScriptServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.need = 0
        self.answering = False
        self.transport: asyncio.Transport | None = None
        self.handle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        # No check of the type: transports of uvloop are no subclass.
        self.transport = cast(asyncio.Transport, transport)
        self.server.connections.add(self)
        if self.server.stopped:  # accepted before the end, made after it
            self.drop()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio; an answer that is still due is dropped."""
        self.transport = None
        self.server.connections.discard(self)
        if self.handle is not None:
            self.handle.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.buffer += data
        if not self.answering and len(self.buffer) >= self.need:
            self._next_request()

    def _next_request(self) -> None:
        end = self.buffer.find(_END)
        if end < 0:
            self.need = 0
            if len(self.buffer) > MAX_REQUEST:
                self.drop()
            return
        match = _LENGTH.search(self.buffer, 0, end + 2)
        total = end + len(_END) + (int(match[1]) if match else 0)
        if total > MAX_REQUEST:
            self.drop()
        elif len(self.buffer) < total:
            self.need = total
        else:
            request = Request(bytes(self.buffer[:end]), bytes(self.buffer[end + len(_END) : total]))
            del self.buffer[:total]
            self.need = 0
            self.answering = True
            self.server.answer(self, request)

    def send_later(self, delay: float, status: int, body: bytes, kind: bytes = _JSON_TYPE) -> None:
        """Send an answer after `delay` seconds."""
        self.handle = asyncio.get_running_loop().call_later(delay, self.send, status, body, b"", kind)

    def send(self, status: int, body: bytes, headers: bytes = b"", kind: bytes = _JSON_TYPE) -> None:
        """Send an answer now, and go on to the next request. headers: whole lines, each with its line end."""
        lines = b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n"
        self.write(lines % (status, kind, len(body), headers) + body)
        self.answering = False
        if self.buffer and self.transport is not None:
            self._next_request()

    def write(self, data: bytes) -> None:
        """Send raw bytes; nothing where the client has gone."""
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        """End the connection after all written bytes are sent."""
        if self.transport is not None:
            self.transport.close()

    def drop(self) -> None:
        """Cut the connection off at once, with a reset where bytes are still under way."""
        if self.transport is not None:
            self.transport.abort()


class ScriptServer:
    """A server in the running event loop: `async with ScriptServer(delay=0.05) as url`. A subclass overrides `chat`.

    delay: seconds from the end of a request to its reply. Port 0 takes a free port. tls: a context to serve HTTPS with.
    `requests` counts those to `/chat/completions`.
    """

    tls: ssl.SSLContext | None = None

    def __init__(self, *, delay: float = 0.0, host: str = "127.0.0.1", port: int = 0) -> None:
        self.delay, self.host, self.port = delay, host, port
        self.requests = 0
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> Self:
        """Listen."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), self.host, self.port, backlog=4096, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def url(self) -> str:
        """The base URL that clients take, such as `http://127.0.0.1:8000/v1`; no slash at its end."""
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}/v1"

    @property
    def stopped(self) -> bool:
        """Whether it does not listen."""
        return self._server is None

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        server, self._server = self._server, None
        if server is not None:
            # Before Python 3.13 asyncio leaks a connection that was accepted in the turn before close(): accept no
            # more, give that one the two turns in which it is made, then close.
            with contextlib.suppress(NotImplementedError):  # loops that are not built on a selector
                for listener in server.sockets:
                    asyncio.get_running_loop().remove_reader(listener.fileno())
            for _ in range(2):
                await asyncio.sleep(0)
            server.close()
        for connection in tuple(self.connections):
            connection.drop()
        if server is not None:
            await server.wait_closed()
        while self.connections:  # each leaves with the loop's next turn
            await asyncio.sleep(0)

    async def __aenter__(self) -> str:
        return (await self.start()).url

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    def answer(self, connection: Connection, request: Request) -> None:
        """Answer a request of a chat client."""
        path = request.path
        if path.endswith(b"/chat/completions"):
            self.requests += 1
            self.chat(connection, request)
        elif path.endswith(b"/models"):
            connection.send(200, _encode({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())
        else:
            connection.send(404, b'{"error":{"message":"nothing here"}}')

    def chat(self, connection: Connection, request: Request) -> None:
        """Answer one chat request by the script."""
        self.reply(connection, request, scripted_reply(request.body))

    def reply(self, connection: Connection, request: Request, completion: bytes) -> None:
        """Send a completion, as a stream of events where the request asks for one."""
        if _STREAM.search(request.body):
            connection.send_later(self.delay, 200, as_events(completion), b"text/event-stream")
        else:
            connection.send_later(self.delay, 200, completion)


# The script reads requests as bytes, because decoding them would cost more than all the rest: the turn is the number of
# assistant messages, found by their role; inside a JSON string the quotes are escaped, so that no text can look like
# one. Only the few strings that are used are decoded.
_STRING = rb'([^"\\]*(?:\\.[^"\\]*)*)'
_CLAIM = re.compile(rb"Answer to check:(?: |\\n)*(?:<answer [a-z]{4}>)?" + _STRING, re.DOTALL)
_ASSISTANT = re.compile(rb'"role": ?"assistant"')
_ID = re.compile(rb'<(?:result|evidence) id=\\"([^"\\<>]{1,80})\\"')
_EVIDENCE = re.compile(rb"<evidence id=[^>]*>\\n" + _STRING, re.DOTALL)
_TOOLS = re.compile(rb'"tools": ?\[')
_STREAM = re.compile(rb'"stream": ?true')


def scripted_reply(body: bytes) -> bytes:
    """The server's whole answer to the body of a chat request."""
    marks = list(_ASSISTANT.finditer(body))
    name, arguments = _scripted_call(len(marks), body, marks[-1].end() if marks else 0)
    if _TOOLS.search(body):
        function = {"name": name, "arguments": _encode(arguments)}
        call = {"id": f"call_{len(marks)}", "type": "function", "function": function}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        text = _encode({"name": name, "arguments": arguments})
        message = {"role": "assistant", "content": f"<tool_call>\n{text}\n</tool_call>"}
    return completion(message, prompt_tokens=len(body) // 4)


def completion(
    message: dict[str, Any], *, finish_reason: str | None = None, prompt_tokens: int = 1, completion_tokens: int = 0
) -> bytes:
    """A chat completion around an assistant message. completion_tokens 0: about four characters a token."""
    reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")
    tokens = completion_tokens or len(_encode(message)) // 4
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}
    header = {"id": "chatcmpl-script", "object": "chat.completion", "created": 0, "model": MODEL}
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    return _encode({**header, "choices": choices, "usage": usage}).encode()


def as_events(completion: bytes) -> bytes:
    """A completion as the events of a stream: the whole message in one chunk, then the finish reason and the usage."""
    # Server-sent events (WHATWG HTML, 9.2) as OpenAI's API streams them, ended by the event [DONE].
    head = json.loads(completion) | {"object": "chat.completion.chunk"}
    usage, (choice,) = head.pop("usage"), head.pop("choices")
    message = choice["message"]
    calls = [{"index": number, **call} for number, call in enumerate(message.get("tool_calls") or [])]
    delta = {**message, "tool_calls": calls} if calls else message
    chunks = (
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": usage},
    )
    return b"".join(b"data: %b\n\n" % _encode(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def _scripted_call(turn: int, body: bytes, last: int) -> tuple[str, dict[str, Any]]:
    """The tool and arguments of this turn. last: where the last assistant message begins."""
    if turn == 0:
        return "search", {"query": _claim(body)[:300]}
    ids = _ID.search(body, last)
    passage_id = ids[1].decode() if ids else "E1"
    if turn == 1:
        return "read", {"id": passage_id}
    evidence = _EVIDENCE.search(body, last)
    text = _decode_string(evidence[1]) if evidence else ""
    claim = {
        "claim": _claim(body),
        "status": "supported",
        "evidence_ids": [passage_id],
        "quote": text.partition("</evidence ")[0].strip().partition(". ")[0][:1000],
        "unsupported_span": "",
        "reason": "The passage says so.",
    }
    return "submit", {"claims": [claim], "final_verdict": "supported", "evidence_used": [passage_id]}


def _claim(body: bytes) -> str:
    """The beginning of the first answer to check, at most 1,000 characters; never empty."""
    match = _CLAIM.search(body)
    return (_decode_string(match[1]) if match else "").partition("</answer ")[0].strip()[:1000] or "claim"


def _decode_string(text: bytes) -> str:
    return str(json.loads(b'"' + text + b'"', strict=False))


def main() -> None:
    """Print the URL, then serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m factgym.agents.script_server",
        description="Serve a chat model that plays a fixed script. Prints its URL, then serves until interrupted.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--delay-ms", type=float, default=50.0, help="from the end of a request to its reply")
    args = parser.parse_args()

    async def serve() -> None:
        async with ScriptServer(delay=args.delay_ms / 1000, host=args.host, port=args.port) as url:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    main()
