"""The session plays what `reset` and `step` play, and never raises for what a policy said."""

from __future__ import annotations

import json
import math
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import reference_episodes
from reference_episodes import Case, assert_same, outcome_of

from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, EpisodeOverError
from factgym.integrations.session import (
    EPISODE_OVER,
    MAX_METRICS,
    MAX_NAME_CHARS,
    Session,
    flat_metrics,
    rows,
    self_contained,
    training_config,
)


def played(session: Session, case: Case, *, by_call: bool = False) -> reference_episodes.Outcome:
    episode = case.episode
    first = session.start(episode.task)
    answers: list[Any] = []
    tools = []
    for n, message in enumerate(episode.messages):
        if session.done:
            break
        if by_call and n < len(episode.calls()):
            name, arguments = episode.calls()[n]
            text = session.call(name, arguments)
            answers.append([{"role": "tool", "content": text}])
        else:
            answers.append(session.step(message))
        tools.append([tool["function"]["name"] for tool in session.tools()])
    report = session.close()
    return outcome_of(report, first=first, answers=answers, stop=session.stop, tools=tools)


@pytest.mark.parametrize("case", reference_episodes.cases(tasks=1), ids=str)
def test_a_session_shows_what_reset_and_step_show(case: Case) -> None:
    session = Session(case.episode.env, **case.episode.config)
    assert_same(case.reference, played(session, case))
    assert_same(case.reference, played(session, case))  # a second episode in the same slot


@pytest.mark.parametrize("case", reference_episodes.cases("calls", tasks=1), ids=str)
def test_calls_without_messages_are_the_same_episode(case: Case) -> None:
    session = Session(case.episode.env, **case.episode.config)
    outcome = played(session, case, by_call=True)
    assert outcome.results() == case.reference.results()
    assert_same(case.reference, outcome, skip=["answers"])


def test_every_environment_has_cases_that_earn_something_and_some_that_do_not() -> None:
    for env in self_contained():
        cases = reference_episodes.cases(env=env, files=False)
        assert len(cases) == 2 * 9
        oracle = next(case for case in cases if case.name == "oracle" and case.kind == "messages")
        hostile = next(case for case in cases if case.name == "hostile" and case.kind == "messages")
        assert oracle.reference.total > max(0, hostile.reference.total)
        assert oracle.reference.spans
        assert len(oracle.prompts) == len(oracle.reference.answers)
        assert all(message.keys() >= {"role", "content"} for message in oracle.episode.messages)


def test_comparison_sees_every_field() -> None:
    case = reference_episodes.cases("messages", name="oracle")[0]
    reference = case.reference
    for name, value in {
        "first": [],
        "answers": [*reference.answers, []],
        "total": (reference.total or 0) + 1e-15,
        "status": "error",
        "components": {**reference.components, "json": 0.25},
        "spans": reference.spans[1:],
        "stop": "turn_limit",
        "metrics": {},
        "tools": [],
    }.items():
        changed = reference_episodes.Outcome(**{**vars(reference), name: value})
        with pytest.raises(AssertionError, match=name):
            assert_same(reference, changed)
        assert_same(reference, changed, skip=[name])
    with pytest.raises(AssertionError):
        assert_same(reference, reference, skip=["sound"])


def test_nothing_raises_after_the_end_and_nothing_is_played() -> None:
    session = Session("claimcheck-multihop")
    with pytest.raises(EpisodeOverError):
        session.call("search", {"query": "x"})
    session.start(0)
    report = session.close("context_limit")
    assert (session.done, session.stop, report.total, session.reward) == (True, "context_limit", 0.0, 0.0)
    assert session.close() is report
    assert session.call("search", {"query": "x"}) == EPISODE_OVER
    assert session.step("text") == [{"role": "user", "content": EPISODE_OVER}]
    two_calls = reference_episodes.native(("a", "search", "{}"), ("b", "read", "{}"))
    assert [m["tool_call_id"] for m in session.step(two_calls)] == ["a", "b"]
    assert len(session.env.episode.turns) == 0


def test_an_infrastructure_fault_has_no_reward() -> None:
    session = Session("seva")
    session.start(seed=1)
    assert session.fail("the server is gone").status == "error"
    assert session.reward is None
    assert session.metrics()["scored"] == 0


@pytest.mark.parametrize("arguments", [{"query": math.nan}, {"query": object()}, "{", {"query": {1: b"x"}}])
def test_arguments_that_are_no_json_are_answered(arguments: Any) -> None:
    session = Session("claimcheck-multihop")
    session.start(0)
    assert session.call("search", arguments).startswith("Error (")
    assert session.metrics()["error_turns"] == 1


