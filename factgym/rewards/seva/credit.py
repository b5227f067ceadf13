"""Span credits: which characters of the policy's message earned which part of the reward.

Each component goes to the value that it was scored on: the alignment to the alignment's list, the chain to the chain's,
the label to the label, the calibration to the confidence, the diagnosis to error type and correction. What was earned
by the object as a whole (its format, an error type rightly left out, the floor) goes to the whole object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecoder

from factgym.core.strict_json import DEFAULT_LIMITS
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.output import FIELDS
from factgym.rewards.seva.score import SevaScore

Range = tuple[int, int]
Credit = tuple[int, int, float]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "alignment": ("evidence_alignment",),
    "grounded_alignment": ("evidence_alignment",),
    "chain": ("reasoning_chain",),
    "grounded_chain": ("reasoning_chain",),
    "label": ("label",),
    "calibration": ("confidence",),
    "calibration_proper": ("confidence",),
    "diagnosis": ("error_type", "fix_suggestion"),
    "diagnosis_by_label": ("error_type", "fix_suggestion"),
}
_SPACE = re.compile(r"[ \t\r\n]*+")
_DECODE = JSONDecoder().raw_decode
_MAX_STARTS = 8
"""How many braces are tried for the object: an output may stand inside a tool call, or after prose with braces."""


def credit(text: str, score: SevaScore, rubric: Rubric) -> tuple[Credit, ...]:
    """Credits `(start, end, value)` on `text`, in order of place; their values sum to the rubric's total.

    `text` is the message in which the output stands. Where the object cannot be found in it (code fences inside the
    object, arguments rewritten on the way), everything is credited to the whole text. Shares of 0 give no credit.
    """
    whole, places = _find_object(text) if score.parsed else ((0, len(text)), {})
    earned: dict[Range, float] = {}
    for name, share in rubric.shares(score.components, score.gates).items():
        ranges = [places[field] for field in _FIELDS.get(name, ()) if field in places] or [whole]
        for one in ranges:
            earned[one] = earned.get(one, 0.0) + share / len(ranges)
    return tuple((start, end, value) for (start, end), value in sorted(earned.items()) if value)


def _find_object(text: str) -> tuple[Range, Mapping[str, Range]]:
    """Where the object stands, and where the values of its fields do."""
    start = -1
    for _ in range(_MAX_STARTS if len(text) <= DEFAULT_LIMITS.max_chars else 0):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            places, end = _members(text, start)
        except (ValueError, IndexError, RecursionError):
            continue
        if places:
            return (start, end), places
    return (0, len(text)), {}


def _members(text: str, start: int) -> tuple[dict[str, Range], int]:
    """The ranges of the values of the object that begins at `start`, by field, and where the object ends."""
    places: dict[str, Range] = {}
    at = _after_space(text, start + 1)
    while text[at] != "}":
        if text[at] != '"':
            raise ValueError("no key")
        key, at = _DECODE(text, at)
        at = _after_space(text, at)
        if text[at] != ":":
            raise ValueError("no colon")
        begin = _after_space(text, at + 1)
        _, end = _DECODE(text, begin)
        if key in FIELDS:
            places[key] = (begin, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return places, at + 1


def _after_space(text: str, position: int) -> int:
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]  # an empty match is a match
