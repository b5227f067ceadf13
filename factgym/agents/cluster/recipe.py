"""What a worker needs to build its own environment and agent: plain data instead of open clients and heavy task sets.

A user's file travels as text. Where the same file is at the same path on the worker's machine, that one is used, so
that modules beside it can be imported there too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.resolve import find_agent, is_model
from factgym.core.env import Env
from factgym.core.errors import ConfigError, UnknownEnvError
from factgym.core.registry import EnvSpec, make, register, spec


@dataclass(frozen=True, slots=True)
class Recipe:
    """entry: the environment's registration. config: the arguments of `make`. agent, settings: those of `find_agent`.

    file: of a user's agent; its absolute path and its text. folder: where relative paths begin.
    """

    entry: EnvSpec
    config: Mapping[str, Any]
    agent: str
    settings: Mapping[str, Any]
    file: tuple[str, str] | None
    folder: str


def recipe_of(env: Env[Any], agent: str, settings: Mapping[str, Any]) -> Recipe:
    """How to build `env` and the agent again. Raises ConfigError for an environment that `make` did not build."""
    if env.spec is None:
        raise ConfigError(f"{env.env_spec.id!r} was not built by factgym.make, so other machines cannot build it")
    config = dict(env.spec.kwargs)
    del config["env_id"]
    return Recipe(env.env_spec, config, agent, dict(settings), _file(agent), str(Path.cwd()))


def build(recipe: Recipe, folder: Callable[[], Path]) -> tuple[Env[Any], Agent]:
    """The environment and the agent. folder: makes one, for a user's file that this machine does not have."""
    entry = recipe.entry
    try:
        spec(entry.versioned)
    except UnknownEnvError:
        kwargs, agents = entry.kwargs, entry.agents
        register(
            entry.id,
            entry.entry_point,
            entry.summary,
            version=entry.version,
            kwargs=kwargs,
            fixed=entry.fixed,
            agents=agents,
        )
    env = make(entry.versioned, **recipe.config)
    return env, find_agent(_here(recipe, folder), entry.id, recipe.settings)


def _file(agent: str) -> tuple[str, str] | None:
    if is_model(agent) or ".py:" not in agent:
        return None
    path = Path(agent.rpartition(":")[0]).absolute()
    try:
        return str(path), path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error})") from None


def _here(recipe: Recipe, folder: Callable[[], Path]) -> str:
    """The text of the agent on this machine."""
    if recipe.file is None:
        return recipe.agent
    path, text = Path(recipe.file[0]), recipe.file[1]
    name = recipe.agent.rpartition(":")[2]
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text("utf-8") == text:
            return f"{path}:{name}"
    copied = folder() / path.name
    copied.write_text(text, "utf-8", newline="")
    return f"{copied}:{name}"
