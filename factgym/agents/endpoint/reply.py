"""Answers of a server, each read into a message with its completion, or into a fault with its cause.

A fault is the infrastructure's (retried if that can help), the user's (a wrong key, model or setting: not retried), or
the prompt's (it no longer fits the model). Servers word the last in many ways; the patterns are those of OpenAI, vLLM,
SGLang, llama.cpp, TGI and Ollama. Replies differ in small ways, too (arguments as objects, null ids, parts, the old
`function_call`, two names for reasoning). The model's own words are never changed: its mistakes are answered by the
environment.
"""

from __future__ import annotations

import json
import math
import re
import time
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from json import JSONDecoder, JSONEncoder
from typing import Any

from factgym.agents.sampling import split_reasoning
from factgym.core.messages import Completion, Message, TokenLogprob, ToolCallMessage, Usage
from factgym.core.strict_json import Limits, StrictJsonError, clean_text, plain_json

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


def malformed_turn(fault: Fault) -> ChatReply:
    """The model's turn whose tool call the server could not read: its text where that is known, no call."""
    message: Message = {"role": "assistant", "content": fault.generation}
    completion = Completion(raw=fault.generation)
    completion["notes"] = {MALFORMED_CALL: clean_text(fault.message)}
    return ChatReply(message, completion, empty=False)


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


_RAW_LIMITS = Limits(max_chars=1_000_000, max_depth=64, max_number_chars=640)
_RAW_HEAD = 2_000
_MAX_CALLS = 64
_MAX_LABEL = 200
_ABORTED = frozenset({"error", "abort"})
"""Finish reasons of a server that gave up, which is no fault of the model."""

_MIN_LOGPROB = -9999.0
"""In place of minus infinity, which JSON cannot write; servers use the same number."""

_decode = JSONDecoder(parse_constant=lambda _: None).decode
_encode = JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A parsed reply. empty: it has no content, and the server does not report any token of one."""

    message: Message
    completion: Completion
    empty: bool


class _BadReplyError(Exception):
    """The server's reply is no chat completion; the message says why."""


def read_reply(body: bytes, keep_reasoning: bool = False) -> ChatReply | Fault:
    """Read an answer with HTTP status 200. keep_reasoning: leave `<think>` in the content."""
    try:
        try:
            data = _decode(body.removeprefix(BOM_UTF8).decode("utf-8"))
        except (ValueError, RecursionError):
            raise _BadReplyError("the reply is not JSON") from None
        if not isinstance(data, dict):
            raise _BadReplyError("the reply is not a JSON object")
        error = data.get("error")
        if isinstance(error, (dict, str)) and error and not data.get("choices"):
            # Some routers send the error of the server behind them with status 200.
            status = error.get("code") if isinstance(error, dict) else None
            return fault_of_status(status if isinstance(status, int) and 400 <= status < 600 else 502, {}, body)
        return _read_completion(data, keep_reasoning)
    except _BadReplyError as bad:
        return Fault("bad_reply", f"{bad}; it begins with {body[:120]!r}", again=True)


def _read_completion(data: dict[str, Any], keep_reasoning: bool) -> ChatReply | Fault:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _BadReplyError("the reply has no choices")
    choice = choices[0]
    raw = choice.get("message")
    if not isinstance(raw, dict):
        raise _BadReplyError("the reply has no message")
    finish = _label(choice.get("finish_reason"))
    if finish in _ABORTED:
        return Fault("server", f"the server broke off its reply (finish_reason {finish!r})", again=True)
    message = _read_message(raw, keep_reasoning)
    usage = read_usage(data.get("usage"))
    try:
        recorded = plain_json(raw, _RAW_LIMITS)
    except StrictJsonError:  # too large or too deep for a record
        recorded = clean_text(repr(raw)[:_RAW_HEAD])
    tokens, alternatives = read_logprobs(choice.get("logprobs"))
    first_token = data.get(FIRST_TOKEN)
    notes: dict[str, Any] = {"top_logprobs": alternatives} if alternatives else {}
    if isinstance(first_token, float) and 0 <= first_token < math.inf:
        notes[FIRST_TOKEN] = first_token
    optional = {
        "model": _label(data.get("model")),
        "finish_reason": finish,
        "usage": usage or None,
        "logprobs": tokens or None,
        "notes": notes or None,
    }
    completion = Completion(raw=recorded)
    completion.update({key: value for key, value in optional.items() if value is not None})  # type: ignore[typeddict-item]
    text = (message["content"] or "").strip() or message.get("reasoning_content")
    has_content = text or message.get("tool_calls") or usage.get("completion_tokens") or finish == "content_filter"
    return ChatReply(message, completion, empty=not has_content)


