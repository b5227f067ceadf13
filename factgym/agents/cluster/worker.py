"""The worker's side of a run with worker processes: it builds environment and agent and plays jobs.

A worker gets plain data, a recipe, instead of open clients and heavy task sets. A user's file travels as text; where
the same file is at the same path on the worker's machine, that one is used, so that modules beside it can be imported
there too. Faults come back as data: an exception would have to be rebuilt in another process, which not every one can.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.agents.resolve import find_agent, is_model
from factgym.agents.rollout.engine import EpisodeRunner
from factgym.agents.rollout.jobs import Job
from factgym.agents.rollout.record import EncodedRecord
from factgym.core.env import Env
from factgym.core.errors import ConfigError, FactgymError, PathError, UnknownEnvError
from factgym.core.paths import read_text
from factgym.core.registry import EnvSpec, make, register, spec
from factgym.core.tasks import Subset

_GARBAGE_OBJECTS = 20_000
"""Objects made between two searches for garbage: those of some ten episodes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """entry: the environment's registration. config: the arguments of `make`. agent, settings: those of `find_agent`.

    tasks: ids of those that the run chose; None for all. file: of a user's agent; its absolute path and its text. folder:
    of relative paths.
    """

    entry: EnvSpec
    config: Mapping[str, Any]
    tasks: tuple[str, ...] | None
    agent: str
    settings: Mapping[str, Any]
    file: tuple[str, str] | None
    folder: str


def recipe_of(env: Env[Any], agent: str, settings: Mapping[str, Any]) -> Recipe:
    """The recipe for `env` and the agent. Raises ConfigError for an environment that `make` did not build."""
    if env.spec is None:
        raise ConfigError(f"{env.env_spec.id!r} was not built by factgym.make, so other machines cannot build it")
    config = {name: value for name, value in env.spec.kwargs.items() if name != "env_id"}
    tasks = env.tasks.ids if isinstance(env.tasks, Subset) else None
    file = None
    if ".py:" in agent and not is_model(agent):
        path = Path(agent.rpartition(":")[0]).absolute()
        file = str(path), read_text(path)
    return Recipe(env.env_spec, config, tasks, agent, dict(settings), file, str(Path.cwd()))


def build(recipe: Recipe, folder: Callable[[], Path]) -> tuple[Env[Any], Agent]:
    """The environment and the agent. folder: makes one, for a user's file that this machine does not have."""
    entry = recipe.entry
    try:
        spec(entry.versioned)
    except UnknownEnvError:
        options = {name: getattr(entry, name) for name in ("version", "kwargs", "fixed", "agents")}
        register(entry.id, entry.entry_point, entry.summary, **options)
    env = make(entry.versioned, **recipe.config)
    if recipe.tasks is not None:
        env.tasks = Subset(env.tasks, recipe.tasks)
    agent = recipe.agent
    if recipe.file is not None:
        path, text = Path(recipe.file[0]), recipe.file[1]
        is_local = False
        with suppress(PathError):
            is_local = read_text(path) == text
        if not is_local:
            path = folder() / path.name
            path.write_text(text, "utf-8", newline="")
        agent = f"{path}:{agent.rpartition(':')[2]}"
    return env, find_agent(agent, entry.id, recipe.settings)


Answer = tuple[str, Any]
"""("done", the content) or ("failed", (name of the error's class, text))."""


class Worker:
    """One process of a run."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._agent: Agent | None = None
        self._runner: EpisodeRunner | None = None

    async def version(self) -> str:
        """The version of factgym here."""
        return factgym.__version__

    async def prepare(self, recipe: Recipe, episode_timeout: float | None) -> Answer:
        """Build environment and agent: {"agent": name, "tasks": fingerprint}."""
        with suppress(OSError):  # a machine without the driver's folder: only absolute paths work there
            os.chdir(recipe.folder)
        try:
            env, self._agent = build(recipe, self._new_folder)
            self._runner = EpisodeRunner(env, self._agent, episode_timeout)
            # What all episodes share is not searched for garbage again and again, and an episode makes next to none.
            gc.freeze()
            gc.set_threshold(_GARBAGE_OBJECTS)
            return "done", {"agent": self._agent.name, "tasks": env.tasks.fingerprint()}
        except Exception as error:  # noqa: BLE001 - the boundary between processes: the driver raises it
            return _failed(error)

    async def play(self, job: Job) -> Answer:
        """Play one job: its `Outcome`, the record encoded, so that writing it is no work of the driver's."""
        assert self._runner is not None
        try:
            episode, fatal = await self._runner.play(job)
            return "done", (EncodedRecord.of(episode), fatal)
        except Exception as error:  # noqa: BLE001 - the boundary between processes: the driver raises it
            return _failed(error)

    async def close(self) -> None:
        """Close the agent."""
        if self._agent is not None:
            await self._agent.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _new_folder(self) -> Path:
        self._folder = TemporaryDirectory(prefix="factgym-")
        return Path(self._folder.name)


def _failed(error: Exception) -> Answer:
    name = type(error).__name__
    return "failed", (name, str(error) if isinstance(error, FactgymError) else f"{name}: {error}")
