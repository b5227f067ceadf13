"""Records without what a clock measured: everything else of them is the same each time."""

from __future__ import annotations

from typing import Any


def timeless(value: Any) -> Any:
    """JSON data without its fields `seconds`."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key != "seconds"}
    return [timeless(item) for item in value] if isinstance(value, list) else value
