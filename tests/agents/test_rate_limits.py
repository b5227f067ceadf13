"""Rate limits: one gate for all requests of an endpoint, by which no episode is lost; whose fault an error is."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from fault_server import GROQ, LLAMA_CPP, LLAMA_CPP_GRAMMAR, FaultServer, RateLimitedServer, error
from test_endpoint_faults import ask, fails

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.cluster import on_processes
from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.gate import DECREASE, RECOVERY_SECONDS, RateGate
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import collect_async

ENV = "claimcheck-multihop"


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


@pytest.mark.parametrize(
    ("fault", "text"), [(LLAMA_CPP, ""), (LLAMA_CPP_GRAMMAR, ""), (GROQ, "<function=search{oops>")]
)
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


def test_gates_of_one_file_are_one_gate(tmp_path):
    """Every step on two gates in turn gives what the same steps on one gate give."""
    now = [100.0]
    single = RateGate(60.0, lambda: now[0])
    twins = [RateGate(60.0, lambda: now[0], tmp_path / "gate") for _ in range(2)]
    random = Random(3)
    pauses = 0
    for step in range(400):
        now[0] += random.random()
        sent, pause = now[0] - random.choice([0.0, 0.3, 5.0]), random.choice([0.5, 2.0])
        gate, kind = twins[step % 2], random.choice(["taken"] * 6 + ["refused", "wait"])
        if kind == "wait":
            began = now[0]
            waited = [asyncio.run(_paused(each, now)) for each in (single, gate)]
            assert waited[0] == waited[1] and now[0] == began
            pauses += waited[0] > 0
        else:
            for each in (single, gate):
                each.taken(sent) if kind == "taken" else each.refused(sent, pause)
            assert (gate.rate, gate.accepted) == (single.rate, single.accepted)
    for gate in twins:
        gate.close()
    assert pauses > 5


def test_a_refusal_of_one_worker_process_pauses_all(tmp_path):
    """As many requests are refused as in one process, where two gates would be refused twice as often."""
    server = RateLimitedServer(limit=10, window=0.2)

    async def run():
        async with server as url:
            settings = {"tools": "native", "max_retries": 1, "max_wait": 1.0}
            agent, engine = find_agent(url, ENV, settings), on_processes(2, url, settings)
            limits = Limits(concurrency=16, max_errors=0)
            return await collect_async(factgym.make(ENV), agent, tmp_path, n=40, limits=limits, engine=engine)

    episodes = list(asyncio.run(run()).episodes())
    assert len(episodes) == 40 and not [episode["error"] for episode in episodes if episode["error"]]
    assert 0 < server.refused < (server.requests - server.refused) / 2


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
