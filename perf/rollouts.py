"""Many episodes against a server that answers after a fixed delay: the overhead of the harness over the delay alone.

The ideal is turns x delay x waves, waves being episodes over concurrency. Three ways over the same episodes: the harness
with a policy that only waits, the harness with the endpoint policy and a server in a process of its own, and, as the
peer, the bare `openai` client that sends the same requests to that server. With `--workers N`, a fourth: the endpoint
policy in N processes; its CPU is that of the process that writes, and the start of the workers and one episode are left
out. Workers make the tasks that they play, so that their ideal is the larger of the delays and of the environment's own
time, tasks included, over the workers.

`--vllm` measures the same against a real server in place of the delay: vLLM on the processor over a pretrained model
(`perf.real_model`), the endpoint policy against the bare `openai` client, which sends the same requests.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent, agent_from_model
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Job, jobs_of, task_order
from factgym.agents.rollout.record import Record
from factgym.agents.runs.write import RunWriter
from factgym.core.env import Env
from factgym.core.messages import Message, ToolSchema
from factgym.core.registry import make

SERVER = "factgym.agents.script_server"


@dataclass(frozen=True, slots=True)
class _Timing:
    """Seconds of one way over all episodes: by the clock, and of this process's CPU."""

    wall: float
    cpu: float


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf rollouts", description="Many episodes at a time against a server with a fixed delay."
    )
    parser.add_argument("--env", default="claimcheck-multihop")
    parser.add_argument("--episodes", type=int, default=512)
    parser.add_argument("--delay-ms", type=float, default=50.0)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 16, 32, 64, 512])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="processes of a fourth way; 0 leaves it out")
    parser.add_argument(
        "--vllm", action="store_true", help="a real vLLM over SmolLM2-135M-Instruct in place of the delay"
    )
    parser.add_argument("--max-tokens", type=int, default=24, help="of a reply of that model")
    options = parser.parse_args(arguments)
    if options.vllm:
        return measure_against_vllm(
            options.env, options.episodes, options.concurrency, options.repeats, options.max_tokens
        )
    delay = options.delay_ms / 1e3
    return measure_rollouts(options.env, options.episodes, delay, options.concurrency, options.repeats, options.workers)


