"""Failed requests, each with its cause.

A fault is the infrastructure's (retried if that can help), the user's (a wrong key, model or setting: not retried), or
the prompt's (it no longer fits the model, see `overflow`, or the provider's filter blocks it).
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from factgym.agents.endpoint.overflow import (
    MAX_PATTERN_TEXT,
    exceeds_rate,
    is_overflow,
    is_rate_limit,
    tokens_for_reply,
    words_of,
)
from factgym.core.strict_json import clean_text

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

_NEVER_FILTERED = frozenset({401, 402, 404, 429})
_VERDICT = (
    r"(?:flagged|blocked|rejected|filtered|refused|violat\w*|triggered|triggering|intervened|prohibited|not allowed)"
)
_RULE = (
    r"(?:(?:usage|content|safety|guardrail)s? (?:management |filter(?:ing)? )?(?:polic(?:y|ies)|guidelines?|system|check)"
    r"|safety|moderation|guardrails?|responsible ai)"
)
_FILTERED = re.compile(
    rf"\b{_VERDICT}\b.{{0,60}}\b{_RULE}\b|\b{_RULE}\b.{{0,60}}\b{_VERDICT}\b"
    r"|content.?filter|content policy violation|responsible aipolicy|data ?inspection ?failed|inappropriate content"
    r"|content exists risk|considered high risk|prohibited content|\bnew sensitive\b|prompt injection.{0,20}detected"
    r"|\b(?:input|prompt|request|message|content|output)\b.{0,20}\bflagged\b|敏感内容|敏感词|内容安全"
)
"""Wordings of Azure, OpenAI, Gemini, Bedrock, Anthropic, DashScope, DeepSeek, Kimi, Z.ai, MiniMax, xAI, OpenRouter and
LiteLLM for a prompt or a reply that the provider's filter blocks, as `words_of` has them."""

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

REASONING = re.compile(r"reasoning|think|thought", re.IGNORECASE)
"""Names of keys, block types and errors that are about reasoning."""

_ABOUT_MESSAGES = re.compile(
    rf"\broles?\b|\brole_|alternat|jinja|template|raise_exception|system (?:message|prompt)|tool[_ ](?:call|result|message)"
    rf"|messages?\W{{1,3}}\d|(?:last|first) message|{REASONING.pattern}",
    re.IGNORECASE,
)
"""Words of errors about the roles, the order or the keys of messages, or from a chat template."""

_MARKUP = re.compile(
    r"<(?:style|script)\b[^<]*+(?:<(?!/(?:style|script))[^<]*+)*+(?:</(?:style|script)[^<>]*>|\Z)|<[^<>]*>"
)
_RETRIED_STATUS = frozenset({408, 409, 425})
_MAX_DEPTH, _MAX_ERRORS, _MAX_BODY = 6, 20, 1_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed request.

    cause: a code of `PolicyError`, "overflow" where the prompt does not fit, or "content_filter". message: the server's words. again:
    whether a retry can help. retry_after: seconds that the server asks to wait. reply_tokens: tokens that the reply may
    have so that the prompt fits (0: unknown, leave `max_tokens` out); None where the prompt itself is too long.
    about_tools: the server cannot take tools. setting: the key of the request that the server does not take.
    generation: the model's own text, where the fault is its malformed call. status: of HTTP, 0 without an answer.
    about_messages: the error speaks of the messages' roles, order or reasoning, or of the chat template. away: there is no server now: none takes the
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
    status: int = field(default=0, compare=False)
    about_messages: bool = field(default=False, compare=False)

    @property
    def unreachable(self) -> bool:
        """Whether nothing takes the connection."""
        return self.away and self.cause == "connection"

    @property
    def loading(self) -> bool:
        """Whether the server says that it is loading its model."""
        return self.away and self.message.startswith("HTTP 503")


