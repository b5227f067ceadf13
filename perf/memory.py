"""Memory over a long run: resident size while episodes stream to the disk, compared with the size of their records."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import resource
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from factgym.agents.agent import agent_from_script
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import jobs_of, task_order
from factgym.agents.rollout.record import Record
from factgym.agents.runs.files import EPISODES
from factgym.agents.runs.write import RunWriter
from factgym.core.registry import make

_POINTS = 10


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf memory", description="Resident memory over a long run.")
    parser.add_argument("--env", default="claimcheck-multihop")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=512)
    options = parser.parse_args(arguments)
    return measure_memory(options.env, options.episodes, options.concurrency)


def measure_memory(env_id: str, episodes: int, concurrency: int) -> Iterator[str]:
    """Yield the lines of a report: resident megabytes after each tenth of the episodes."""
    env = make(env_id)
    agent = agent_from_script(find_scripted_agent(env_id, "oracle"))
    order = task_order(len(env.tasks), None, 0)
    every = jobs_of(order, -(-episodes // len(order)), 0)
    # Sample after sample: the first tenth plays every task, so that its caches are filled.
    jobs = sorted(every, key=lambda job: job.sample)[:episodes]
    sizes: list[float] = []
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), {}) as writer:
        done = itertools.count(1)

        def keep(episode: Record) -> None:
            writer.add(episode)
            if next(done) % max(episodes // _POINTS, 1) == 0:
                sizes.append(_resident())

        asyncio.run(run_jobs(env, agent, jobs, keep, limits=Limits(concurrency=concurrency)))
        written = (Path(folder) / EPISODES).stat().st_size / 2**20
    yield f"{env_id}: {episodes:,} episodes, {concurrency} at a time, {written:,.0f} MB of records"
    yield "  resident MB after each tenth: " + " ".join(f"{size:,.0f}" for size in sizes)
    yield f"  growth after the first tenth: {sizes[-1] - sizes[0]:+,.1f} MB, {(sizes[-1] - sizes[0]) / written:.1%} of what was recorded"


def _resident() -> float:
    """Megabytes: the current size where the system reports it (Linux), else the peak."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
