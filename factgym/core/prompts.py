"""Prompts are Markdown files beside their environment; their hashes go into a run's manifest."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files


@cache
def prompt(package: str, name: str) -> str:
    """The text of `prompts/NAME.md` of a package, without the final newline."""
    return files(package).joinpath("prompts", f"{name}.md").read_text("utf-8").rstrip("\n")


def fill(template: str, **values: str) -> str:
    """The template with each `{name}` replaced; braces in the values stay as they are."""
    parts = []
    rest = template
    while True:
        head, brace, tail = rest.partition("{")
        parts.append(head)
        if not brace:
            return "".join(parts)
        name, _, rest = tail.partition("}")
        parts.append(values[name])


def prompt_hash(text: str) -> str:
    """SHA-256 of a prompt, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
