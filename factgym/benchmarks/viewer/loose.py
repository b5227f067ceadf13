"""Reading records whose parts may hold any JSON type: what does not fit is empty, never an exception."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


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
    found = [value] if isinstance(value, str) else as_list(value)
    return [one for one in found if isinstance(one, str)]


def as_number(value: Any) -> float | None:
    """A number, or None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
