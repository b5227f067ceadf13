"""The script: search for the answer's words, read the first passage found, submit a verdict.

Which turn it is follows from the number of assistant messages in the request, counted as bytes: inside a JSON string
the quotes are escaped, so that no text can look like one. Only the few strings that are used are decoded.
"""

from __future__ import annotations

import json
import re
from json import JSONEncoder
from typing import Any

from factgym.agents.script_server.http import Connection, HttpServer, Request

MODEL = "claimcheck-script"
"""The one model that the server has."""

_STRING = rb'([^"\\]*(?:\\.[^"\\]*)*)'
_CLAIM = re.compile(rb"Answer to check:(?: |\\n)*" + _STRING, re.DOTALL)
_ASSISTANT = re.compile(rb'"role": ?"assistant"')
_ID = re.compile(rb'<(?:result|evidence) id=\\"([^"\\<>]{1,80})\\"')
_EVIDENCE = re.compile(rb"<evidence id=[^>]*>\\n" + _STRING, re.DOTALL)
_TOOLS = re.compile(rb'"tools": ?\[')
_STREAM = re.compile(rb'"stream": ?true')
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ScriptServer(HttpServer):
    """`async with ScriptServer(delay=0.05) as url`.

    delay: seconds from the end of a request to its reply. `requests` counts those to `/chat/completions`.
    """

    def __init__(self, *, delay: float = 0.0, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(host=host, port=port)
        self.delay = delay
        self.requests = 0

    def answer(self, connection: Connection, request: Request) -> None:
        """Answer a request of a chat client."""
        path = request.path
        if path.endswith(b"/chat/completions"):
            self.requests += 1
            self.chat(connection, request)
        elif path.endswith(b"/models"):
            connection.send(200, _encode({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())
        else:
            super().answer(connection, request)

    def chat(self, connection: Connection, request: Request) -> None:
        """Answer one chat request by the script."""
        self.reply(connection, request, scripted_reply(request.body))

    def reply(self, connection: Connection, request: Request, completion: bytes) -> None:
        """Send a completion, as a stream of events where that is asked for."""
        if _STREAM.search(request.body):
            connection.later(self.delay, 200, as_events(completion), b"text/event-stream")
        else:
            connection.later(self.delay, 200, completion)


def scripted_reply(body: bytes) -> bytes:
    """The server's whole answer to the body of a chat request."""
    marks = list(_ASSISTANT.finditer(body))
    name, arguments = _call(len(marks), body, marks[-1].end() if marks else 0)
    message: dict[str, Any]
    if _TOOLS.search(body):
        function = {"name": name, "arguments": _encode(arguments)}
        call = {"id": f"call_{len(marks)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        text = _encode({"name": name, "arguments": arguments})
        message = {"role": "assistant", "content": f"<tool_call>\n{text}\n</tool_call>"}
    return completion(message, prompt_tokens=len(body) // 4)


def completion(
    message: dict[str, Any], *, finish_reason: str | None = None, prompt_tokens: int = 1, completion_tokens: int = 0
) -> bytes:
    """A chat completion around an assistant message. completion_tokens 0: about four characters a token."""
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason or ("tool_calls" if message.get("tool_calls") else "stop"),
    }
    done = completion_tokens or len(_encode(message)) // 4
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": done, "total_tokens": prompt_tokens + done}
    return _encode(
        {
            "id": "chatcmpl-script",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
            "usage": usage,
        }
    ).encode()


def as_events(completion: bytes) -> bytes:
    """A completion as the events of a stream: the whole message in one chunk, then why it ended and the usage."""
    whole = json.loads(completion)
    usage, (choice,) = whole.pop("usage"), whole.pop("choices")
    message = choice["message"]
    calls = [{"index": number, **call} for number, call in enumerate(message.get("tool_calls") or [])]
    delta = {**message, "tool_calls": calls} if calls else message
    head = {**whole, "object": "chat.completion.chunk"}
    chunks = (
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": usage},
    )
    return b"".join(b"data: %b\n\n" % _encode(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def _call(turn: int, body: bytes, last: int) -> tuple[str, dict[str, Any]]:
    """The tool and arguments of this turn. last: where the last assistant message begins."""
    if turn == 0:
        return "search", {"query": _claim(body)[:300]}
    ids = _ID.search(body, last)
    found = ids[1].decode() if ids else "E1"
    return ("read", {"id": found}) if turn == 1 else ("submit", _verdict(body, last, found))


def _verdict(body: bytes, last: int, found: str) -> dict[str, Any]:
    evidence = _EVIDENCE.search(body, last)
    text = _decoded(evidence[1]) if evidence else ""
    claim = {
        "claim": _claim(body),
        "status": "supported",
        "evidence_ids": [found],
        "quote": text.partition("</evidence>")[0].strip().partition(". ")[0][:1000],
        "unsupported_span": "",
        "reason": "The passage says so.",
    }
    return {"claims": [claim], "final_verdict": "supported", "evidence_used": [found]}


def _claim(body: bytes) -> str:
    """The beginning of the first answer to check, at most 1,000 characters; never empty."""
    found = _CLAIM.search(body)
    return (_decoded(found[1]) if found else "").strip()[:1000] or "claim"


def _decoded(text: bytes) -> str:
    value = json.loads(b'"' + text + b'"', strict=False)
    return str(value)
