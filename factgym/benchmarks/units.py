"""How tokens, seconds and money are written."""

from __future__ import annotations

import math

from factgym.benchmarks.formats import ABSENT, decimal
from factgym.benchmarks.intervals import Estimate

_SMALL = 3
"""Significant digits of an amount below one."""

_MOST = 9
"""Decimal places of an amount; one that needs more is written with an exponent."""


def whole(value: float | None) -> str:
    """`4,213`; one decimal below ten, a dash for None."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def whole_interval(estimate: Estimate) -> str:
    """`[4,100, 4,326]`; a dash where there is none."""
    if estimate.low is None or estimate.high is None:
        return ABSENT
    return f"[{whole(estimate.low)}, {whole(estimate.high)}]"


def duration(seconds: float | None) -> str:
    """`3 min 5 s`, `12.4 s`, `340 ms`, `0.2 ms`; a dash for None."""
    if seconds is None:
        return ABSENT
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes:,} min {rest} s"
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
    return f"{value:.{places}f}" if places < _MOST else f"{value:.1e}"
