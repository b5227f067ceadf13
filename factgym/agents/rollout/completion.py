"""What a policy tells of its reply, as the record keeps it.

A policy may be anybody's: what has not the type that the record promises is left out of its field and said under
`notes`, so that one odd value never makes a run unreadable.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from factgym.core.messages import Completion

MAX_RAW_CHARS = 1_000_000
"""What a record keeps of a raw reply, a note or a retry list, as JSON text."""

TOKENS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")


def read_completion(said: object) -> Completion | None:
    """The account of a reply, checked; None where a policy gave none. Never raises."""
    found = said.get("completion") if isinstance(said, dict) else None
    if not isinstance(found, Mapping) or not found:
        return None
    kept: dict[str, Any] = {}
    odd: list[str] = []
    for key, check in _CHECKS.items():
        value = found.get(key)
        if value is None and key != "raw":
            continue
        if key in found and check(value):
            kept[key] = value
        elif key in found:
            odd.append(key)
    if odd:
        kept["notes"] = {**kept.get("notes", {}), "left_out": odd}
    return cast(Completion, kept) if kept else None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_usage(value: object) -> bool:
    return isinstance(value, Mapping) and all(key in TOKENS and _is_count(one) for key, one in value.items())


def _is_json(value: object) -> bool:
    try:
        return len(json.dumps(value, allow_nan=False)) <= MAX_RAW_CHARS
    except (TypeError, ValueError, RecursionError):
        return False


def _each(value: object, keys: Mapping[str, Callable[[object], bool]]) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(one, Mapping) and one.keys() == keys.keys() and all(check(one[key]) for key, check in keys.items())
        for one in value
    )


def _is_logprobs(value: object) -> bool:
    return _each(value, {"token": _is_text, "logprob": _is_number})


def _is_retries(value: object) -> bool:
    return _each(value, {"cause": _is_text, "waited": _is_number})


def _is_messages(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, dict) for one in value) and _is_json(value)


_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "raw": _is_json,
    "model": _is_text,
    "finish_reason": _is_text,
    "usage": _is_usage,
    "logprobs": _is_logprobs,
    "requests": lambda value: _is_count(value) and value != 0,
    "retries": _is_retries,
    "sent": _is_messages,
    "notes": lambda value: isinstance(value, Mapping) and _is_json(value),
}
