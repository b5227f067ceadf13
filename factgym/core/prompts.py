"""Prompts are Markdown files beside their environment; their hashes go into a run's manifest."""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from importlib.resources import files

_FIELD = re.compile(r"\{([^}]*)\}?")


@cache
def prompt(package: str, name: str, style: str = "full") -> str:
    """Return the text of `prompts/NAME.md` of a package, without the final newline.

    style: "brief" for that of `NAME.brief.md`, where there is one; "mini" for that of `NAME.mini.md`, or else the brief.
    """
    folder, ends = files(package).joinpath("prompts"), {"mini": (".mini", ".brief"), "brief": (".brief",)}
    choices = [folder.joinpath(f"{name}{end}.md") for end in ends.get(style, ())]
    file = next((file for file in choices if file.is_file()), folder.joinpath(f"{name}.md"))
    return file.read_text("utf-8").rstrip("\n")


def fill(template: str, **values: str) -> str:
    """Return the template with each `{name}` replaced; braces in the values stay as they are."""
    parts = list(_split_fields(template))
    parts[1::2] = [values[name] for name in parts[1::2]]
    return "".join(parts)


@lru_cache(maxsize=64)
def _split_fields(template: str) -> tuple[str, ...]:
    """Return text and names of fields in turn."""
    return tuple(_FIELD.split(template))


def prompt_hash(text: str) -> str:
    """Return the SHA-256 of a prompt, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
