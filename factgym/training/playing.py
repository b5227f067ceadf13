"""A run inside an evolution: a learner plays chosen tasks, and what is finished is never played again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Progress, jobs_of
from factgym.agents.runs.artifacts import MANIFEST, read_json
from factgym.agents.runs.collect import manifest_of
from factgym.agents.runs.read import read_run
from factgym.agents.runs.write import RunWriter
from factgym.core.env import Env
from factgym.core.errors import FactgymError


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told how far an evolution is. step: a sentence. progress: a run's name and its counters."""

    step: Callable[[str], None] = lambda said: None
    progress: Callable[[str, Progress], None] = lambda name, progress: None


UNWATCHED = Watch()


class PlayError(FactgymError):
    """Episodes were ended by the infrastructure, so that nothing can follow from the run yet; they can be played again."""


async def play_run(
    name: str,
    env: Env[Any],
    agent: Agent,
    order: Sequence[int],
    folder: Path,
    *,
    seed: int,
    k: int = 1,
    about: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    watch: Watch = UNWATCHED,
) -> None:
    """Play k episodes of each task in `order` into a run in `folder`.

    The agent has been prepared and is not closed. about: more for the run's manifest. Raises PlayError, which calls
    the run by its name, when the infrastructure ended episodes, and what an unfinished run raises.
    """
    manifest = {**manifest_of(env, agent, len(order), k, seed), **(about or {})}
    manifest["agent_details"] = _details(folder / MANIFEST, manifest["agent_details"])
    with RunWriter(folder, manifest, resume=True) as writer:
        jobs = [job for one in jobs_of(list(order), k, seed) if (job := writer.remaining(one)) is not None]
        planned = len(order) * k
        progress = Progress(planned, before=planned - len(jobs))
        watch.progress(name, progress)
        await run_jobs(env, agent, jobs, writer.add, limits=limits, progress=progress)
    failed = [one for one in read_run(folder).episodes() if one["error"] is not None]
    if failed:
        last = failed[-1]["error"]
        raise PlayError(
            f"{len(failed)} of {planned} episodes of {name} were ended by the infrastructure (the last: "
            f"{last['cause']}: {last['message'][:200]}): mend it and continue with --resume"
        )


def _details(manifest: Path, now: Any) -> Any:
    """What a begun run says of its agent.

    A server's abilities are found out while it plays, so that a model tells more of itself later; that it is the same
    one, the manifests of the evolution and of its parts have settled.
    """
    return read_json(manifest).get("agent_details", now) if manifest.exists() else now
