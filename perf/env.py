"""Environment steps per second with the oracle, and where the time goes, beside Gymnasium's CartPole-v1 loop.

Tasks are made before the clock starts (they are made once a process); making them is reported apart. Every repeat
plays all episodes and the same number of CartPole steps, interleaved, so that both meet the same machine. Times are processor
time of this thread, so that neighbours on the machine count less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import gymnasium

from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import play_many
from factgym.agents.rollout.record import episode_line
from factgym.core.env import Env
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import make
from factgym.core.strict_json import DEFAULT_LIMITS

_PARTS = {
    "parse": "the action",
    "tools": "argument checks, calls, rendering of results",
    "score": "the reward and its report",
    "reset": "a task chosen, first messages",
    "messages": "budgets, observations, info: the rest of a step",
    "policy": "the oracle's own time",
    "records": "the episode as data and as a line of episodes.jsonl",
}
"""Parts of an episode that no other part contains, with what they hold."""


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf env", description="Steps per second, and where the time goes."
    )
    parser.add_argument("--env", default="claimcheck-multihop")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    return measure_env(options.env, options.episodes, options.repeats)


def measure_env(env_id: str, episodes: int, repeats: int) -> list[str]:
    """Lines of a report. Raises ConfigError for an unknown environment."""
    env = make(env_id)
    agent = find_scripted_agent(env_id, "oracle")
    tasks = range(min(episodes, len(env.tasks)))
    start = time.thread_time()
    for task in tasks:
        env.tasks[task]
    made = time.thread_time() - start
    rates: list[float] = []
    policy: list[float] = []
    peer: list[float] = []
    steps = 0
    for _ in range(repeats):
        seconds, steps, acting = _play(env, agent, tasks)
        rates.append(steps / (seconds - acting))
        policy.append(steps / seconds)
        peer.append(_cartpole(max(steps, 20_000)))
    shares = _where(env, agent, tasks)
    rate, base = statistics.median(rates), statistics.median(peer)
    return [
        f"{env_id}: {len(tasks)} episodes of {steps / len(tasks):.1f} steps, {repeats} repeats, one core, median [min – max]",
        f"  environment steps/s            {rate:10,.0f}  [{min(rates):,.0f} – {max(rates):,.0f}]   {1e6 / rate:.1f} µs a step",
        f"  with the oracle's own time     {statistics.median(policy):10,.0f}  [{min(policy):,.0f} – {max(policy):,.0f}]",
        f"  CartPole-v1 steps/s            {base:10,.0f}  [{min(peer):,.0f} – {max(peer):,.0f}]   {1e6 / base:.1f} µs a step",
        f"  one of our steps costs         {base / rate:10.1f}  CartPole steps",
        f"  making a task (once)           {made / len(tasks) * 1e6:10,.0f}  µs",
        "  slowest hostile action, CPU    {:10.1f}  ms: {!r} repeated to {:,} characters".format(*_slowest_action(env)),
        "where an episode's time goes (share, measured in a separate instrumented run):",
        *(f"  {name:10} {share:7.1%}  {_PARTS[name]}" for name, share in shares),
    ]


_HOSTILE = (
    *(
        '{"',
        '[{"',
        '{"a":"\\"',
        '{"a": 1} ',
        "{",
        "[",
        '{"a":',
        "{}",
        '{"x" ',
        "<tool_call>",
        '<tool_call>{"',
        "<think>",
    ),
    *("<tool_call>{}</think>", '<tool_call>{"name": "a"} x </tool_call>', "```json\n", "\ud800", '"\\"', "1e"),
)
"""Texts that make a parser go back, or repeat its work, when they are repeated."""


def _slowest_action(env: Env[Any]) -> tuple[float, str, int]:
    """Milliseconds of CPU of the slowest action, the least of three; the text that it repeats; its characters."""
    size = DEFAULT_LIMITS.max_chars
    slowest = (0.0, "")
    for unit in _HOSTILE:
        action, seconds = unit * (size // len(unit)), []
        for _ in range(3):
            env.reset(seed=0)
            before = time.process_time()
            env.step(action)
            seconds.append(time.process_time() - before)
        slowest = max(slowest, (1e3 * min(seconds), unit))
    return *slowest, size


def _play(env: Env[Any], agent: ScriptedAgent, tasks: Sequence[int]) -> tuple[float, int, float]:
    """Seconds, steps, and the seconds of these that the policy took."""
    steps = 0
    acting = 0.0
    clock = time.thread_time
    start = clock()
    for task in tasks:
        env.reset(seed=0, options={"task": task})
        before = clock()
        policy = agent.start(env, 0)
        acting += clock() - before
        while env.episode.stop is None:
            before = clock()
            action = policy.act(env.policy_prompt(), env.available_tools())
            acting += clock() - before
            env.step(action)
            steps += 1
    return clock() - start, steps, acting


def _cartpole(steps: int) -> float:
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    env.action_space.seed(0)
    start = time.thread_time()
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    return steps / (time.thread_time() - start)


def _where(env: Env[Any], agent: ScriptedAgent, tasks: Sequence[int]) -> list[tuple[str, float]]:
    """Share of an episode's time by part, of whole episodes as a run plays and writes them."""
    spent = dict.fromkeys(_PARTS, 0.0)
    steps = {"tools": "tool_results", "score": "score", "reset": "reset"}
    with ExitStack() as stack:
        for part, name in steps.items():
            stack.enter_context(patch.object(env, name, _timed(getattr(env, name), part, spent)))
        for part, target in (
            ("parse", "factgym.core.action.ActionParser.parse"),
            ("records", "factgym.agents.rollout.engine.record"),
        ):
            stack.enter_context(patch(target, _timed(resolve_name(target), part, spent)))
        start = time.thread_time()
        timed = replace(agent, start=lambda env, seed: _TimedPolicy(agent.start(env, seed), spent))
        write = _timed(episode_line, "records", spent)
        for episode in play_many(env, timed, tasks):
            write(episode)
        total = time.thread_time() - start
    spent["messages"] = total - sum(spent.values())
    return sorted(((part, seconds / total) for part, seconds in spent.items()), key=lambda share: -share[1])


class _TimedPolicy:
    def __init__(self, inner: Any, spent: dict[str, float]) -> None:
        self.act = _timed(inner.act, "policy", spent)


def _timed(inner: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    def outer(*args: Any, **kwargs: Any) -> Any:
        start = time.thread_time()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[part] += time.thread_time() - start

    return outer
