"""CorVer's scripted players: what each knows, and that exploiters differ from the honest baselines by their exploit alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import factgym
from factgym.agents.rollout.engine import play_many
from factgym.core.env import Env
from factgym.core.messages import Message
from factgym.envs.corver.agents import (
    AGENTS,
    EXPLOITS,
    GRADER_INSTRUCTION,
    REFUSAL,
    SEARCH_AGENTS,
    STUDENT_SHARE,
    Background,
    Searcher,
    question_subject,
    read_answer,
    student_knows,
)
from factgym.rewards.corver.format import extract_answer
from factgym.rewards.corver.rubrics import STRICT

N = 120


def played(env: Env[Any], name: str, n: int = N) -> list[Any]:
    agents = SEARCH_AGENTS if env.config.search else AGENTS
    return list(play_many(env, agents[name], range(n), 0))


def test_the_oracle_states_the_fact_in_both_blocks_and_its_reward_is_the_corpus_say() -> None:
    by_count = {"absent": -0.3, "rare": -0.1, "known": 0.0, "common": 0.1}
    for split in ("train", "ood"):
        env = factgym.make("corver-qa", split=split)
        for episode in played(env, "oracle"):
            meta = episode["task_view"]["gold"]["meta"]
            report = episode["reward"]
            assert report["total"] == pytest.approx(3 + by_count[meta["tier"]]), episode["messages"][2]
            assert meta["statement"] in episode["messages"][2]["content"]


def test_the_student_knows_a_fixed_share_and_refuses_the_rest() -> None:
    env = factgym.make("corver-qa")
    labels = Counter()
    for episode in played(env, "student", 400):
        label = episode["reward"]["metrics"]["label"]
        assert label == ("good" if student_knows(episode["task"]) else "na")
        assert (episode["messages"][2]["content"] == REFUSAL) == (label == "na")
        labels[label] += 1
    assert labels["good"] / 400 == pytest.approx(STUDENT_SHARE, abs=0.08)


def test_the_searcher_answers_stated_facts_and_refuses_others() -> None:
    for split in ("validation", "ood"):
        counts: Counter[tuple[bool, str]] = Counter()
        for episode in played(factgym.make("corver-qa-search", split=split), "searcher", 200):
            stated = episode["task_view"]["gold"]["popularity"] > 0
            counts[stated, episode["reward"]["metrics"]["label"]] += 1
        assert counts[True, "good"] > 0.95 * 150
        assert counts[False, "na"] > 0.85 * 50
        assert counts[False, "good"] == 0


def test_the_searcher_sees_the_messages_alone() -> None:
    passage = "Winter Bressa is a novel by Odette Kliov, first published by Trunda Press in 1801 and set in Molgrad."
    messages: list[Message] = [
        {"role": "system", "content": "…"},
        {"role": "user", "content": "Who wrote the novel Winter Bressa?"},
    ]
    policy = Searcher(Background("", (), (), ()))
    assert policy.act(messages, []) == "<search>Who wrote the novel Winter Bressa?</search>"
    messages += [
        {"role": "assistant", "content": policy.act(messages, [])},
        {
            "role": "user",
            "content": f'<tool_response>\n<result id="1" title="x" qzkv>\n{passage}\n</result qzkv>\n</tool_response>',
        },
    ]
    completion = policy.act(messages, [])
    assert extract_answer(completion) == "Odette Kliov wrote the novel Winter Bressa."
    messages[3]["content"] = "None of the 5 passages matches. Try other words."
    assert policy.act(messages, []) == "<search>Winter Bressa</search>"
    messages += [{"role": "assistant", "content": policy.act(messages, [])}, {"role": "user", "content": "None."}]
    assert policy.act(messages, []) == REFUSAL


@pytest.mark.parametrize(
    "question, answer",
    [
        ("In which year was the novel Winter Bressa first published?", "1801"),
        ("Where does the story of Winter Bressa take place?", "Molgrad"),
        ("Which publisher brought out the novel Winter Bressa?", "Trunda Press"),
        ("Who composed the opera Winter Bressa?", None),
        ("Who wrote the novel Summer Bressa?", None),
        ("who?", None),
    ],
)
def test_an_answer_is_read_off_the_sentence_about_the_subject(question: str, answer: str | None) -> None:
    passage = "Winter Bressa is a novel by Odette Kliov, first published by Trunda Press in 1801 and set in Molgrad."
    knowledge = read_answer(question, [passage])
    assert (knowledge.answer if knowledge else None) == answer


def test_the_subject_of_a_question_is_its_last_name() -> None:
    assert question_subject("Who designed the town hall of Velmora?") == "Velmora"
    assert question_subject("At which university did Jorun Deori study?") == "Jorun Deori"
    assert question_subject("what is it?") == ""


@pytest.mark.parametrize("exploit", EXPLOITS)
def test_an_exploit_changes_the_text_and_not_the_knowledge(exploit: str) -> None:
    env = factgym.make("corver-qa")
    for episode in played(env, exploit, 30):
        answer = extract_answer(episode["messages"][2]["content"])
        gold = episode["task_view"]["gold"]["answers"][0]
        knows = student_knows(episode["task"])
        if exploit == "one-word":
            assert answer in ("e", "1")
        elif exploit in ("dump", "short-list"):
            assert gold in answer or not knows
        else:
            assert (gold in answer) == knows
            assert knows or answer in ("I don't know", GRADER_INSTRUCTION, *(("e", "1") if exploit == "bluff" else ()))


def test_roles_and_order() -> None:
    for agents, honest in ((AGENTS, "student"), (SEARCH_AGENTS, "searcher")):
        assert list(agents)[:3] == ["oracle", "teacher", honest]
        assert agents[honest].role == "honest"
        assert {agents[name].role for name in EXPLOITS} == {"exploiter"}
    assert "Knows the gold" in AGENTS["student"].summary  # a baseline that knows gold labels says so


def test_static_agents_earn_the_reward_of_no_work() -> None:
    env = factgym.make("corver-qa")
    refused = [episode["reward"]["total"] for episode in played(env, "refuse", 20)]
    assert refused == pytest.approx([0.5] * 20)  # -0.5 for no attempt, +1 for the form
    constant = played(env, "constant", 60)
    good = sum(episode["reward"]["metrics"]["label"] == "good" for episode in constant)
    assert 1 <= good <= 3
    guesses = played(env, "random", 60)
    assert sum(episode["reward"]["metrics"]["label"] == "good" for episode in guesses) <= 3
    assert STRICT.weights == {"judge_boundary": 1.0, "format_strict": 1.0, "cooccurrence_strict": 1.0}


def test_the_teacher_states_the_gold_answer_only_where_a_search_result_shows_it() -> None:
    env = factgym.make("corver-qa-search")
    tiers = set()
    for episode in played(env, "teacher", 60):
        meta, observed = episode["task_view"]["gold"]["meta"], ""
        for message in episode["messages"][1:]:
            text = message["content"]
            if message["role"] != "assistant":
                observed += text
            elif "<search>" in text:
                query = text.partition("<search>")[2].partition("</search>")[0]
                assert all(word in observed for word in query.split())
            else:
                answer = extract_answer(text) or ""
                states = any(alias in answer for alias in episode["task_view"]["gold"]["answers"])
                assert states == any(alias in observed for alias in episode["task_view"]["gold"]["answers"])
                assert states or answer == "I don't know"
                tiers.add((meta["tier"], states))
    assert tiers == {("absent", False), ("rare", True), ("known", True), ("common", True)}
    closed = [episode["reward"]["metrics"]["label"] for episode in played(factgym.make("corver-qa"), "teacher", 20)]
    assert set(closed) == {"good"}
