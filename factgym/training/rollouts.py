"""Rollouts of a training loop: a run of chosen tasks that continues where it was stopped, and the stored episodes of steps."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Job, Progress, jobs_of
from factgym.agents.rollout.record import Act, Log, Record, record
from factgym.agents.runs.collect import manifest_of
from factgym.agents.runs.files import MANIFEST, read_json
from factgym.agents.runs.read import read_run
from factgym.agents.runs.write import RunWriter
from factgym.core.env import Env
from factgym.core.errors import FactgymError
from factgym.core.messages import Completion
from factgym.core.seeds import derive


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


@dataclass(frozen=True, slots=True)
class StepStore:
    """Stores the episodes of each training step as a run of its own, `folder/step-000012`.

    env: that was trained on. describe: identity of the policy, for the manifest. seed: of the stage; a trainer that
    samples with a random state of its own records the seeds that the engine would have taken.
    """

    folder: Path
    env: Env[Any]
    describe: Mapping[str, Any]
    seed: int

    def add(self, step: int, episodes: Sequence[tuple[Mapping[str, Any], float]]) -> None:
        """Store the episodes of a step, from 1, in place of those that an interrupted attempt left.

        episodes: with their advantages, which become the metric "advantage" of each.
        """
        folder = self.folder / f"step-{step:06}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        sizes = Counter(episode["index"] for episode, _ in episodes)
        agent = Agent("model", _play_nothing, lambda: {**self.describe, "step": step})
        seed = derive(self.seed, "step", step - 1)
        manifest = manifest_of(self.env, agent, len(sizes), max(sizes.values(), default=0), seed)
        members: Counter[int] = Counter()
        with RunWriter(folder, manifest) as writer:
            for episode, advantage in episodes:
                if report := episode["reward"]:
                    report = {**report, "metrics": {**report["metrics"], "advantage": round(advantage, 6)}}
                index, sample = episode["index"], members[episode["index"]]
                numbers = {"sample": sample, "seed": derive(seed, "episode", index, sample)}
                writer.add({**episode, **numbers, "reward": report})
                members[index] += 1


def _play_nothing(*_: object) -> Any:
    raise NotImplementedError("the policy of a training step plays in its trainer")


def trained_episode(env: Env[Any], tokens: Sequence[int]) -> Record:
    """Return the record of the episode that a trainer has just played. tokens: of each message of the policy."""
    episode, tools = env.episode, list(env.available_tools())
    acts = [
        Act(episode.messages[: turn.message], tools, Completion(raw="", usage={"completion_tokens": count}))
        for turn, count in zip(episode.turns, tokens, strict=False)
    ]
    return record(env, "model", Job(episode.index), Log(acts))
