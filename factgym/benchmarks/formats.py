"""How numbers and foreign text are written wherever a person reads them: terminal tables and the HTML page."""

from __future__ import annotations

from factgym.benchmarks.intervals import Estimate

ABSENT = "–"
_SMALLEST_P = 0.0001


def decimal(value: float | None, places: int = 3) -> str:
    """`0.842`; a dash for None. Never `-0.000`."""
    if value is None:
        return ABSENT
    return f"{round(value, places) + 0.0:.{places}f}"


def interval(estimate: Estimate, places: int = 3) -> str:
    """`[0.823, 0.861]`; a dash where there is none."""
    if estimate.low is None or estimate.high is None:
        return ABSENT
    return f"[{decimal(estimate.low, places)}, {decimal(estimate.high, places)}]"


def percent(value: float | None, places: int = 1) -> str:
    """`12.5 %` of a share; a dash for None."""
    return ABSENT if value is None else f"{decimal(100 * value, places)} %"


def p_value(p: float | None) -> str:
    """`0.0123`, `< 0.0001`; a dash for None."""
    return ABSENT if p is None else decimal(p, 4) if p >= _SMALLEST_P else f"< {_SMALLEST_P:.4f}"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """`1 episode`, `5,000 episodes`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def label(name: str) -> str:
    """`partially supported` for `partially_supported`."""
    return name.replace("_", " ")


def printable(text: str, limit: int) -> str:
    """Foreign text for a terminal: one line, no control or direction characters, at most `limit` characters."""
    kept = "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text[: limit + 1])
    folded = " ".join(kept.split())
    return folded if len(text) <= limit else folded[: limit - 1] + "…"