def fault_of_status(
    status: int, headers: Mapping[str, str], body: bytes, pattern: re.Pattern[str] | None = None
) -> Fault:
    """The fault of an answer that is an HTTP error. headers: names in lower case. pattern: further words of overflows."""
    if 300 <= status < 400:
        target = headers.get("location", "elsewhere")
        remedy = "requests are not redirected, so give that address as the base URL"
        return Fault("connection", f"HTTP {status}: the server redirects to {target[:300]}; {remedy}", fatal=True)
    try:
        data = json.loads(body) if len(body) <= _MAX_BODY else None
    except (ValueError, RecursionError):
        data = None
    text, codes = _read_error(data) if isinstance(data, (dict, list)) else (_plain_text(body), frozenset())
    error = data.get("error", data) if isinstance(data, dict) else {}
    fields = error if isinstance(error, dict) else {}
    message = f"HTTP {status}: {text or 'no explanation'}"
    words = words_of(" ".join([text, *codes]))
    if is_overflow(status, words, codes) or (pattern is not None and pattern.search(text[:MAX_PATTERN_TEXT])):
        return Fault("overflow", message, reply_tokens=tokens_for_reply(words))
    if "insufficient_quota" in codes or status == 402:
        return Fault("quota", message, fatal=True)
    if status not in _NEVER_FILTERED and _FILTERED.search(words):
        return Fault("content_filter", message)
    if status in (400, 422, 500) and (_MALFORMED_CALL_CODE in codes or _MALFORMED_CALL.search(text)):
        return Fault(MALFORMED_CALL, message, generation=clean_text(str(fields.get("failed_generation") or "")))
    about_tools = bool(
        (status in (400, 404, 422, 501) and _ABOUT_TOOLS.search(text)) or (status == 500 and _NO_TOOLS.search(text))
    )
    cause = _CAUSES.get(status, "server" if status >= 500 or status in _RETRIED_STATUS else "bad_request")
    if cause == "bad_request" and _HTTPS_PORT.search(text):
        return Fault("connection", f"{message}; the server speaks HTTPS: write https://", fatal=True)
    if cause == "bad_request":
        cause = next((cause for wording, cause in _BAD_REQUEST_CAUSES if wording.search(text)), cause)
        cause = "rate_limit" if cause == "bad_request" and is_rate_limit(words) else cause
    again = cause == "server" or (cause == "rate_limit" and not exceeds_rate(words))
    fatal = cause in ("authentication", "not_found")
    setting = _refused_setting(text, fields.get("param")) if cause == "bad_request" else ""
    wait = requested_wait(headers) if again else None
    return Fault(
        cause,
        message,
        again,
        fatal,
        wait,
        about_tools=about_tools,
        setting=setting,
        away=status == 502 or (status == 503 and bool(_LOADING.search(text))),
        status=status,
        about_messages=bool(_ABOUT_MESSAGES.search(text)),
    )


def _refused_setting(text: str, param: Any) -> str:
    """The key of the request that the server does not take, where it names one; else empty.

    OpenAI names it in `param`, others in their words.
    """
    if _STREAM_ONLY.search(text):
        return "stream"
    if not _REFUSED.search(text):
        return ""
    named = [param, *_SETTING.findall(text)]
    return next((name for name in named if isinstance(name, str) and _SETTING.fullmatch(name)), "")


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


_CODE_KEYS = ("code", "type", "error_type")
_TEXT_KEYS = ("message", "msg", "detail", "details", "error", "errors", "raw", "metadata", "base_resp", "status_msg")
"""Members of errors that explain them. Others, such as `input` of pydantic's, may quote the prompt."""


def _plain_text(body: bytes) -> str:
    """The text of an error that is no JSON; proxies explain themselves in HTML."""
    text = body[:20_000].decode("utf-8", "replace").strip()
    if not text.startswith("<"):
        return text[:4000]
    return " ".join(_MARKUP.sub(" ", text).split())[:1000]


def _read_error(data: Any) -> tuple[str, frozenset[str]]:
    """The messages in an error, and the codes and types that it names."""
    parts = list(_explanations(data))
    texts = dict.fromkeys(part for is_code, part in parts if not is_code)
    message = "; ".join(texts) or json.dumps(data, ensure_ascii=False)[:4000]
    return message[:8000], frozenset(part[:100] for is_code, part in parts if is_code)


def _explanations(value: Any, depth: int = 0) -> Iterator[tuple[bool, str]]:
    """Parts of an error, each with whether it is a code."""
    if isinstance(value, str) and value.strip():
        yield False, value
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for item in value[:_MAX_ERRORS]:
            yield from _explanations(item, depth + 1)
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        yield from ((True, str(value[key])) for key in _CODE_KEYS if isinstance(value.get(key), (str, int)))
        for key in _TEXT_KEYS:
            loc = value.get("loc") if key == "msg" else None  # the field that a server on pydantic refuses
            name = ".".join(map(str, loc)) + ": " if isinstance(loc, list) else ""
            yield from (
                (is_code, part if is_code else name + part)
                for is_code, part in _explanations(value.get(key), depth + 1)
            )
