"""Tasks chosen by a policy's episodes: failures by label and component, and the learning zone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.agents.difficulty import DifficultyBand, select
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import play_episode
from factgym.core.errors import DataError
from factgym.training.difficulty_filter import failures, learning_zone, reason_counts, score_tasks


def episode(task: str, total: float, right: bool | None = None, label: str | None = None, **components: float) -> Any:
    metrics: dict[str, Any] = {} if right is None else {"correct": right}
    if label is not None:
        metrics |= {"gold_verdict": label, "verdict": label if right else "other"}
    weights = {name: 1.0 for name in components if name != "diagnostic"}
    report = {"status": "scored", "total": total, "components": components, "weights": weights, "metrics": metrics}
    return {"task": task, "reward": report, "error": None}


def test_failures_have_a_reason_for_each_label_and_component_and_rare_ones_come_early() -> None:
    episodes = [episode(f"a{n}", n / 10, False, "supported", quote=1.0, diagnostic=0.0) for n in range(5)]
    episodes += [episode("b", 0.9, False, "overclaim", quote=1.0, diagnostic=0.0)]
    episodes += [episode("c", 0.95, True, "supported", quote=0.2, diagnostic=1.0)]
    episodes += [episode("d", 1.0, True, "supported", quote=1.0, diagnostic=1.0)]
    mined = failures(score_tasks(episodes))
    assert [failure.task for failure in mined] == ["c", "b", "a0", "a1", "a2", "a3", "a4"]
    assert mined[0].reasons == ("component quote",)
    assert reason_counts(mined) == {"component quote": 1, "label overclaim": 1, "label supported": 5}


def test_a_task_fails_below_a_share_of_its_episodes_and_faults_do_not_count() -> None:
    outcomes = {"half": [True, False], "third": [True, False, False], "all": [True, True]}
    episodes = [episode(task, 1.0, right) for task, rights in outcomes.items() for right in rights]
    broken = episode("half", 0.0, False)
    broken["reward"] |= {"total": None, "status": "unscored"}
    assert [failure.task for failure in failures(score_tasks([*episodes, broken]))] == ["third"]
    assert {failure.task for failure in failures(score_tasks(episodes), 1.0)} == {"half", "third"}
    assert failures(score_tasks(episodes))[0].reasons == ("answer",)
    with pytest.raises(DataError, match="no episode of the run has a score"):
        score_tasks([broken])


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=20))
def test_the_learning_zone_is_that_of_the_difficulty_filter(groups: list[list[bool]]) -> None:
    """CorVer's filter with its default band is the judge."""
    episodes = [episode(f"t{n}", 0.0, right) for n, rights in enumerate(groups) for right in rights]
    assert learning_zone(score_tasks(episodes)) == list(select(episodes, DifficultyBand(samples=4)).retained)


def test_without_a_rule_of_correctness_rewards_have_to_differ() -> None:
    episodes = [episode("same", 0.5), episode("same", 0.5), episode("differs", 0.5), episode("differs", 0.6)]
    assert learning_zone(score_tasks(episodes)) == ["differs"]


@pytest.mark.parametrize("agent", ["random", "oracle"])
def test_failures_of_a_played_environment_are_the_tasks_with_a_wrong_verdict(agent: str) -> None:
    env = factgym.make("claimcheck-multihop", split="train")
    policy = find_scripted_agent("claimcheck-multihop", agent)
    episodes = [play_episode(env, policy, index) for index in range(20)]
    wrong = {e["task"] for e in episodes if e["reward"]["metrics"]["verdict"] != e["reward"]["metrics"]["gold_verdict"]}
    mined = failures(score_tasks(episodes))
    assert {failure.task for failure in mined if any("label" in reason for reason in failure.reasons)} == wrong
    assert bool(wrong) == (agent == "random")
