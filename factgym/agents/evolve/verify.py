"""Verify: a verifier plays the measured claims of every benchmark; each answer is a recorded episode of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.evolve.artefacts import MANIFEST, read_json
from factgym.agents.evolve.worlds import Part, World, task_ids
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.order import jobs_of
from factgym.agents.rollout.progress import Progress
from factgym.agents.runs.manifest import manifest_of
from factgym.agents.runs.read import read_run
from factgym.agents.runs.write import RunWriter
from factgym.core.errors import FactgymError

MEASURED: tuple[Part, ...] = ("test", "reflect")


class VerifyError(FactgymError):
    """Episodes were ended by the infrastructure, so that a round cannot be measured yet; they can be played again."""


async def verify(
    worlds: Sequence[World],
    agent: Agent,
    folder: Path,
    *,
    seed: int,
    limits: Limits | None = None,
    watch: Callable[[str, Progress], None] = lambda name, progress: None,
) -> None:
    """Play every benchmark into `folder/NAME`; finished episodes are not played again.

    The agent is prepared and not closed. Raises VerifyError when the infrastructure ended episodes, and what an
    unfinished run raises.
    """
    await agent.prepare()
    for world in worlds:
        await _verify(world, agent, folder / world.name, seed, limits, watch)


async def _verify(
    world: World,
    agent: Agent,
    folder: Path,
    seed: int,
    limits: Limits | None,
    watch: Callable[[str, Progress], None],
) -> None:
    order = sorted(place for part in MEASURED for place in world.parts[part])
    about = manifest_of(world.env, agent, len(order), 1, seed)
    about["parts"] = world.fingerprint()
    about["agent_details"] = _details(folder / MANIFEST, about["agent_details"])
    with RunWriter(folder, about, resume=True) as writer:
        jobs = [job for one in jobs_of(order, 1, seed) if (job := writer.remaining(one)) is not None]
        progress = Progress(len(order), before=len(order) - len(jobs))
        watch(world.name, progress)
        await run_jobs(world.env, agent, jobs, writer.add, limits=limits, progress=progress)
    failed = [one for one in read_run(folder).episodes() if one["error"] is not None]
    if failed:
        last = failed[-1]["error"]
        raise VerifyError(
            f"{len(failed)} of {len(order)} episodes of {world.name} were ended by the infrastructure (the last: "
            f"{last['cause']}: {last['message'][:200]}): mend it and continue with --resume"
        )


def _details(manifest: Path, now: Any) -> Any:
    """What a begun run says of its agent.

    A server's abilities are found out while it plays, so that a model tells more of itself later; that it is the same
    one, the manifests of the evolution and of the round have settled.
    """
    return read_json(manifest).get("agent_details", now) if manifest.exists() else now


def episodes_of(worlds: Iterable[World], folder: Path, part: Part) -> Iterator[dict[str, Any]]:
    """The episodes of a part of every benchmark, by benchmark and place, in whichever order they were played."""
    for world in worlds:
        wanted = task_ids(world, part)
        found = [one for one in read_run(folder / world.name).episodes() if one["task"] in wanted]
        yield from sorted(found, key=lambda one: int(one["index"]))


def measure(worlds: Sequence[World], folder: Path) -> dict[str, Any]:
    """Benchmark -> what was measured on its test part.

    tasks, gold, said: ids, gold labels and predictions, None for an answer without a label. reward, format_ok: means.
    """
    return {world.name: _measured(list(episodes_of([world], folder, "test"))) for world in worlds}


def _measured(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    facts = [one["reward"]["metrics"] for one in episodes]
    n = len(episodes)
    return {
        "n": n,
        "reward": round(sum(one["reward"]["total"] for one in episodes) / n, 6),
        "format_ok": round(sum(bool(one["format_ok"]) for one in facts) / n, 6),
        "tasks": [one["task"] for one in episodes],
        "gold": [one["gold_verdict"] for one in facts],
        "said": [one["verdict"] for one in facts],
    }
