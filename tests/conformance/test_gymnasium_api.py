"""Gymnasium's own checker is the judge; no warning of it is silenced (`filterwarnings = error`)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from setups import Setup, sampled_actions

import factgym
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.spaces import ActionSpace, UnicodeText


def test_the_checker_accepts_environments_of_make(setup: Setup) -> None:
    check_env(setup.make())
    check_env(setup.make(render_mode="ansi"))


def test_the_checker_accepts_environments_of_gymnasium_make(setup: Setup) -> None:
    check_env(gymnasium.make(setup.gymnasium_id, **setup.kwargs).unwrapped)


def test_gymnasium_makes_it_with_all_its_wrappers(setup: Setup) -> None:
    env = gymnasium.make(setup.gymnasium_id, max_turns=4, render_mode="ansi", **setup.kwargs)
    assert isinstance(env.unwrapped, Env)
    assert env.unwrapped.config.max_turns == 4
    obs, _ = env.reset(seed=3)
    assert obs == setup.make(max_turns=4).reset(seed=3)[0]
    for _ in range(4):
        _, _, terminated, truncated, _ = env.step("no call")
    assert (terminated, truncated) == (False, True)
    assert isinstance(env.render(), str)
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make(setup.gymnasium_id, **setup.kwargs).step("x")
    with pytest.raises(ConfigError, match="render_mode is 'ansi' or None"):
        gymnasium.make(setup.gymnasium_id, render_mode="human", **setup.kwargs)


def test_spaces_are_our_own(setup: Setup) -> None:
    env = setup.make()
    assert isinstance(env.observation_space, UnicodeText)
    assert isinstance(env.action_space, ActionSpace)
    open_names = {tool["function"]["name"] for tool in env.available_tools()}
    calls = [action for action in sampled_actions(env, 0, 60) if not isinstance(action, str)]
    assert {action["tool"] for action in calls} == open_names


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_agree_with_single_ones(setup: Setup, mode: str) -> None:
    options = {"shared_memory": False} if mode == "async" else {}
    vector: Any = gymnasium.make_vec(
        setup.gymnasium_id, num_envs=2, vectorization_mode=mode, vector_kwargs=options, max_turns=2, **setup.kwargs
    )
    try:
        seeds = [11, 12]
        singles = [setup.make(max_turns=2) for _ in seeds]
        observations, _ = vector.reset(seed=seeds)
        expected = [single.reset(seed=seed)[0] for single, seed in zip(singles, seeds, strict=True)]
        assert list(observations) == expected
        assert len(set(expected)) == 2
        for number in range(2):
            actions = tuple(sampled_actions(single, number, 2)[number] for single in singles)
            actions = tuple(f"{action} but not as a call".replace("<", "(") for action in actions)
            observations, rewards, terminated, truncated, _ = vector.step(actions)
            steps = [single.step(action) for single, action in zip(singles, actions, strict=True)]
            assert list(observations) == [step[0] for step in steps]
            assert rewards.tolist() == [step[1] for step in steps]
            assert np.array([terminated, truncated]).T.tolist() == [list(step[2:4]) for step in steps]
    finally:
        vector.close()


def test_workers_that_start_from_nothing_know_the_environment() -> None:
    options = {"shared_memory": False, "context": "spawn"}
    vector = gymnasium.make_vec(
        "factgym/claimcheck-multihop-v2", 1, vectorization_mode="async", vector_kwargs=options, max_turns=2
    )
    try:
        assert vector.reset(seed=7)[0] == (factgym.make("claimcheck-multihop", max_turns=2).reset(seed=7)[0],)
    finally:
        vector.close()


def test_shared_memory_is_refused_instead_of_being_wrong(setup: Setup) -> None:
    with pytest.raises(ValueError, match=r"you can disable this feature with `shared_memory=False`"):
        gymnasium.make_vec(setup.gymnasium_id, num_envs=2, vectorization_mode="async", **setup.kwargs)


def test_sampled_vector_actions_can_be_played(setup: Setup) -> None:
    vector = gymnasium.make_vec(setup.gymnasium_id, num_envs=2, vectorization_mode="sync", **setup.kwargs)
    vector.reset(seed=1)
    vector.action_space.seed(1)
    for _ in range(5):
        observations, *_ = vector.step(vector.action_space.sample())
        assert observations in vector.observation_space
    vector.close()


def test_closing_is_allowed_at_any_time_and_twice(setup: Setup) -> None:
    env = setup.make()
    env.close()
    env.reset(seed=0)
    env.close()
    env.close()
    with setup.make() as managed:
        managed.reset(seed=0)
