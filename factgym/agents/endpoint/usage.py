"""Counts and probabilities that come with a reply, as records hold them; what a server got wrong is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from factgym.core.json_sanitize import clean_text
from factgym.core.messages import TokenLogprob, Usage

_LEAST_LOGPROB = -9999.0
"""In place of minus infinity, which JSON has no word for; servers use the same number."""


def usage_of(given: Any) -> Usage:
    """The token counts of a reply, those that the server gives."""
    if not isinstance(given, Mapping):
        return {}
    written, read = given.get("completion_tokens_details"), given.get("prompt_tokens_details")
    counts = {
        "prompt_tokens": given.get("prompt_tokens"),
        "completion_tokens": given.get("completion_tokens"),
        "reasoning_tokens": _inside(written, "reasoning_tokens", given.get("reasoning_tokens")),
        "cached_tokens": _inside(read, "cached_tokens", None),
    }
    return {key: value for key, value in counts.items() if type(value) is int and 0 <= value < 2**53}  # type: ignore[return-value]


def _inside(details: Any, key: str, otherwise: Any) -> Any:
    return details.get(key) if isinstance(details, Mapping) else otherwise


def logprobs_of(given: Any) -> list[TokenLogprob]:
    """The reply's tokens with their natural-log probabilities; nothing where the server gives none."""
    if not isinstance(given, Mapping):
        return []
    content = given.get("content")
    if isinstance(content, list):
        return [one for entry in content if (one := _token(entry)) is not None]
    tokens, values = given.get("tokens"), given.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(values, list) and len(tokens) == len(values):
        pairs = ({"token": token, "logprob": value} for token, value in zip(tokens, values, strict=True))
        return [one for entry in pairs if (one := _token(entry)) is not None]
    return []


def alternatives_of(given: Any) -> list[list[TokenLogprob]]:
    """For each token the likeliest alternatives, where the server gives any."""
    content = given.get("content") if isinstance(given, Mapping) else None
    if not isinstance(content, list):
        return []
    tops = [entry.get("top_logprobs") for entry in content if isinstance(entry, Mapping)]
    found = [[one for entry in top if (one := _token(entry)) is not None] for top in tops if isinstance(top, list)]
    return found if any(found) else []


def _token(entry: Any) -> TokenLogprob | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("token"), str):
        return None
    value = entry.get("logprob")
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -math.inf
    return {"token": clean_text(entry["token"]), "logprob": number if math.isfinite(number) else _LEAST_LOGPROB}
