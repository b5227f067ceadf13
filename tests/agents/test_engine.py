"""Concurrent episodes: limits, seeds, groups, faults; single episodes; scores of given replies."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections import Counter

import policies
import pytest
from fault_server import FaultServer, error, reply
from play_policy import play_policy
from timeless import timeless

import factgym
from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.endpoint import Endpoint
from factgym.agents.resolve import find_scripted_agent, scripted_agents
from factgym.agents.rollout.engine import Limits, RunAbortedError, play_episode, play_many, run_jobs
from factgym.agents.rollout.jobs import Job, Progress, jobs_of, task_order
from factgym.agents.runs.collect import manifest_of
from factgym.agents.runs.files import EPISODES, MANIFEST
from factgym.agents.runs.schema import validate
from factgym.agents.runs.write import RunWriter, free_folder
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError, Scoring


def agent(policy, name="mine", **kwargs):
    start = getattr(policy, "start", None)
    return Agent(name, (lambda env, seed: start(seed)) if start else (lambda env, seed: policy), **kwargs)


def run(env, agent, jobs, **limits):
    result = []
    progress = Progress(len(jobs))
    asyncio.run(run_jobs(env, agent, jobs, result.append, limits=Limits(**limits), progress=progress))
    for item in result:
        validate(item)
    return result, progress


def by_job(records):
    return {(episode["index"], episode["sample"]): timeless(episode) for episode in records}


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
    result, _ = run(env, agent_from_script(agent), [Job(index, 0, 5) for index in range(20)], concurrency=8)
    alone = [play_episode(env, agent, index, 5) for index in range(20)]
    assert by_job(result) == by_job(alone)


def test_samples_of_a_task_differ_and_repeat(env):
    first, _ = run(env, agent(policies.Seeded()), many(10, 8, seed=3), concurrency=16)
    again, _ = run(env, agent(policies.Seeded()), many(10, 8, seed=3), concurrency=16)
    other, _ = run(env, agent(policies.Seeded()), many(10, 8, seed=4), concurrency=16)
    assert by_job(first) == by_job(again)
    assert Counter(episode["index"] for episode in first) == dict.fromkeys(task_order(500, 10, 3), 8)
    assert len({episode["seed"] for episode in first}) == 80
    assert not {episode["seed"] for episode in first} & {episode["seed"] for episode in other}
    verdicts = {}
    for episode in first:
        verdicts.setdefault(episode["index"], set()).add(episode["reward"]["metrics"]["verdict"])
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


def test_what_somebody_froze_for_garbage_collection_stays_frozen(env):
    was_frozen = gc.get_freeze_count() > 0
    try:
        gc.unfreeze()
        run(env, agent(policies.Seeded()), many(2))
        assert gc.get_freeze_count() == 0
        gc.freeze()
        run(env, agent(policies.Seeded()), many(2))
        assert gc.get_freeze_count() > 0
    finally:
        if not was_frozen:
            gc.unfreeze()


def test_notes_of_the_policy_on_its_replies_are_recorded(env):
    (episode,), progress = run(env, agent(policies.Seeded()), many(1))
    first, second = episode["turns"]
    assert first["completion"] is None
    assert second["completion"]["finish_reason"] == "stop"
    assert second["completion"]["retries"] == [{"cause": "rate_limit", "waited": 0.5}]
    assert all("completion" not in message for message in episode["messages"])
    assert episode["usage"] == {"prompt_tokens": 100, "completion_tokens": 7, "reasoning_tokens": 2, "requests": 2}
    assert progress.tokens == 107
    assert (progress.turns, progress.requests, progress.retries) == (2, 2, 1)
    for turn in episode["turns"]:
        assert turn["sent"] is None and turn["tools"] is None
        assert set(turn["seconds"]) == {"model", "tool", "environment"}
    assert episode["seconds"] >= sum(sum(turn["seconds"].values()) for turn in episode["turns"]) - 1e-5


def test_rewritten_messages_are_recorded_once(env):
    other = {"role": "system", "content": "tools as text"}

    class Rewriting(policies.Seeded):
        def start(self, seed):
            return Rewriting(seed)

        async def act(self, messages, tools):
            reply = await super().act(messages, tools)
            reply = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
            return {**reply, "completion": {"sent": [other, *messages[1:]]}}

    (episode,), _ = run(env, agent(Rewriting()), many(1))
    assert episode["other_messages"] == [other]
    count = len(episode["messages"])
    assert [turn["sent"] for turn in episode["turns"]] == [[count, 1], [count, 1, 2, 3]]


def test_a_fault_of_the_infrastructure_is_an_error_and_no_score(env):
    result, progress = run(env, agent(policies.Flaky()), many(90), concurrency=9)
    errors = [episode for episode in result if episode["error"]]
    assert len(result) == 90
    assert errors and all(episode["seed"] % 3 == 0 for episode in errors)
    assert progress.errors == len(errors) and progress.scored == 90 - len(errors)
    for episode in errors:
        assert episode["error"] == {"cause": "rate_limit", "message": "the server is busy"}
        assert (episode["stop"], episode["reward"]["status"], episode["reward"]["total"]) == ("error", "error", None)


def test_a_full_context_ends_the_episode_and_is_scored(env):
    (episode,), _ = run(env, agent(policies.Overflowing()), many(1))
    assert (episode["stop"], episode["error"], episode["reward"]["status"], episode["reward"]["total"]) == (
        *("context_limit", None, "scored", 0.0),
    )
    assert len(episode["turns"]) == 1


def test_an_episode_that_takes_too_long_is_an_error(env):
    result, progress = run(env, agent(policies.Hanging()), many(5), concurrency=5, episode_timeout=0.2)
    assert [episode["error"]["cause"] for episode in result] == ["timeout"] * 5
    assert all(len(episode["turns"]) == 1 and episode["stop"] == "error" for episode in result)
    assert progress.errors == 5


def test_a_bug_in_a_policy_is_named(env):
    (episode,), _ = run(env, agent(policies.Broken()), many(1))
    assert episode["error"] == {"cause": "agent", "message": "ZeroDivisionError: a bug of the user's"}


def test_a_broken_tool_is_the_environments_error():
    class Index:
        def search(self, queries, k):
            raise OSError("the index is gone")

    env = factgym.make("claimcheck-multihop", index=Index())
    (episode,), _ = run(env, agent(policies.Seeded()), many(1))
    assert episode["error"] == {"cause": "environment", "message": "OSError: the index is gone"}


def test_slow_tools_do_not_hold_up_the_other_episodes():
    """With an index that waits until four searches are under way at once, only threads can finish."""
    barrier = threading.Barrier(4, timeout=30)

    class Index:
        def search(self, queries, k):
            barrier.wait()
            return [[] for _ in queries]

    env = factgym.make("claimcheck-multihop", index=Index())
    result, _ = run(env, agent(policies.Seeded()), many(8), concurrency=4)
    assert [episode["error"] for episode in result] == [None] * 8


def test_a_blocking_policy_runs_beside_the_loop_and_never_twice_at_a_time(env):
    result, _ = run(env, agent(policies.Slow(), threads=1), many(20), concurrency=10)
    assert len(result) == 20
    assert policies.Slow.peak == 1


def test_a_fatal_fault_stops_the_run_and_preserves_finished_episodes(env):
    class Locked:
        requests = 0

        async def act(self, messages, tools):
            Locked.requests += 1
            if Locked.requests > 10:
                raise PolicyError("authentication", "the key is wrong", fatal=True)
            return policies.submission()

    result = []
    with pytest.raises(RunAbortedError, match="authentication: the key is wrong"):
        asyncio.run(run_jobs(env, agent(Locked()), many(100), result.append, limits=Limits(concurrency=4)))
    assert [episode["error"] is None for episode in result].count(True) == 10
    assert len(result) <= 14


def test_errors_in_a_row_stop_the_run_unless_max_errors_is_zero(env):
    result = []
    with pytest.raises(RunAbortedError, match="after 20 errors in a row"):
        asyncio.run(run_jobs(env, agent(policies.Broken()), many(100), result.append, limits=Limits(max_errors=20)))
    assert len(result) == 20
    result, progress = run(env, agent(policies.Broken()), many(100), max_errors=0)
    assert len(result) == progress.errors == 100


def test_a_cancelled_run_ends_between_episodes(env):
    result = []

    async def main():
        task = asyncio.create_task(
            run_jobs(env, agent(policies.Seeded(wait=0.01)), many(400), result.append, limits=Limits(concurrency=20))
        )
        while len(result) < 20:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert 20 <= len(result) < 400
    for item in result:
        validate(item)


@pytest.mark.parametrize("limits", [{"concurrency": 0}, {"episode_timeout": 0}, {"max_errors": -1}])
def test_limits_that_cannot_be_are_refused(limits):
    with pytest.raises(ConfigError):
        Limits(**limits)


def test_a_fault_of_the_scoring_is_an_error_that_is_played_again(env, monkeypatch, caplog):
    def score(self):
        raise RuntimeError("no score")

    monkeypatch.setattr(type(env), "score", score)
    (episode,), progress = run(env, agent(policies.answer_object()), many(1))
    assert episode["error"] == {"cause": "environment", "message": "RuntimeError: no score"}
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
def test_invalid_completion_fields_are_dropped_and_noted(env, key, value):
    class Odd:
        async def act(self, messages, tools):
            return {**policies.submission(), "completion": {"model": "m", "finish_reason": "stop", key: value}}

    (episode,), _ = run(env, agent(Odd()), many(1))
    text = episode["turns"][0]["completion"]
    assert key not in text or key == "notes"
    assert text["notes"] == {"left_out": [key]}
    assert episode["error"] is None


@pytest.mark.parametrize("value", [None, 5, "text", {}, {"else": 1}])
def test_an_account_that_is_none_is_none(env, value):
    class Odd:
        def act(self, messages, tools):
            return {**policies.submission(), "completion": value}

    (episode,), _ = run(env, agent(Odd()), many(1))
    assert episode["turns"][0]["completion"] is None


def test_faults_for_the_user_to_mend_stop_the_run(env):
    class Unset:
        async def act(self, messages, tools):
            raise ConfigError("say which model")

    with pytest.raises(RunAbortedError, match="say which model"):
        asyncio.run(run_jobs(env, agent(Unset()), many(50), lambda _: None))


# Playing and recording: task order, sync and async policies, records that are the same bytes.


def test_task_order_is_a_seeded_sample_without_repeats():
    order = task_order(500, 100, 7)
    assert order == task_order(500, 100, 7)
    assert order != task_order(500, 100, 8)
    assert len(set(order)) == 100
    assert sorted(task_order(10, None, 0)) == sorted(task_order(10, 99, 0)) == list(range(10))


class Waiter:
    """An async policy that submits at once."""

    async def act(self, messages, tools):
        claim = {"claim": "x", "status": "supported", "evidence_ids": [], "quote": ""}
        arguments = json.dumps({"claims": [claim], "final_verdict": "supported"})
        call = {"id": "1", "type": "function", "function": {"name": "submit", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_an_async_policy_plays():
    env = factgym.make("claimcheck")
    play_policy(env, Waiter(), 1)
    assert env.episode.stop == "submitted"


def test_a_policy_sees_messages_and_open_tools():
    seen = []

    class Looker:
        def act(self, messages, tools):
            seen.append(([message["role"] for message in messages], [tool["function"]["name"] for tool in tools]))
            return "nothing to say"

    env = factgym.make("claimcheck", max_turns=2)
    play_policy(env, Looker(), 1)
    names = ["list", "search", "read", "submit"]
    assert seen == [(["system", "user"], names), (["system", "user", "assistant", "user"], names)]
    assert env.episode.stop == "turn_limit"


def test_records_are_the_same_bytes_and_fresh_instances_agree():
    agent = find_scripted_agent("claimcheck-multihop", "nli")
    runs = [
        json.dumps(
            [timeless(item) for item in play_many(factgym.make("claimcheck-multihop"), agent, [3, 1, 4], seed=5)]
        )
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_a_record_is_plain_json_and_complete():
    env = factgym.make("claimcheck-multihop")
    record = play_episode(env, find_scripted_agent("claimcheck-multihop", "oracle"), 2)
    assert json.loads(json.dumps(record)) == record
    assert record["reward"]["total"] == pytest.approx(1.0)
    assert record["stop"] == "submitted"
    assert record["split"] == "test"
    for turn in record["turns"]:
        assert record["messages"][turn["message"]]["role"] == "assistant"
    assert [call["tool"] for turn in record["turns"] for call in turn["calls"]][-1] == "submit"


def test_an_unknown_agent_is_named():
    with pytest.raises(ConfigError, match="Did you mean 'oracle'"):
        find_scripted_agent("claimcheck", "orcale")


@pytest.mark.parametrize("env_id", factgym.list_envs())
def test_every_environment_has_the_roles(env_id):
    roles = {agent.role for agent in scripted_agents(env_id).values()}
    required = {"oracle", "honest", "exploiter"} | ({"random"} if env_id != "toy" else set())  # the toy is the least
    assert required <= roles


NLI = Agent("nli", lambda env, seed: None)


def test_a_run_is_written_line_by_line_and_never_overwritten(tmp_path):
    env = factgym.make("claimcheck")
    manifest = manifest_of(env, NLI, 2, 1, 0)
    with RunWriter(tmp_path / "run", manifest) as writer:
        writer.add({"a": "é\u2028"})
        assert (tmp_path / "run" / EPISODES).read_text("utf-8") == '{"a":"é\u2028"}\n'
    assert json.loads((tmp_path / "run" / MANIFEST).read_text("utf-8")) == manifest
    with pytest.raises(ConfigError, match="already holds a run"):
        RunWriter(tmp_path / "run", manifest)
    assert free_folder(tmp_path, "run").name == "run-2"


def test_manifests_differ_where_runs_cannot_be_compared():
    base = manifest_of(factgym.make("claimcheck"), NLI, 2, 1, 0)
    assert base == manifest_of(factgym.make("claimcheck"), NLI, 2, 1, 0)
    for other in ({"seed": 1}, {"split": "ood"}, {"haystack": True}):
        assert manifest_of(factgym.make("claimcheck", **other), NLI, 2, 1, 0)["fingerprints"] != base["fingerprints"]
    offline = manifest_of(factgym.make("claimcheck-offline"), NLI, 2, 1, 0)
    assert set(offline["prompts"]) == {"judged", "offline", "task"}


def test_a_manifest_is_json_data_whatever_the_settings_hold():
    class Index:
        def search(self, queries, k):
            return []

        def fingerprint(self):
            return "v7"

    text = {"stop": ["a", "b"], "odd": object(), "pair": (1, 2.5), "nan": float("nan"), "deep": {"x": {3}}}
    agent = Agent("a", lambda env, seed: None, describe=lambda: text)
    manifest = manifest_of(factgym.make("claimcheck", index=Index()), agent, 1, 1, 0)
    assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest
    assert manifest["agent_details"] == {
        "stop": ["a", "b"], "odd": "builtins.object", "pair": [1, 2.5], "nan": "nan", "deep": {"x": "builtins.set"}
    }  # fmt: skip
    assert manifest["config"]["index"].endswith("Index v7")


# Log-probabilities of given replies over a server: asked for where it can tell, a clear error where it cannot.


ASKED = [{"role": "user", "content": "Where was Ada born?"}]


def prompt_tokens(*tokens):
    """vLLM's form: nothing for the first token, then the token that was there before the likelier one."""
    rows = [None, *({str(n): {"logprob": value, "rank": 2, "decoded_token": text},
                     "9999": {"logprob": -0.01, "rank": 1, "decoded_token": "x"}}
                    for n, (text, value) in enumerate(tokens))]  # fmt: skip
    message = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}
    return reply(200, {"object": "chat.completion", "choices": [message], "prompt_logprobs": rows})


