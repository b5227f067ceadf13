"""Reading the record of an episode: its score, its faults, its submission.

Pure functions over one record (schema version 1). A value that a record lacks, or has in another type, is None or empty.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

_MALFORMED_CALLS = frozenset({"unknown_tool", "invalid_arguments", "placeholder"})
_SUBMITTED = "submitted"


def number(value: Any) -> float | None:
    """Return a finite number, or None; a truth value is no number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    # An integer of JSON may have more digits than a float can hold.
    return float(value) if abs(value) <= sys.float_info.max else None


def numbers(value: Any) -> dict[str, float]:
    """Return the members of a JSON object that are finite numbers."""
    pairs = ((str(name), number(item)) for name, item in members(value).items())
    return {name: item for name, item in pairs if item is not None}


def members(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """Return a JSON array, or an empty one."""
    return list(value) if isinstance(value, (list, tuple)) else []


def parts_of(episode: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Return an episode's reward report, the report's metrics, and the view of the task."""
    reward = members(episode.get("reward"))
    return reward, members(reward.get("metrics")), members(episode.get("task_view"))


def is_scored(episode: Mapping[str, Any]) -> bool:
    """Return whether an episode counts: a report with a total, and no fault of the infrastructure.

    An episode that ran into the limit of the model's context counts like one that ran out of turns.
    """
    reward = episode.get("reward") or {}
    return reward.get("status") == "scored" and number(reward.get("total")) is not None and not has_fault(episode)


def has_fault(episode: Mapping[str, Any]) -> bool:
    """Return whether the infrastructure, not the policy, ended the episode."""
    reward = episode.get("reward") or {}
    return bool(episode.get("error")) or episode.get("stop") == "error" or reward.get("status") == "error"


def fault_of(episode: Mapping[str, Any]) -> tuple[str, str]:
    """Return cause and message of an episode that has a fault; a fault of the scoring has the cause "scoring"."""
    error = members(episode.get("error"))
    reward = members(episode.get("reward"))
    cause = error.get("cause") or ("scoring" if reward.get("status") == "error" else "unknown")
    return str(cause), str(error.get("message") or reward.get("error") or "")


def prompt_sizes(episode: Mapping[str, Any]) -> tuple[int, int]:
    """Return the characters of the longest prompt of an episode that was answered, and of its last prompt."""
    sizes = [len(text_of(members(message).get("content"))) for message in items(episode.get("messages"))]
    answered = [number(members(turn).get("message")) for turn in items(episode.get("turns"))]
    last = max((round(index) for index in answered if index is not None), default=0)
    return sum(sizes[:last]), sum(sizes)


def verdict_of(episode: Mapping[str, Any]) -> str | None:
    """Return the submitted label, or None."""
    return text_of(parts_of(episode)[1].get("verdict")) or None


def gold_of(episode: Mapping[str, Any]) -> str | None:
    """Return the gold label, or None where tasks have none."""
    gold = parts_of(episode)[1].get("gold_verdict")
    return gold if isinstance(gold, str) else None


def has_verdict(episode: Mapping[str, Any]) -> bool:
    """Return whether something was submitted: a verdict where the environment asks for one, else the stop reason says it."""
    if has_fault(episode):
        return False
    if "verdict" in parts_of(episode)[1]:
        return verdict_of(episode) is not None
    return episode.get("stop") == _SUBMITTED


def is_malformed(turn: Mapping[str, Any]) -> bool:
    """Return whether an action was no valid call: unreadable, to a tool that does not exist, or outside its schema.

    A well-formed call that a tool refused (there is no such passage) is not malformed.
    """
    codes = {call.get("error") for call in turn.get("calls") or ()}
    error = turn.get("error")
    return bool(codes & _MALFORMED_CALLS) or (error is not None and error not in codes)


def shares(reward: Mapping[str, Any]) -> dict[str, float]:
    """Return the contribution of each weighted component to the total of a report: weight times value times gate."""
    components, gates = numbers(reward.get("components")), numbers(reward.get("gates"))
    weights = numbers(reward.get("weights"))
    return {
        name: weight * components[name] * gates.get(name, 1.0) for name, weight in weights.items() if name in components
    }


def text_of(value: Any) -> str:
    """Return a string, or an empty one."""
    return value if isinstance(value, str) else ""


def text_form(value: Any) -> str:
    """Return a string as it is, None as an empty one, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def texts_of(value: Any) -> list[str]:
    """Return the strings of an array; a string counts as an array of one."""
    values = [value] if isinstance(value, str) else items(value)
    return [text for text in values if isinstance(text, str)]
