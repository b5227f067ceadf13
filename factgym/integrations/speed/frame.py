"""The frame: the same recorded episodes through `reset` and `step` alone and through a door, interleaved.

An episode's own cost is what the environment spends on it: reset, every step, the score. A door's overhead is what it
spends on top: from the framework's hands to the environment and back, without the model, the network and the
framework's own loop. Both are CPU time of this process, in turns of a few episodes, and of every few the least of all
repeats, so that a busy machine does not decide. The rewards of both ways must be equal, or the measurement is refused.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.agents.players import find_player
from factgym.core.action import ToolCall, parse_action
from factgym.core.env import Env
from factgym.core.errors import FactgymError
from factgym.core.messages import Message
from factgym.core.native import encode_json
from factgym.core.registry import make

ENV = "claimcheck-multihop"
GOAL = 0.05
"""The share of an episode's own cost that an in-process door may add."""


_FEW = 10
_RUNS = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """The oracle's messages for one task (its id), every message one native call."""

    task: str
    messages: tuple[Message, ...]


Play = Callable[[Sequence[Recorded]], list[float] | Awaitable[list[float]]]


@dataclass(frozen=True, slots=True)
class Door:
    """play(recorded): whole episodes through the door, one after the other; their rewards. close(): free what it holds.

    run(recorded): the same within the whole framework, with a model that answers at once, where that can be had.
    """

    play: Play
    close: Callable[[], None] = lambda: None
    run: Callable[[Sequence[Recorded]], list[float]] | None = None


class UnequalError(FactgymError):
    """A door paid another reward than `reset` and `step`: its speed means nothing."""


def record(env: Env[Any], episodes: int) -> list[Recorded]:
    """The oracle's episodes of the first tasks, which are made here once and for all."""
    player = find_player(env.env_spec.id, "oracle")
    found = []
    for index in range(min(episodes, len(env.tasks))):
        env.reset(options={"task": index})
        policy = player.start(env, 0)
        said: list[Message] = []
        while env.episode.stop is None:
            action = policy.act(env.policy_prompt(), env.open_tools())
            said.extend(_calls(env, action))
            env.step(action)
        found.append(Recorded(env.tasks[index].id, tuple(said)))
    return found


def _calls(env: Env[Any], action: Any) -> Iterator[Message]:
    for item in parse_action(action, tags=env.tags, implicit=env.implicit).items:
        assert isinstance(item, ToolCall), "the oracle writes calls only"
        function: Any = {"name": item.name, "arguments": encode_json(item.arguments)}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        }


def one_by_one(play: Callable[[Recorded], float]) -> Play:
    """What plays many, from what plays one."""
    return lambda recorded: [play(one) for one in recorded]


def awaited_one_by_one(play: Callable[[Recorded], Awaitable[float]]) -> Play:
    """What plays many, from a coroutine function that plays one."""

    async def all_of_them(recorded: Sequence[Recorded]) -> list[float]:
        return [await play(one) for one in recorded]

    return all_of_them


def play_alone(env: Env[Any], recorded: Recorded) -> float:
    """The episode through `reset` and `step`; its reward."""
    env.reset(options={"task": recorded.task})
    for message in recorded.messages:
        reward, over, cut = env.step(message)[1:4]
        if over or cut:
            return float(reward)
    return env.truncate("turn_limit").total or 0.0


def measure_door(
    name: str, open_door: Callable[[str], Door], episodes: int, repeats: int, env_id: str = ENV
) -> Iterator[str]:
    """Lines of a report. Raises UnequalError when the door pays other rewards than the environment alone."""
    env = make(env_id)
    recorded = record(env, episodes)
    door = open_door(env_id)
    framework = 0.0
    gc.collect()
    gc.freeze()  # else a big framework's modules are searched for garbage whenever an episode happens to set it off
    try:
        own, whole = asyncio.run(_measured(name, env, door, recorded, repeats))
        if door.run is not None:
            framework = min(_timed_run(door.run, recorded) for _ in range(_RUNS))
    finally:
        gc.unfreeze()
        door.close()
    turns = sum(len(one.messages) for one in recorded) / len(recorded)
    yield (
        f"{name:>10}  {len(recorded)} episodes of {turns:.1f} calls: alone {own / len(recorded) * 1e3:.3f} ms, "
        f"through the door {whole / len(recorded) * 1e3:.3f} ms of CPU an episode, "
        f"overhead {whole / own - 1:+.1%} (goal under {GOAL:.0%}, least of {repeats} repeats)"
    )
    if framework:
        yield (
            f"{'':>10}  an episode in the whole framework, its model answering at once: {framework / len(recorded) * 1e3:.2f} ms "
            f"of CPU, of which the door is {(whole - own) / framework:.1%}"
        )


async def _measured(
    name: str, env: Env[Any], door: Door, recorded: Sequence[Recorded], repeats: int
) -> tuple[float, float]:
    """Seconds alone and through the door. One event loop runs for all: to start one takes longer than a door does."""
    few = [recorded[start : start + _FEW] for start in range(0, len(recorded), _FEW)]
    alone_way = one_by_one(lambda one: play_alone(env, one))
    alone, through = [math.inf] * len(few), [math.inf] * len(few)
    for repeat in range(repeats + 1):
        for place, some in enumerate(few):
            if repeat % 2:  # neither way is always the one that finds the tasks in the caches
                (last, theirs), (first, ours) = await _timed(door.play, some), await _timed(alone_way, some)
            else:
                (first, ours), (last, theirs) = await _timed(alone_way, some), await _timed(door.play, some)
            alone[place] = min(alone[place], first)
            through[place] = min(through[place], last)
            if ours != theirs:
                raise UnequalError(f"{name} pays other rewards than reset and step do: {theirs[:3]} {ours[:3]}")
    return sum(alone), sum(through)


async def _timed(play: Play, recorded: Sequence[Recorded]) -> tuple[float, list[float]]:
    start = time.process_time()
    rewards = play(recorded)
    if not isinstance(rewards, list):
        rewards = await rewards
    return time.process_time() - start, rewards


def _timed_run(run: Callable[[Sequence[Recorded]], list[float]], recorded: Sequence[Recorded]) -> float:
    start = time.process_time()
    run(recorded)
    return time.process_time() - start
