"""Playing and recording: task order, sync and async policies, records that are the same bytes."""

from __future__ import annotations

import json

import pytest
from timeless import timeless

import factgym
from factgym.agents.agent import Agent
from factgym.agents.resolve import find_scripted_agent, scripted_agents
from factgym.agents.rollout import play_episode, play_many, run_policy, task_order
from factgym.agents.runs.collect import manifest_of
from factgym.agents.runs.files import EPISODES, MANIFEST
from factgym.agents.runs.write import RunWriter, free_folder
from factgym.core.errors import ConfigError


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
    env.reset(seed=1)
    run_policy(env, Waiter())
    assert env.episode.stop == "submitted"


def test_a_policy_sees_messages_and_open_tools():
    seen = []

    class Looker:
        def act(self, messages, tools):
            seen.append(([message["role"] for message in messages], [tool["function"]["name"] for tool in tools]))
            return "nothing to say"

    env = factgym.make("claimcheck", max_turns=2)
    env.reset(seed=1)
    run_policy(env, Looker())
    names = ["list", "search", "read", "submit"]
    assert seen == [(["system", "user"], names), (["system", "user", "assistant", "user"], names)]
    assert env.episode.stop == "turn_limit"


def test_records_are_the_same_bytes_and_fresh_instances_agree():
    agent = find_scripted_agent("claimcheck-multihop", "nli")
    runs = [
        json.dumps([timeless(one) for one in play_many(factgym.make("claimcheck-multihop"), agent, [3, 1, 4], seed=5)])
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
    assert set(offline["prompts"]) == {"offline", "task"}


def test_a_manifest_is_json_data_whatever_the_settings_hold():
    class Index:
        def search(self, queries, k):
            return []

        def fingerprint(self):
            return "v7"

    told = {"stop": ["a", "b"], "odd": object(), "pair": (1, 2.5), "nan": float("nan"), "deep": {"x": {3}}}
    agent = Agent("a", lambda env, seed: None, describe=lambda: told)
    manifest = manifest_of(factgym.make("claimcheck", index=Index()), agent, 1, 1, 0)
    assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest
    assert manifest["agent_details"] == {
        "stop": ["a", "b"], "odd": "builtins.object", "pair": [1, 2.5], "nan": "nan", "deep": {"x": "builtins.set"}
    }  # fmt: skip
    assert manifest["config"]["index"].endswith("Index v7")