def measure_rollouts(
    env_id: str, episodes: int, delay: float, concurrencies: Sequence[int], repeats: int, workers: int = 0
) -> Iterator[str]:
    """Yield the lines of a report. delay: of the server, in seconds. workers: processes of the fourth way."""
    env = make(env_id)
    order = task_order(len(env.tasks), episodes, 0)
    jobs = list(jobs_of(order, -(-episodes // len(order)), 0))[:episodes]
    start = time.process_time()
    for index in order:  # tasks are made once a process; making them is no part of playing here, and is in workers
        env.tasks[index]
    making = time.process_time() - start
    with _server(delay) as url:
        replies = asyncio.run(_recorded(env, url, jobs))
        turns = sum(len(episode) for episode in replies.values()) / len(jobs)
        yield (
            f"{env_id}: {episodes} episodes of {turns:.1f} turns, replies after {delay * 1e3:g} ms, {repeats} repeats,"
            " median of wall / ideal (CPU ms a turn of this process, episodes written to disk)"
        )
        titles = ["harness alone", "with endpoint", "openai client alone"]
        titles += [f"{workers} workers"] if workers else []
        yield f"  {'at a time':>9}  {'ideal s':>8}  " + "  ".join(f"{title:>20}" for title in titles)
        shortest = 0.0
        if workers:
            own = making + _own_seconds(env, jobs, replies)
            shortest = own / workers
            yield (
                f"  the environment's own CPU: {own:.2f} s, of which {making:.2f} s make tasks; the ideal of the workers "
                f"is at least {shortest:.2f} s"
            )
        for concurrency in concurrencies:
            ideal = turns * delay * -(-episodes // concurrency)
            ways: dict[str, list[_Timing]] = {title: [] for title in titles}
            for _ in range(repeats):
                ways[titles[0]].append(_play(env, _waiting_agent(replies, delay), jobs, concurrency))
                ways[titles[1]].append(_play(env, _endpoint(url), jobs, concurrency))
                ways[titles[2]].append(_bare(env, url, jobs, concurrency, replies))
                if workers:
                    ways[titles[3]].append(_play_in_workers(env, url, jobs, concurrency, workers))
            bounds = dict.fromkeys(titles[:3], ideal) | {title: max(ideal, shortest) for title in titles[3:]}
            cells = [_cell(timings, bounds[title], turns * episodes) for title, timings in ways.items()]
            yield f"  {concurrency:9,}  {ideal:8.2f}  " + "  ".join(f"{cell:>20}" for cell in cells)


def measure_against_vllm(
    env_id: str, episodes: int, concurrencies: Sequence[int], repeats: int, max_tokens: int
) -> Iterator[str]:
    """Yield the lines of a report: wall time of the endpoint policy over that of the bare client, both against vLLM.

    Both send the same prompts at temperature 0, in turn; a first round, which fills the server's cache of prefixes, is
    not counted. max_tokens: of each reply.
    """
    from perf.real_model import save_folder, vllm_server

    env = make(env_id)
    order = task_order(len(env.tasks), episodes, 0)
    jobs = list(jobs_of(order, -(-episodes // len(order)), 0))[:episodes]
    sampling = {"temperature": 0, "max_tokens": max_tokens}
    with (
        tempfile.TemporaryDirectory() as scratch,
        vllm_server(save_folder(Path(scratch, "model")), Path(scratch)) as server,
    ):
        settings = {**sampling, "send_seed": False}
        replies = asyncio.run(_recorded(env, server.url, jobs, **settings))
        turns = sum(len(episode) for episode in replies.values())
        yield (
            f"{env_id}: {episodes} episodes of {turns / len(jobs):.1f} turns, SmolLM2-135M-Instruct under vLLM, at most"
            f" {max_tokens} tokens a reply, {repeats} repeats, median of wall s (CPU ms a turn of this process)"
        )
        yield f"  {'at a time':>9}  {'with endpoint':>20}  {'openai client alone':>20}  {'ratio':>6}"
        for concurrency in concurrencies:
            ours, bare = [], []
            for _ in range(repeats):
                ours.append(_play(env, _endpoint(server.url, **settings), jobs, concurrency))
                bare.append(_bare(env, server.url, jobs, concurrency, replies, **sampling))
            ratio = statistics.median(first.wall / second.wall for first, second in zip(ours, bare, strict=True))
            cells = [
                f"{statistics.median(timing.wall for timing in timings):.2f}"
                f" ({statistics.median(timing.cpu for timing in timings) / turns * 1e3:.2f} ms)"
                for timings in (ours, bare)
            ]
            yield f"  {concurrency:9,}  {cells[0]:>20}  {cells[1]:>20}  {ratio:6.2f}"


def _cell(timings: Sequence[_Timing], ideal: float, turns: float) -> str:
    wall = statistics.median(timing.wall for timing in timings)
    cpu = statistics.median(timing.cpu for timing in timings)
    return f"{wall / ideal:.2f} ({cpu / turns * 1e3:.2f} ms)"


@contextmanager
def _server(delay: float) -> Iterator[str]:
    command = [sys.executable, "-m", SERVER, "--port", "0", "--delay-ms", str(delay * 1e3)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _endpoint(url: str, **settings: Any) -> Agent:
    from factgym.agents.endpoint import Endpoint

    return agent_from_model("endpoint", Endpoint(base_url=url, tools="native", **settings))


_Replies = dict[tuple[int, int], list[tuple[list[Message], Sequence[ToolSchema], Message]]]
"""Job -> for each turn the prompt, the tools and the reply."""


async def _recorded(env: Env[Any], url: str, jobs: Sequence[Job], **settings: Any) -> _Replies:
    """The server's replies in every episode, so that the other two ways play the same."""
    replies: _Replies = {}

    def keep(episode: Record) -> None:
        messages = episode["messages"]
        indices = [turn["message"] for turn in episode["turns"]]
        replies[episode["index"], episode["sample"]] = [
            (messages[:index], episode["tools"], messages[index]) for index in indices
        ]

    agent = _endpoint(url, **settings)
    await run_jobs(env, agent, jobs, keep, limits=Limits(concurrency=32))
    await agent.close()
    return replies


class _WaitingPolicy:
    def __init__(self, replies: list[Message], delay: float) -> None:
        self._replies = iter(replies)
        self._delay = delay

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        await asyncio.sleep(self._delay)
        return next(self._replies)


def _own_seconds(env: Env[Any], jobs: Sequence[Job], replies: _Replies) -> float:
    """CPU seconds of the environment alone over all episodes."""
    start = time.process_time()
    for job in jobs:
        env.reset(seed=job.seed, options={"task": job.index})
        for _, _, reply in replies[job.index, job.sample]:
            env.step(reply)
    return time.process_time() - start


def _waiting_agent(replies: _Replies, delay: float) -> Agent:
    by_index = {index: [reply for _, _, reply in episode] for (index, _), episode in replies.items()}
    return Agent("waiting", lambda env, seed: _WaitingPolicy(by_index[env.episode.index], delay))


def _play(env: Env[Any], agent: Agent, jobs: Sequence[Job], concurrency: int) -> _Timing:
    async def run(writer: RunWriter) -> None:
        await run_jobs(env, agent, jobs, writer.add, limits=Limits(concurrency=concurrency))
        await agent.close()

    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), {}) as writer:
        return _timed(run(writer))


def _play_in_workers(env: Env[Any], url: str, jobs: Sequence[Job], concurrency: int, workers: int) -> _Timing:
    """The difference of two runs, the second of one episode for each worker, takes out the start of the workers."""
    import aiohttp  # noqa: F401 - as in a command, whose agent has loaded it by now: workers share it

    from factgym.agents.cluster import on_processes
    from factgym.agents.resolve import find_agent

    settings = {"tools": "native"}
    engine, agent = on_processes(workers, url, settings), find_agent(url, env.env_spec.id, settings)

    async def run(writer: RunWriter, jobs: Sequence[Job]) -> None:
        await engine(env, agent, jobs, writer.add, limits=Limits(concurrency=concurrency))

    timings = []
    for played in (jobs, jobs[:workers]):
        with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), {}) as writer:
            timings.append(_timed(run(writer, played)))
    return _Timing(timings[0].wall - timings[1].wall, timings[0].cpu - timings[1].cpu)


def _bare(
    env: Env[Any], url: str, jobs: Sequence[Job], concurrency: int, replies: _Replies, **sampling: Any
) -> _Timing:
    from openai import AsyncOpenAI

    async def run() -> None:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600) as client:
            (model,) = [model.id async for model in client.models.list()]
            remaining = iter(jobs)

            async def work() -> None:
                for job in remaining:
                    for messages, tools, _ in replies[job.index, job.sample]:
                        request: Any = {"model": model, "messages": messages, "tools": tools, **sampling}
                        await client.chat.completions.create(**request)

            await asyncio.gather(*(work() for _ in range(concurrency)))

    return _timed(run())


def _timed(work: Any) -> _Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(work)
    return _Timing(time.perf_counter() - wall, time.process_time() - cpu)
