"""ClaimCheck episodes on examples by hand: what counts as read, every way to submit, and what the report says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from claim_examples import Examples, example

import factgym
from factgym.core.tasks import clear_shared
from factgym.envs.claimcheck import tasks as module
from factgym.envs.claimcheck.env import ClaimCheckEnv

GOLD = {
    "claims": [
        {
            "claim": "Staff get 20 days of leave.",
            "status": "supported",
            "evidence_ids": ["E1"],
            "quote": "Staff get 20 days of leave.",
        },
        {
            "claim": "Probation lasts 15 days.",
            "status": "contradicted",
            "evidence_ids": ["E2"],
            "quote": ["Probation lasts 10 days."],
            "unsupported_span": "15 days",
        },
    ],
    "final_verdict": "partially_supported",
    "evidence_used": ["E1", "E2"],
}


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "load_examples", lambda config: Examples([example(0)]))
    clear_shared()
    yield
    clear_shared()


def started(id: str = "claimcheck-multihop", **config: Any) -> ClaimCheckEnv:
    env = cast(ClaimCheckEnv, factgym.make(id, **config))
    env.reset(seed=0)
    return env


def act(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def native(*calls: dict[str, Any]) -> dict[str, Any]:
    listed = [
        {
            "id": f"c{i}",
            "type": "function",
            "function": {"name": call["tool"], "arguments": json.dumps(call["arguments"])},
        }
        for i, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def tagged(call: dict[str, Any]) -> str:
    return f"<tool_call>{json.dumps({'name': call['tool'], 'arguments': call['arguments']})}</tool_call>"


SUBMISSIONS = {
    "tool dict": act("submit", **GOLD),
    "native call": native(act("submit", **GOLD)),
    "tagged JSON": "I am done. " + tagged(act("submit", **GOLD)),
    "bare verdict": json.dumps(GOLD),
    "fenced verdict": f"Here it is:\n```json\n{json.dumps(GOLD, indent=1)}\n```",
    "message": {"role": "assistant", "content": json.dumps(GOLD)},
}


@pytest.mark.parametrize("way", SUBMISSIONS)
def test_gold_after_reading_scores_one_however_it_is_written(way: str) -> None:
    env = started()
    env.step(act("read", id="E1"))
    env.step("<read>E2</read>")
    _, reward, terminated, _, info = env.step(SUBMISSIONS[way])
    assert terminated
    report = info["reward"]
    assert reward == report.total == pytest.approx(1.0)
    assert set(report.components.values()) == {1.0}
    assert report.metrics["read"] == report.metrics["cited"] == report.metrics["gold_evidence"] == ["E1", "E2"]
    assert sum(span.value for span in report.spans) == pytest.approx(1.0)


@pytest.mark.parametrize("way", SUBMISSIONS)
def test_offline_the_evidence_is_in_the_prompt_and_counts_as_read(way: str) -> None:
    env = started("claimcheck-offline")
    assert [tool["function"]["name"] for tool in env.available_tools()] == ["submit"]
    assert (env.policy_prompt()[1]["content"] or "").count("<evidence ") == 2
    _, reward, terminated, _, _ = env.step(SUBMISSIONS[way])
    assert terminated
    assert reward == pytest.approx(1.0)


def test_offline_there_is_nothing_to_search() -> None:
    env = started("claimcheck-offline", max_turns=2)
    assert env.step(act("read", id="E1"))[4]["error"] == "unknown_tool"


def test_evidence_that_was_not_read_counts_as_not_cited() -> None:
    env = started()
    env.step(act("read", id="E1"))
    report = env.step(act("submit", **GOLD))[4]["reward"]
    assert report.metrics["read"] == ["E1"]
    assert report.metrics["cited"] == ["E1", "E2"]
    assert report.components["verdict"] == 1.0
    assert report.components["evidence"] == pytest.approx(2 / 3)
    assert report.components["quote"] == 0.5
    assert report.components["coverage"] == 0.5
    assert report.gates == {"verdict": pytest.approx(2 / 3 * 0.5 * 0.5)}


@pytest.mark.parametrize("form", ["native", "text"])
def test_what_is_opened_in_the_submitting_message_was_not_read_before_it(form: str) -> None:
    env = started()
    calls = [act("read", id="E1"), act("read", id="E2"), act("submit", **GOLD)]
    action = native(*calls) if form == "native" else "\n".join(map(tagged, calls))
    report = env.step(action)[4]["reward"]
    assert report.metrics["read"] == []
    assert report.components["evidence"] == report.components["quote"] == report.components["coverage"] == 0.0
    assert report.gates == {"verdict": 0.0}


def test_a_verdict_that_does_not_fit_costs_a_turn_and_can_be_mended() -> None:
    env = started()
    env.step(act("read", id="E1"))
    env.step(act("read", id="E2"))
    wrong = json.loads(json.dumps(GOLD))
    wrong["claims"][1]["status"] = "false"
    obs, reward, terminated, _, info = env.step(act("submit", **wrong))
    assert (reward, terminated, info["error"]) == (0.0, False, "invalid_arguments")
    assert "at $.claims[1].status: 'false' is not one of" in obs
    assert env.step(act("submit", **GOLD))[1] == pytest.approx(1.0)


def test_only_the_first_submission_counts() -> None:
    env = started()
    env.step(act("read", id="E1"))
    env.step(act("read", id="E2"))
    wrong = {**GOLD, "final_verdict": "supported"}
    _, reward, _, _, info = env.step(native(act("submit", **wrong), act("submit", **GOLD)))
    assert reward < 0.7
    assert info["reward"].metrics["verdict"] == "supported"
    assert info["messages"][1]["content"] == "The episode is over; this call was not done."


def test_without_a_submission_the_reward_is_zero_and_scored() -> None:
    env = started(max_turns=1)
    _, reward, _, truncated, info = env.step(act("read", id="E1"))
    report = info["reward"]
    assert (reward, truncated, report.status, report.total) == (0.0, True, "scored", 0.0)
    assert report.spans == ()
    assert report.metrics["verdict"] is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"split": "tset"}, "'multihop' has no split 'tset'. Did you mean 'test'?"),
        ({"reward": "v3"}, "there is no reward 'v3': use r0, gated, v2 or a Rubric"),
        ({"size": 0}, "size should be at least 1, not 0"),
        ({"offline": True, "haystack": True}, "cannot be combined with haystack=True"),
    ],
)
def test_settings_that_make_no_sense_are_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        factgym.make("claimcheck-multihop", **config)
    assert message in str(caught.value)
