"""What counts as a submission of the EVE solver, where its texts stand, and any text that a policy may write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eve_examples import (
    CORPUS,
    WRITTEN,
    blocks,
    call,
    report,
    searched,
    started,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import factgym
from factgym.core.messages import message_text
from factgym.datasets.multihop import Triple
from factgym.envs.eve.submission import mask_reasoning


def test_a_native_call_submits_as_well() -> None:
    env = searched()
    said: Any = {
        "role": "assistant",
        "content": "Done.",
        "tool_calls": [
            {
                "id": "x",
                "type": "function",
                "function": {"name": "submit", "arguments": json.dumps({"answer": "Dolvin", "evidence": WRITTEN})},
            }
        ],
    }
    found = report(env, said)
    assert found.total == pytest.approx(1.3)
    text = message_text(env.episode.messages[-2])
    assert {text[one.start : one.end]: one.value for one in found.spans} == pytest.approx(
        {"Dolvin": 1.0, WRITTEN: 0.3}
    )
    assert env.episode.messages[-1]["tool_call_id"] == "x"


def test_the_last_blocks_outside_reasoning_count() -> None:
    said = f"<think>{blocks('Selma', 'x')}</think>{blocks('no', 'y')} or rather {blocks('Dolvin', WRITTEN)}"
    found = report(searched(), said)
    assert (found.metrics["answer"], found.metrics["evidence"]) == ("Dolvin", WRITTEN)
    thought = searched().step("<think><answer>Dolvin</answer></think>")
    assert thought[2] is False and thought[4]["error"] == "only_reasoning"
    opened_by_the_template = f"so <answer>Selma</answer></think>{blocks('Dolvin')}"
    assert report(searched(), opened_by_the_template).metrics["answer"] == "Dolvin"


def test_a_call_before_the_block_is_done_and_the_block_is_not_read() -> None:
    env = started()
    obs, _, terminated, *_ = env.step(f"{call('search', query_list='Orvessa')}\n{blocks('Selma')}")
    assert not terminated and '<result id="novel"' in obs
    assert env.step(f"{blocks('Dolvin', WRITTEN)}\n{call('search', query_list='Orvessa')}")[2] is True


def test_a_message_with_neither_costs_a_turn_and_the_last_one_counts_whole() -> None:
    env = searched(max_turns=3)
    obs, _, terminated, truncated, info = env.step("Marek Dolvin")
    assert (terminated, truncated, info["error"]) == (False, False, "no_tool_call")
    assert "neither a tool call nor an answer" in obs and "<answer>…</answer>" in obs
    _, reward, terminated, truncated, info = env.step("<think>He did.</think>Marek Dolvin.")
    assert (reward, terminated, truncated, env.episode.stop) == (0.5, False, True, "turn_limit")
    metrics = info["reward"].metrics
    assert (metrics["answer"], metrics["answer_tagged"], metrics["em"]) == ("Marek Dolvin.", False, True)


def test_without_reminders_a_plain_message_ends_the_episode() -> None:
    env = searched(remind=False)
    _, reward, terminated, truncated, _ = env.step("Marek Dolvin")
    assert (reward, terminated, truncated) == (0.5, True, False)
    assert started(remind=False).step(call("search", query_list="x"))[2] is False
    assert started(remind=False).step("")[2] is False


def test_an_episode_that_ends_with_a_search_has_no_answer() -> None:
    env = searched(max_turns=2)
    _, reward, _, truncated, info = env.step(call("search", query_list="Marek Dolvin"))
    assert (reward, truncated, info["reward"].metrics["answer"]) == (0.0, True, "")
    assert info["reward"].metrics["searches"] == 2 and info["reward"].spans == ()


def test_at_the_last_turn_a_block_counts_beside_a_call() -> None:
    env = searched(max_turns=2)
    _, reward, terminated, truncated, _ = env.step(
        f"{call('search', query_list='Velmora')}{blocks('Dolvin', WRITTEN)}"
    )
    assert (reward, terminated, truncated) == (pytest.approx(1.3), False, True)


@pytest.mark.parametrize(
    "text, seen",
    [
        ("a<think>b</think>c", "ac"),
        ("b</think>c", "c"),
        ("a<think>b</think>c</think>d", "d"),
        ("a<think>b", "a"),
        ("a<think>b<think>c</think>d", "ad"),
        ("a<think>b</think>c<think>d</think>e<think>", "ace"),
        ("", ""),
    ],
)
def test_reasoning_is_blanked_out_and_offsets_stay(text: str, seen: str) -> None:
    found = mask_reasoning(text)
    assert found.replace(" ", "") == seen and len(found) == len(text)
    assert all(one in (" ", other) for one, other in zip(found, text, strict=True))


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "<think></think>", "<answer>", "</answer><evidence>", "<search>"]
)
def test_a_long_hostile_message_is_read_through(piece: str) -> None:
    """Anything quadratic would take minutes here."""
    said = piece * (199_000 // len(piece))
    assert len(mask_reasoning(said)) == len(said)
    env = started(max_turns=2)
    for _ in range(2):
        env.step(said)
        if env.episode.stop:
            break
    assert env.episode.report is not None and env.episode.report.status == "scored"


def test_it_can_be_ended_from_outside_at_any_time() -> None:
    assert started().truncate("context_limit").total == 0.0
    assert searched().truncate("length_limit").metrics["evidence_present"] is False
    assert searched().fail("gone").status == "error"


@pytest.mark.parametrize("ascii_only", [True, False])
def test_credit_finds_what_a_call_says_in_any_escape(ascii_only: bool) -> None:
    triple = Triple("odd", "Who is it?", ('Zoë "Zed" Ruß',), (), 1, "own")
    env = factgym.make("eve-solver", triples=[triple], corpus=CORPUS, reward="dr-zero")
    env.reset()
    text = json.dumps({"evidence": "", "answer": 'Zoë "Zed" Ruß'}, ensure_ascii=ascii_only)
    native = {"id": "a", "type": "function", "function": {"name": "submit", "arguments": text}}
    (span,) = report(env, {"role": "assistant", "content": "So:", "tool_calls": [native]}).spans
    said = message_text(env.episode.messages[span.message])[span.start : span.end]
    assert json.loads(f'"{said}"') == 'Zoë "Zed" Ruß' and span.value == 1.0
    tagged = started(reward="dr-zero")
    tagged.step({"tool": "submit", "arguments": {"answer": "  Dolvin "}})
    (span,) = tagged.episode.report.spans
    assert message_text(tagged.episode.messages[span.message])[span.start : span.end] == "Dolvin"


PIECES = (
    *("<think>", "</think>", "<answer>", "</answer>", "<evidence>", "</evidence>", WRITTEN, "Marek Dolvin", "Dolvin"),
    *(
        "<search>x</search>",
        "<tool_call>",
        "</tool_call>",
        '{"answer": "Dolvin"}',
        "\n",
        "é🙂",
        '{"query_list": ["a"]}',
    ),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=14).map("".join),
    st.sampled_from(["guarded", "eve"]),
    st.booleans(),
)
def test_any_text_is_scored_within_the_bounds_and_its_spans_sum_to_its_reward(
    said: str, reward: str, remind: bool
) -> None:
    env = searched(reward=reward, remind=remind, max_turns=3)
    info: dict[str, Any] = {}
    for _ in range(2):
        _, _, terminated, truncated, info = env.step(said)
        if terminated or truncated:
            break
    found = info["reward"]
    low, high = env.reward_bounds
    assert found.status == "scored" and low <= found.total <= high + 1e-9
    text = message_text(env.episode.messages[env.episode.turns[-1].message])
    assert all(0 <= one.start <= one.end <= len(text) for one in found.spans)
    assert sum(one.value for one in found.spans) == pytest.approx(found.total)
    json.dumps(found.to_dict())
