"""The two ways by which foreign text enters the page: as HTML text, and as JSON inside a data block.

The page is plain ASCII, so no byte of it depends on the encoding that a browser guesses.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

_NO_CHARACTERS = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    f"\ud800-\udfff\ufdd0-\ufdef{_NO_CHARACTERS}\U000e0000-\U000e007f]"
)
"""What changes what is seen without being seen: controls, direction marks, tags, lone surrogates, no characters at all."""

_IN_SCRIPT = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"))


def visible(text: str) -> str:
    """The text with characters that hide or reorder others written as `[U+202E]`."""
    return _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def text(value: object, limit: int = 400) -> str:
    """A value as HTML text or attribute value, in ASCII; cut after `limit` characters."""
    shown = str(value)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return html.escape(visible(shown), quote=True).encode("ascii", "xmlcharrefreplace").decode("ascii")


def data_block(element_id: str, value: Any) -> str:
    """`value` as a JSON data block, which no browser runs; `element_id` is ours.

    Nothing in it can end the block or open a comment: `<`, `>` and `&` are written as escapes, and so is everything
    outside ASCII.
    """
    body = json.dumps(value, separators=(",", ":"))
    for char, escape in _IN_SCRIPT:
        body = body.replace(char, escape)
    return f'<script type="application/json" id="{element_id}">{body}</script>\n'
