"""Answers of a server, each read into a message with its completion, or into a fault.

Replies differ in small ways (arguments as objects, null ids, parts, the old `function_call`, two names for reasoning).
The model's own words are never changed: its mistakes are answered by the environment.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json import JSONDecoder, JSONEncoder
from typing import Any

from factgym.agents.endpoint.faults import MALFORMED_CALL, REASONING, Fault, fault_of_status
from factgym.agents.sampling import split_reasoning
from factgym.core.messages import Completion, Message, TokenLogprob, ToolCallMessage, Usage
from factgym.core.strict_json import Limits, StrictJsonError, clean_text, plain_json

_RAW_LIMITS = Limits(max_chars=1_000_000, max_depth=64, max_number_chars=640)
_RAW_HEAD = 2_000
_MAX_CALLS = 64
_MAX_LABEL = 200
_MAX_IDS = 60_000
"""Ids of a list, at most: notes that are larger than a record takes are left out altogether."""

_ERROR_STATUSES = frozenset(map(str, range(400, 600)))
_ABORTED = frozenset({"error", "abort"})
"""Finish reasons of a server that gave up, which is no fault of the model."""

_FILTERED = re.compile(
    r"content.?filter|guardrail|safety|prohibited|blocklist|recitation|sensitive|spii", re.IGNORECASE
)
_CUT = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
_SPACES = re.compile(r"\s*")

_MIN_LOGPROB = -9999.0
"""In place of minus infinity, which JSON cannot write; servers use the same number."""

_decode = JSONDecoder(parse_constant=lambda _: None).decode
_encode = JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A parsed reply. empty: it has no content, and the server does not report any token of one.

    reasoning: see `reasoning_fields`.
    """

    message: Message
    completion: Completion
    empty: bool
    reasoning: Mapping[str, Any] = field(default_factory=dict)


class _BadReplyError(Exception):
    """The server's reply is no chat completion; the message says why."""


def read_reply(body: bytes, keep_reasoning: bool = False, overflow: re.Pattern[str] | None = None) -> ChatReply | Fault:
    """Read an answer with HTTP status 200. keep_reasoning: leave `<think>` in the content. overflow: see `Fault`."""
    try:
        try:
            data = _decode(body.removeprefix(BOM_UTF8).decode("utf-8"))
        except (ValueError, RecursionError):
            raise _BadReplyError("the reply is not JSON") from None
        if not isinstance(data, dict):
            raise _BadReplyError("the reply is not a JSON object")
        choices = data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        error = first.get("error") if isinstance(first, dict) else data.get("error") or data.get("base_resp")
        if isinstance(error, (dict, str)) and error:
            # Some routers send the error of the server behind them with status 200.
            status = error.get("code") if isinstance(error, dict) else None
            body = _encode({"error": error}).encode("utf-8", "replace")
            return fault_of_status(int(str(status)) if str(status) in _ERROR_STATUSES else 500, {}, body, overflow)
        return _read_completion(data, keep_reasoning)
    except _BadReplyError as bad:
        return Fault("bad_reply", f"{bad}; it begins with {body[:120]!r}", again=True)


def _read_completion(data: dict[str, Any], keep_reasoning: bool) -> ChatReply | Fault:
    """Return the reply of a chat completion; what a server leaves out stays out, what is too large is cut."""
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _BadReplyError("the reply has no choices")
    choice = choices[0]
    finish = _label(choice.get("finish_reason"))
    raw = choice.get("message")
    if raw is None and finish and _FILTERED.search(finish):
        raw = {}
    if not isinstance(raw, dict):
        raise _BadReplyError("the reply has no message")
    if finish in _ABORTED:
        return Fault("server", f"the server broke off its reply (finish_reason {finish!r})", again=True)
    message = _read_message(raw, keep_reasoning)
    usage = read_usage(data.get("usage"))
    text = (message["content"] or "").strip() or message.get("reasoning_content")
    wrote = bool(text or message.get("tool_calls"))
    if finish in _CUT and not wrote and usage.get("completion_tokens") == 0:
        return Fault("overflow", f"the prompt leaves no room for a reply (finish_reason {finish!r}, no token written)")
    try:
        recorded = plain_json(raw, _RAW_LIMITS)
    except StrictJsonError:  # too large or too deep for a record
        recorded = clean_text(repr(raw)[:_RAW_HEAD])
    tokens, alternatives = read_logprobs(choice.get("logprobs"))
    first_token = data.get(FIRST_TOKEN)
    notes: dict[str, Any] = {"top_logprobs": alternatives} if alternatives else {}
    notes |= _token_ids(data, choice)
    if (outcome := _outcome(finish, raw, message)) is not None:
        notes["outcome"] = outcome
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
    has_content = wrote or usage.get("completion_tokens") or notes.get("outcome") in ("content_filter", "refusal")
    return ChatReply(message, completion, not has_content, reasoning_fields(raw, keep_reasoning))


