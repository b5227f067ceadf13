"""One episode of a policy that a test made."""

from __future__ import annotations

from typing import Any

from factgym.agents.rollout.engine import play_episode
from factgym.core.env import Env
from factgym.core.policy import Policy, ScriptedAgent


def play_policy(env: Env[Any], policy: Policy, task: int) -> None:
    """Let a policy play a task to its end, without a fault."""
    record = play_episode(env, ScriptedAgent("policy", "honest", "A test's own.", lambda env, seed: policy), task)
    assert record["error"] is None, record["error"]
