"""Failed requests, each with its cause.

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

from factgym.core.strict_json import clean_text

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
_LOADING = re.compile(r"\bloading\b", re.IGNORECASE)
"""Wording of llama.cpp's server, with status 503, while it loads its model."""

_BAD_REQUEST_CAUSES = (
    (
        re.compile(r"no connected db|authentication error|(?:invalid|incorrect) api key", re.IGNORECASE),
        "authentication",
    ),
    (re.compile(r"invalid model name", re.IGNORECASE), "not_found"),
)
"""Wordings of LiteLLM's proxy, which answers a wrong key and a model that it does not have with status 400."""

MALFORMED_CALL = "malformed_call"
"""Cause of an error by which a server answers the model's own malformed tool call."""

_MALFORMED_CALL_CODE = "tool_use_failed"
_MALFORMED_CALL = re.compile(
    r"does not match the expected .{0,80}format|failed to parse input at pos \d|failed to call a function"
    r"|tool call validation failed|unexpected empty grammar stack after accepting piece",
    re.IGNORECASE | re.DOTALL,
)
"""Wordings of llama.cpp (status 500) and Groq (status 400)."""

_HTTPS_PORT = re.compile(r"plain HTTP request|HTTP request to an HTTPS", re.IGNORECASE)
_REFUSED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unexpected|not permitted|forbidden|unknown|not allowed|does not accept"
    r"|only support",
    re.IGNORECASE,
)
_STREAM_ONLY = re.compile(
    r"\bstream(?:ing)?\b.{0,40}\b(?:only|must|required|to true)\b|\b(?:only|must|requires?)\b.{0,40}\bstream(?:ing|s|ed)?\b",
    re.IGNORECASE | re.DOTALL,
)
_SETTING = re.compile(
    r"\b(?:max_tokens|max_completion_tokens|seed|stream_options|temperature|top_p|top_k|stop|logprobs|top_logprobs"
    r"|chat_template_kwargs|parallel_tool_calls|response_format|reasoning_effort|presence_penalty|frequency_penalty"
    r"|repetition_penalty|min_p)\b"
)
"""Keys of requests that servers refuse. Of several that an error names, the first is the one that is refused."""

_RETRIED_STATUS = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed request.

    cause: a code of `PolicyError`, or "overflow" where the prompt does not fit. message: the server's words. again:
    whether a retry can help. retry_after: seconds that the server asks to wait. reply_tokens: tokens that the reply may
    have so that the prompt fits (0: unknown, leave `max_tokens` out); None where the prompt itself is too long.
    about_tools: the server cannot take tools. setting: the key of the request that the server does not take.
    generation: the model's own text, where the fault is its malformed call. away: there is no server now: none takes the
    connection, a proxy says so (502), or it is loading its model.
    """

    cause: str
    message: str
    again: bool = False
    fatal: bool = False
    retry_after: float | None = None
    reply_tokens: int | None = None
    about_tools: bool = field(default=False, compare=False)
    setting: str = field(default="", compare=False)
    generation: str = ""
    away: bool = field(default=False, compare=False)


def fault_of_status(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault of an answer that is an HTTP error. headers: names in lower case."""
    if 300 <= status < 400:
        target = headers.get("location", "elsewhere")
        remedy = "requests are not redirected, so give that address as the base URL"
        return Fault("connection", f"HTTP {status}: the server redirects to {target[:300]}; {remedy}", fatal=True)
    text, codes = _read_error(body)
    message = f"HTTP {status}: {text or 'no explanation'}"
    if codes & _OVERFLOW_CODES or (status in _OVERFLOW_STATUS and _OVERFLOW.search(text)):
        return Fault("overflow", message, reply_tokens=_tokens_for_reply(text))
    if "insufficient_quota" in codes or status == 402:
        return Fault("quota", message, fatal=True)
    if status in (400, 422, 500) and (_MALFORMED_CALL_CODE in codes or _MALFORMED_CALL.search(text)):
        return Fault(MALFORMED_CALL, message, generation=_failed_generation(body))
    about_tools = bool(
        (status in (400, 404, 422, 501) and _ABOUT_TOOLS.search(text)) or (status == 500 and _NO_TOOLS.search(text))
    )
    cause = _CAUSES.get(status, "server" if status >= 500 or status in _RETRIED_STATUS else "bad_request")
    if cause == "bad_request" and _HTTPS_PORT.search(text):
        return Fault("connection", f"{message}; the server speaks HTTPS: write https://", fatal=True)
    if cause == "bad_request":
        cause = next((cause for wording, cause in _BAD_REQUEST_CAUSES if wording.search(text)), cause)
    again = cause in ("server", "rate_limit")
    fatal = cause in ("authentication", "not_found")
    setting = _refused_setting(text, body) if cause == "bad_request" else ""
    wait = requested_wait(headers) if again else None
    away = status == 502 or (status == 503 and bool(_LOADING.search(text)))
    return Fault(cause, message, again, fatal, wait, about_tools=about_tools, setting=setting, away=away)