def _outcome(finish: str | None, raw: Mapping[str, Any], message: Message) -> str | None:
    """The reason why a reply is no ordinary one; None where it is."""
    if finish is not None and _FILTERED.search(finish):
        return "content_filter"
    if raw.get("refusal") or finish == "refusal":
        return "refusal"
    if message.get("tool_calls") or (message["content"] or "").strip():
        return None
    thought = bool(message.get("reasoning_content"))
    if finish in _CUT:
        return "cut off while reasoning" if thought else "cut off before any text"
    return "reasoning without an answer" if thought else "empty"


def _token_ids(data: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, list[int]]:
    """The ids of the prompt's and the reply's tokens where a server gives them, under the names of local models."""
    prompt = data.get("prompt_token_ids") or choice.get("prompt_token_ids")
    ids = {"prompt_ids": prompt, "token_ids": choice.get("token_ids")}
    return {name: value for name, value in ids.items() if isinstance(value, list) and _are_ids(value)}


def _are_ids(tokens: list[Any]) -> bool:
    return 0 < len(tokens) <= _MAX_IDS and all(type(token) is int and 0 <= token < 2**31 for token in tokens)


def _label(value: Any) -> str | None:
    return clean_text(value[:_MAX_LABEL]) if isinstance(value, str) else None


def _read_message(raw: dict[str, Any], keep_reasoning: bool) -> Message:
    """Return the assistant's message: text of all parts, or the refusal; thoughts apart unless `keep_reasoning`."""
    content: Any = raw.get("content")
    thoughts: list[str] = []
    if isinstance(content, list):
        thoughts = [_text_in(part) for part in content if _is_thought(part)]
        parts = [
            part if isinstance(part, str) else part.get("text") or part.get("refusal")
            for part in content
            if isinstance(part, (str, dict)) and not _is_thought(part)
        ]
        content = "".join(text for text in parts if isinstance(text, str))
    elif content is not None and not isinstance(content, str):
        raise _BadReplyError("the reply's content is neither text nor a list of parts")
    refusal = raw.get("refusal")
    if content is None and isinstance(refusal, str):
        content = refusal
    # Several keys hold the same reasoning, as text and as blocks: the usual names come first.
    keys = [*_REASONING_KEYS, *(key for key in raw if REASONING.search(key))]
    reasoning = next((text for key in keys if (text := _text_in(raw.get(key)))), "") or "".join(thoughts)
    if content and not keep_reasoning:
        thought, content = split_reasoning(content)
        reasoning = "\n".join(part for part in (reasoning, thought) if part)
    message: Message = {"role": "assistant", "content": content or ""}
    if calls := _read_calls(raw):
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning_content"] = clean_text(reasoning)
    return message


_REASONING_KEYS = ("reasoning_content", "reasoning")
_TEXT_KEYS = ("text", "thinking", "reasoning", "reasoning_content", "summary", "content")
_MAX_BLOCK_DEPTH = 4
_CALL_KEYS = frozenset({"id", "type", "function", "index"})


def _is_thought(part: Any) -> bool:
    """Whether a part of a content is reasoning, such as `{"type": "thinking", …}`."""
    return isinstance(part, dict) and isinstance(part.get("type"), str) and bool(REASONING.search(part["type"]))


def _text_in(value: Any, depth: int = 0) -> str:
    """The text of reasoning: a text itself, or blocks, such as `[{"type": "reasoning.text", "text": …}]`."""
    if isinstance(value, str) or depth > _MAX_BLOCK_DEPTH:
        return value if isinstance(value, str) else ""
    if isinstance(value, list):
        return "".join(_text_in(part, depth + 1) for part in value)
    texts = (_text_in(value.get(key), depth + 1) for key in _TEXT_KEYS) if isinstance(value, dict) else ()
    return next(filter(None, texts), "")


