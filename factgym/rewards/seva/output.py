"""A SEVA output: its schema and vocabulary (sections 2.2 and K.1, Tables 13 and 20), and the parser for a policy's text.

The parser follows the published one: the JSON is the text between the first `{` and the last `}` once code fences are
removed, as Python's `json` reads it, so the last of two equal keys counts. A policy's text is hostile until shown
otherwise: length and depth are bounded, a number that is not finite reads as null, lone surrogates become U+FFFD, any
JSON type may occur in any field, and nothing raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecoder
from pathlib import Path
from typing import Any, Literal, get_args

from factgym.core.strict_json import DEFAULT_LIMITS, Limits, StrictJsonError, clean_text, plain_json

VERDICT_SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("verdict.schema.json").read_text("utf-8"))
"""The published JSON Schema of a complete output, for those who constrain or validate a model's output. Shared: copy it
before a change. The reward does not demand it: an output that does not fit is scored line by line."""

Label = Literal["Attributable", "Not Attributable"]

LABELS: tuple[Label, ...] = get_args(Label)
"""The two labels, the positive one first."""

STATUSES = ("match", "mismatch", "not_found")
JUDGMENTS = ("supported", "not_supported", "partially_supported")
NOT_FOUND = "NOT_FOUND"
"""The source span of a part of the claim that the source does not mention."""

ERROR_TYPES = (
    "numerical_exaggeration",
    "negation_flip",
    "scope_inflation",
    "temporal_shift",
    "entity_substitution",
    "fabrication",
)
REQUIRED_FIELDS = ("evidence_alignment", "reasoning_chain", "label", "confidence")
FIELDS = (*REQUIRED_FIELDS, "error_type", "fix_suggestion")

_ALIASES: Mapping[str, Label] = {
    **dict.fromkeys(("attributable", "yes", "true", "entailment", "supported"), LABELS[0]),
    **dict.fromkeys(("not attributable", "no", "false", "contradiction", "neutral", "not supported"), LABELS[1]),
}
_LONGEST_FIRST = sorted(LABELS, key=len, reverse=True)
_ERROR_ALIASES = {name: name for name in ERROR_TYPES} | {
    "numerical_exag": "numerical_exaggeration",
    "entity_sub": "entity_substitution",
}
_SEPARATORS = re.compile(r"[\s_-]+")
_MAX_ERROR_CHARS = 64


def canonical_label(value: object) -> Label | None:
    """Return the label that a value of any type names, or None.

    First the aliases of Table 13, ignoring case, underscores and hyphens; else the label that the text contains, the
    longer one first, so that "clearly not attributable" is negative. A text that contains both is negative. As in
    the paper's rule, "unattributable" contains "attributable" and is read as that.
    """
    if not isinstance(value, str):
        return None
    folded = _SEPARATORS.sub(" ", value).strip().lower()
    return _ALIASES.get(folded) or next((label for label in _LONGEST_FIRST if label.lower() in folded), None)


def canonical_error_type(value: object) -> str | None:
    """Return the category of the taxonomy that a value of any type names; None for any other ("N/A", null, …).

    Ignores case and separators and knows the paper's two short forms. For statistics only: the reward accepts the
    exact names, as the paper's does.
    """
    if not isinstance(value, str) or len(value) > _MAX_ERROR_CHARS:
        return None
    return _ERROR_ALIASES.get(_SEPARATORS.sub("_", value.strip().lower()).strip("_."))


@dataclass(frozen=True, slots=True)
class SevaOutput:
    """A parsed output. data: the JSON object as given, read-only; any field may have any JSON type."""

    data: dict[str, Any]

    @property
    def label(self) -> Label | None:
        """The predicted label, None where the output names none."""
        return canonical_label(self.data.get("label"))

    @property
    def confidence(self) -> float:
        """The stated confidence within [0, 1]; .5 where none is stated that is a number."""
        confidence = stated_confidence(self.data)
        return 0.5 if confidence is None else confidence

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


# Numbers beyond a float's range, and the NaN and Infinity that Python accepts and JSON does not have, are read as null.
_DECODE = JSONDecoder(
    parse_float=lambda digits: value if math.isfinite(value := float(digits)) else None,
    parse_constant=lambda name: None,
).raw_decode
_FENCE = re.compile(r"```(?:json)?\s*+")
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_NUMBER_CHARS = 64


def read_output(text: str, limits: Limits = DEFAULT_LIMITS) -> SevaOutput | None:
    """Parse the output in a policy's text; None when it cannot be parsed, or exceeds `limits` in length or depth."""
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
    # The decoder recurses as deep as the brackets nest, so depth is tested first.
    opened = text.count("{", start, end) + text.count("[", start, end)
    if opened > limits.max_depth and not _closes_at(text, start, end, limits.max_depth):
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


def _closes_at(text: str, start: int, end: int, max_depth: int) -> bool:
    """Whether the bracket at `start` is closed at `end` and not before, with at most `max_depth` of them open at a time."""
    depth = 0
    for match in _BRACKETS.finditer(text, start, end):
        bracket = match[0][0]
        if bracket != '"':
            depth += 1 if bracket in "{[" else -1
            if depth == 0 or depth > max_depth:
                return depth == 0 and match.end() == end
    return False


def output_of(data: Mapping[str, Any]) -> SevaOutput:
    """Return the arguments of a tool call as an output."""
    return SevaOutput(data if type(data) is dict else dict(data))


def stated_confidence(data: Mapping[str, Any]) -> float | None:
    """Return the confidence clipped to [0, 1]; None when it is missing or no finite number. Numeric text is a number."""
    value = data.get("confidence")
    if isinstance(value, str):
        try:
            value = float(value) if len(value) <= _MAX_NUMBER_CHARS else None
        except ValueError:
            return None
    if type(value) is float:
        if not math.isfinite(value):
            return None
    elif type(value) is not int:
        return None
    # Compared before it is converted: an integer of a hundred digits does not fit a float.
    return 0.0 if value <= 0 else 1.0 if value >= 1 else float(value)


def text_in(entry: Mapping[str, Any], key: str) -> str:
    """Return the text under a key; empty where there is none or it is of another type."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _list_in(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []
