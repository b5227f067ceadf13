"""What went wrong with a request: each fault as itself.

A fault is the infrastructure's (asked again if that can help), the user's (a wrong key, model or setting: not asked
again), or the prompt's (it no longer fits the model). Servers say the last in many wordings; the patterns are those of
OpenAI, vLLM, SGLang, llama.cpp, TGI and Ollama.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.endpoint.retry import asked_wait

_OVERFLOW_STATUS = frozenset({400, 413, 422})
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"})
_OVERFLOW = re.compile(
    r"maximum context length|maximum model length|maximum (?:allowed )?input length|maximum prompt length"
    r"|longer than the model's context|exceeds? the (?:available |model'?s? )?(?:maximum )?context|context[_ ]length[_ ]exceeded"
    r"|exceeds? the configured limit|prompt is too long|input is too long|context (?:window|size|length)\W.{0,40}exceed"
    r"|exceeds? .{0,40}context (?:window|size|length|limit)"
    r"|`inputs`.{0,40} must (?:have less than|be <=)|inputs? tokens \+ `?max_new_tokens",
    re.IGNORECASE | re.DOTALL,
)
_N = r"(?P<%s>\d{1,9})"
_CONTEXT, _INPUT = _N % "context", _N % "input"
_TOO_MUCH_TO_WRITE = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"maximum context length is {_CONTEXT} tokens and your request has {_INPUT} input tokens",
        rf"maximum context length is {_CONTEXT} tokens.{{0,40}}your request has {_INPUT} input tokens plus",
        rf"maximum context length is {_CONTEXT} tokens.{{0,40}}requested \d+ tokens \({_INPUT} in the messages",
        rf"maximum context length is {_CONTEXT} tokens.{{0,40}}requested \d+ output tokens and your prompt contains (?P<least>at least )?{_INPUT} input",
        rf"maximum context length of {_CONTEXT} tokens.{{0,60}}total of \d+ tokens: {_INPUT} tokens from the input",
        rf"must be <= {_CONTEXT}\. Given: {_INPUT} `?inputs`? tokens",
    )
)
"""How servers say that the prompt fits, but not together with `max_tokens`."""

_ABOUT_TOOLS = re.compile(r"\btool|function[ _]call", re.IGNORECASE)
_NO_TOOLS = re.compile(r"\btools?\b.{0,60}(?:requires?|support|implement|--jinja)", re.IGNORECASE | re.DOTALL)
_CAUSES = {401: "authentication", 403: "authentication", 404: "not_found", 402: "quota", 429: "rate_limit"}
_AGAIN = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed request.

    cause: a code of `PolicyError`, or "overflow" where the prompt does not fit. message: what the server said. again:
    whether asking again can help. asked: seconds that the server wants to be left alone. room: tokens that the reply
    may have so that the prompt fits (0: unknown, leave `max_tokens` out); None where the prompt itself is too long.
    about_tools: the server cannot take tools.
    """

    cause: str
    message: str
    again: bool = False
    fatal: bool = False
    asked: float | None = None
    room: int | None = None
    about_tools: bool = field(default=False, compare=False)


def fault_of_status(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault of an answer that is an HTTP error. headers: names in lower case."""
    said, codes = said_in(body)
    message = f"HTTP {status}: {said or 'no explanation'}"
    if is_overflow(status, said, codes):
        return Fault("overflow", message, room=_room(said))
    if "insufficient_quota" in codes or status == 402:
        return Fault("quota", message, fatal=True)
    tools = bool(
        (status in (400, 404, 422, 501) and _ABOUT_TOOLS.search(said)) or (status == 500 and _NO_TOOLS.search(said))
    )
    cause = _CAUSES.get(status, "server" if status >= 500 or status in _AGAIN else "bad_request")
    again = cause in ("server", "rate_limit")
    fatal = cause in ("authentication", "not_found")
    return Fault(cause, message, again, fatal, asked_wait(headers) if again else None, about_tools=tools)


def is_overflow(status: int, said: str, codes: frozenset[str]) -> bool:
    """Whether an error says that the prompt does not fit the model's context."""
    if codes & _OVERFLOW_CODES:
        return True
    return status in _OVERFLOW_STATUS and bool(_OVERFLOW.search(said))


def _room(said: str) -> int | None:
    for pattern in _TOO_MUCH_TO_WRITE:
        found = pattern.search(said)
        if found:
            if found.groupdict().get("least"):
                return 0
            return max(0, int(found["context"]) - int(found["input"])) or None
    return None


def said_in(body: bytes) -> tuple[str, frozenset[str]]:
    """What an error's body says, and the codes and types it names; at most some thousand characters are read."""
    text = body[:20_000].decode("utf-8", "replace").strip()
    try:
        data = json.loads(body) if len(body) <= 1_000_000 else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        return _plain(text), frozenset()
    error = data.get("error", data)
    fields = error if isinstance(error, dict) else {"message": error}
    said = fields.get("message") or data.get("message") or data.get("detail") or data.get("error")
    named = {
        str(one.get(key))[:100] for one in (data, fields) for key in ("code", "type", "error_type") if one.get(key)
    }
    return (said if isinstance(said, str) else _compact(said or data))[:8000], frozenset(named)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:4000]


def _plain(text: str) -> str:
    """The words of a page; proxies explain themselves in HTML."""
    if text[:1] != "<":
        return text[:4000]
    return " ".join(
        re.sub(r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", " ", text[:20_000], flags=re.DOTALL).split()
    )[:1000]
