"""The numbers that a paper prints, by table: one file, `facts.toml`, beside everything that is laid beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any


def printed(package: str, table: str) -> Mapping[str, Any]:
    """What a paper prints under a key of `facts.toml` in `package`, such as "table14".

    Read-only. Raises KeyError for a key that there is not.
    """
    return MappingProxyType(_loaded(package)[table])


@cache
def _loaded(package: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(package).joinpath("facts.toml").read_text("utf-8"))
