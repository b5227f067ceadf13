"""Where a text stands in a message that says it inside JSON."""

from __future__ import annotations

import json


def in_json(wanted: str, text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """The range of a text in `text[start:end]`: plain, or escaped in either of the two usual ways; None if neither."""
    for form in (wanted, json.dumps(wanted)[1:-1], json.dumps(wanted, ensure_ascii=False)[1:-1]):
        at = text.find(form, start, len(text) if end is None else end) if form else -1
        if at >= 0:
            return at, at + len(form)
    return None
