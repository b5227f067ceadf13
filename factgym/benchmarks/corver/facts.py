"""The numbers that the CorVer paper prints, by table: one file, `facts.toml`, for everything that is laid beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any


def facts(table: str) -> Mapping[str, Any]:
    """What the paper prints under a key of `facts.toml`, such as "table13". Read-only. Raises KeyError for another."""
    found: Mapping[str, Any] = MappingProxyType(_loaded()[table])
    return found


@cache
def _loaded() -> dict[str, Any]:
    return tomllib.loads(resources.files("factgym.benchmarks.corver").joinpath("facts.toml").read_text("utf-8"))
