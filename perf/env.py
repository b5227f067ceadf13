"""Environment steps per second with the oracle, and where the time goes, beside Gymnasium's CartPole-v1 loop.

Tasks are made before the clock starts (they are made once a process); making them is reported apart. Every repeat
plays all episodes and the same number of CartPole steps, interleaved, so that both meet the same machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import gymnasium

from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import run_policy
from factgym.core.env import Env
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import make

_PARTS = {
    "parse the action": "factgym.core.env.parse_action",
    "schema checks": "factgym.tools.toolbox.Tool.check",
    "search": "factgym.tools.evidence.PassageLibrary.search",
    "condense snippets": "factgym.tools.evidence.PassageLibrary.condense",
    "score": "factgym.envs.claimcheck.env.ClaimCheckEnv.score",
    "reset": "factgym.core.env.Env.reset",
    "policy (oracle)": "factgym.core.env.Env.policy_prompt",
}


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
    start = time.perf_counter()
    for task in tasks:
        env.tasks[task]
    made = time.perf_counter() - start
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
        "where an episode's time goes (share, measured in a separate instrumented run):",
        *(f"  {name:30} {share:9.1%}" for name, share in shares),
    ]


def _play(env: Env[Any], agent: ScriptedAgent, tasks: Sequence[int]) -> tuple[float, int, float]:
    """Seconds, steps, and the seconds of these that the policy took."""
    steps = 0
    acting = 0.0
    clock = time.perf_counter
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
    start = time.perf_counter()
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - start)


def _where(env: Env[Any], agent: ScriptedAgent, tasks: Sequence[int]) -> list[tuple[str, float]]:
    """Share of an episode's time by part; parts do not contain one another."""
    spent = dict.fromkeys(_PARTS, 0.0)
    with ExitStack() as stack:
        for name, target in _PARTS.items():
            if not name.startswith("policy"):
                stack.enter_context(patch(target, _timed(_resolve(target), name, spent)))
        start = time.perf_counter()
        for task in tasks:
            env.reset(seed=0, options={"task": task})
            run_policy(env, _TimedPolicy(agent.start(env, 0), spent))
        total = time.perf_counter() - start
    shares = [(name, seconds / total) for name, seconds in spent.items()]
    remainder = 1.0 - sum(share for _, share in shares)
    return sorted([*shares, ("messages, records, rendering", remainder)], key=lambda share: -share[1])


class _TimedPolicy:
    def __init__(self, inner: Any, spent: dict[str, float]) -> None:
        self._inner = inner
        self._spent = spent

    def act(self, messages: Any, tools: Any) -> Any:
        start = time.perf_counter()
        action = self._inner.act(messages, tools)
        self._spent["policy (oracle)"] += time.perf_counter() - start
        return action


def _resolve(target: str) -> Callable[..., Any]:
    import importlib

    parts = target.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            resolved: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            resolved = getattr(resolved, name)
        return resolved  # type: ignore[no-any-return]
    raise LookupError(target)


def _timed(inner: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    def outer(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[name] += time.perf_counter() - start

    return outer
