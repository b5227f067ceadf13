"""Scripted agents by name: those of the environment's family."""

from __future__ import annotations

from collections.abc import Mapping

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.policy import Player
from factgym.core.registry import load_attribute, spec


def players_of(env_id: str) -> Mapping[str, Player]:
    """The scripted agents that can play an environment, by name."""
    reference = spec(env_id).players
    return load_attribute(reference) if reference else {}


def honest_player(env_id: str) -> str:
    """The name of the environment's honest baseline. Raises ConfigError where it has none."""
    for name, player in players_of(env_id).items():
        if player.role == "honest":
            return name
    raise ConfigError(f"{env_id!r} has no honest baseline: name an agent")


def find_player(env_id: str, name: str) -> Player:
    """A scripted agent by name. Raises ConfigError for a name that the environment has not."""
    known = players_of(env_id)
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(f"{env_id!r} has no agent {name!r}.{hint} It has: {', '.join(known)}.")
    return known[name]
