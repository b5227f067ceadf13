"""Faults of a server, each with its cause, read from HTTP errors.

A fault is the infrastructure's (retried if that can help), the user's (a wrong key, model or setting: not retried), or
the prompt's (it no longer fits the model). Servers word the last in many ways; the patterns are those of OpenAI, vLLM,
SGLang, llama.cpp, TGI and Ollama.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

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
_MAX_TOKENS_TOO_LARGE = tuple(
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
"""Wordings for a prompt that fits, but not together with `max_tokens`."""

_ABOUT_TOOLS = re.compile(r"\btool|function[ _]call", re.IGNORECASE)
_NO_TOOLS = re.compile(r"\btools?\b.{0,60}(?:requires?|support|implement|--jinja)", re.IGNORECASE | re.DOTALL)
_CAUSES = {401: "authentication", 403: "authentication", 404: "not_found", 402: "quota", 429: "rate_limit"}
_RETRIED_STATUS = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed request.

    cause: a code of `PolicyError`, or "overflow" where the prompt does not fit. message: the server's words. again:
    whether a retry can help. retry_after: seconds that the server asks to wait. reply_tokens: tokens that the reply may
    have so that the prompt fits (0: unknown, leave `max_tokens` out); None where the prompt itself is too long.
    about_tools: the server cannot take tools.
    """

    cause: str
    message: str
    again: bool = False
    fatal: bool = False
    retry_after: float | None = None
    reply_tokens: int | None = None
    about_tools: bool = field(default=False, compare=False)


def fault_of_status(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault of an answer that is an HTTP error. headers: names in lower case."""
    text, codes = _read_error(body)
    message = f"HTTP {status}: {text or 'no explanation'}"
    if codes & _OVERFLOW_CODES or (status in _OVERFLOW_STATUS and _OVERFLOW.search(text)):
        return Fault("overflow", message, reply_tokens=_room_for_reply(text))
    if "insufficient_quota" in codes or status == 402:
        return Fault("quota", message, fatal=True)
    about_tools = bool(
        (status in (400, 404, 422, 501) and _ABOUT_TOOLS.search(text)) or (status == 500 and _NO_TOOLS.search(text))
    )
    cause = _CAUSES.get(status, "server" if status >= 500 or status in _RETRIED_STATUS else "bad_request")
    again = cause in ("server", "rate_limit")
    fatal = cause in ("authentication", "not_found")
    return Fault(cause, message, again, fatal, requested_wait(headers) if again else None, about_tools=about_tools)


def requested_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that `retry-after-ms` or `Retry-After` (seconds or an HTTP date) ask for; None where neither does.

    now: seconds since the epoch, of the clock that a date is compared with. headers: names in lower case.
    """
    milliseconds = _non_negative(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _non_negative(text)
    if seconds is not None or text is None:
        return seconds
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def _non_negative(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _room_for_reply(text: str) -> int | None:
    for pattern in _MAX_TOKENS_TOO_LARGE:
        match = pattern.search(text)
        if match:
            if match.groupdict().get("least"):
                return 0
            return max(0, int(match["context"]) - int(match["input"])) or None
    return None


def _read_error(body: bytes) -> tuple[str, frozenset[str]]:
    """The message in an error's body, and the codes and types it names; at most some thousand characters are read."""
    text = body[:20_000].decode("utf-8", "replace").strip()
    try:
        data = json.loads(body) if len(body) <= 1_000_000 else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        return _plain_text(text), frozenset()
    error = data.get("error", data)
    fields = error if isinstance(error, dict) else {"message": error}
    message: Any = fields.get("message") or data.get("message") or data.get("detail") or data.get("error")
    if not isinstance(message, str):
        message = json.dumps(message or data, ensure_ascii=False)[:4000]
    codes = {
        str(source[key])[:100]
        for source in (data, fields)
        for key in ("code", "type", "error_type")
        if source.get(key)
    }
    return message[:8000], frozenset(codes)


def _plain_text(text: str) -> str:
    """The words of a page: proxies explain themselves in HTML."""
    if text[:1] != "<":
        return text[:4000]
    markup = r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>"
    return " ".join(re.sub(markup, " ", text, flags=re.DOTALL).split())[:1000]
