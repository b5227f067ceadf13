"""A thousand episodes against a server that fails on a seeded schedule: every one of them is accounted for."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from fault_server import INFRASTRUCTURE, POLICY, FaultServer
from test_engine import by_job

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.collect import collect_async
from factgym.agents.runs.schema import validate
from factgym.benchmarks.metrics import summarise

RATES = dict.fromkeys(sorted(INFRASTRUCTURE | POLICY), 0.012) | {"huge": 0.001, "huge_chunked": 0.001, "slow": 0.002}
CAUSES = {"rate_limit", "server", "connection", "timeout", "bad_reply", "empty_reply"}
PLAN = {"n": 250, "k": 4, "limits": Limits(concurrency=200, max_errors=0)}


def endpoint(url, retries, timeout=3.0):
    model = Endpoint(base_url=url, tools="native", max_retries=retries, max_wait=0.02, timeout=timeout)
    return agent_from_model("endpoint", model)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run without a fault, a run with faults and few retries, and that run continued until nothing is left to do."""
    env = factgym.make("claimcheck-multihop")
    folder = tmp_path_factory.mktemp("runs")

    async def main():
        async with FaultServer() as url:
            # A busy machine must not make the calm run time out: it is what the other one is compared with.
            calm = await collect_async(env, endpoint(url, 0, timeout=60.0), folder / "calm", **{**PLAN, "k": 1})
        server = FaultServer(seed=7, rates=RATES, slow=60.0)
        async with server as url:
            first = await collect_async(env, endpoint(url, 1), folder / "faults", **PLAN)
            first = list(first.episodes())
            for _ in range(6):
                run = await collect_async(env, endpoint(url, 1), folder / "faults", resume=True, **PLAN)
        return list(calm.episodes()), first, run, server

    return asyncio.run(main())


def test_every_episode_is_there_once_and_every_error_has_a_cause(played):
    calm, first, _, server = played
    assert len(first) == len(by_job(first)) == 1000
    assert set(by_job(first)) == {(one["index"], sample) for one in calm for sample in range(4)}
    errors = Counter(one["error"]["cause"] for one in first if one["error"])
    # On a busy machine calm requests time out as well; most episodes end all the same.
    assert 10 < errors.total() < 500
    assert set(errors) <= CAUSES
    assert set(server.counts) == {*RATES, "ok"}, "every fault was met"
    for one in first:
        validate(one)
        assert (one["reward"]["status"] == "error") == (one["error"] is not None)
    summary = summarise(first)
    assert (summary.n, summary.errors, summary.scored) == (1000, errors.total(), 1000 - errors.total())


def test_what_was_asked_again_leaves_no_trace_in_the_episode(played):
    """An episode that met the infrastructure's faults alone is the very episode of a calm server (one a task)."""
    calm, first, _, _ = played
    assert not [one["error"] for one in calm if one["error"]]
    reference = {one["index"]: (one["messages"], one["reward"], one["stop"]) for one in calm}
    retried = same = other = 0
    for key, one in by_job(first).items():
        if one["error"]:
            continue
        retried += any((turn["completion"] or {}).get("retries") for turn in one["turns"])
        if (one["messages"], one["reward"], one["stop"]) == reference[key[0]]:
            same += 1
        else:
            other += 1
            assert one["stop"] == "context_limit" or any(_policy_fault(turn) for turn in one["turns"]), key
    assert retried > 100
    assert same > 500
    assert other > 25


def _policy_fault(turn):
    """Whether the model itself said something else than in the script: nothing, half a call, two calls."""
    said = turn["completion"] or {}
    return turn["error"] is not None or said.get("finish_reason") == "length" or len(turn["calls"]) != 1


def test_a_run_is_continued_until_no_error_is_left(played):
    _, first, run, _ = played
    last = list(run.episodes())
    assert len(last) == len(by_job(last)) == 1000
    assert not [one["error"] for one in last if one["error"]]
    attempts = Counter(one["attempt"] for one in last)
    assert attempts[1] == sum(one["error"] is None for one in first)
    assert max(attempts) >= 2
    found = by_job(last)
    for key, one in by_job(first).items():
        assert one["error"] is not None or found[key] == one
