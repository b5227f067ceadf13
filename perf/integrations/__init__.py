"""The overhead of each integration in process beside the episode itself: `python -m perf integrations [NAME …]`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.registry import load_attribute
from perf.integrations.compare import ENV, measure_integration

INTEGRATIONS: Mapping[str, str] = {
    "session": "perf.integrations.adapters:session",
    "verifiers": "perf.integrations.adapters:verifiers",
    "trl": "perf.integrations.adapters:trl",
    "trl-rollout": "perf.integrations.trl_rollout:integration",
    "inspect": "perf.integrations.inspect:integration",
    "mcp": "perf.integrations.adapters:mcp",
    "openenv": "perf.integrations.adapters:openenv",
    "skyrl": "perf.integrations.adapters:skyrl",
    "verl": "perf.integrations.adapters:verl",
    "verl-rollout": "perf.integrations.verl_rollout:integration",
}
"""Name -> function of an environment's id that returns an `Integration`; raises MissingExtraError without the framework."""


def main(arguments: Sequence[str]) -> Iterator[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf integrations", description="CPU time that each integration adds to an episode's own cost."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of " + ", ".join(INTEGRATIONS))
    parser.add_argument("--env", default=ENV)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args(arguments)
    for name in options.names or INTEGRATIONS:
        if name not in INTEGRATIONS:
            suggestion = did_you_mean(name, INTEGRATIONS)
            raise ConfigError(f"there is no integration {name!r}.{suggestion} There are: {', '.join(INTEGRATIONS)}.")
        try:
            open_integration = load_attribute(INTEGRATIONS[name])
            yield from measure_integration(name, open_integration, options.episodes, options.repeats, options.env)
        except MissingExtraError as error:
            yield f"{name:>14}  not measured: {error}"