async def async_text(session: Session) -> str:
    return await session.call_async("search", {"query": "vote"})


def test_slow_steps_leave_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio
    import threading

    session = Session("claimcheck-multihop")
    session.start(0)
    threads = []
    step = session.env.step
    monkeypatch.setattr(session.env, "step", lambda action: (threads.append(threading.get_ident()), step(action))[1])
    asyncio.run(async_text(session))
    monkeypatch.setattr(type(session.env), "slow_steps", True)
    asyncio.run(async_text(session))
    assert threads[0] == threading.get_ident() != threads[1]


def test_metrics_are_flat_finite_and_bounded() -> None:
    report = RewardReport(
        0.5,
        components={"verdict": 1.0, "json": True},
        metrics={
            "verdict": 0.0,
            "Gates / x": {"deep": 0.5, "deeper": {"no": 1}},
            "text": "no",
            "nan": math.nan,
            "huge": 10**400,
            "x" * 200: 1,
            **{f"many{n}": n for n in range(500)},
        },
    )
    metrics = flat_metrics(report)
    assert metrics["verdict"] == 1.0
    assert metrics["json"] == 1.0
    assert metrics["Gates_x_deep"] == 0.5
    assert len(metrics) == MAX_METRICS
    assert all(len(name) <= MAX_NAME_CHARS and math.isfinite(value) for name, value in metrics.items())
    assert not {"text", "nan", "huge"} & metrics.keys()


def test_rows_are_the_tasks_without_any_gold() -> None:
    task_rows = list(rows("claimcheck-multihop", {"split": "train"}, limit=3, start=2))
    assert [row["index"] for row in task_rows] == [2, 3, 4]
    session = Session("claimcheck-multihop", split="train")
    for row in task_rows:
        assert row["prompt"] == session.start(row["task"])
        assert set(row) == {"env", "index", "task", "prompt"}
        json.dumps(row)
    assert len(list(rows("seva", {"size": 5}, prompts=False))) == 5
    assert "prompt" not in next(rows("seva", prompts=False))


@pytest.mark.parametrize("env_id", self_contained())
def test_settings_without_a_split_are_those_of_training(env_id: str) -> None:
    """The ids of the tasks, which name their split, are the judge."""
    served = Session(env_id, **training_config(env_id, strict=False)).env
    splits = served.config.splits
    if "train" in splits:
        assert training_config(env_id) == {"split": "train"}
        trained = {task.id for task in islice(served.tasks, 50)}
        for split in set(splits) - {"train"}:
            assert training_config(env_id, {"split": split}) == {"split": split}
            assert not trained & {task.id for task in islice(Session(env_id, split=split).env.tasks, 50)}
    elif splits:
        with pytest.raises(ConfigError, match=r"evaluation tasks only.*split='"):
            training_config(env_id)
    else:
        assert training_config(env_id) == {}


def test_a_file_of_questions_of_ones_own_has_no_split(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"question": "Who?", "answers": ["me"]}\n', "utf-8")
    config = {"source": "file", "path": str(tmp_path / "own.jsonl")}
    assert training_config("corver-qa", config) == config
    assert [row["index"] for row in rows("corver-qa", config)] == [0]


def test_the_credit_of_the_turns_is_the_reward() -> None:
    for case in reference_episodes.cases("messages", name="oracle", files=False, tasks=1):
        session = Session(case.episode.env)
        played(session, case)
        assert len(session.turn_rewards()) == len(case.reference.answers)
        assert sum(session.turn_rewards()) == pytest.approx(session.reward)


def test_every_open_tool_is_among_all_tools() -> None:
    for case in reference_episodes.cases("messages", files=False, tasks=1):
        session = Session(case.episode.env, **case.episode.config)
        names_of_all = {tool["function"]["name"] for tool in session.all_tools()}
        assert {name for names in case.reference.tools for name in names} <= names_of_all


def test_the_measurement_of_integrations_runs_and_refuses_other_rewards() -> None:
    from perf.integrations.adapters import session as open_integration
    from perf.integrations.compare import Integration, UnequalError, measure_integration

    (line,) = measure_integration("session", open_integration, episodes=3, repeats=1)
    assert "3 episodes" in line and "overhead" in line
    three = Integration(
        open_integration("claimcheck-multihop").play, by_hand=open_integration("claimcheck-multihop").play
    )
    lines = list(measure_integration("session", lambda env_id: three, episodes=3, repeats=1))
    assert "overhead above the loop by hand" in lines[0] and "together" in lines[1]
    with pytest.raises(UnequalError):
        list(measure_integration("wrong", lambda env_id: Integration(lambda recorded: [2.0] * len(recorded)), 2, 1))
