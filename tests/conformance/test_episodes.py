"""Order, budgets, hostile actions and answers to native calls, in every environment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from setups import MALFORMED, NOTHING, SHORTFALL, Setup, agents, sampled_actions

from factgym.core.env import Env
from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, EpisodeOverError


def native(*calls: tuple[str, str, str]) -> dict[str, Any]:
    listed = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": text}} for id_, name, text in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def submission(env: Env[Any]) -> Any:
    """A sampled action that ends an episode: a call of `submit`, or a text where texts are submissions."""
    return next(
        action
        for action in sampled_actions(env, 0, 200)
        if isinstance(action, str) or action["tool"] in ("submit", "verdict")
    )


def test_the_first_observation_is_the_first_messages(setup: Setup) -> None:
    env = setup.make()
    obs, info = env.reset(seed=1)
    assert info["messages"] == env.policy_prompt()
    assert obs == "\n\n".join(message["content"] or "" for message in info["messages"])
    assert [message["role"] for message in info["messages"]][-1] == "user"
    assert set(info) == {"messages", "tools", "stage", "error", "task", "turns_left"}
    assert info["tools"] == list(env.available_tools())
    assert info["task"] == env.task.id
    assert (info["error"], info["turns_left"]) == (None, env.config.max_turns)
    json.dumps(info)


def test_there_is_no_step_outside_an_episode(setup: Setup) -> None:
    env = setup.make(max_turns=1)
    action = submission(env)
    with pytest.raises(EpisodeOverError, match="call reset"):
        env.step(action)
    with pytest.raises(EpisodeOverError, match="call reset"):
        env.policy_prompt()
    env.reset(seed=0)
    _, _, terminated, truncated, _ = env.step(action)
    assert terminated and not truncated
    with pytest.raises(EpisodeOverError, match="the episode is over"):
        env.step(action)


def test_options_that_do_not_exist_are_refused(setup: Setup) -> None:
    env = setup.make()
    for options in ({"tesk": 1}, {"task": "no such task"}, {"task": -1}, {"task": len(env.tasks)}):
        with pytest.raises(ConfigError):
            env.reset(options=options)


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_action_is_answered_and_the_episode_goes_on(setup: Setup, kind: str) -> None:
    env = setup.make(max_turns=3)
    env.reset(seed=4)
    for turn in range(3):
        obs, reward, terminated, truncated, info = env.step(MALFORMED[kind])
        assert (reward, terminated, truncated) == (NOTHING.get(setup.id, 0.0) if turn == 2 else 0.0, False, turn == 2)
        assert isinstance(info["error"], str) and info["error"]
        assert 0 < len(obs) < 3000
        assert "Error" in obs
        obs.encode()
        json.dumps(info["messages"])
    assert env.episode.stop == "turn_limit"
    json.dumps(env.episode.messages, ensure_ascii=False).encode()
    report = info["reward"]
    assert report.status == "scored"
    assert report.total == NOTHING.get(setup.id, 0.0)
    roles = [message["role"] for message in env.policy_prompt()[-6:]]
    assert roles[::2] == ["assistant"] * 3 or kind == "odd tool calls"


def test_a_submission_after_malformed_actions_still_counts(setup: Setup) -> None:
    env = setup.make(max_turns=3)
    env.reset(seed=4)
    env.step(MALFORMED["broken JSON"])
    env.step(MALFORMED["unknown tool"])
    _, _, terminated, truncated, info = env.step(submission(env))
    assert (terminated, truncated, info["error"], info["turns_left"]) == (True, False, None, 0)
    assert info["reward"].status == "scored"


def test_the_turn_limit_truncates(setup: Setup) -> None:
    env = setup.make(max_turns=2)
    env.reset(seed=0)
    assert env.step("nothing")[3] is False
    _, _, terminated, truncated, info = env.step("nothing")
    assert (terminated, truncated, info["turns_left"], info["stage"]) == (False, True, 0, "done")


def test_the_length_limit_truncates(setup: Setup) -> None:
    env = setup.make(max_turns=5, max_episode_chars=60_000)
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step("x" * 60_001)
    assert (terminated, truncated, env.episode.stop) == (False, True, "length_limit")
    assert info["reward"].status == "scored"


def test_observations_are_bounded_and_cuts_are_marked(setup: Setup) -> None:
    env, whole = setup.make(max_turns=8, max_observation_chars=40), setup.make(max_turns=8)
    env.reset(seed=0)
    whole.reset(seed=0)
    for action in [*sampled_actions(env, 1, 3), "nothing", MALFORMED["unknown tool"]]:
        obs, _, terminated, truncated, _ = env.step(action)
        text = whole.step(action)[0].removeprefix("<tool_response>\n")
        body = obs.removeprefix("<tool_response>\n").partition("\n(turns left")[0].partition("\n</tool_response>")[0]
        beginning, mark, remainder = body.partition("… [cut: ")
        assert text.startswith(beginning) and len(beginning) <= 40
        if mark:
            assert remainder.endswith(" more characters]")
            assert len(beginning) == 40 or text[len(beginning)] == "<", "only a delimiter is left out whole"
        if terminated or truncated:
            break


def test_every_native_call_is_answered_under_its_id(setup: Setup) -> None:
    env = setup.make(max_turns=1)
    env.reset(seed=0)
    last = submission(env)
    if isinstance(last, str):
        pytest.skip("a submission is a text here: there is no call to mix with others")
    tool_name = env.available_tools()[0]["function"]["name"]
    _, _, terminated, _, info = env.step(
        native(
            ("call_1", "no_such_tool", "{}"),
            ("call_2", tool_name, '{"broken": '),
            ("call_3", last["tool"], json.dumps(last["arguments"])),
            ("call_4", tool_name, "{}"),
        )
    )
    assert terminated
    assert [(m["role"], m["tool_call_id"]) for m in info["messages"]] == [("tool", f"call_{i}") for i in range(1, 5)]
    contents = [m["content"] for m in info["messages"]]
    assert contents[0].startswith("Error (unknown_tool)")
    assert contents[1].startswith("Error (invalid_json)")
    assert not contents[2].startswith("Error")
    assert contents[3] == "The episode is over; this call was not done."
    assert info["error"] == "unknown_tool"
    assert env.policy_prompt()[-5]["tool_calls"][2]["id"] == "call_3"


def test_more_native_calls_than_are_allowed_leave_no_call_unanswered(setup: Setup) -> None:
    env = setup.make(max_turns=4)
    env.reset(seed=0)
    _, _, _, _, info = env.step(native(*((f"c{i}", "no_such_tool", "{}") for i in range(40))))
    reply = next(message for message in reversed(env.policy_prompt()) if message["role"] == "assistant")
    assert [call["id"] for call in reply["tool_calls"]] == [m["tool_call_id"] for m in info["messages"]]
    assert len(reply["tool_calls"]) < 40


def test_calls_in_text_are_answered_by_the_user(setup: Setup) -> None:
    env = setup.make(max_turns=4)
    env.reset(seed=0)
    call = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'
    obs, _, _, _, info = env.step(call + "\n" + call)
    assert [message["role"] for message in info["messages"]] == ["user"]
    assert obs == info["messages"][0]["content"]
    assert obs.count("<tool_response>\nError (unknown_tool)") == obs.count("\n</tool_response>") == 2


def test_a_fault_of_ours_is_an_error_and_never_a_zero(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    env = setup.make(max_turns=1)

    def fail(*_: Any) -> Any:
        raise ConnectionResetError("server gone")

    for name in ("call_tool", "score"):
        env.reset(seed=0)
        with monkeypatch.context() as patch:
            patch.setattr(env, name, fail)
            _, reward, terminated, truncated, info = env.step(submission(env))
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert info["reward"] == RewardReport(None, status="error", error="ConnectionResetError: server gone")


def test_an_oracle_gets_everything_and_its_report_is_json(setup: Setup) -> None:
    oracles = [agent for agent in agents(setup.id).values() if agent.role == "oracle"]
    assert oracles
    env = setup.make()
    for seed in range(3):
        env.reset(seed=seed)
        policy = oracles[0].start(env, seed)
        terminated = truncated = False
        while not (terminated or truncated):
            _, reward, terminated, truncated, info = env.step(policy.act(env.policy_prompt(), env.available_tools()))
        report = info["reward"]
        assert terminated and report.status == "scored"
        assert reward == report.total == pytest.approx(env.reward_bounds[1], abs=SHORTFALL.get(setup.id)), report
        assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
        assert sum(span.value for span in report.spans) == pytest.approx(report.total)
        json.dumps(env.view_task(env.task))
        assert set(env.prompt_hashes()) and all(len(digest) == 64 for digest in env.prompt_hashes().values())
