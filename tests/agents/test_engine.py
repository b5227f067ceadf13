"""Many episodes at once: limits, seeds, groups, and what becomes of each kind of fault."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import policies
import pytest
from timeless import timeless

import factgym
from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import Limits, RunAbortedError, play_episode, run_jobs
from factgym.agents.rollout.jobs import Job, Progress, jobs_of, task_order
from factgym.agents.runs.schema import validate
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError


def agent(policy, name="mine", **kwargs):
    start = getattr(policy, "start", None)
    return Agent(name, (lambda env, seed: start(seed)) if start else (lambda env, seed: policy), **kwargs)


def run(env, agent, jobs, **limits):
    found = []
    progress = Progress(len(jobs))
    asyncio.run(run_jobs(env, agent, jobs, found.append, limits=Limits(**limits), progress=progress))
    for one in found:
        validate(one)
    return found, progress


def by_job(records):
    return {(one["index"], one["sample"]): timeless(one) for one in records}


def many(n, k=1, seed=0):
    return list(jobs_of(task_order(500, n, seed), k, seed))


@pytest.fixture(scope="module")
def env():
    return factgym.make("claimcheck-multihop")


def test_the_concurrency_changes_no_episode(env):
    runs = [run(env, agent(policies.Seeded()), many(60, 2), concurrency=c)[0] for c in (1, 7, 120)]
    assert by_job(runs[0]) == by_job(runs[1]) == by_job(runs[2])
    assert len(by_job(runs[0])) == 120


def test_the_engine_and_the_plain_loop_give_the_same_records(env):
    agent = find_scripted_agent("claimcheck-multihop", "nli")
    found, _ = run(env, agent_from_script(agent), [Job(index, 0, 5) for index in range(20)], concurrency=8)
    alone = [play_episode(env, agent, index, 5) for index in range(20)]
    assert by_job(found) == by_job(alone)


def test_samples_of_a_task_differ_and_repeat(env):
    first, _ = run(env, agent(policies.Seeded()), many(10, 8, seed=3), concurrency=16)
    again, _ = run(env, agent(policies.Seeded()), many(10, 8, seed=3), concurrency=16)
    other, _ = run(env, agent(policies.Seeded()), many(10, 8, seed=4), concurrency=16)
    assert by_job(first) == by_job(again)
    assert Counter(one["index"] for one in first) == dict.fromkeys(task_order(500, 10, 3), 8)
    assert len({one["seed"] for one in first}) == 80
    assert not {one["seed"] for one in first} & {one["seed"] for one in other}
    verdicts = {}
    for one in first:
        verdicts.setdefault(one["index"], set()).add(one["reward"]["metrics"]["verdict"])
    assert all(len(group) > 1 for group in verdicts.values())


def test_never_more_at_a_time_than_the_limit(env):
    seen = []
    progress = Progress(90)

    class Watched(policies.Seeded):
        def start(self, seed):
            seen.append(progress.running)
            return policies.Seeded(seed, wait=0.001)

    asyncio.run(
        run_jobs(env, agent(Watched()), many(90), lambda _: None, limits=Limits(concurrency=30), progress=progress)
    )
    assert max(seen) == 30
    assert (progress.done, progress.running, progress.errors) == (90, 0, 0)


def test_what_the_policy_tells_of_its_replies_is_recorded(env):
    (one,), progress = run(env, agent(policies.Seeded()), many(1))
    first, second = one["turns"]
    assert first["completion"] is None
    assert second["completion"]["finish_reason"] == "stop"
    assert second["completion"]["retries"] == [{"cause": "rate_limit", "waited": 0.5}]
    assert all("completion" not in message for message in one["messages"])
    assert one["usage"] == {"prompt_tokens": 100, "completion_tokens": 7, "reasoning_tokens": 2, "requests": 2}
    assert progress.tokens == 107
    for turn in one["turns"]:
        assert turn["sent"] is None and turn["tools"] is None
        assert set(turn["seconds"]) == {"model", "tool", "environment"}
    assert one["seconds"] >= sum(sum(turn["seconds"].values()) for turn in one["turns"]) - 1e-5


def test_messages_that_were_sent_otherwise_are_kept_once(env):
    other = {"role": "system", "content": "tools as text"}

    class Rewriting(policies.Seeded):
        def start(self, seed):
            return Rewriting(seed)

        async def act(self, messages, tools):
            said = await super().act(messages, tools)
            said = {"role": "assistant", "content": said} if isinstance(said, str) else said
            return {**said, "completion": {"sent": [other, *messages[1:]]}}

    (one,), _ = run(env, agent(Rewriting()), many(1))
    assert one["other_messages"] == [other]
    count = len(one["messages"])
    assert [turn["sent"] for turn in one["turns"]] == [[count, 1], [count, 1, 2, 3]]


def test_a_fault_of_the_infrastructure_is_an_error_and_no_score(env):
    found, progress = run(env, agent(policies.Flaky()), many(90), concurrency=9)
    errors = [one for one in found if one["error"]]
    assert len(found) == 90
    assert errors and all(one["seed"] % 3 == 0 for one in errors)
    assert progress.errors == len(errors) and progress.scored == 90 - len(errors)
    for one in errors:
        assert one["error"] == {"cause": "rate_limit", "message": "the server is busy"}
        assert (one["stop"], one["reward"]["status"], one["reward"]["total"]) == ("error", "error", None)


def test_a_full_context_ends_the_episode_and_is_scored(env):
    (one,), _ = run(env, agent(policies.Overflowing()), many(1))
    assert (one["stop"], one["error"], one["reward"]["status"], one["reward"]["total"]) == (
        *("context_limit", None, "scored", 0.0),
    )
    assert len(one["turns"]) == 1


def test_an_episode_that_takes_too_long_is_an_error(env):
    found, progress = run(env, agent(policies.Hanging()), many(5), concurrency=5, episode_timeout=0.2)
    assert [one["error"]["cause"] for one in found] == ["timeout"] * 5
    assert all(len(one["turns"]) == 1 and one["stop"] == "error" for one in found)
    assert progress.errors == 5


def test_a_bug_in_a_policy_is_named(env):
    (one,), _ = run(env, agent(policies.Broken()), many(1))
    assert one["error"] == {"cause": "agent", "message": "ZeroDivisionError: a bug of the user's"}


def test_a_broken_tool_is_the_environments_error():
    class Index:
        def search(self, queries, k):
            raise OSError("the index is gone")

    env = factgym.make("claimcheck-multihop", index=Index())
    (one,), _ = run(env, agent(policies.Seeded()), many(1))
    assert one["error"] == {"cause": "environment", "message": "OSError: the index is gone"}


def test_slow_tools_do_not_hold_up_the_other_episodes():
    """With an index that waits until four searches are under way at once, only threads can finish."""
    barrier = threading.Barrier(4, timeout=30)

    class Index:
        def search(self, queries, k):
            barrier.wait()
            return [[] for _ in queries]

    env = factgym.make("claimcheck-multihop", index=Index())
    found, _ = run(env, agent(policies.Seeded()), many(8), concurrency=4)
    assert [one["error"] for one in found] == [None] * 8


def test_a_blocking_policy_runs_beside_the_loop_and_never_twice_at_a_time(env):
    found, _ = run(env, agent(policies.Slow(), threads=1), many(20), concurrency=10)
    assert len(found) == 20
    assert policies.Slow.most == 1


def test_a_fatal_fault_stops_the_run_and_keeps_what_is_done(env):
    class Locked:
        asked = 0

        async def act(self, messages, tools):
            Locked.asked += 1
            if Locked.asked > 10:
                raise PolicyError("authentication", "the key is wrong", fatal=True)
            return policies.submission()

    found = []
    with pytest.raises(RunAbortedError, match="authentication: the key is wrong"):
        asyncio.run(run_jobs(env, agent(Locked()), many(100), found.append, limits=Limits(concurrency=4)))
    assert [one["error"] is None for one in found].count(True) == 10
    assert len(found) <= 14


def test_errors_in_a_row_stop_the_run_unless_told_not_to(env):
    found = []
    with pytest.raises(RunAbortedError, match="after 20 errors in a row"):
        asyncio.run(run_jobs(env, agent(policies.Broken()), many(100), found.append, limits=Limits(max_errors=20)))
    assert len(found) == 20
    found, progress = run(env, agent(policies.Broken()), many(100), max_errors=0)
    assert len(found) == progress.errors == 100


def test_a_cancelled_run_ends_between_episodes(env):
    found = []

    async def main():
        task = asyncio.create_task(
            run_jobs(env, agent(policies.Seeded(wait=0.01)), many(400), found.append, limits=Limits(concurrency=20))
        )
        while len(found) < 20:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert 20 <= len(found) < 400
    for one in found:
        validate(one)


@pytest.mark.parametrize("limits", [{"concurrency": 0}, {"episode_timeout": 0}, {"max_errors": -1}])
def test_limits_that_cannot_be_are_refused(limits):
    with pytest.raises(ConfigError):
        Limits(**limits)


def test_a_fault_of_the_scoring_is_an_error_that_is_played_again(env, monkeypatch, caplog):
    def score(self):
        raise RuntimeError("no score")

    monkeypatch.setattr(type(env), "score", score)
    (one,), progress = run(env, agent(policies.answer_object()), many(1))
    assert one["error"] == {"cause": "environment", "message": "RuntimeError: no score"}
    assert progress.errors == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("usage", {"prompt_tokens": "many"}),
        ("usage", {"prompt_tokens": True}),
        ("usage", {"tokens": 1}),
        ("usage", [1]),
        ("requests", 0),
        ("model", 5),
        ("finish_reason", ["stop"]),
        ("logprobs", [{"token": "a", "logprob": float("nan")}]),
        ("logprobs", "none"),
        ("retries", [{"cause": "x"}]),
        ("raw", {1, 2}),
        ("raw", float("inf")),
        ("raw", "x" * 1_100_000),
        ("notes", {"a": object()}),
        ("sent", ["text"]),
    ],
)
def test_what_a_policy_tells_wrongly_is_left_out_and_said(env, key, value):
    class Odd:
        async def act(self, messages, tools):
            return {**policies.submission(), "completion": {"model": "m", "finish_reason": "stop", key: value}}

    (one,), _ = run(env, agent(Odd()), many(1))
    said = one["turns"][0]["completion"]
    assert key not in said or key == "notes"
    assert said["notes"] == {"left_out": [key]}
    assert one["error"] is None


@pytest.mark.parametrize("value", [None, 5, "text", {}, {"else": 1}])
def test_an_account_that_is_none_is_none(env, value):
    class Odd:
        def act(self, messages, tools):
            return {**policies.submission(), "completion": value}

    (one,), _ = run(env, agent(Odd()), many(1))
    assert one["turns"][0]["completion"] is None


def test_what_the_user_has_to_mend_stops_the_run(env):
    class Unset:
        async def act(self, messages, tools):
            raise ConfigError("say which model")

    with pytest.raises(RunAbortedError, match="say which model"):
        asyncio.run(run_jobs(env, agent(Unset()), many(50), lambda _: None))