def reasoning_fields(raw: Mapping[str, Any], keep_reasoning: bool = False) -> dict[str, Any]:
    """The parts of a server's message that hold reasoning, under their keys: they go back to the server as they came.

    "content": blocks, or the text up to the end of `</think>`. "tool_calls": (id, arguments) -> further keys of the call,
    where reasoning is signed there.
    """
    fields = {
        key: value
        for key, value in raw.items()
        if value and isinstance(value, (str, list, dict)) and (REASONING.search(key) or key == "extra_content")
    }
    content = raw.get("content")
    if isinstance(content, list):
        if blocks := [part for part in content if _is_thought(part)]:
            fields["content"] = blocks
    elif isinstance(content, str) and not keep_reasoning and split_reasoning(content)[0]:
        thought, closing, _ = content.partition("</think>")
        if closing:
            opening = "" if thought.lstrip().startswith("<think>") else "<think>"
            fields["content"] = f"{opening}{thought}{closing}\n\n"
    calls = raw.get("tool_calls")
    pairs = zip(calls, _read_calls(raw), strict=False) if isinstance(calls, list) else ()  # type: ignore[arg-type]
    signed = {
        (message["id"], message["function"]["arguments"]): extra
        for call, message in pairs
        if (extra := {key: value for key, value in call.items() if key not in _CALL_KEYS and _signed(key, value)})
    }
    return {**fields, "tool_calls": signed} if signed else fields


def _signed(key: str, value: Any, depth: int = 0) -> bool:
    """Whether a key of a call is about reasoning, or one of the keys below it is."""
    below = value.items() if isinstance(value, dict) and depth < _MAX_BLOCK_DEPTH else ()
    return bool(REASONING.search(key)) or any(_signed(*item, depth + 1) for item in below)


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


def malformed_turn(fault: Fault) -> ChatReply:
    """The model's turn whose tool call the server could not read: its text where that is known, no call."""
    message: Message = {"role": "assistant", "content": fault.generation}
    completion = Completion(raw=fault.generation)
    completion["notes"] = {MALFORMED_CALL: clean_text(fault.message)}
    return ChatReply(message, completion, empty=False)


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
    end = arrived = 0
    lines: list[bytes] = []
    for line in [*body.removeprefix(BOM_UTF8).split(b"\n"), b""]:
        end += len(line) + 1
        if line.startswith(b"data:"):
            lines.append(line[5:].strip())
            arrived = end - 1
        if line.strip() or not lines:  # an empty line ends an event
            continue
        events, lines = _events(lines), []
        if events is None:
            return body
        for event in events:
            if stream.add(event) and stream.first is None:
                stream.first = next((seconds for size, seconds in arrivals if size >= arrived), None)
    return _encode(stream.completion()).encode("utf-8", "replace")