def _label(value: Any) -> str | None:
    return clean_text(value[:_MAX_LABEL]) if isinstance(value, str) else None


def _read_message(raw: dict[str, Any], keep_reasoning: bool) -> Message:
    content: Any = raw.get("content")
    if isinstance(content, list):
        parts = [
            part if isinstance(part, str) else part.get("text") or part.get("refusal")
            for part in content
            if isinstance(part, (str, dict))
        ]
        content = "".join(text for text in parts if isinstance(text, str))
    elif content is not None and not isinstance(content, str):
        raise _BadReplyError("the reply's content is neither text nor a list of parts")
    refusal = raw.get("refusal")
    if content is None and isinstance(refusal, str):
        content = refusal
    fields = (raw.get("reasoning_content"), raw.get("reasoning"))
    reasoning = next((text for text in fields if isinstance(text, str) and text), "")
    if content and not keep_reasoning:
        thought, content = split_reasoning(content)
        reasoning = "\n".join(part for part in (reasoning, thought) if part)
    message: Message = {"role": "assistant", "content": content}
    if calls := _read_calls(raw):
        message["tool_calls"] = calls
    elif content is None:
        message["content"] = ""
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def _read_calls(raw: dict[str, Any]) -> list[ToolCallMessage]:
    """The tool calls, their ids made unique and their arguments text."""
    calls = raw.get("tool_calls")
    if calls is None:
        function = raw.get("function_call")  # the API before tools
        calls = [{"function": function}] if isinstance(function, dict) else []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise _BadReplyError("the reply's tool_calls are not a list of calls")
    # Invariant: every id is used once, because results are matched to calls by id. Some servers send none, or doubles.
    used_ids: set[str] = set()
    messages: list[ToolCallMessage] = []
    for number, call in enumerate(calls[:_MAX_CALLS]):
        function = call.get("function")
        fields = function if isinstance(function, dict) else call
        name, arguments = fields.get("name"), fields.get("arguments")
        text = arguments if isinstance(arguments, str) else _encode({} if arguments is None else arguments)
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            call_id = f"call_{number}"
        while call_id in used_ids:
            call_id = f"{call_id}_{number}"
        used_ids.add(call_id)
        called: Any = {"name": name if isinstance(name, str) else "", "arguments": text}
        messages.append({"id": call_id, "type": "function", "function": called})
    return messages


def read_usage(value: Any) -> Usage:
    """The token counts of a reply; a count that is no plausible number is left out."""
    if not isinstance(value, Mapping):
        return {}
    written, prompt = value.get("completion_tokens_details"), value.get("prompt_tokens_details")
    counts = {
        "prompt_tokens": value.get("prompt_tokens"),
        "completion_tokens": value.get("completion_tokens"),
        "reasoning_tokens": (written if isinstance(written, Mapping) else value).get("reasoning_tokens"),
        "cached_tokens": prompt.get("cached_tokens") if isinstance(prompt, Mapping) else None,
    }
    return {key: count for key, count in counts.items() if type(count) is int and 0 <= count < 2**53}  # type: ignore[return-value]


def read_logprobs(value: Any) -> tuple[list[TokenLogprob], list[list[TokenLogprob]]]:
    """The reply's tokens with their natural-log probabilities, and the likeliest alternatives of each.

    Both are empty where the server gives none.
    """
    if not isinstance(value, Mapping):
        return [], []
    content = value.get("content")
    if isinstance(content, list):
        lists = [entry.get("top_logprobs") for entry in content if isinstance(entry, Mapping)]
        alternatives = [_read_tokens(entries) for entries in lists if isinstance(entries, list)]
        return _read_tokens(content), alternatives if any(alternatives) else []
    tokens, logprobs = value.get("tokens"), value.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(logprobs, list) and len(tokens) == len(logprobs):
        pairs = zip(tokens, logprobs, strict=True)
        return _read_tokens([{"token": token, "logprob": logprob} for token, logprob in pairs]), []
    return [], []


