"""Integration with SkyRL: any environment as a `BaseTextEnv` of skyrl-gym 0.4, and a generator for skyrl 0.3.

    register_skyrl("claimcheck-multihop", split="validation")       # in the process that trains: the Ray entrypoint
    write_rows(Path("train.jsonl"), "claimcheck-multihop", split="validation")

SkyRL's policies write text and its rollouts only append: the tools stand in the system message as text, and an
environment that shows its policy less than the whole transcript (ProFact's isolated contexts) shows all of it here.
`FactGenerator` pays what the spans credit to each message at its last token, scores rollouts that were cut, and plays
an episode again that the infrastructure broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from factgym.core.errors import MissingExtraError

try:
    import skyrl_gym  # noqa: F401 - the import itself is the test
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "skyrl_gym":
        raise
    raise MissingExtraError("The SkyRL integration", "skyrl") from missing

from factgym.integrations.skyrl.environment import EpisodeFaultError, FactTextEnv, register_skyrl, rows, write_rows

if TYPE_CHECKING:
    from factgym.integrations.skyrl.generator import FactGenerator

__all__ = ["EpisodeFaultError", "FactGenerator", "FactTextEnv", "register_skyrl", "rows", "write_rows"]


def __getattr__(name: str) -> Any:
    """The generator needs `skyrl` and torch, the environments only `skyrl-gym`."""
    if name != "FactGenerator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from factgym.integrations.skyrl.generator import FactGenerator

    return FactGenerator
