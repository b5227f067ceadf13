"""Reading the record of an episode: what counts, what failed, what was submitted.

Pure functions over one record (schema version 1). What a record does not say is None, never a guess.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

_MALFORMED_CALLS = frozenset({"unknown_tool", "invalid_arguments"})
_SUBMITTED = "submitted"


def number(value: Any) -> float | None:
    """A finite number, or None; a truth value is no number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    # An integer of JSON may have more digits than a float can hold.
    return float(value) if abs(value) <= sys.float_info.max else None


def members(value: Any) -> Mapping[str, Any]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """A JSON array, or an empty one."""
    return value if isinstance(value, list) else []


def is_scored(episode: Mapping[str, Any]) -> bool:
    """Whether an episode counts: a report with a total, and no fault of the infrastructure.

    An episode that ran into the limit of the model's context counts like one that ran out of turns.
    """
    reward = episode.get("reward") or {}
    return reward.get("status") == "scored" and number(reward.get("total")) is not None and not has_fault(episode)


def has_fault(episode: Mapping[str, Any]) -> bool:
    """Whether the infrastructure, not the policy, ended the episode."""
    reward = episode.get("reward") or {}
    return bool(episode.get("error")) or episode.get("stop") == "error" or reward.get("status") == "error"


def fault_of(episode: Mapping[str, Any]) -> tuple[str, str]:
    """Cause and message of an episode that has a fault; a fault of the scoring has the cause "scoring"."""
    error = members(episode.get("error"))
    reward = members(episode.get("reward"))
    cause = error.get("cause") or ("scoring" if reward.get("status") == "error" else "unknown")
    return str(cause), str(error.get("message") or reward.get("error") or "")


def verdict_of(episode: Mapping[str, Any]) -> str | None:
    """The label that was submitted, or None."""
    found = members(members(episode.get("reward")).get("metrics")).get("verdict")
    return found if isinstance(found, str) and found else None


def gold_of(episode: Mapping[str, Any]) -> str | None:
    """The gold label, or None where tasks have none."""
    found = members(members(episode.get("reward")).get("metrics")).get("gold_verdict")
    return found if isinstance(found, str) else None


def has_verdict(episode: Mapping[str, Any]) -> bool:
    """Whether something was submitted: a verdict where the environment asks for one, else the stop reason says it."""
    if has_fault(episode):
        return False
    if "verdict" in members(members(episode.get("reward")).get("metrics")):
        return verdict_of(episode) is not None
    return episode.get("stop") == _SUBMITTED


def is_malformed(turn: Mapping[str, Any]) -> bool:
    """Whether an action was no valid call: unreadable, to a tool that does not exist, or outside its schema.

    A well-formed call that a tool refused (there is no such passage) is not malformed.
    """
    codes = {call.get("error") for call in turn.get("calls") or ()}
    error = turn.get("error")
    return bool(codes & _MALFORMED_CALLS) or (error is not None and error not in codes)


def shares(reward: Mapping[str, Any]) -> dict[str, float]:
    """What each weighted component added to the total of one report: weight times value times gate."""
    components, gates = reward.get("components") or {}, reward.get("gates") or {}
    found = {}
    for name, weight in (reward.get("weights") or {}).items():
        value = number(components.get(name))
        if value is not None and number(weight) is not None:
            gate = number(gates.get(name))
            found[name] = float(weight) * value * (1.0 if gate is None else gate)
    return found


def text_of(value: Any) -> str:
    """A string, or an empty one."""
    return value if isinstance(value, str) else ""


# For the viewer: values of any JSON type; a value of another type is empty, never an exception.


def as_dict(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """A JSON array, or an empty one."""
    return list(value) if isinstance(value, (list, tuple)) else []


def as_text(value: Any) -> str:
    """A string as it is, None as an empty one, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def as_texts(value: Any) -> list[str]:
    """The strings of an array; a string stands for an array of one."""
    values = [value] if isinstance(value, str) else as_list(value)
    return [text for text in values if isinstance(text, str)]


def as_number(value: Any) -> float | None:
    """A number, or None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
