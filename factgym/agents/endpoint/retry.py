"""When to ask again: full-jitter exponential backoff, and what the server itself asks for.

The jitter comes from the episode's seed, so that a run waits the same way twice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random

_FIRST = 0.5
"""Seconds: the first wait is between 0 and this, each later one between 0 and twice as much."""


def backoff(jitter: Random, attempt: int, max_wait: float, asked: float | None) -> float:
    """Seconds to wait before the request after `attempt` (from 0). asked: what the server wants, at most `max_wait`."""
    if asked is not None:
        return min(max_wait, asked + jitter.uniform(0, 0.1 * asked))
    return jitter.uniform(0, min(max_wait, _FIRST * 2 ** min(attempt, 30)))


def asked_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that `retry-after-ms` or `Retry-After` (seconds or an HTTP date) ask for; None where they say nothing.

    now: seconds since the epoch, of the clock that a date is compared with. headers: names in lower case.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None
