"""The numbers that the SEVA paper prints, by table: one file, `facts.toml`, for everything that is laid beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from factgym.benchmarks.papers.facts import printed


def facts(table: str) -> Mapping[str, Any]:
    """What the paper prints under a key of `facts.toml`, such as "table14". Read-only. Raises KeyError for another."""
    return printed("factgym.benchmarks.seva", table)
