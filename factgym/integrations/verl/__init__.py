"""Integration with verl 0.9 and its trainer (`trainer.use_v1`, the default).

    python -m factgym.integrations.verl rows claimcheck-multihop train.parquet --set split=train
    python -m factgym.integrations.verl config claimcheck-multihop > claimcheck.yaml

The configuration names `FactDataset` as its dataset class, so that every process of verl's imports this package. That
registers the agent loop "factgym" and the advantage estimators "factgym_grpo", "factgym_hrpo" and "factgym_stepwise".
`compute_score` scores a text for verl's own loops. Importing the package itself imports nothing of verl's.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from factgym.core.errors import ConfigError, MissingExtraError

_NEEDS = ((0, 9), (0, 10))
_HOMES = {
    "FactAgentLoop": "loop",
    "FactDataset": "data",
    "FactOutput": "advantages",
    "compute_score": "rows",
    "config_text": "config",
    "table": "rows",
    "write_rows": "rows",
}
_OF_VERL = ("advantages", "loop", "data")

__all__ = ["FactAgentLoop", "FactDataset", "FactOutput", "compute_score", "config_text", "table", "write_rows"]


def __getattr__(name: str) -> Any:
    """What the package offers; asking for a class of verl's kind registers everything with verl."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name] in _OF_VERL:
        register()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def register() -> None:
    """Register the agent loop and the estimators in this process; again does nothing.

    Raises MissingExtraError without verl and ConfigError for another version of it.
    """
    _check_version()
    for module in _OF_VERL:
        import_module(f"{__name__}.{module}")


def _check_version() -> None:
    try:
        found = version("verl")
    except PackageNotFoundError as missing:
        raise MissingExtraError("The verl integration", "verl") from missing
    low, high = _NEEDS
    if not low <= tuple(int(part) for part in found.split(".")[:2]) < high:
        least, below = (".".join(map(str, one)) for one in _NEEDS)
        raise ConfigError(
            f"verl {found} does not fit the verl integration, which needs verl>={least},<{below}: "
            "pip install -U 'factgym[verl]'"
        )
