"""How numbers, tokens, seconds, money and foreign text are written, on a terminal and on a page.

`fill` writes values into a template: `fill("{agent}: {report.accuracy:hundred} %", result)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.statistics.intervals import Estimate

ABSENT = "–"
_SMALLEST_P = 0.0001


def decimal(value: float | None, places: int = 3) -> str:
    """`0.842`; a dash for None. Never `-0.000`."""
    if value is None:
        return ABSENT
    return f"{round(value, places) + 0.0:.{places}f}"


def interval(estimate: Estimate, places: int = 3, write: Callable[[float, int], str] = decimal) -> str:
    """`[0.823, 0.861]`; a dash where there is none. write: writes an end."""
    if estimate.low is None or estimate.high is None:
        return ABSENT
    return f"[{write(estimate.low, places)}, {write(estimate.high, places)}]"


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
    visible = "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text[: limit + 1])
    folded = " ".join(visible.split())
    return folded if len(text) <= limit else folded[: limit - 1] + "…"


def hundred(estimate: Estimate | float | None, places: int = 1) -> str:
    """A share in percent, without the sign; a dash for None."""
    value = estimate.value if isinstance(estimate, Estimate) else estimate
    return ABSENT if value is None else decimal(100 * value, places)


def hundred_interval(estimate: Estimate) -> str:
    """The interval of a share in percent; a dash where there is none."""
    return interval(estimate, 1, hundred)


def signed(value: float, places: int = 1) -> str:
    """`+1.3`, `-0.7`, `0.0`."""
    text = f"{round(value, places) + 0.0:.{places}f}"
    return text if float(text) <= 0 else f"+{text}"


_SMALL = 3
"""Significant digits of an amount below one."""

_MAX_PLACES = 9
"""Decimal places of an amount; smaller amounts are written with an exponent."""


def whole(value: float | None) -> str:
    """`4,213`; one decimal below ten, a dash for None."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def whole_interval(estimate: Estimate) -> str:
    """`[4,100, 4,326]`; a dash where there is none."""
    return interval(estimate, 0, lambda end, _: whole(end))


def duration(seconds: float | None) -> str:
    """`3 min 5 s`, `12.4 s`, `340 ms`, `0.2 ms`; a dash for None."""
    if seconds is None:
        return ABSENT
    if seconds >= 60:
        minutes, remainder = divmod(round(seconds), 60)
        return f"{minutes:,} min {remainder} s"
    if seconds >= 1:
        return f"{decimal(seconds, 1 if seconds >= 10 else 2)} s"
    return f"{decimal(1000 * seconds, 0 if seconds >= 0.01 or seconds == 0 else 1)} ms"


def amount(value: float | None) -> str:
    """Money without its currency: `1,234.50`, and three significant digits below one: `0.00412`."""
    if value is None:
        return ABSENT
    if value >= 1 or value == 0:
        return f"{value:,.2f}"
    places = _SMALL - 1 - math.floor(math.log10(value))
    return f"{value:.{places}f}" if places < _MAX_PLACES else f"{value:.1e}"


_FIELD = re.compile(r"\{([\w.]+)(?::([^{}]*))?\}")
_WRITERS: Mapping[str, Callable[..., str]] = MappingProxyType(
    {
        "count": count,
        "decimal": decimal,
        "hundred": hundred,
        "hundred_interval": hundred_interval,
        "interval": interval,
        "label": label,
        "p": p_value,
        "percent": percent,
        "points": lambda value: signed(100 * value),
        "signed": signed,
    }
)


def value_at(source: Any, path: str) -> Any:
    """Return what lies at a path of members and attributes, such as `report.scores.accuracy`; None where one is missing."""
    for name in path.split("."):
        if source is not None:
            source = source.get(name) if isinstance(source, Mapping) else getattr(source, name)
    return source


def fill(template: str, source: Any) -> str:
    """Return a template with the values at its paths: `{path}`, or `{path:writer argument}` with a function of this module.

    Any other format is Python's own. A value that is None is a dash.
    """
    return _FIELD.sub(lambda match: write(value_at(source, match[1]), match[2] or ""), template)


def write(value: Any, form: str) -> str:
    """Return one value in a form of `fill`; of an estimate its value, unless the writer is of intervals."""
    name, *arguments = form.split(" ")
    if isinstance(value, Estimate) and "interval" not in name:
        value = value.value
    if value is None:
        return ABSENT
    if name not in _WRITERS:
        return format(value, form)
    return _WRITERS[name](value, *(int(argument) if argument.isdigit() else argument for argument in arguments))
