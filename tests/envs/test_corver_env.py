"""The CorVer environments: the completion, its reward, and the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from corver_examples import FALSE, GOOD, TABLE, TRUE, Broken, report, started, written
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.core.messages import message_text
from factgym.rewards.corver.rubrics import CorverRules
from factgym.rewards.corver.score import score_completion
from factgym.rewards.corver.tokens import token_returns


@pytest.fixture
def path(tmp_path: Path) -> str:
    return written(tmp_path)


def test_one_reply_with_two_blocks_is_the_whole_episode(path: str) -> None:
    env = started(path)
    obs, reward, terminated, truncated, info = env.step(GOOD)
    assert (terminated, truncated, info["error"], env.episode.stop) == (True, False, None, "submitted")
    assert "Received" in obs
    # judge 2, format 1, and both sentences, which fill both blocks, .1
    assert reward == info["reward"].total == pytest.approx(3.1)
    assert env.available_tools() == () and info["tools"] == []


@pytest.mark.parametrize(
    "completion, judge, form, cooccurrence",
    [
        (GOOD, 2, 1, 0.1),
        (f"<think>{FALSE}</think><answer>{FALSE}</answer>", -1, 1, -0.3),
        (f"<think>{FALSE}</think><answer>{TRUE}</answer>", 2, 1, -0.1),  # both sentences have 44 characters
        ("<think>unknown</think><answer>I don't know</answer>", -0.5, 1, 0),
        (TRUE, -1, -1, 0.1),  # no block at all: the text is one block, and no answer
        ("<think></think><answer>Dolvin</answer>", 2, -1, -0.3),  # nothing in it can be looked up
    ],
)
def test_the_strict_reward_by_hand(path: str, completion: str, judge: float, form: float, cooccurrence: float) -> None:
    result = report(path, completion)
    assert result.components["judge_boundary"] == judge
    assert result.components["format_strict"] == form
    assert result.components["cooccurrence_strict"] == pytest.approx(cooccurrence)
    assert result.total == pytest.approx(judge + form + cooccurrence)


def test_the_published_reward_and_its_ablations_are_a_setting(path: str) -> None:
    completion = f"<think>{FALSE}</think><answer>e</answer>"
    assert report(path, completion, reward="reference").components["judge"] == 2
    result = {name: report(path, GOOD, reward="reference", **{name: True}) for name in ("no_judge", "no_cooccurrence")}
    assert result["no_judge"].total == pytest.approx(1.1)
    assert result["no_cooccurrence"].total == pytest.approx(3.0)
    flat = report(path, f"<think>{FALSE} {TRUE}</think><answer>Dolvin</answer>", reward="reference", no_alignment=True)
    assert flat.weights == {"judge": 1.0, "format": 1.0, "cooccurrence_mean": 1.0}
    assert flat.total == pytest.approx(3.0 + (-0.3 + 0.1 + 0.0) / 3)
    assert report(path, GOOD, reward="strict-no-judge").total == pytest.approx(1.1)


def test_rule_and_judge_are_settings(path: str) -> None:
    text = "<think>Crimson Orvessa was written by Marek Dolvin.</think><answer>n</answer>"
    assert report(path, text, judge="reference").metrics["label"] == "good"
    assert report(path, text).metrics["label"] == "bad"
    demoted = report(path, GOOD, rule="relcheck", rules=CorverRules(relation_reward=-0.05))
    assert demoted.components["cooccurrence"] == pytest.approx(-0.05)  # the table has no count with "written" in it
    assert report(path, GOOD, rules=CorverRules(high_reward=0.2)).components["cooccurrence"] == pytest.approx(0.2)


def test_spans_cover_their_sentences_and_sum_to_the_total(path: str) -> None:
    completion = f"<think> {TRUE} {FALSE} </think>\n<answer>Dolvin wrote it.</answer>"
    env = started(path)
    result = env.step(completion)[4]["reward"]
    text = message_text(env.episode.messages[2])
    assert sum(span.value for span in result.spans) == pytest.approx(result.total)
    stated = {text[span.start : span.end]: span.value for span in result.spans}
    assert set(stated) >= {TRUE, FALSE, text}
    assert all(span.message == 2 for span in result.spans)
    chars = len(f"{TRUE} {FALSE}") + len("Dolvin wrote it.")
    assert stated[TRUE] == pytest.approx(0.1 * len(TRUE) / chars)
    assert stated[FALSE] == pytest.approx(-0.3 * len(FALSE) / chars)


def test_the_total_is_the_mean_of_the_token_returns_of_a_tokenizer_of_characters(path: str) -> None:
    completion = f"<think>{TRUE} {FALSE}</think>\n<answer>It was Marek Dolvin. Ask Harrow Press.</answer>"
    env = started(path)
    total = env.step(completion)[1]
    score = score_completion(
        completion, env.task.item.aliases, TABLE, env.tasks.extractor, question=env.task.item.question
    )
    inside = [(i, i + 1) for part in score.sections for i in range(part.start, part.end)]
    assert total == pytest.approx(float(token_returns(score, inside, env.config.rubric).returns.mean()))


def test_the_facts_of_a_report(path: str) -> None:
    result = report(path, f"<think>{TRUE} Nothing else is known.</think><answer>{FALSE}</answer>").metrics
    expected = {
        "label": "bad",
        "refusal": False,
        "format_ok": True,
        "answer_chars": len(FALSE),
        "counts": [25, None, 0],
        "popularity": None,
        "benchmark": "questions",
        "counted": True,
        "notes": [],
        "searches": 0,
    }
    assert {name: result[name] for name in expected} == expected
    assert result["rewards"] == [0.1, 0.0, -0.3]
    refused = report(path, "<think>unknown</think><answer>I don't know</answer>").metrics
    assert (refused["label"], refused["refusal"]) == ("na", True)


def test_without_a_counter_the_sentence_term_is_zero_and_the_report_notes_it(path: str) -> None:
    for counter in (None, "none"):
        env = started(path, counter=counter)
        result = env.step(f"<think>{FALSE}</think><answer>{TRUE}</answer>")[4]["reward"]
        assert result.total == pytest.approx(3.0)
        assert result.metrics["counted"] is False and result.metrics["counts"] == [None, None]
        assert result.metrics["notes"] == ["no counter: the sentence term is 0"]
        assert env.reward_bounds == (-2.0, 3.0)
    assert started(path).reward_bounds == pytest.approx((-2.3, 3.1))


PIECES = (
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    TRUE,
    FALSE,
    "It was he. ",
    "Dolvin",
    ". ",
    "\n",
    "<search>x</search>",
    "é🙂",
    "{",
)


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=14).map("".join), st.integers(1, 2))
def test_any_text_is_scored_within_the_bounds_and_its_spans_sum_to_its_reward(
    path: str, completion: str, turns: int
) -> None:
    for reward in ("strict", "reference", "reference-no-alignment"):
        env = started(path, max_turns=turns, reward=reward)
        for _ in range(turns):
            _, total, terminated, truncated, info = env.step(completion)
            if terminated or truncated:
                break
        result = info["reward"]
        low, high = env.reward_bounds
        assert result.status == "scored" and low - 1e-9 <= result.total == total <= high + 1e-9
        text = message_text(env.episode.messages[env.episode.turns[-1].message])
        assert all(0 <= span.start <= span.end <= len(text) for span in result.spans)
        if result.spans:
            assert sum(span.value for span in result.spans) == pytest.approx(result.total)


@pytest.mark.parametrize("part", ["counter", "extractor"])
def test_a_fault_of_counter_or_extractor_is_an_error_and_never_a_score(
    path: str, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    result = report(path, GOOD, **{part: Broken()})
    assert (result.total, result.status) == (None, "error")
    assert result.error == "ConnectionError: the index is gone"


def test_one_turn_scores_whatever_text_comes(path: str) -> None:
    for completion in ("Marek Dolvin", '{"answer": "Dolvin"}', "<tool_call>{}</tool_call>", "<think>I wonder"):
        env = started(path)
        assert env.step(completion)[2] is True, completion
        assert env.episode.report.components["format_strict"] == -1


@pytest.mark.parametrize("completion", ["", "   ", {"role": "assistant", "content": None}, "x" * 300_000, 17])
def test_a_message_without_text_has_no_answer(path: str, completion: Any) -> None:
    env = started(path)
    _, reward, terminated, truncated, info = env.step(completion)
    assert (terminated, truncated, info["reward"].metrics["label"]) == (False, True, "na")
    assert reward == -2.0


def test_with_more_turns_a_reply_without_an_answer_costs_one(path: str) -> None:
    env = started(path, max_turns=3)
    obs, reward, terminated, truncated, info = env.step("Let me think about it.")
    assert (reward, terminated, truncated, info["error"], info["turns_left"]) == (0, False, False, "no_tool_call", 2)
    assert "in the two blocks of the instructions" in obs
    obs, *_, info = env.step("<think>Is it <answer>Dolvin</answer>?</think>")
    assert info["error"] == "only_reasoning"
    assert env.step(GOOD)[1] == pytest.approx(3.1)


def test_the_last_reply_is_scored_as_it_is(path: str) -> None:
    env = started(path, max_turns=2)
    env.step("No idea yet.")
    _, reward, _, truncated, _ = env.step(TRUE)
    assert truncated and reward == pytest.approx(-2 + 0.1)


def test_reasoning_that_a_server_split_off_is_the_think_block(path: str) -> None:
    env = started(path)
    message = {"role": "assistant", "content": f"<answer>{TRUE}</answer>", "reasoning_content": TRUE}
    result = env.step(message)[4]["reward"]
    assert result.total == pytest.approx(3.1)
    assert result.metrics["format_ok"] is True
    text = message_text(env.episode.messages[2])
    places = {(span.start, span.end) for span in result.spans}
    assert places == {(0, 0), (0, len(text)), (len("<answer>"), len("<answer>") + len(TRUE))}
    assert sum(span.value for span in result.spans) == pytest.approx(result.total)


def test_the_question_is_shown_as_it_is_and_can_open_no_block(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "Who <answer>wrote</answer> it?", "answer": "A"}), "utf-8")
    env = started(str(file))
    system, user = env.policy_prompt()
    assert user["content"] == "Who ‹answer>wrote‹/answer> it?"
    assert system["role"] == "system" and "<think>" in (system["content"] or "")


def test_the_prompts_hold_the_requirements_of_the_papers(path: str) -> None:
    completion = {}
    for name in ("train", "eval", "eval-trained"):
        env = started(path, prompt=name, reward="reference")
        completion[name] = env.policy_prompt()[0]["content"] or ""
        assert "<think>unknown</think><answer>I don't know</answer>" in completion[name]
    assert "1000 tokens" in completion["train"] and "pronoun" in completion["train"] and "twice" in completion["train"]
    assert "pronoun" not in completion["eval"] and "twice" not in completion["eval"]
    assert "pronoun" not in completion["eval-trained"] and "twice" in completion["eval-trained"]
    published = started(path, prompt="eval-trained", reward="reference-no-judge")
    assert set(published.prompt_hashes()) == {"eval", "loop"}
    search = started(path, "corver-qa-search", corpus=str(Path(path).parent))
    assert set(search.prompt_hashes()) == {"train", "scoring", "search"}


def test_the_prompt_states_the_rules_of_the_strict_reward(path: str) -> None:
    text = started(path, reward="strict-no-alignment").policy_prompt()[0]["content"] or ""
    rules = (
        "One answer",
        "wrong answer costs more than a refusal",
        "two different things",
        "400 characters",
        "five different",
    )
    assert all(rule in text for rule in rules)


def test_a_person_composes_a_completion() -> None:
    env = factgym.make("corver-qa")
    env.reset(seed=0)
    questions: list[str] = []

    def ask(question: str, options: Sequence[str]) -> str:
        questions.append(question)
        return "Something"

    assert env.prompt_human(ask) == "<think>Something</think>\n<answer>Something</answer>"
    assert len(questions) == 2
    assert env.view_task(env.task)["gold"]["answers"] == list(env.task.item.aliases)