def _refused_setting(text: str, body: bytes) -> str:
    """The key of the request that the server does not take, where it names one; else empty.

    OpenAI names it in `param`, servers on pydantic as the last step of `loc`, others in their words.
    """
    try:
        data = json.loads(body) if len(body) <= 1_000_000 else None
    except (ValueError, RecursionError):
        data = None
    error = data.get("error", data) if isinstance(data, dict) else None
    named = [error.get("param")] if isinstance(error, dict) else []
    details = data.get("detail") if isinstance(data, dict) else None
    if isinstance(details, list):
        locs = [detail.get("loc") for detail in details if isinstance(detail, dict)]
        named += [loc[-1] for loc in locs if isinstance(loc, list) and loc]
    if _STREAM_ONLY.search(text):
        return "stream"
    if not _REFUSED.search(text):
        return ""
    named += _SETTING.findall(text)
    return next((name for name in named if isinstance(name, str) and _SETTING.fullmatch(name)), "")


def _failed_generation(body: bytes) -> str:
    """The text that the model wrote, as Groq quotes it; empty where the server does not tell."""
    try:
        error = json.loads(body)["error"]
        text = error["failed_generation"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return clean_text(text) if isinstance(text, str) else ""


def requested_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that `retry-after-ms` or `Retry-After` (RFC 9110, 10.2.3) ask for; None where neither does.

    now: seconds since the epoch, of the clock that a date is compared with. headers: names in lower case.
    """
    milliseconds = _non_negative(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _non_negative(text)
    if seconds is not None or text is None:
        return seconds
    try:  # an HTTP date instead of seconds
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


def _tokens_for_reply(text: str) -> int | None:
    """Tokens that the reply may have by the server's own numbers; 0 where unknown, None where the prompt is too long."""
    match = next(filter(None, (pattern.search(text) for pattern in _MAX_TOKENS_TOO_LARGE)), None)
    if match is None:
        return None
    if match.groupdict().get("least"):
        return 0
    return max(0, int(match["context"]) - int(match["input"])) or None


def _read_error(body: bytes) -> tuple[str, frozenset[str]]:
    """The message in an error's body, and the codes and types it names; at most some thousand characters are read."""
    text = body[:20_000].decode("utf-8", "replace").strip()
    try:
        data = json.loads(body) if len(body) <= 1_000_000 else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        if text.startswith("<"):  # proxies explain themselves in HTML
            markup = r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>"
            return " ".join(re.sub(markup, " ", text, flags=re.DOTALL).split())[:1000], frozenset()
        return text[:4000], frozenset()
    error = data.get("error", data)
    fields = error if isinstance(error, dict) else {"message": error}
    message: Any = fields.get("message") or data.get("message") or data.get("detail") or data.get("error")
    if not isinstance(message, str):
        message = json.dumps(message or data, ensure_ascii=False)[:4000]
    values = [source.get(key) for source in (data, fields) for key in ("code", "type", "error_type")]
    return message[:8000], frozenset(str(value)[:100] for value in values if value)
