"""Verify: a verifier plays the measured claims of every benchmark; each answer is a recorded episode of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.read import read_run
from factgym.training.rollouts import SILENT, Callbacks, collect_rollouts
from factgym.training.seva.splits import Part, World, task_ids

MEASURED: tuple[Part, ...] = ("test", "reflect")


async def verify(
    worlds: Sequence[World],
    agent: Agent,
    folder: Path,
    *,
    seed: int,
    limits: Limits | None = None,
    callbacks: Callbacks = SILENT,
) -> None:
    """Play every benchmark into `folder/NAME`; finished episodes are not played again.

    The agent is prepared and not closed. Raises RolloutError when the infrastructure ended episodes, and what an
    unfinished run raises.
    """
    await agent.prepare()
    for world in worlds:
        order = sorted(place for part in MEASURED for place in world.parts[part])
        about = {"parts": world.fingerprint()}
        place = folder / world.name
        await collect_rollouts(
            world.name, world.env, agent, order, place, seed=seed, extra=about, limits=limits, callbacks=callbacks
        )


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
