"""The filter as one call: sample, count, write. What `factgym filter` does, as a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.difficulty import DifficultyBand, Rule, Selection, find_rule, select
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import Engine, collect
from factgym.core.env import Env
from factgym.training.filtering.write import write_selection


def filter_tasks(
    env: Env[Any],
    agent: Agent,
    folder: str | Path,
    zone: DifficultyBand | None = None,
    rule: Rule | None = None,
    *,
    n: int | None = None,
    seed: int = 0,
    limits: Limits | None = None,
    resume: bool = False,
    on_start: Callable[[Progress], None] = lambda _: None,
    engine: Engine = run_jobs,
) -> Selection:
    """Sample G episodes of each of n tasks (all by default) into the run `folder`, keep what is in the zone, write it.

    seed: of the order of the tasks and of the policy. resume: finished episodes stay, those that a fault of the
    infrastructure ended are played again; another zone over the same samples plays nothing. Raises what `collect` and
    `select` raise; whatever it raises, what was finished is on disk.
    """
    zone, rule = zone or DifficultyBand(), rule or find_rule()
    folder = Path(folder)
    run = collect(
        env, agent, folder, n=n, k=zone.samples, seed=seed, limits=limits, resume=resume, on_start=on_start, engine=engine
    )  # fmt: skip
    selection = select(run.episodes(), zone, rule)
    write_selection(selection, run.episodes(), folder, env=env.env_spec.id, agent=agent.name)
    return selection
