"""Seeds: every random choice of a run follows from the run's seed and a name for the choice, never from shared state."""

from __future__ import annotations

import hashlib

MAX_SEED = 2**31 - 1
"""Servers and libraries take seeds of 31 bits."""


def derive(seed: int, *names: object) -> int:
    """Return a seed in [0, 2**31 - 1) from another and the names of its use; the same on every machine."""
    # A hash of the names gives independent streams: a new random choice moves no other one.
    text = "\x1f".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") % MAX_SEED
