"""Integration with verifiers 0.4 (its v1 API alone) and so to prime, prime-rl and torchtitan.

    Taskset, FactEnv, FactHarness = hub_environment("claimcheck-multihop")

is a whole hub package: `environments/<name>/` holds one for each environment, written by
`python -m factgym.integrations.hub`. An episode's state is the list of the policy's actions; environments are
deterministic, so that playing it again in another process gives the same episode. Scoring reads
`trace.info["factgym"]` alone.
"""

from __future__ import annotations

from factgym.integrations.frameworks import framework_import

with framework_import("verifiers", "verifiers"):
    import verifiers.v1  # noqa: F401 - only to see whether it is installed

from factgym.integrations.verifiers.environment import (
    FactEnv,
    FactEnvConfig,
    FactHarness,
    FactHarnessConfig,
    hub_environment,
    taskset_of,
)
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