def _events(lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """The JSON objects in an event's lines of data, which are one text (WHATWG HTML, 9.2.6), or from some servers several.

    None where they are no objects.
    """
    for parts in ([b"\n".join(lines)], lines):
        try:
            events = [json.loads(part) for part in parts if part and part != b"[DONE]"]
        except (ValueError, RecursionError):
            continue
        return events if all(isinstance(event, dict) for event in events) else None
    return None


def _objects(text: str) -> list[str]:
    """The JSON objects that follow each other in a text; the text itself where it is anything else."""
    objects: list[str] = []
    start, decoder = 0, JSONDecoder()
    while start < len(text) and len(objects) < _MAX_CALLS:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return [text]
        if not isinstance(value, dict):
            return [text]
        objects.append(text[start:end])
        start = _SPACES.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    return objects or [text]


@dataclass(slots=True)
class _Stream:
    """The deltas of a stream so far. first: seconds to the first token."""

    head: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    blocks: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    finish: Any = None
    usage: Any = None
    error: Any = None
    first: float | None = None

    def add(self, event: Mapping[str, Any]) -> bool:
        """Add an event; return whether it holds a part of the reply."""
        self.head = {
            key: event[key] for key in ("id", "model", "created", "prompt_token_ids") if key in event
        } | self.head
        self.usage = event.get("usage") or self.usage
        self.error = event.get("error") or self.error
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        self.finish = choice.get("finish_reason") or self.finish
        self.ids += choice["token_ids"] if isinstance(choice.get("token_ids"), list) else []
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
            self.logprobs += logprobs["content"]
        delta = choice.get("delta") or choice.get("message")
        return isinstance(delta, Mapping) and self._add_delta(delta)

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        any_part = False
        for name, part in delta.items():
            if name not in ("content", "refusal") and not REASONING.search(name):
                continue
            if isinstance(part, str) and part:
                self.texts.setdefault(name, []).append(part)
                any_part = True
            elif isinstance(part, list) and part:
                join_blocks(self.blocks.setdefault(name, []), part)
                any_part = True
        calls = delta.get("tool_calls")
        if calls is None and isinstance(delta.get("function_call"), Mapping):  # the API before tools
            calls = [{"function": delta["function_call"]}]
        calls = calls if isinstance(calls, list) else []
        for number, call in enumerate(calls):
            if isinstance(call, Mapping):
                self._add_call(number, call, len(calls))
                any_part = True
        return any_part

    def _add_call(self, number: int, call: Mapping[str, Any], together: int) -> None:
        """Merge a part of a streamed call. number: its position among the `together` calls of its delta.

        OpenAI's API tells calls apart by `index`; servers that leave it out, or number all calls 0, by a new id or name.
        """
        function = call.get("function")
        fields = function if isinstance(function, Mapping) else {}
        index, call_id, name = call.get("index"), call.get("id") or None, fields.get("name") or None
        same = [merged for merged in self.calls if merged["index"] == index] if type(index) is int else self.calls
        if type(index) is not int:
            index = None
            named = [merged for merged in self.calls if call_id and merged["id"] == call_id]
            side_by_side = self.calls[number - together :][:1] if together > 1 and len(self.calls) >= together else []
            same = named or (side_by_side if not (call_id or name) else []) or self.calls
        merged = same[-1] if same else None
        if merged is not None and name and merged["name"]:
            new_id = call_id and merged["id"] and call_id != merged["id"]
            merged = None if new_id or name != merged["name"] else merged
        if merged is None:
            if len(self.calls) >= _MAX_CHOICE_CALLS:
                return
            merged = {"index": index, "id": None, "name": None, "arguments": [], "announced": 0, "more": {}}
            self.calls.append(merged)
        merged["more"] |= {key: value for key, value in call.items() if key not in _CALL_KEYS and value}
        merged["id"] = merged["id"] or call_id
        merged["name"] = merged["name"] or name
        merged["announced"] += name is not None
        if (arguments := fields.get("arguments")) is not None:
            merged["arguments"].append(arguments if isinstance(arguments, str) else _encode(arguments))

    def _whole_calls(self) -> Iterator[dict[str, Any]]:
        """Yield the calls in their order; several of one name that came without ids are told apart by their arguments."""
        for call in sorted(self.calls, key=lambda call: call["index"] or 0):
            texts = _objects("".join(call["arguments"])) if call["announced"] > 1 else ["".join(call["arguments"])]
            for number, text in enumerate(texts):
                called = {"name": call["name"], "arguments": text}
                yield {**call["more"], "id": None if number else call["id"], "function": called}

    def completion(self) -> dict[str, Any]:
        """The whole reply; without a finish reason, a completion without choices."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: "".join(parts) for name, parts in self.texts.items()}
        for name, blocks in self.blocks.items():  # some servers send blocks of reasoning, then content as text
            text = message.get(name)
            message[name] = [*blocks, {"type": "text", "text": text}] if text else blocks
        if self.calls:
            message["tool_calls"] = list(self._whole_calls())
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": self.finish}
        if self.ids:
            choice["token_ids"] = self.ids
        if self.logprobs:
            choice["logprobs"] = {"content": self.logprobs}
        whole = self.finish and not self.error and all(call["name"] for call in self.calls)
        data = {**self.head, "choices": [choice] if whole else [], "usage": self.usage, "error": self.error}
        return data if self.first is None else {**data, FIRST_TOKEN: float(self.first)}


def join_blocks(blocks: list[Any], parts: Sequence[Any]) -> None:
    """Append the parts of streamed blocks: the text of a block comes in pieces, of the same type and index."""
    for part in parts:
        last = blocks[-1] if blocks else None
        if (
            not isinstance(part, dict)
            or not isinstance(last, dict)
            or any(part.get(key) != last.get(key) for key in ("type", "index"))
        ):
            blocks.append(dict(part) if isinstance(part, dict) else part)
            continue
        for key, value in part.items():
            if key in _TEXT_KEYS and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif key in _TEXT_KEYS and isinstance(value, list) and isinstance(last.get(key), list):
                join_blocks(last[key], value)
            elif value is not None:
                last[key] = value
