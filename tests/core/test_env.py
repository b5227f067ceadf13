"""The base class alone, on the tiny environment: order, budgets, recording, faults, copies."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium.error import Error
from gymnasium.utils import seeding
from tiny_env import TASKS, TinyEnv, native, say, tiny

from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, EpisodeOverError
from factgym.core.messages import message_text


def test_an_episode_from_reset_to_report() -> None:
    env = tiny(max_turns=5)
    obs, info = env.reset(seed=1)
    assert obs == f"Speak.\n\nTask {env.task.id}."
    assert info["messages"] == env.policy_prompt()
    assert (info["stage"], info["error"], info["task"], info["turns_left"]) == ("play", None, env.task.id, 5)
    assert [tool["function"]["name"] for tool in info["tools"]] == ["say", "submit"]

    obs, reward, terminated, truncated, info = env.step("<say>hello</say>")
    assert obs == "<tool_response>\nhello\n(turns left: 4)\n</tool_response>"
    assert (reward, terminated, truncated, info["error"], info["turns_left"]) == (0.0, False, False, None, 4)
    assert "reward" not in info
    assert info["messages"] == [{"role": "user", "content": obs}]

    obs, reward, terminated, truncated, info = env.step('{"value": 0.75}')
    assert obs == "<tool_response>\nThank you.\n</tool_response>"
    assert (reward, terminated, truncated, info["stage"]) == (0.75, True, False, "done")
    assert info["reward"] == RewardReport(0.75, {"value": 0.75}, {"value": 1.0})
    assert env.episode.report is info["reward"]
    roles = [message["role"] for message in env.episode.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [turn.message for turn in env.episode.turns] == [2, 4]


def test_there_is_no_step_before_reset_nor_after_the_end() -> None:
    env = tiny()
    for use in (lambda: env.step(say("x")), env.policy_prompt, lambda: env.task):
        with pytest.raises(EpisodeOverError, match="there is no episode yet: call reset"):
            use()
    assert env.stage == "play"
    env.reset(seed=0)
    env.step('{"value": 1}')
    before = copy.deepcopy(env.episode)
    with pytest.raises(EpisodeOverError, match=r"the episode is over \(submitted\): call reset\(\)"):
        env.step(say("x"))
    assert env.episode == before
    env.reset(seed=0)
    env.step(say("x"))


def test_a_tag_that_cannot_be_written_is_refused_with_its_class() -> None:
    with pytest.raises(ConfigError, match="cannot be a tag"):
        type("OddEnv", (TinyEnv,), {"tags": {"a b": ("say", "text")}})


def test_a_reset_that_fails_leaves_no_half_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    env = tiny()
    env.reset(seed=0)
    monkeypatch.setattr(TinyEnv, "fail_in_begin", True)
    with pytest.raises(OSError, match="no first message"):
        env.reset()
    with pytest.raises(EpisodeOverError, match="call reset"):
        env.step(say("x"))


def test_the_seed_chooses_the_task_and_those_that_follow() -> None:
    def tasks(seed: int) -> list[str]:
        env = tiny()
        env.reset(seed=seed)
        ids = [env.task.id]
        for _ in range(20):
            env.reset()
            ids.append(env.task.id)
        return ids

    assert tasks(3) == tasks(3) != tasks(4)
    assert set(tasks(3)) == {"t0", "t1", "t2"}


def test_the_generator_is_gymnasiums_and_is_made_when_it_is_drawn_from() -> None:
    env = tiny()
    for seed in (0, 7, 2**70):
        env.reset(seed=seed, options={"task": 0})
        assert env.np_random_seed == seed
        expected = seeding.np_random(seed)[0].random()
        assert pickle.loads(pickle.dumps(env)).np_random.random() == env.np_random.random() == expected
    generator = np.random.default_rng(3)
    env.np_random = generator
    assert env.np_random is generator
    with pytest.raises(Error):
        env.reset(seed=-1)


@pytest.mark.parametrize(("requested", "id"), [("t1", "t1"), (2, "t2"), (0, "t0"), (np.int64(1), "t1")])
def test_a_task_is_chosen_by_id_or_index(requested: Any, id: str) -> None:
    env = tiny()
    _, info = env.reset(options={"task": requested})
    assert info["task"] == env.task.id == id
    assert type(env.episode.index) is int


@pytest.mark.parametrize("requested", [3, -1, True, 1.0, "t9", ["t1"], np.array([1]), b"t1"])
def test_a_task_that_does_not_exist_is_refused(requested: Any) -> None:
    with pytest.raises(ConfigError, match="no task"):
        tiny().reset(options={"task": requested})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reset has no option 'tasks'. Did you mean 'task'\?"):
        tiny().reset(options={"tasks": "t1"})


def test_an_empty_task_set_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinyEnv, "load_tasks", lambda self: type(TASKS)(0))
    with pytest.raises(ConfigError, match="'tiny' has no tasks in this configuration"):
        tiny().reset(seed=0)


def test_the_turn_limit_truncates_and_a_submission_in_the_last_turn_counts() -> None:
    env = tiny(max_turns=2)
    env.reset(seed=0)
    assert env.step(say("a"))[2:4] == (False, False)
    obs, reward, terminated, truncated, info = env.step(say("b"))
    assert (reward, terminated, truncated, env.episode.stop, info["turns_left"]) == (0.0, False, True, "turn_limit", 0)
    assert "turns left" not in obs
    assert info["reward"].total == 0.0
    env.reset(seed=0)
    env.step(say("a"))
    assert env.step('{"value": 1}')[1:4] == (1.0, True, False)


def test_an_action_that_cannot_be_read_costs_a_turn_and_no_more() -> None:
    env = tiny(max_turns=3)
    env.reset(seed=0)
    for turns_left in (2, 1, 0):
        _, reward, terminated, truncated, info = env.step("no call here")
        assert (reward, terminated, truncated) == (0.0, False, turns_left == 0)
        assert (info["error"], info["turns_left"]) == ("no_tool_call", turns_left)


def test_the_length_limit_counts_all_messages() -> None:
    env = tiny(max_episode_chars=1000)
    obs, _ = env.reset(seed=0)
    total = len(obs)
    for action in ("prose " * 20 + "<say>hello</say>", native(("a", "say", '{"text": "x"}')), say("y")):
        obs, _, terminated, truncated, _ = env.step(action)
        total += len(obs) + len(message_text(env.episode.messages[-2]))
        assert (terminated, truncated) == (False, False)
        assert env.episode.chars == total
    assert env.step("z" * 1000)[2:4] == (False, True)
    assert env.episode.stop == "length_limit"


def test_a_submission_over_the_length_limit_still_counts() -> None:
    env = tiny(max_episode_chars=100)
    env.reset(seed=0)
    assert env.step("z" * 200 + '<tool_call>{"name": "submit", "arguments": {"value": 1}}</tool_call>')[1:4] == (
        1.0,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        (["short"], [5]),
        (["x" * 100], [100]),
        (["x" * 101], [100]),
        (["x" * 1000, "y" * 1000], [50, 50]),
        (["x" * 1000, "y" * 10], [90, 10]),
        (["x" * 10, "y" * 1000], [10, 90]),
        (["x" * 1000, "y" * 10, "z" * 1000], [57, 10, 33]),
        (["x"] * 16, [1] * 16),
        (["x" * 50] * 16, [10, *[6] * 15]),
    ],
)
def test_the_observation_of_a_turn_is_bounded_and_a_cut_is_marked(texts: list[str], sizes: list[int]) -> None:
    env = tiny(max_observation_chars=100)
    env.reset(seed=0)
    calls = [(str(i), "say", json.dumps({"text": text})) for i, text in enumerate(texts)]
    _, _, _, _, info = env.step(native(*calls))
    contents = [message["content"].removesuffix("\n(turns left: 11)") for message in info["messages"]]
    expected = [
        text if size == len(text) else f"{text[:size]}… [cut: {len(text) - size} more characters]"
        for text, size in zip(texts, sizes, strict=True)
    ]
    assert contents == expected
    assert sum(sizes) <= 100


def test_native_calls_are_answered_by_their_ids_in_order() -> None:
    env = tiny()
    env.reset(seed=0)
    action = native(
        ("call_a", "say", '{"text": "one"}'),
        ("call_b", "say", '{"text": "never closed'),
        ("", "", "{}"),
        ("call_a", "say", '{"text": "two"}'),
        ("call_s", "submit", '{"value": 0.5}'),
        ("call_z", "say", '{"text": "three"}'),
        content="I try several things.",
    )
    obs, reward, terminated, _, info = env.step(action)
    message = env.episode.messages[2]
    assert [message["role"] for message in info["messages"]] == ["tool"] * 6
    assert [m["tool_call_id"] for m in info["messages"]] == [call["id"] for call in message["tool_calls"]]
    assert len({call["id"] for call in message["tool_calls"]}) == 6
    contents = [message["content"] for message in info["messages"]]
    assert contents[0] == "one"
    assert contents[1].startswith("Error (invalid_json)")
    assert contents[2].startswith("Error (bad_name)")
    assert contents[3:5] == ["two", "Thank you."]
    assert contents[5] == "The episode is over; this call was not done."
    assert (reward, terminated, info["error"]) == (0.5, True, "invalid_json")
    assert env.submitted_texts == ["one", "two", "0.5"]
    assert obs == "\n\n".join(contents)


def test_calls_in_text_are_answered_together_by_the_user() -> None:
    env = tiny()
    env.reset(seed=0)
    obs, _, _, _, info = env.step("<say>a</say> and <tool_call>{broken</tool_call> then <say>b</say>")
    assert [message["role"] for message in info["messages"]] == ["user"]
    assert obs.count("<tool_response>\n") == obs.count("\n</tool_response>") == 3
    assert obs.startswith("<tool_response>\na\n</tool_response>\n<tool_response>\nError (invalid_json)")
    assert obs.endswith("<tool_response>\nb\n(turns left: 11)\n</tool_response>")


def test_a_tool_that_fails_is_an_error_and_never_a_zero_score(caplog: pytest.LogCaptureFixture) -> None:
    env = tiny()
    env.reset(seed=0)
    caplog.set_level(logging.CRITICAL)
    obs, reward, terminated, truncated, info = env.step(
        native(("a", "boom", "{}"), ("b", "submit", '{"value": 1}'), ("c", "say", '{"text": "x"}'))
    )
    report = info["reward"]
    assert (report.status, report.total, report.error) == ("error", None, "ConnectionError: the index server is away")
    assert (reward, terminated, truncated, env.episode.stop) == (0.0, False, True, "error")
    assert info["error"] == "infrastructure"
    assert [message["tool_call_id"] for message in info["messages"]] == ["a", "b", "c"]
    assert "index server" not in obs
    assert env.submitted_texts == []


def test_scoring_that_fails_is_an_error_too(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(TinyEnv, "fail_in_score", True)
    caplog.set_level(logging.CRITICAL)
    env = tiny()
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step('{"value": 1}')
    assert (info["reward"].status, info["reward"].error) == ("error", "ZeroDivisionError: scoring is broken")
    assert (reward, terminated, truncated, env.episode.stop) == (0.0, False, True, "error")


def test_the_first_reason_to_stop_holds() -> None:
    env = tiny()
    env.reset(seed=0)
    env.finish()
    env.finish("turn_limit")
    assert env.episode.stop == "submitted"
    assert env.stage == "done"


def test_an_episode_is_cut_off_from_outside_and_scored() -> None:
    env = tiny()
    env.reset(seed=0)
    env.step(say("x"))
    report = env.truncate("context_limit")
    assert (env.episode.stop, env.episode.report, report.status) == ("context_limit", report, "scored")
    for over in (lambda: env.truncate("context_limit"), lambda: env.step(say("x"))):
        with pytest.raises(EpisodeOverError, match="context_limit"):
            over()


def test_an_infrastructure_fault_from_outside_is_no_score() -> None:
    env = tiny()
    env.reset(seed=0)
    report = env.fail("the server is gone " + "x" * 5000)
    assert (env.episode.stop, report.status, report.total) == ("error", "error", None)
    assert report.error is not None and report.error.startswith("the server is gone") and len(report.error) == 2000


def test_the_time_of_tools_is_kept_apart_and_never_shown() -> None:
    env = tiny()
    env.reset(seed=0)
    env.step(say("x"))
    assert env.episode.tool_seconds == 0
    env.clock = iter((10.0, 10.5)).__next__
    obs, *_ = env.step(say("x"))
    assert env.episode.tool_seconds == 0.5
    assert "second" not in obs


def test_returned_messages_are_copies() -> None:
    env = tiny()
    _, info = env.reset(seed=0)
    info["messages"][0]["content"] = "changed"
    info["messages"].clear()
    info["tools"].clear()
    env.policy_prompt().clear()
    assert [m["content"] for m in env.policy_prompt()] == ["Speak.", f"Task {env.task.id}."]
    action = native(("a", "say", '{"text": "x"}'))
    _, _, _, _, info = env.step(action)
    action["tool_calls"].clear()
    info["messages"][0]["content"] = "changed"
    assert len(env.episode.messages[2]["tool_calls"]) == 1
    assert env.episode.messages[3]["content"] == "x\n(turns left: 11)"
    assert len(info["tools"]) == 2


def test_a_copy_branches_the_episode() -> None:
    env = tiny(max_turns=4)
    env.reset(seed=0)
    env.step(say("common"))
    twin = copy.deepcopy(env)
    env.step(say("mine"))
    assert len(twin.episode.turns) == 1
    assert twin.submitted_texts == ["common"]
    assert twin.tasks is env.tasks and twin.config is env.config and twin.spec is env.spec
    assert twin.step('{"value": 0.5}')[1] == 0.5
    assert env.step('{"value": 1}')[1] == 1.0
    assert twin.action_space.tools == twin.checked_tools
    env.reset()
    twin.reset()
    assert env.task == twin.task


def test_a_pickle_goes_on_where_it_was() -> None:
    env = tiny(max_turns=4)
    env.reset(seed=0)
    env.action_space.seed(5)
    env.step(say("common"))
    twin = pickle.loads(pickle.dumps(env))
    assert twin.episode == env.episode
    assert twin.step(say("x")) == env.step(say("x"))
    assert twin.action_space.tools == twin.checked_tools
    assert twin.action_space.sample() == env.action_space.sample()
    env.step('{"value": 1}')
    assert pickle.loads(pickle.dumps(env)).episode.report == env.episode.report


def test_rendering_gives_the_last_observation() -> None:
    env = tiny("ansi")
    assert env.render() is None
    obs, _ = env.reset(seed=0)
    assert env.render() == obs
    obs = env.step(say("x"))[0]
    assert env.render() == obs
    assert tiny().render() is None
    with pytest.raises(ConfigError, match="render_mode is 'ansi' or None, not 'human'"):
        tiny("human")
