"""How much of an action is read: the bounds that keep a hostile or broken policy output cheap."""

from __future__ import annotations

from dataclasses import dataclass, fields

from factgym.core.errors import ConfigError

_CEILINGS = {"max_depth": 200, "max_number_chars": 640}
"""Above these the interpreter's own bounds (recursion; digits of an int, at least 640) would speak first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one action; all are counts of at least 1.

    max_chars: characters of the whole action, content and arguments together. max_depth: nesting of one JSON value
    (at most 200). max_calls: tool calls in one action. max_name_chars: characters of a tool name. max_number_chars:
    characters of one JSON number, sign included (at most 640). Raises ConfigError for a value out of range.
    """

    max_chars: int = 200_000
    max_depth: int = 32
    max_calls: int = 16
    max_name_chars: int = 64
    max_number_chars: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            top = _CEILINGS.get(field.name)
            if type(value) is not int or value < 1 or (top is not None and value > top):
                bounds = f"from 1 to {top}" if top else "of at least 1"
                raise ConfigError(f"Limits.{field.name} must be a whole number {bounds}, not {value!r}")


DEFAULT_LIMITS = Limits()
