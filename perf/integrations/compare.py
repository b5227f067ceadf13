"""The common measurement: the same recorded episodes through `reset` and `step` alone and through an integration, interleaved.

An episode's own cost is what the environment spends on it: reset, every step, the score. An integration's overhead is what it
spends on top: from the framework's hands to the environment and back, without the model, the network and the
framework's own loop. Both are CPU time of this process, in turns of a few episodes; what a way takes longer than the
environment alone is the median over the repeats of the difference in the same repeat, so that a machine that is busy
now and then does not decide. The rewards of all ways must be equal, or the measurement is refused.

Where a framework does work of its own for every message, whatever plays the episode, a third way is measured beside
the two: the least that can be written by hand in that framework around `reset` and `step`, without a line of the integration's.
Then the integration's overhead is what it costs above that, and the framework's part is printed too. Whole rollouts with
tokens (NAME-rollout) are measured so: the framework's own loop, around tools that are written by hand, is the third way.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from factgym.agents.resolve import find_scripted_agent
from factgym.core.action import encode_json
from factgym.core.calls import ToolCall
from factgym.core.env import Env
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.messages import Message
from factgym.core.registry import make

ENV = "claimcheck-multihop"
GOAL = 0.05
"""Share of an episode's own cost that an in-process integration may add."""


_FEW = 10
_RUNS = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """The oracle's messages for one task (its id), every message one native call."""

    task: str
    messages: tuple[Message, ...]


Play = Callable[[Sequence[Recorded]], list[float] | Awaitable[list[float]]]


@dataclass(frozen=True, slots=True)
class Integration:
    """play(recorded): whole episodes through the integration, one after the other; their rewards. close(): free its resources.

    ready(recorded): what the framework does before it asks anybody, done before each way and not measured.

    written(message): what a policy of the framework's writes for a recorded message, where that is no native call; the
    environment alone is given the same. by_hand(recorded): the least that the framework wants, without the integration, where
    that is more than a call or two; hand: what it is. served: whether the integration is a server's, behind a protocol of its
    own, for which there is no goal. run(recorded): the same within the whole framework, with a model
    that answers at once, where that can be had.
    """

    play: Play
    written: Callable[[Message], Any] | None = None
    by_hand: Play | None = None
    hand: str = "by hand in the framework's own types"
    served: bool = False
    ready: Callable[[Sequence[Recorded]], None] = lambda recorded: None
    close: Callable[[], None] = lambda: None
    run: Callable[[Sequence[Recorded]], list[float]] | None = None


class UnequalError(FactgymError):
    """An integration returned another reward than `reset` and `step`, or other tokens: its speed is meaningless."""


def own_split(env_id: str) -> dict[str, str]:
    """Return the split that `make` takes, as a setting: integrations would take that of training."""
    split = getattr(make(env_id).config, "chosen_split", None)
    return {"split": split} if split else {}


def record(env: Env[Any], episodes: int) -> list[Recorded]:
    """Record the oracle's episodes of the first tasks.

    Raises ConfigError where it says texts: integrations are measured on calls, which all of them hand on.
    """
    agent = find_scripted_agent(env.env_spec.id, "oracle")
    recorded = []
    for index in range(min(episodes, len(env.tasks))):
        env.reset(options={"task": index})
        policy = agent.start(env, 0)
        messages: list[Message] = []
        while env.episode.stop is None:
            action = policy.act(env.policy_prompt(), env.available_tools())
            messages.extend(_calls(env, action))
            env.step(action)
        recorded.append(Recorded(env.tasks[index].id, tuple(messages)))
    return recorded


def _calls(env: Env[Any], action: Any) -> Iterator[Message]:
    for item in env.parser.parse(action).items:
        if not isinstance(item, ToolCall):
            raise ConfigError(
                f"integrations are measured on episodes of calls, and the oracle of {env.env_spec.id} answers in text: "
                f"take --env {ENV}"
            )
        yield called(item.name, item.arguments)


