"""The transcript as steps that a reader can follow: prompts, the policy's turns, tool results.

A policy's message is taken apart for reading (reasoning, prose, calls); hidden parts stay available as `raw`. `made_of`
adds how the reply came about: seconds, tokens, finish reason, retries, and the reply as it came where it differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from factgym.benchmarks.records import as_dict, as_list, as_number, as_text

Step = dict[str, Any]

_THINK = ("<think>", "</think>")
_CALL = ("<tool_call>", "</tool_call>")
_RESPONSE = ("<tool_response>", "</tool_response>")


def steps_of(episode: Mapping[str, Any]) -> list[Step]:
    """One step for each message, in order.

    Keys: role, text; and for the policy's messages turn (from 1), reasoning, calls, error, credit (the summed span
    credits, or None), raw (the message as written, empty when `text` is all of it) and made (how the reply came about).
    """
    turns = {turn.get("message"): (i, turn) for i, turn in enumerate(map(as_dict, as_list(episode.get("turns"))), 1)}
    earned = _credits(episode)
    steps = []
    for index, message in enumerate(map(as_dict, as_list(episode.get("messages")))):
        number, turn = turns.get(index, (0, {}))
        if message.get("role") == "assistant" or number:
            step = _policy_step(message, number, turn)
            steps.append({**step, "credit": earned.get(index), "made": made_of(message, turn)})
        else:
            steps.append({"role": as_text(message.get("role")), "text": _unwrap(as_text(message.get("content")))})
    return steps


def _policy_step(message: Mapping[str, Any], number: int, turn: Mapping[str, Any]) -> Step:
    content = as_text(message.get("content"))
    reasoning, prose = _cut_out(content, _THINK)
    calls = [_call(as_dict(call)) for call in as_list(turn.get("calls"))]
    shown = _without_calls(prose) if calls else prose
    native = "\n".join(as_text(as_dict(call).get("function")) for call in as_list(message.get("tool_calls")))
    raw = "\n".join(part for part in (content, native) if part)
    return {
        "role": "assistant",
        "turn": number,
        "text": shown.strip(),
        "reasoning": "\n\n".join(
            part for part in (as_text(message.get("reasoning_content")), reasoning) if part
        ).strip(),
        "calls": calls,
        "error": as_text(turn.get("error")),
        "raw": raw if raw.strip() != shown.strip() else "",
    }


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool": as_text(call.get("tool")), "arguments": call.get("arguments"), "error": as_text(call.get("error"))}


def _without_calls(prose: str) -> str:
    """The prose around the calls; nothing when the whole message was a bare JSON call."""
    rest = _cut_out(prose, _CALL)[1].strip()
    return "" if rest.startswith(("{", "```", "<")) else rest


def _cut_out(text: str, tags: tuple[str, str]) -> tuple[str, str]:
    """The text inside the tags, and the text without it; a tag that is never closed runs to the end.

    A closing tag alone ends a reasoning whose opening tag the chat template wrote.
    """
    inside: list[str] = []
    outside: list[str] = []
    at = 0
    if tags == _THINK and 0 <= text.find(tags[1]) < text.find(tags[0]) % (len(text) + 1):
        at = text.find(tags[1]) + len(tags[1])
        inside.append(text[: at - len(tags[1])].strip())
    while (start := text.find(tags[0], at)) >= 0:
        outside.append(text[at:start])
        end = text.find(tags[1], start)
        inside.append(text[start + len(tags[0]) : end if end >= 0 else len(text)].strip())
        at = end + len(tags[1]) if end >= 0 else len(text)
    outside.append(text[at:])
    return "\n\n".join(inside), "".join(outside)


def _unwrap(text: str) -> str:
    """Tool results without the tags around them; any other text as it is."""
    stripped = text.strip()
    if not stripped.startswith(_RESPONSE[0]):
        return text
    return _cut_out(stripped, _RESPONSE)[0]


def _credits(episode: Mapping[str, Any]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for span in as_list(as_dict(episode.get("reward")).get("spans")):
        values = as_list(span)
        if len(values) == 4 and isinstance(values[0], int) and (value := as_number(values[3])) is not None:
            sums[values[0]] = sums.get(values[0], 0.0) + value
    return sums


_SECOND_KINDS = ("model", "tool", "environment")
_TOKEN_KINDS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_MESSAGE_KEYS = ("content", "tool_calls", "reasoning_content")


def made_of(message: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the reply that became `message`; keys without a value are left out.

    seconds: kind -> seconds. tokens: kind -> tokens. finish and model: as the server says. retries: `[cause, seconds
    waited]`. notes: any JSON. sent: how many messages the model saw, where it did not see all. received: the reply as
    it came, empty when it is the message in the transcript.
    """
    completion = as_dict(turn.get("completion"))
    sent = turn.get("sent")
    values = {
        "seconds": _numbers(turn.get("seconds"), _SECOND_KINDS),
        "tokens": _numbers(completion.get("usage"), _TOKEN_KINDS),
        "finish": as_text(completion.get("finish_reason")),
        "model": as_text(completion.get("model")),
        "retries": [_retry(as_dict(retry)) for retry in as_list(completion.get("retries"))],
        "notes": as_dict(completion.get("notes")),
        "sent": len(sent) if isinstance(sent, list) else None,
        "received": _received(completion.get("raw"), message),
    }
    return {name: value for name, value in values.items() if value or value == 0}


def _numbers(container: Any, names: tuple[str, ...]) -> dict[str, float]:
    numbers = {name: as_number(as_dict(container).get(name)) for name in names}
    return {name: value for name, value in numbers.items() if value is not None}


def _retry(retry: Mapping[str, Any]) -> list[Any]:
    return [as_text(retry.get("cause")), as_number(retry.get("waited"))]


def _received(raw: Any, message: Mapping[str, Any]) -> str:
    """A text that differs from the content, or a server's message that says something else than the transcript's."""
    if isinstance(raw, Mapping):
        if all((raw.get(key) or None) == (message.get(key) or None) for key in _MESSAGE_KEYS):
            return ""
    elif raw == message.get("content"):
        return ""
    return as_text(raw)
