"""EVE's proposer with a served solver, and played by the engine: 64 at once, with faults, timeouts and cancelled runs."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

import pytest
from fault_server import OK, FaultServer, error, message
from killed_runs import run_forked

import factgym
from factgym.agents.agent import agent_from_script
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import Limits, RunAbortedError, play_episode, run_jobs
from factgym.agents.rollout.jobs import Job
from factgym.agents.runs.schema import validate
from factgym.core.errors import ConfigError

HONEST = find_scripted_agent("eve-proposer", "extractive")


LONDON = message({"role": "assistant", "content": "<answer>London</answer>"})


class Answering(FaultServer):
    """Answers every question with one word, between the faults."""

    def _next(self, body):
        fault = super()._next(body)
        return LONDON if fault == OK else fault


def served(url, **config):
    settings = {"base_url": url, "tools": "native", "max_wait": 0.01, "max_retries": 9, "temperature": 1.0}
    return factgym.make("eve-proposer", solver="openai:m", solver_settings=settings, **config)


async def run(env, count, **limits):
    result = []
    await run_jobs(
        env, agent_from_script(HONEST), [Job(index, 0, index) for index in range(count)], result.append,
        limits=Limits(concurrency=64, **limits),
    )  # fmt: skip
    for item in result:
        validate(item)
    return result


PROBES = 2
"""Requests after the first answer without a call: does the server take native tools?"""


def test_faults_that_pass_are_retried_and_64_episodes_at_once_are_scored():
    rates = {"rate_limit_seconds": 0.2, "http_500": 0.05, "drop_before": 0.05}

    async def go():
        server = Answering(seed=3, rates=rates)
        async with server as url:
            return await run(served(url, n=4, m=2), 64), server.counts

    result, counts = asyncio.run(go())
    assert [episode["error"] for episode in result] == [None] * 64
    assert all(episode["reward"]["status"] == "scored" for episode in result)
    requests = sum(4 + 4 * (episode["reward"]["metrics"]["evidence_span"] is not None) for episode in result)
    assert counts["custom"] == requests + PROBES, "every answer once, and none twice"
    assert counts["rate_limit_seconds"] > 40


def test_an_unreachable_server_is_an_error_and_not_a_score(caplog):
    caplog.set_level("CRITICAL")
    record = play_episode(served("http://127.0.0.1:9/v1", n=2, m=1), HONEST, 0)
    assert record["reward"]["status"] == "error"
    assert "the policy openai:m: connection: http://127.0.0.1:9/v1: Cannot connect" in record["error"]["message"]


def test_a_run_against_a_dead_server_stops(caplog):
    caplog.set_level("CRITICAL")

    async def go():
        server = FaultServer(schedule=[error(401, "no such key")] * 10_000)
        async with server as url:
            await run(served(url), 60, max_errors=20)

    with pytest.raises(RunAbortedError, match="authentication"):
        asyncio.run(go())


def test_log_probabilities_from_a_server_that_has_none_are_a_matter_of_configuration(caplog):
    caplog.set_level("CRITICAL")

    async def go():
        async with Answering() as url:
            env = served(url, value="logprob")
            return await asyncio.to_thread(play_episode, env, HONEST, 0)

    record = asyncio.run(go())
    assert record["reward"]["status"] == "error"
    assert "configuration: " in record["error"]["message"] and "vLLM" in record["error"]["message"]


def test_the_command_line_takes_a_solver_and_everything_else_by_name(tmp_path):
    settings = [
        'solver_settings={"tools": "native", "temperature": 1.0}', "auxiliary=unknown", 'n=3', "m=2", "hops=1", "size=6",
        f"cache={tmp_path / 'answers.sqlite'}", "reward=eve",
    ]  # fmt: skip

    async def go():
        server = Answering(rates={"rate_limit_seconds": 0.2})
        async with server as url:
            requests = [item for setting in (f"solver={url}", *settings) for item in ("--set", setting)]
            arguments = ["eval", "eve-proposer", "-n", "6", *requests, "--out"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "error", "-m", "factgym", *arguments, str(tmp_path / "one"),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            text, _ = await process.communicate()
            assert process.returncode == 0, text.decode()
            first = server.counts["custom"]
            assert await asyncio.to_thread(run_forked, [*arguments, str(tmp_path / "two")], tmp_path) == 0
            return url, [first, server.counts["custom"]]

    url, counts = asyncio.run(go())
    assert counts == [6 * (3 + 2) + PROBES] * 2, "the second run finds every answer in the file"
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text("utf-8"))
    assert manifest["guests"]["solver"]["name"] == url
    assert manifest["guests"]["auxiliary"] == {"name": "unknown", "details": {"kind": "scripted", "role": "baseline"}}
    lines = [(tmp_path / run / "episodes.jsonl").read_text("utf-8").splitlines() for run in ("one", "two")]
    totals = [sorted((json.loads(item)["index"], json.loads(item)["reward"]["total"]) for item in run) for run in lines]
    assert totals[0] == totals[1] and len(totals[0]) == 6


class Blocking:
    """A plain `act` in as many threads as it says; counts how many are inside at a time."""

    def __init__(self, threads):
        self.threads = threads
        self.lock = threading.Lock()
        self.inside = self.peak = self.calls = 0

    def act(self, messages, tools):
        with self.lock:
            self.inside += 1
            self.calls += 1
            self.peak = max(self.peak, self.inside)
        with self.lock:
            self.inside -= 1
        return "<answer>nothing</answer>"


@pytest.mark.parametrize("threads", [1, 4])
def test_a_blocking_solver_plays_for_64_episodes_at_once(threads):
    solver = Blocking(threads)
    result = asyncio.run(run(factgym.make("eve-proposer", solver=solver), 64))
    assert [episode["error"] for episode in result] == [None] * 64
    assert solver.peak <= threads
    assert solver.calls == sum(
        5 + 10 * (episode["reward"]["metrics"]["evidence_span"] is not None) for episode in result
    )


class Hanging:
    """Never answers."""

    def __init__(self):
        self.running = 0
        self.begun = threading.Event()

    async def act(self, messages, tools):
        self.running += 1
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1

    def left_alone(self):
        """Whether nobody is waiting for it any more; episodes are given up one after the other."""
        quiet = looks = 0
        while quiet < 5 and looks < 1000:
            quiet = 0 if self.running else quiet + 1
            looks += 1
            time.sleep(0.02)
        return quiet == 5


def test_an_episode_that_takes_too_long_leaves_nothing_running(caplog):
    caplog.set_level("CRITICAL")
    solver = Hanging()
    env = factgym.make("eve-proposer", solver=solver)
    result = asyncio.run(run(env, 3, episode_timeout=0.5))
    assert [episode["error"]["cause"] for episode in result] == ["timeout"] * 3
    assert solver.begun.is_set()
    assert solver.left_alone()


def test_a_cancelled_run_leaves_nothing_running(caplog):
    caplog.set_level("CRITICAL")
    solver = Hanging()
    env = factgym.make("eve-proposer", solver=solver)

    async def go():
        task = asyncio.create_task(run(env, 40))
        await asyncio.to_thread(solver.begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert solver.left_alone()


def test_the_same_records_come_out_however_many_play_at_a_time():
    env = factgym.make("eve-proposer")

    def totals(result):
        return sorted(
            (episode["index"], episode["reward"]["total"], str(episode["reward"]["metrics"]["solved"]))
            for episode in result
        )

    together = asyncio.run(run(env, 24))
    alone = [play_episode(factgym.make("eve-proposer"), HONEST, index, index) for index in range(24)]
    assert totals(together) == totals(alone)


class TestLocal:
    """V by log-probabilities of a small model, computed a second time from the model's own scores."""

    def test_v_is_the_difference_of_two_probabilities(self, tmp_path):
        tiny_model = pytest.importorskip("tiny_model", reason="needs the extra 'local'")
        from factgym.agents.local import LocalModel
        from factgym.envs.eve.solver import single_turn_messages

        model = LocalModel(tiny_model.build_random(tmp_path / "model", std=0.02), max_tokens=4, temperature=1.0)
        env = factgym.make("eve-proposer", solver=model, value="logprob", hops=1, n=2, solver_turns=1)
        record = play_episode(env, HONEST, 0)
        metrics = record["reward"]["metrics"]

        async def probability(evidence):
            messages = single_turn_messages(metrics["question"], evidence)
            return await model.score(messages, metrics["answer"] + "</answer>", given="<answer>")

        async def go():
            both = [await probability(item) for item in (metrics["evidence"], None)]
            await model.close()
            return both

        plus, minus = asyncio.run(go())
        assert (metrics["log_plus"], metrics["log_minus"]) == pytest.approx((plus, minus), abs=1e-3)
        assert metrics["value_kind"] == "logprob" and metrics["n"] == 2


def test_an_ensemble_gives_no_log_probabilities():
    with pytest.raises(ConfigError, match="gives no log-probabilities"):
        factgym.make(
            "eve-proposer", solver="majority:3:openai:m", value="logprob",
            solver_settings={"base_url": "http://127.0.0.1:9/v1"},
        )  # fmt: skip
