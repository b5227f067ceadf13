"""Rewards of an episode: components against the official strings, credits by stage, the guard, the bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profact_claims import call, native, started

import factgym
from factgym.agents.rollout.engine import play_episode
from factgym.core.messages import message_text
from factgym.datasets.averitec import LABELS
from factgym.envs.profact.agents import AGENTS
from factgym.rewards.profact.stages import (
    COMPONENTS,
    GUARDED,
    PROCESS,
    RUBRICS,
    ProFactGold,
    informed_verdict,
    is_grounded,
    score_stages,
)
from factgym.rewards.rubric import Rubric

REWARDS = [*RUBRICS, "mine"]
MINE = Rubric("mine", {"question": 0.5, "qa": 2.0, "grounded_qa": 0.25, "verdict": 3.0}, {"qa": "evidence"})


def played(agent: str, task: int, reward: str) -> dict[str, Any]:
    env = factgym.make("profact", reward=MINE if reward == "mine" else reward)
    return play_episode(env, AGENTS[agent], task)


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("agent", ["oracle", "workflow", "random", "copies", "dump"])
def test_the_credits_of_a_stage_sum_to_its_share(agent: str, reward: str) -> None:
    for task in range(6):
        made = played(agent, task, reward)
        report = made["reward"]
        tools = {turn["message"]: turn["calls"][0]["tool"] for turn in made["turns"]}
        earned = {"ask": 0.0, "search": 0.0, "answer": 0.0, "verdict": 0.0}
        for message, start, end, value in report["spans"]:
            assert 0 <= start < end <= len(message_text(made["messages"][message]))
            earned[tools[message]] += value
        shares = {
            name: weight * report["components"][name] * report["gates"].get(name, 1.0)
            for name, weight in report["weights"].items()
        }
        assert earned["ask"] == pytest.approx(shares.get("question", 0.0) + shares.get("new_question", 0.0))
        assert earned["answer"] == pytest.approx(shares.get("qa", 0.0) + shares.get("grounded_qa", 0.0))
        assert earned["verdict"] == pytest.approx(shares.get("verdict", 0.0) + shares.get("informed_verdict", 0.0))
        assert earned["search"] == 0.0
        assert sum(earned.values()) == pytest.approx(report["total"])


@pytest.mark.parametrize("form", ["text", "native", "escaped"])
def test_a_question_is_credited_at_its_span_by_its_own_match(form: str) -> None:
    env = started(reward="process")
    gold = env.task.gold.questions[0]
    questions = ["Was “the thing” in Zürich?", gold]
    if form == "native":
        action: Any = native(call("ask", questions=questions))
    else:
        action = json.dumps({"name": "ask", "arguments": {"questions": questions}}, ensure_ascii=form == "escaped")
    env.step(action)
    report = env.truncate("context_limit")
    text = message_text(env.episode.messages[2])
    credit_by_text = {text[span.start : span.end]: span.value for span in report.spans}
    alone = score_stages([gold], [], None, env.task.gold).matchings["question"].score
    assert credit_by_text[gold] == pytest.approx(alone, rel=0.01)
    assert sum(credit_by_text.values()) == pytest.approx(report.components["question"])


def test_answers_are_credited_on_their_own_messages() -> None:
    env = started(task=2, reward="process")
    golds = env.task.check.questions
    env.step(call("ask", questions=[question.question for question in golds]))
    env.step(call("answer", answer="Bananas."))
    env.step(call("answer", answer=golds[1].answers[0].text))
    report = env.truncate("context_limit")
    first, second = (turn.message for turn in env.episode.turns[1:])
    earned = {
        message: sum(span.value for span in report.spans if span.message == message) for message in (first, second)
    }
    assert earned[second] > 1.2 * earned[first] > 0
    assert sum(earned.values()) == pytest.approx(report.components["qa"])


def test_the_components_are_those_of_the_record_by_itself() -> None:
    for agent in ("workflow", "oracle", "random"):
        env = factgym.make("profact", reward="process")
        made = play_episode(env, AGENTS[agent], 7)
        metrics, parts = made["reward"]["metrics"], made["reward"]["components"]
        alone = score_stages(
            metrics["questions"], metrics["pairs"], metrics["verdict"], env.task.gold, grounded=metrics["grounded"]
        )
        assert parts == alone.components
        assert made["reward"]["total"] == PROCESS.total(alone.components, {})


# The guard

GOLD = ProFactGold(
    ("What colour is it?", "Who built it?"), ("What colour is it? Red, said Ann.", "Who built it? Bob."), "Refuted"
)


def test_groundedness() -> None:
    evidence = ["Ann said that the bridge is red and rusty.", "It has no lights."]
    question = "What colour is the bridge?"
    assert is_grounded(question, "It is red and rusty.", evidence)
    assert is_grounded(question, "Red, says Ann.", evidence)
    assert not is_grounded(question, "Red, says Ann.", [])
    assert not is_grounded(question, "Blue with golden stripes.", evidence)
    assert not is_grounded(question, "The colour of the bridge.", evidence)
    assert not is_grounded(question, "Red? Purple, orange, teal, violet.", evidence)
    assert is_grounded(question, "No answer could be found.", evidence)
    assert is_grounded(question, "  no ANSWER could be found", [])
    assert not is_grounded(question, "No answer could be found.", None)
    assert not is_grounded(question, "It is red and rusty.", None)


def test_the_guard_scores_grounded_pairs_alone_and_gates_the_rest() -> None:
    pairs = [("What colour is it?", "Red, said Ann."), ("Who built it?", "Bob.")]
    questions = [question for question, _ in pairs]
    full = score_stages(questions, pairs, "Refuted", GOLD, grounded=[True, True])
    half = score_stages(questions, pairs, "Refuted", GOLD, grounded=[False, True])
    none = score_stages(questions, pairs, "Refuted", GOLD, grounded=[False, False])
    assert set(full.components) == set(COMPONENTS)
    assert [score.components["qa"] for score in (half, none)] == [full.components["qa"]] * 2
    assert full.components["grounded_qa"] == pytest.approx(full.components["qa"])
    assert half.components["grounded_qa"] == pytest.approx(0.5, abs=0.02)
    assert [match.prediction for match in half.matchings["grounded_qa"].matches] == [1]
    assert [score.gates["evidence"] for score in (full, half, none)] == [1.0, 0.5, 0.0]
    totals = [GUARDED.total(score.components, score.gates) for score in (full, half, none)]
    assert totals[0] == pytest.approx(3.0, abs=0.03) and totals[1] == pytest.approx(1.5, abs=0.03) and totals[2] == 0.0


@pytest.mark.parametrize(
    ("question", "answer", "grounded"),
    [
        ("Did the mayor of Ulm resign?", "No.", True),
        ("Did the mayor of Ulm resign?", "Yes, in 2019.", False),
        ("Did the mayor of Ulm resign?", "No. She opened a bridge.", True),
        ("Did a comet hit Jupiter in winter?", "No.", False),
        ("How many people came?", "Two.", True),
        ("How many people came?", "There were 2 people.", True),
        ("How many people came?", "Three.", False),
        ("Who opened the bridge?", "The mayor opened the bridge.", True),
        ("Who paid for the long bridge?", "The long bridge paid mayor.", False),
        ("Did the mayor of Ulm resign?", "The mayor of Ulm did resign bridge.", False),
        ("Did the mayor of Ulm resign?", "No answer could be found. She fled to Peru with the money.", False),
        ("Did the mayor of Ulm resign?", "No answer could be found. The mayor of Ulm did resign bridge.", False),
    ],
)
def test_an_answer_is_judged_as_an_answer(question: str, answer: str, grounded: bool) -> None:
    """Yes or no, a number, a name, a text; an echo of the question with a word of the evidence is none of them."""
    evidence = ["The mayor of Ulm opened the bridge.", "Two people came."]
    assert is_grounded(question, answer, evidence) is grounded


@pytest.mark.parametrize(
    ("evidence", "answers", "inventions"),
    [
        ("Twenty people died.", ("20 people", "Twenty.", "20"), ("21 people", "Twenty-one.", "two hundred")),
        ("It cost 1,500,000 euros.", ("1.5 million euros", "€1.5m", "one and a half million"), ("1.6 million", "1.5")),
        ("On March 3rd it opened.", ("3 March", "March 3"), ("4 March", "3 May", "March 31st")),
        ("The rate rose to 4.50 %.", ("4.5%", "4.5 per cent"), ("4.6%", "45%")),
        ("Senators voted against it.", ("One of the senators.",), ("One senator.", "Two senators.")),
        ("It was the third bridge.", ("the 3rd",), ("the 4th",)),
        ("It was 2020-03-03.", ("3 March 2020",), ("3 March 2021", "5 March 2020")),
    ],
)
def test_numbers_are_compared_as_values(evidence: str, answers: tuple[str, ...], inventions: tuple[str, ...]) -> None:
    for answer in answers:
        assert is_grounded("What is known of it?", answer, [evidence]), answer
    for answer in inventions:
        assert not is_grounded("What is known of it?", answer, [evidence]), answer


def test_a_denial_inside_an_answer_is_a_word_of_it() -> None:
    evidence = ["No record of a vote was kept.", "The volcano erupted."]
    assert is_grounded("Who voted?", "There is no record.", evidence)
    assert is_grounded("What erupted?", "A volcano.", evidence)


def test_a_decision_needs_an_answer_that_says_something() -> None:
    pairs = [(question, "No answer could be found.") for question in GOLD.questions]
    for label, gate in (("Refuted", 0.0), ("Not Enough Evidence", 1.0)):
        assert score_stages(GOLD.questions, pairs, label, GOLD, grounded=[True, True]).gates["judgement"] == gate


@pytest.mark.parametrize("labels", [(0.25,) * 4, (0.28, 0.57, 0.09, 0.06)])
def test_a_label_given_without_a_look_earns_nothing_on_average_and_the_mean_is_cohens_kappa(
    labels: tuple[float, ...],
) -> None:
    prior = dict(zip(LABELS, labels, strict=True))
    golds = [label for label, share in prior.items() for _ in range(round(100 * share))]
    chance = sum(share * share for share in labels)

    def mean(given: list[str]) -> float:
        scored = [
            informed_verdict(label, ProFactGold(("?",), ("?",), gold, prior=prior, chance=chance))
            for label, gold in zip(given, golds, strict=True)
        ]
        return sum(scored) / len(scored)

    for label in LABELS:
        assert mean([label] * len(golds)) == pytest.approx(0.0, abs=1e-9)
    assert mean(golds) == pytest.approx(1.0)
    assert informed_verdict(None, ProFactGold(("?",), ("?",), "Refuted", prior=prior)) == 0.0


def test_copies_of_the_claim_gain_nothing() -> None:
    gold = ProFactGold(
        ("Did the tall mayor of Ulm resign in 2019?",), ("x? y",), "Refuted", "The tall mayor of Ulm resigned"
    )
    copies = ["The tall mayor of Ulm resigned?", "Is it true that the tall mayor of Ulm resigned?"]
    score = score_stages(copies, [], None, gold).components
    assert score["question"] > 0.5 and score["new_question"] < 0.05
    assert score_stages(gold.questions, [], None, gold).components["new_question"] > 0.95


def test_nothing_asked_is_no_evidence() -> None:
    score = score_stages([], [], "Refuted", GOLD, grounded=[])
    assert score.gates["evidence"] == 0.0 and GUARDED.total(score.components, score.gates) == 0.0
    assert RUBRICS["process"].total(score.components, score.gates) == 1.0


def test_an_answer_written_before_the_evidence_is_in_sight_is_not_grounded() -> None:
    for together in (True, False):
        env = started(reward="guarded")
        gold = env.task.check.questions[0]
        text = gold.answers[0].explanation or gold.answers[0].text
        env.step(call("ask", questions=[gold.question]))
        calls = [call("search", query=text), call("answer", answer=text)]
        for action in [native(*calls)] if together else calls:
            env.step(action)
        report = env.truncate("context_limit")
        assert report.metrics["grounded"] == [not together]
        assert (report.components["grounded_qa"] == 0.0) is together
        assert report.components["qa"] > 0.2


def test_pasted_evidence_earns_less_than_the_answer_under_the_guard() -> None:
    golds = ("What was the wait?",)
    gold = ProFactGold(golds, ("What was the wait? A mean wait of 88 days was measured.",), "Supported")
    right = [(golds[0], "A mean wait of 88 days was measured.")]
    dump = [
        (golds[0], right[0][1] + " " + " ".join(f"Other report {n} tells of quite another matter." for n in range(20)))
    ]
    scores = [score_stages(golds, pairs, None, gold, grounded=[True]).components for pairs in (right, dump)]
    assert scores[1]["qa"] > 0.4 * scores[0]["qa"]
    assert scores[1]["grounded_qa"] < 0.2 * scores[0]["grounded_qa"]


@given(seed=st.integers(0, 10**6), task=st.integers(0, 499), agent=st.sampled_from(sorted(AGENTS)))
def test_every_reward_stays_within_its_bounds(seed: int, task: int, agent: str) -> None:
    env = factgym.make("profact")
    made = play_episode(env, AGENTS[agent], task, seed)
    low, high = env.reward_bounds
    assert low <= made["reward"]["total"] <= high + 1e-9 <= 3.01
    for name, value in made["reward"]["components"].items():
        assert (-1.0 if name == "informed_verdict" else 0.0) <= value <= 2.0
        assert value <= 1.0 + 1e-9 or name == "informed_verdict"


def test_without_an_episode_the_bounds_are_those_of_the_weights() -> None:
    assert factgym.make("profact", reward="process").reward_bounds == (0.0, 3.0)
    # Of generated claims each label has a quarter: a wrong one loses .25 / .75.
    assert factgym.make("profact").reward_bounds == pytest.approx((-1 / 3, 3.0), abs=0.01)
    assert factgym.make("profact-noprocess").reward_bounds == (0.0, 1.0)
