"""Playing episodes and recording them.

A record is plain JSON data without clocks or machine names: the same environment, agent, seed and task give the same
bytes.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Iterator, Sequence
from typing import Any

from factgym.core.env import Env
from factgym.core.episode import Turn
from factgym.core.policy import Player, Policy

Record = dict[str, Any]


def task_order(total: int, n: int | None, seed: int) -> list[int]:
    """`n` different task indices out of `total` (all of them when n is None or larger), in an order set by the seed."""
    return random.Random(f"factgym task order {seed}").sample(range(total), min(n or total, total))


def play_episode(env: Env[Any], player: Player, task: int, seed: int = 0) -> Record:
    """Play one task to its end and return its record."""
    env.reset(seed=seed, options={"task": task})
    run_policy(env, player.start(env, seed))
    return record(env, player.name, seed)


def run_policy(env: Env[Any], policy: Policy) -> None:
    """Let a policy act until the episode ends; `env` has just been reset."""
    tools = env.open_tools()
    while env.episode.stop is None:
        action = policy.act(env.policy_prompt(), tools)
        if inspect.isawaitable(action):
            action = asyncio.run(_wait(action))
        tools = env.step(action)[4]["tools"]


async def _wait(action: Any) -> Any:
    return await action


def play_many(env: Env[Any], player: Player, tasks: Sequence[int], seed: int = 0) -> Iterator[Record]:
    """Play tasks one after another."""
    for task in tasks:
        yield play_episode(env, player, task, seed)


def record(env: Env[Any], agent: str, seed: int) -> Record:
    """The finished episode of `env` as JSON data."""
    episode = env.episode
    report = episode.report
    return {
        "env": env.env_spec.id,
        "version": env.env_spec.version,
        "task": episode.task.id,
        "index": episode.index,
        "split": getattr(env.config, "chosen_split", None),
        "seed": seed,
        "agent": agent,
        "messages": episode.messages,
        "turns": [_turn(turn) for turn in episode.turns],
        "reward": report.to_dict() if report else None,
        "stop": episode.stop,
        "task_view": env.view_task(episode.task),
        "error": report.error if report else None,
    }


def _turn(turn: Turn) -> Record:
    calls = [{"tool": one.tool, "arguments": one.arguments, "error": one.error} for one in turn.replies if one.tool]
    return {"message": turn.message, "calls": calls, "observation": turn.observation, "error": turn.error}
