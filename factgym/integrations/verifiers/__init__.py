"""Integration with verifiers 0.4 (its v1 API alone) and so to prime, prime-rl and torchtitan.

    Taskset, FactEnv, FactHarness = hub_environment("claimcheck-multihop")

is a whole hub package: `environments/<name>/` holds one for each environment, written by
`python -m factgym.integrations.hub`. An episode's state is the list of what the policy did; an environment is
deterministic, so that playing it again in another process gives the same episode. Everything that scoring needs lies in
`trace.info["factgym"]`.
"""

from __future__ import annotations

from factgym.core.errors import MissingExtraError

try:
    import verifiers.v1  # noqa: F401 - the import itself is the test
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "verifiers":
        raise
    raise MissingExtraError("The verifiers integration", "verifiers") from missing

from factgym.integrations.verifiers.harness import FactHarness, FactHarnessConfig
from factgym.integrations.verifiers.hub import FactEnv, FactEnvConfig, hub_environment, taskset_of
from factgym.integrations.verifiers.task import FactData, FactState, FactTask

__all__ = [
    "FactData",
    "FactEnv",
    "FactEnvConfig",
    "FactHarness",
    "FactHarnessConfig",
    "FactState",
    "FactTask",
    "hub_environment",
    "taskset_of",
]
