"""Rate limits: one gate for all requests of an endpoint, by which no episode is lost; whose fault an error is."""

from __future__ import annotations

import asyncio

import pytest
from fault_server import GROQ, LLAMA_CPP, FaultServer, RateLimitedServer, error
from test_endpoint_faults import ask, fails

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.gate import DECREASE, RECOVERY_SECONDS, RateGate
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import collect_async


@pytest.mark.parametrize("announced", [True, False])
def test_no_episode_is_lost_to_a_rate_limit_and_few_requests_are_refused(tmp_path, announced):
    """Retries are as few as they can be: waiting for the gate uses up none."""
    server = RateLimitedServer(limit=20, window=0.1, announced=announced)

    async def run():
        async with server as url:
            model = Endpoint(base_url=url, tools="native", max_retries=1, max_wait=1.0)
            agent = agent_from_model("m", model)
            env = factgym.make("claimcheck-multihop", split="train")
            return await collect_async(env, agent, tmp_path, n=100, limits=Limits(concurrency=32, max_errors=0))

    episodes = list(asyncio.run(run()).episodes())
    assert len(episodes) == 100
    assert not [episode["error"] for episode in episodes if episode["error"]]
    assert 0 < server.refused < (server.requests - server.refused) / 2


def test_a_server_that_refuses_everything_is_given_up():
    failed = fails(FaultServer(schedule=[error(429, "slow down")] * 9), max_retries=2)
    assert (failed.cause, failed.fatal) == ("rate_limit", False)
    assert "after 3 requests" in str(failed)


def test_the_pace_after_a_refusal_is_cubic():
    """RFC 9438, section 4.2: W(0) = beta W_max, W(K) = W_max, and beyond K the curve is convex."""
    now = [0.0]
    gate = RateGate(60.0, lambda: now[0])
    for start in (0.0, 10.0):
        now[0] = start
        for _ in range(100):
            gate.taken(now[0])
        now[0] = start + 9.0
        gate.refused(now[0], 1.0)
    now[0] = 20.0
    assert gate.rate == pytest.approx(DECREASE * 10)
    now[0] += RECOVERY_SECONDS
    assert gate.rate == pytest.approx(10)
    now[0] += RECOVERY_SECONDS
    assert gate.rate == pytest.approx((2 - DECREASE) * 10)


def test_refusals_of_requests_in_flight_are_one_decrease():
    now = [0.0]
    gate = RateGate(60.0, lambda: now[0])
    for _ in range(40):
        gate.taken(now[0])
    now[0] = 1.0
    for _ in range(40):
        gate.refused(0.5, 1.0)
    now[0] = 2.0
    assert gate.rate == pytest.approx(DECREASE * 20)


@pytest.mark.parametrize(("fault", "text"), [(LLAMA_CPP, ""), (GROQ, "<function=search{oops>")])
def test_an_error_about_the_models_own_call_is_its_malformed_turn(fault, text):
    server = FaultServer(schedule=[fault])
    reply = ask(server)
    assert server.requests == 1
    assert reply["content"] == text and not reply.get("tool_calls")
    assert "malformed_call" in reply["completion"]["notes"] and "retries" not in reply["completion"]
    env = factgym.make("claimcheck-multihop")
    env.reset(seed=0)
    env.step(reply)
    assert env.episode.turns[0].error is not None


def test_auto_takes_a_malformed_call_in_its_probe_as_native_tools():
    server = FaultServer(schedule=[LLAMA_CPP])
    assert ask(server, mode="auto")["tool_calls"]


def test_refusals_without_an_accepted_request_double_the_pause_and_never_stop_the_pace():
    now = [0.0]
    gate = RateGate(60.0, lambda: now[0])
    pauses = []
    for _ in range(8):
        gate.refused(now[0], 2.0)
        waiting = asyncio.run(_paused(gate, now))
        pauses.append(round(waiting, 6))
        now[0] += waiting + 0.001
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    assert gate.rate is not None and gate.rate >= 1.0


async def _paused(gate, now):
    """Seconds from now until the gate sends again, by its clock."""
    began = now[0]

    async def sleep(seconds):
        now[0] += seconds

    real, asyncio.sleep = asyncio.sleep, sleep
    try:
        sent = await gate.wait()
    finally:
        asyncio.sleep = real
    now[0] = began
    return sent - began
