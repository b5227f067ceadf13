"""seva-repair-v2 for verifiers and prime. Written by `python -m factgym.integrations.hub`."""

from factgym.integrations.verifiers import hub_environment

Taskset, FactEnv, FactHarness = hub_environment("seva-repair")

__all__ = ["FactEnv", "FactHarness", "Taskset"]