def _read_tokens(entries: list[Any]) -> list[TokenLogprob]:
    tokens: list[TokenLogprob] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("token"), str):
            continue
        value = entry.get("logprob")
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -math.inf
        logprob = number if math.isfinite(number) else _MIN_LOGPROB
        tokens.append({"token": clean_text(entry["token"]), "logprob": logprob})
    return tokens


FIRST_TOKEN = "first_token_seconds"
"""Seconds from the request to the first part of a stream that holds a part of the reply, among a turn's notes."""

_MAX_CHOICE_CALLS = 4 * _MAX_CALLS


def is_stream(body: bytes) -> bool:
    """Whether a body is a stream of events, whatever its type says: a JSON document begins otherwise."""
    return body.removeprefix(BOM_UTF8).lstrip()[:6].startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def completion_of_stream(body: bytes, arrivals: Sequence[tuple[int, float]] = ()) -> bytes:
    """The chat completion of a stream of server-sent events, as JSON; read by `read_reply`.

    arrivals: bytes so far and seconds since the request, after each part that arrived. An event that cannot be read, or a
    stream that ends without a finish reason, makes a body that is no completion. Deltas are joined as OpenAI's API
    defines them: texts are appended, calls by their index.
    """
    stream = _Stream()
    end = 0
    for line in body.split(b"\n"):
        end += len(line) + 1
        if line.startswith(b"data:") and (data := line[5:].strip()) and data != b"[DONE]":
            try:
                event = json.loads(data)
            except (ValueError, RecursionError):
                return body
            if not isinstance(event, dict):
                return body
            if stream.add(event) and stream.first is None:
                stream.first = next((seconds for size, seconds in arrivals if size >= end - 1), None)
    return _encode(stream.completion()).encode("utf-8", "replace")


@dataclass(slots=True)
class _Stream:
    """The deltas of a stream so far. first: seconds to the first token."""

    head: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    logprobs: list[Any] = field(default_factory=list)
    finish: Any = None
    usage: Any = None
    error: Any = None
    first: float | None = None

    def add(self, event: Mapping[str, Any]) -> bool:
        """Add an event; return whether it holds a part of the reply."""
        self.head = self.head or {key: event[key] for key in ("id", "model", "created") if key in event}
        self.usage = event.get("usage") or self.usage
        self.error = event.get("error") or self.error
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        self.finish = choice.get("finish_reason") or self.finish
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
            self.logprobs += logprobs["content"]
        delta = choice.get("delta") or choice.get("message")
        return isinstance(delta, Mapping) and self._add_delta(delta)

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        any_part = False
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            if isinstance(text := delta.get(name), str) and text:
                self.texts.setdefault(name, []).append(text)
                any_part = True
        calls = delta.get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, Mapping):
                self._add_call(number, call)
                any_part = True
        return any_part

    def _add_call(self, number: int, call: Mapping[str, Any]) -> None:
        index = call.get("index")
        index = index if type(index) is int else number
        if index not in self.calls and len(self.calls) >= _MAX_CHOICE_CALLS:
            return
        merged = self.calls.setdefault(index, {"id": None, "name": None, "arguments": []})
        function = call.get("function")
        fields = function if isinstance(function, Mapping) else {}
        merged["id"] = merged["id"] or call.get("id")
        merged["name"] = merged["name"] or fields.get("name")
        if (arguments := fields.get("arguments")) is not None:
            merged["arguments"].append(arguments if isinstance(arguments, str) else _encode(arguments))

    def completion(self) -> dict[str, Any]:
        """The whole reply; without a finish reason, a completion without choices."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: "".join(parts) for name, parts in self.texts.items()}
        if self.calls:
            message["tool_calls"] = [
                {"id": call["id"], "function": {"name": call["name"], "arguments": "".join(call["arguments"])}}
                for _, call in sorted(self.calls.items())
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        if self.logprobs:
            choice["logprobs"] = {"content": self.logprobs}
        data = {**self.head, "choices": [choice] if self.finish else [], "usage": self.usage, "error": self.error}
        return data if self.first is None else {**data, FIRST_TOKEN: float(self.first)}