def called(name: str, arguments: Mapping[str, Any]) -> Message:
    """Return the message reduced to one native call."""
    function: Any = {"name": name, "arguments": encode_json(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
    }


def hermes(message: Message | Mapping[str, Any]) -> str:
    """Return the message's calls as text in Hermes' format."""
    return "\n".join(
        f'<tool_call>\n{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}\n</tool_call>'
        for call in (call["function"] for call in message.get("tool_calls") or [])
    )


def sequentially(play: Callable[[Recorded], float]) -> Play:
    """Turn a function that plays one episode into one that plays many."""
    return lambda recorded: [play(episode) for episode in recorded]


def awaited_sequentially(play: Callable[[Recorded], Awaitable[float]]) -> Play:
    """Turn a coroutine function that plays one episode into a function that plays many."""

    async def all_of_them(recorded: Sequence[Recorded]) -> list[float]:
        return [await play(episode) for episode in recorded]

    return all_of_them


def play_alone(env: Env[Any], recorded: Recorded, actions: Sequence[Any] | None = None) -> float:
    """Play the episode through `reset` and `step`; return its reward. actions: instead of the recorded messages."""
    env.reset(options={"task": recorded.task})
    for action in recorded.messages if actions is None else actions:
        reward, over, cut = env.step(action)[1:4]
        if over or cut:
            return float(reward)
    return env.truncate("turn_limit").total or 0.0


def measure_integration(
    name: str, open_integration: Callable[[str], Integration], episodes: int, repeats: int, env_id: str = ENV
) -> Iterator[str]:
    """Lines of a report. Raises UnequalError when the integration returns other rewards than the environment alone."""
    env = make(env_id)
    recorded = record(env, episodes)
    integration = open_integration(env_id)
    write = integration.written or (lambda message: message)
    actions = {episode.task: [write(message) for message in episode.messages] for episode in recorded}
    alone_way = sequentially(lambda episode: play_alone(env, episode, actions[episode.task]))
    ways = _Ways(
        name, [alone_way, integration.play, *([integration.by_hand] if integration.by_hand else [])], integration.ready
    )
    framework = 0.0
    gc.collect()
    gc.freeze()  # else garbage collections during an episode scan the framework's modules
    try:
        alone, through, *by_hand = asyncio.run(_measured(ways, recorded, repeats))
        if integration.run is not None:
            framework = min(_timed_run(integration.run, recorded) for _ in range(_RUNS)) / len(recorded)
    finally:
        gc.unfreeze()
        integration.close()
    yield from _report(name, integration, recorded, repeats, [alone, through, *by_hand], framework)


def _report(
    name: str,
    integration: Integration,
    recorded: Sequence[Recorded],
    repeats: int,
    spent: Sequence[float],
    framework: float,
) -> Iterator[str]:
    """spent: seconds of an episode alone, through the integration and by hand. framework: of a whole rollout, or 0."""
    alone, through, *by_hand = spent
    base = by_hand[0] if by_hand else alone
    turns = sum(len(episode.messages) for episode in recorded) / len(recorded)
    parts = [f"the environment alone {_ms(alone)}"]
    if by_hand:
        parts.append(f"{integration.hand} {_ms(base)}")
    parts.append(f"through the integration {_ms(through)} of CPU an episode")
    above = "the loop by hand" if by_hand else "the environment alone"
    goal = "beside its protocol, which is not measured" if integration.served else f"goal under {GOAL:.0%}"
    yield (
        f"{name:>14}  {len(recorded)} episodes of {turns:.1f} calls: {', '.join(parts)}, overhead above {above} "
        f"{(through - base) / alone:+.1%} of the environment's cost ({goal}, median of {repeats} repeats)"
    )
    if by_hand:
        yield (
            f"{'':>14}  the loop by hand costs {base / alone - 1:+.1%} above the environment, the integration and the loop "
            f"together {through / alone - 1:+.1%}; the integration beside the loop by hand {through / base - 1:+.1%}"
        )
    if framework:
        yield (
            f"{'':>14}  an episode in the whole framework, its model answering at once: {_ms(framework)} of CPU, of "
            f"which the integration is {(through - base) / framework:.1%}, with the loop by hand "
            f"{(through - alone) / framework:.1%}"
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


class _Ways(NamedTuple):
    """Ways to play by name, the environment alone first, and the preparation of each."""

    name: str
    plays: Sequence[Play]
    ready: Callable[[Sequence[Recorded]], None]


async def _measured(ways: _Ways, recorded: Sequence[Recorded], repeats: int) -> list[float]:
    """Return the seconds of an episode each way; the first is the environment alone.

    One event loop runs for all: to start one takes longer than an integration does. The first round counts for nothing.
    """
    few = [recorded[start : start + _FEW] for start in range(0, len(recorded), _FEW)]
    rounds = [[await _round(ways, some, repeat) for some in few] for repeat in range(repeats + 1)][1:]
    alone = _medians([[spent[0] for spent in times] for times in rounds])
    more = [
        _medians([[spent[way] - spent[0] for spent in times] for times in rounds]) for way in range(1, len(ways.plays))
    ]
    return [seconds / len(recorded) for seconds in (alone, *(alone + overhead for overhead in more))]


def _medians(rounds: Sequence[Sequence[float]]) -> float:
    """Sum over the episodes of the medians over the rounds."""
    return float(sum(statistics.median(times) for times in zip(*rounds, strict=True)))


async def _round(ways: _Ways, some: Sequence[Recorded], repeat: int) -> list[float]:
    """Seconds of a few episodes each way, in an order that changes with the repeat: no way always has warm caches."""
    size = len(ways.plays)
    turned = repeat % size
    order = [*range(turned, size), *range(turned)]
    spent, paid = [0.0] * size, [[0.0]] * size
    for way in order[::-1] if repeat // size % 2 else order:
        ways.ready(some)
        spent[way], paid[way] = await _timed(ways.plays[way], some)
    for rewards in paid:
        if rewards != paid[0]:
            raise UnequalError(f"{ways.name} returns other rewards than reset and step do: {rewards[:3]} {paid[0][:3]}")
    return spent


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