async def served(schedule, **settings):
    server = FaultServer(schedule=schedule, keep=True)
    async with server as url:
        model = Endpoint("m", url, max_wait=0.01, **settings)
        try:
            score = await model.score(ASKED, "Paris</answer>", given="<answer>")
        finally:
            await model.close()
    return score, [json.loads(body) for body in server.bodies]


def test_a_server_that_scores_prompts_gives_the_last_tokens():
    text = [("born", -4.0), ("?", -2.0), ("<answer>", -3.0), ("Par", -0.5), ("is", -0.25), ("</answer>", -0.125)]
    result, bodies = asyncio.run(served(["rate_limit_seconds", prompt_tokens(*text)], top_logprobs=3))
    assert result == -0.875
    body = bodies[-1]
    assert body["messages"] == [*ASKED, {"role": "assistant", "content": "<answer>Paris</answer>"}]
    assert (body["max_tokens"], body["prompt_logprobs"], body["continue_final_message"]) == (1, 1, True)
    assert body["add_generation_prompt"] is False and "top_logprobs" not in body


@pytest.mark.parametrize(
    "answer", ["ok", error(400, "Unrecognized request argument: prompt_logprobs"), reply(200, {"choices": []})]
)
def test_a_server_that_cannot_is_the_users_to_change(answer):
    with pytest.raises(ConfigError, match=r"gives no log-probabilities of given replies .*vLLM"):
        asyncio.run(served([answer]))


def test_openai_gets_no_request(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with pytest.raises(ConfigError, match="OpenAI's API does not"):
        asyncio.run(Endpoint("gpt").score(ASKED, "Paris"))


def test_other_faults_are_the_infrastructures():
    with pytest.raises(PolicyError, match="not in the given reply"):
        asyncio.run(served([prompt_tokens(("born", -1.0), ("something else entirely", -1.0))]))
    with pytest.raises(PolicyError) as fault:
        asyncio.run(served([error(401, "no")]))
    assert fault.value.fatal


def test_models_say_that_they_score():
    assert isinstance(Endpoint("m", "http://127.0.0.1:9/v1"), Scoring)
