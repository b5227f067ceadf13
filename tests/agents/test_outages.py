"""Servers that are not there, load, or die: what is texts, recorded and waited for."""

from __future__ import annotations

import asyncio
import logging

import pytest
from test_odd_replies import _SkippingLoop

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect_async
from factgym.agents.script_server import ScriptServer
from factgym.cli.display import status
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError

ENGINE = "EngineCore encountered an issue. See stack trace (above) for the root cause."
"""The words of vLLM's V1 engine (vllm/v1/engine/exceptions.py), after which its API server ends."""


class SeedServer(ScriptServer):
    """Dies as vLLM on a CPU does of a seeded request whose prompt is split: a 500 to what is in flight, then nobody."""

    def __init__(self, after: int = 5) -> None:
        super().__init__()
        self.after = after

    def chat(self, connection, request):
        if self.requests <= self.after:
            super().chat(connection, request)
            return
        connection.send(500, b'{"error":{"message":"%b","type":"InternalServerError","code":500}}' % ENGINE.encode())
        asyncio.get_running_loop().call_later(0.001, lambda: self._server and self._server.close())
        for other in tuple(self.connections):
            asyncio.get_running_loop().call_later(0.002, other.drop)


def run_with(server, folder, n=6, resume=False, limits=None, **settings):
    async def run():
        async with server as url:
            agent = agent_from_model("m", Endpoint("m", url, tools="native", **settings))
            env = factgym.make("claimcheck-multihop", split="train")
            return await collect_async(env, agent, folder, n=n, resume=resume, limits=limits)

    with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
        return list(runner.run(run()).episodes())


def messages(episodes):
    return [episode["error"]["message"] for episode in episodes if episode["error"]]


def test_an_outage_keeps_its_first_fault_and_suggests_to_send_no_seed(tmp_path):
    limits = Limits(concurrency=2, max_errors=0)
    texts = messages(run_with(SeedServer(), tmp_path / "a", limits=limits, max_outage=20))
    assert texts and all(ENGINE in text and "send_seed=false" in text for text in texts)
    assert all(text.index("HTTP 500") < text.index("is the server running?") for text in texts if "running?" in text)
    unseeded = messages(run_with(SeedServer(), tmp_path / "b", limits=limits, max_outage=20, send_seed=False))
    assert unseeded and all(ENGINE in text and "send_seed" not in text for text in unseeded)


def test_a_run_continues_where_only_the_seed_is_no_longer_sent(tmp_path):
    first = run_with(SeedServer(), tmp_path, limits=Limits(concurrency=2, max_errors=0), max_outage=20)
    assert messages(first)
    done = run_with(ScriptServer(), tmp_path, resume=True, send_seed=False)
    assert len(done) == 6 and not messages(done)
    with pytest.raises(ConfigError, match="temperature"):
        run_with(ScriptServer(), tmp_path, resume=True, temperature=0.5)


def test_an_outage_that_ends_leaves_its_first_fault_in_the_record(tmp_path):
    from test_odd_replies import _DyingServer

    episodes = run_with(_DyingServer(20), tmp_path, n=30)
    notes = [turn["completion"].get("notes", {}) for episode in episodes for turn in episode["turns"]]
    assert any("outage" in note for note in notes) and not messages(episodes)


def test_the_status_line_says_how_long_a_server_is_away():
    async def run():
        async with ScriptServer() as url:
            endpoint = Endpoint("m", url, tools="native", max_retries=1, max_wait=0.01, max_outage=0)
            assert endpoint.notice() is None
            await endpoint.prepare()
        with pytest.raises(PolicyError):
            await endpoint.act([{"role": "user", "content": "Hello"}], [])
        line = status(Progress(5, notice=agent_from_model("m", endpoint).notice))
        await endpoint.close()
        return line

    assert asyncio.run(run()).endswith("server away for 0 s, waiting up to 0")


def test_a_first_contact_with_a_dead_server_ends_within_two_seconds():
    async def run():
        async with ScriptServer() as url:
            pass
        endpoint = Endpoint("m", url)
        started = asyncio.get_running_loop().time()
        with pytest.raises(PolicyError) as caught:
            await endpoint.prepare()
        await endpoint.close()
        return asyncio.get_running_loop().time() - started, caught.value

    with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
        seconds, error = runner.run(run())
    assert (error.cause, error.fatal) == ("connection", True) and "is the server running?" in str(error)
    assert seconds < 2.5, "1.5 s of waiting, on the loop's own clock, and the connections"


class Loading(ScriptServer):
    """Answers 503 as llama.cpp's server does, so many times."""

    def __init__(self, times, after=False):
        super().__init__()
        self.times = times

    def answer(self, connection, request):
        self.times -= 1
        if self.times >= 0:
            connection.send(503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}')
        else:
            super().answer(connection, request)


def test_a_server_that_is_loading_its_model_is_waited_for_and_says_so(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        episodes = run_with(Loading(30), tmp_path, max_outage=120)
    assert not messages(episodes)
    lines = [record.getMessage() for record in caplog.records if "loading" in record.getMessage()]
    assert len(lines) == 1 and "is loading its model: waiting up to 120 s" in lines[0]
    with pytest.raises(PolicyError, match="Loading model"):
        run_with(Loading(1000), tmp_path / "never", max_outage=20)


def test_an_episode_that_takes_too_long_names_the_fault_behind_it(tmp_path):
    class Failing(ScriptServer):
        def chat(self, connection, request):
            connection.send(500, b'{"error":{"message":"the disk of the cache is full"}}')

    (texts,) = messages(run_with(Failing(), tmp_path, n=1, limits=Limits(episode_timeout=3.0)))
    assert "more than 3 seconds" in texts and "the disk of the cache is full" in texts
