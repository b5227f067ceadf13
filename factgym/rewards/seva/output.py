"""A SEVA output as the policy wrote it: found in its text, and read so that any JSON type may stand in any place.

The reader is the published one: JSON is what stands between the first `{` and the last `}` once code fences are gone,
and it is what Python's `json` takes, so the last of two equal keys counts. Around it stand bounds, because a policy's
text is hostile until shown otherwise: length and depth are bounded, a number that is not finite reads as null, lone
surrogates become U+FFFD, and nothing raises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

from factgym.core.strict_json import DEFAULT_LIMITS, Limits, StrictJsonError, clean_text, plain_json
from factgym.rewards.seva.labels import Label, canonical_error_type, canonical_label

REQUIRED_FIELDS = ("evidence_alignment", "reasoning_chain", "label", "confidence")
FIELDS = (*REQUIRED_FIELDS, "error_type", "fix_suggestion")

_FENCE = re.compile(r"```(?:json)?\s*+")
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_NUMBER_TEXT = 64


@dataclass(frozen=True, slots=True)
class SevaOutput:
    """A parsed output. `data` is the JSON object as given: treat it as read-only, and trust no type in it."""

    data: dict[str, Any]

    @property
    def label(self) -> Label | None:
        """The predicted label, None where the output names none."""
        return canonical_label(self.data.get("label"))

    @property
    def confidence(self) -> float:
        """The stated confidence within [0, 1]; .5 where none is stated that is a number."""
        found = stated_confidence(self.data)
        return 0.5 if found is None else found

    @property
    def error_type(self) -> str | None:
        """The category of the taxonomy that the output names, None for another or none."""
        return canonical_error_type(self.data.get("error_type"))

    @property
    def fix(self) -> str:
        """The suggested correction; empty where there is none or it is no text."""
        return text_in(self.data, "fix_suggestion")

    @property
    def alignments(self) -> list[Any]:
        """The entries of the evidence alignment, whatever their type; empty where there is no list."""
        return _list_in(self.data, "evidence_alignment")

    @property
    def chain(self) -> list[Any]:
        """The steps of the reasoning chain, whatever their type; empty where there is no list."""
        return _list_in(self.data, "reasoning_chain")


def read_output(text: str, limits: Limits = DEFAULT_LIMITS) -> SevaOutput | None:
    """The output in a policy's text; None when it cannot be parsed, or exceeds `limits` in length or depth."""
    if len(text) > limits.max_chars:
        return None
    start = text.find("{")
    end = text.rfind("}") + 1
    if start < 0 or end <= start:
        return None
    if not text.isascii():
        text = clean_text(text)
    if "```" in text:
        text = _FENCE.sub("", text[start:end])
        start, end = 0, len(text)
    if text.count("{") + text.count("[") > limits.max_depth and _too_deep(text, start, limits.max_depth):
        return None
    try:
        data, stop = _DECODE(text, start)
        if stop != end:
            return None
        if "\\u" in text and _SURROGATE_ESCAPE.search(text):
            data = plain_json(data, limits)
    # ValueError: no JSON, or an integer with more digits than the interpreter converts.
    except (ValueError, StrictJsonError, RecursionError):
        return None
    return SevaOutput(data)


def output_of(data: Mapping[str, Any]) -> SevaOutput:
    """The output that a tool call's arguments are."""
    return SevaOutput(data if type(data) is dict else dict(data))


def stated_confidence(data: Mapping[str, Any]) -> float | None:
    """The confidence clipped to [0, 1]; None when it is missing or no finite number. A numeric text is a number."""
    value = data.get("confidence")
    if isinstance(value, str):
        value = _number_in(value)
    if type(value) is float:
        if not math.isfinite(value):
            return None
    elif type(value) is not int:
        return None
    # Compared before it is converted: an integer of a hundred digits does not fit a float.
    return 0.0 if value <= 0 else 1.0 if value >= 1 else float(value)


def text_in(entry: Mapping[str, Any], key: str) -> str:
    """The text under a key; empty where there is none or it is of another type."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _list_in(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _number_in(text: str) -> float | None:
    try:
        return float(text) if len(text) <= _MAX_NUMBER_TEXT else None
    except ValueError:
        return None


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _nothing(name: str) -> None:
    """NaN, Infinity and -Infinity, which Python's reader takes and JSON does not have."""


_DECODE = JSONDecoder(parse_float=_finite, parse_constant=_nothing).raw_decode


def _too_deep(text: str, start: int, most: int) -> bool:
    """Before the scanner runs, because it recurses as deep as the text says."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        kind = match[0][0]
        if kind in "{[":
            depth += 1
            if depth > most:
                return True
        elif kind != '"':
            depth -= 1
    return False
