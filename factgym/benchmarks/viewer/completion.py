"""How a reply came about: seconds, tokens, finish reason, retries, and the reply as it came where it differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from factgym.benchmarks.viewer.loose import as_dict, as_list, as_number, as_text

_SECONDS = ("model", "tool", "environment")
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_SAID = ("content", "tool_calls", "reasoning_content")


def made_of(message: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the reply that became `message`; keys without a value are left out.

    seconds: kind -> seconds. tokens: kind -> tokens. finish and model: as the server says. retries: `[cause, seconds
    waited]`. notes: any JSON. sent: how many messages the model saw, where it did not see all. received: the reply as
    it came, empty when it is the message in the transcript.
    """
    completion = as_dict(turn.get("completion"))
    sent = turn.get("sent")
    found = {
        "seconds": _numbers(turn.get("seconds"), _SECONDS),
        "tokens": _numbers(completion.get("usage"), _TOKENS),
        "finish": as_text(completion.get("finish_reason")),
        "model": as_text(completion.get("model")),
        "retries": [_retry(as_dict(one)) for one in as_list(completion.get("retries"))],
        "notes": as_dict(completion.get("notes")),
        "sent": len(sent) if isinstance(sent, list) else None,
        "received": _received(completion.get("raw"), message),
    }
    return {name: value for name, value in found.items() if value or value == 0}


def _numbers(found: Any, names: tuple[str, ...]) -> dict[str, float]:
    values = {name: as_number(as_dict(found).get(name)) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _retry(retry: Mapping[str, Any]) -> list[Any]:
    return [as_text(retry.get("cause")), as_number(retry.get("waited"))]


def _received(raw: Any, message: Mapping[str, Any]) -> str:
    """A text that differs from the content, or a server's message that says something else than the transcript's."""
    if isinstance(raw, Mapping):
        if all((raw.get(key) or None) == (message.get(key) or None) for key in _SAID):
            return ""
    elif raw == message.get("content"):
        return ""
    return as_text(raw)
