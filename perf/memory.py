"""Memory over a long run: resident size while episodes stream to the disk, beside the size of what they come to."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from factgym.agents.agent import agent_from_script
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import jobs_of, task_order
from factgym.agents.rollout.record import Record
from factgym.agents.runs import EPISODES
from factgym.agents.runs.write import RunWriter
from factgym.core.registry import make

_POINTS = 10


def measure_memory(env_id: str, episodes: int, concurrency: int) -> Iterator[str]:
    """Lines of a report, as they are found: resident megabytes after each tenth of the episodes."""
    env = make(env_id)
    agent = agent_from_script(find_scripted_agent(env_id, "oracle"))
    order = task_order(len(env.tasks), None, 0)
    every = jobs_of(order, -(-episodes // len(order)), 0)
    # Task after task, then the next sample: the first tenth meets every task, with what is kept of each.
    jobs = sorted(every, key=lambda job: job.sample)[:episodes]
    sizes: list[float] = []
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), {}) as writer:
        done = itertools.count(1)

        def keep(one: Record) -> None:
            writer.add(one)
            if next(done) % max(episodes // _POINTS, 1) == 0:
                sizes.append(_resident())

        asyncio.run(run_jobs(env, agent, jobs, keep, limits=Limits(concurrency=concurrency)))
        written = (Path(folder) / EPISODES).stat().st_size / 2**20
    yield f"{env_id}: {episodes:,} episodes, {concurrency} at a time, {written:,.0f} MB of records"
    yield "  resident MB after each tenth: " + " ".join(f"{size:,.0f}" for size in sizes)
    yield f"  growth after the first tenth: {sizes[-1] - sizes[0]:+,.1f} MB, {(sizes[-1] - sizes[0]) / written:.1%} of what was recorded"


def _resident() -> float:
    """Megabytes: now where the system tells (Linux), else the most so far."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10
