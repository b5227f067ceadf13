"""A worker: the Ray actor that plays chunks of jobs in a process of its own.

Faults come back as data: an exception of ours would have to be rebuilt in another process, which not every one can.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.agents.cluster.recipe import Recipe, build
from factgym.agents.rollout.engine import Limits, RunAbortedError, run_jobs
from factgym.agents.rollout.jobs import Job
from factgym.core.env import Env
from factgym.core.errors import FactgymError

Event = tuple[str, Any]
"""("episode", record), ("stopped", why the run must end) or ("failed", (name of the error's class, text))."""


class Worker:
    """One process of a run; see the module."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._built: tuple[Env[Any], Agent] | None = None

    async def version(self) -> str:
        """The version of factgym here."""
        return factgym.__version__

    async def prepare(self, recipe: Recipe) -> Event:
        """Build environment and agent: ("ready", {"agent": name, "tasks": fingerprint}) or ("failed", …)."""
        with suppress(OSError):  # a machine without the driver's folder: only absolute paths work there
            os.chdir(recipe.folder)
        try:
            self._built = env, agent = build(recipe, self._make_folder)
            return "ready", {"agent": agent.name, "tasks": env.tasks.fingerprint()}
        except Exception as error:  # noqa: BLE001 - the boundary between processes: told to the driver, which raises
            return _failed(error)

    async def play(self, jobs: Sequence[Job], limits: Limits) -> AsyncIterator[list[Event]]:
        """Play every job; yields what has ended since the last time."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self._play(jobs, limits, events.put_nowait))
        open_ = True
        try:
            while open_:
                found = [await events.get()]
                while not events.empty():
                    found.append(events.get_nowait())
                open_ = found[-1] is not None
                yield [event for event in found if event is not None]
        finally:
            task.cancel()

    async def _play(self, jobs: Sequence[Job], limits: Limits, tell: Callable[[Event | None], None]) -> None:
        assert self._built is not None
        try:
            await run_jobs(*self._built, jobs, lambda record: tell(("episode", record)), limits=limits)
        except RunAbortedError as error:
            tell(("stopped", str(error)))
        except Exception as error:  # noqa: BLE001 - the boundary between processes: told to the driver, which raises
            tell(_failed(error))
        finally:
            tell(None)

    async def close(self) -> None:
        """Give back what the agent holds."""
        if self._built is not None:
            await self._built[1].close()
        if self._folder is not None:
            self._folder.cleanup()

    def _make_folder(self) -> Path:
        self._folder = TemporaryDirectory(prefix="factgym-")
        return Path(self._folder.name)


def _failed(error: Exception) -> Event:
    name = type(error).__name__
    return "failed", (name, str(error) if isinstance(error, FactgymError) else f"{name}: {error}")
