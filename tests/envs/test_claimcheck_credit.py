"""Span credits: they sum to the reward, and they stand where it was earned."""

from __future__ import annotations

import pytest

import factgym
from factgym.agents.rollout import play_episode
from factgym.agents.scripted import scripted_agents
from factgym.core.messages import message_text

ENVS = ("claimcheck-multihop", "claimcheck-offline", "claimcheck-hard")


@pytest.mark.parametrize("reward", ["r0", "gated", "v2"])
@pytest.mark.parametrize("env_id", ENVS)
def test_credits_sum_to_the_total_and_lie_in_assistant_messages(env_id, reward):
    env = factgym.make(env_id, reward=reward)
    for agent in scripted_agents(env_id).values():
        for task in (0, 7, 11):
            record = play_episode(env, agent, task)
            total, spans = record["reward"]["total"], record["reward"]["spans"]
            assert sum(value for *_, value in spans) == pytest.approx(total, abs=1e-9), agent.name
            for message, start, end, _ in spans:
                said = record["messages"][message]
                assert said["role"] == "assistant"
                assert 0 <= start <= end <= len(message_text(said))


def test_evidence_is_credited_to_reading_and_quotes_to_their_words():
    env = factgym.make("claimcheck-multihop")
    record = play_episode(env, scripted_agents("claimcheck-multihop")["oracle"], 5)
    gold = set(record["reward"]["metrics"]["gold_evidence"])
    readers = {
        turn["message"]
        for turn in record["turns"]
        if any(call["tool"] == "read" and call["arguments"]["id"] in gold for call in turn["calls"])
    }
    credited = {span[0] for span in record["reward"]["spans"]}
    assert readers <= credited
    last = max(credited)
    text = message_text(record["messages"][last])
    quotes = [text[start:end] for message, start, end, _ in record["reward"]["spans"] if message == last]
    passages = {one["id"]: one["text"] for one in record["task_view"]["passages"]}
    assert any(any(quote in passage for passage in passages.values()) for quote in quotes)
