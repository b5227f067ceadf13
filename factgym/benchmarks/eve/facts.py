"""What the EVE paper says of its results, by table: one file, `facts.toml`, for everything that is laid beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from factgym.benchmarks.papers.facts import printed


def facts(table: str) -> Mapping[str, Any]:
    """What the paper says under a key of `facts.toml`, such as "table2". Read-only. Raises KeyError for another."""
    return printed("factgym.benchmarks.eve", table)
