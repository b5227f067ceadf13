"""Scripted agents by name: those of the environment's family."""

from __future__ import annotations

from collections.abc import Mapping

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import load_attribute, spec


def scripted_agents(env_id: str) -> Mapping[str, ScriptedAgent]:
    """The scripted agents that can play an environment, by name."""
    reference = spec(env_id).agents
    return load_attribute(reference) if reference else {}


def honest_baseline(env_id: str) -> str:
    """The name of the environment's honest baseline. Raises ConfigError where it has none."""
    for name, agent in scripted_agents(env_id).items():
        if agent.role == "honest":
            return name
    raise ConfigError(f"{env_id!r} has no honest baseline: name an agent")


def find_scripted_agent(env_id: str, name: str) -> ScriptedAgent:
    """A scripted agent by name. Raises ConfigError for a name that the environment has not."""
    known = scripted_agents(env_id)
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(f"{env_id!r} has no agent {name!r}.{hint} It has: {', '.join(known)}.")
    return known[name]
