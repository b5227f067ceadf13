"""Rollouts of a training loop: a run of chosen tasks that continues where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Progress, jobs_of
from factgym.agents.runs.collect import manifest_of
from factgym.agents.runs.files import MANIFEST, read_json
from factgym.agents.runs.read import read_run
from factgym.agents.runs.write import RunWriter
from factgym.core.env import Env
from factgym.core.errors import FactgymError


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Progress callbacks of a training loop. step: a sentence. progress: a run's name and its counters."""

    step: Callable[[str], None] = lambda text: None
    progress: Callable[[str, Progress], None] = lambda name, progress: None


SILENT = Callbacks()


class RolloutError(FactgymError):
    """Episodes ended with infrastructure errors, so the run cannot be used yet; a resumed loop repeats them."""


async def collect_rollouts(
    name: str,
    env: Env[Any],
    agent: Agent,
    order: Sequence[int],
    folder: Path,
    *,
    seed: int,
    k: int = 1,
    extra: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    callbacks: Callbacks = SILENT,
) -> None:
    """Collect k episodes of each task in `order` into a run in `folder`; finished episodes are not repeated.

    The agent has been prepared and is not closed. extra: more entries of the run's manifest. Raises RolloutError, which
    names the run, when episodes ended with infrastructure errors, and the errors of an unfinished run.
    """
    manifest = {**manifest_of(env, agent, len(order), k, seed), **(extra or {})}
    # A server's abilities are discovered during a run, so a resumed model describes more of itself. That it is the same
    # model is checked by the manifests of the evolution and of its parts.
    if (folder / MANIFEST).exists():
        manifest["agent_details"] = read_json(folder / MANIFEST).get("agent_details", manifest["agent_details"])
    with RunWriter(folder, manifest, resume=True) as writer:
        jobs = [job for planned in jobs_of(list(order), k, seed) if (job := writer.remaining(planned)) is not None]
        total = len(order) * k
        progress = Progress(total, before=total - len(jobs))
        callbacks.progress(name, progress)
        await run_jobs(env, agent, jobs, writer.add, limits=limits, progress=progress)
    errors = [episode["error"] for episode in read_run(folder).episodes() if episode["error"] is not None]
    if errors:
        last = errors[-1]
        raise RolloutError(
            f"{len(errors)} of {total} episodes of {name} were ended by the infrastructure (the last: "
            f"{last['cause']}: {last['message'][:200]}): repair it and continue with --resume"
        )
