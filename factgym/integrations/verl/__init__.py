"""Integration with verl 0.9 and its trainer (`trainer.use_v1`, the default).

    python -m factgym.integrations.verl rows claimcheck-multihop train.parquet
    python -m factgym.integrations.verl config claimcheck-multihop > claimcheck.yaml

The configuration names `FactDataset` as its dataset class, so that every process of verl's imports this package. That
registers the agent loop "factgym" and the advantage estimators "factgym_grpo", "factgym_hrpo" and "factgym_stepwise".
`compute_score` scores a text for verl's own loops. Importing the package itself imports nothing of verl's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from factgym.integrations.frameworks import require_versions

__all__ = ["FactAgentLoop", "FactDataset", "FactOutput", "compute_score", "config_text", "table", "write_rows"]

_MODULES = {
    "rows": ("compute_score", "config_text", "table", "write_rows"),
    "advantages": ("FactOutput",),
    "loop": ("FactAgentLoop", "FactDataset"),
}
_VERL_MODULES = ("advantages", "loop")


def __getattr__(name: str) -> Any:
    """Import on first use; a class that extends one of verl's registers everything with verl."""
    for module, names in _MODULES.items():
        if name in names:
            if module in _VERL_MODULES:
                register()
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register() -> None:
    """Register the agent loop and the estimators in this process; a second call does nothing.

    Raises MissingExtraError without verl and ConfigError for another version of it.
    """
    require_versions("verl", "verl", {"verl": ((0, 9), (0, 10))})
    for module in _VERL_MODULES:
        import_module(f"{__name__}.{module}")
