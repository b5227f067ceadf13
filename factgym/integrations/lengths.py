"""How long episodes are, for frameworks that want a bound on a whole episode before it is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.agents.resolve import scripted_agents
from factgym.core.messages import Message
from factgym.core.registry import make

_FRAME = 8
"""Tokens that a template puts around a message, about."""


@dataclass(frozen=True, slots=True)
class EpisodeTokens:
    """Tokens of the longest of some episodes that the oracle played: of its prompt, and of all that follows."""

    prompt: int
    completion: int


def episode_tokens(
    env_id: str, count: Callable[[str], int], config: Mapping[str, Any] | None = None, *, tasks: int = 16
) -> EpisodeTokens:
    """How long episodes are: what a bound on an episode has to hold at least.

    count: tokens of a text. The oracle goes the shortest way; twice its length is a fair beginning. The completion is 0
    where there is no oracle.
    """
    env = make(env_id, **(config or {}))
    oracle = next((one for one in scripted_agents(env.env_spec.id).values() if one.role == "oracle"), None)
    longest = EpisodeTokens(0, 0)
    for index in range(min(tasks, len(env.tasks))):
        env.reset(options={"task": index})
        first = len(env.episode.messages)
        policy = oracle.start(env, 0) if oracle is not None else None
        while policy is not None and env.episode.stop is None:
            action: Any = policy.act(env.policy_prompt(), env.available_tools())
            env.step(action)
        said = env.episode.messages if policy is None else env.episode.messages[:-1]  # what is said after the end
        sizes = [_tokens(count, part) for part in (said[:first], said[first:])]
        longest = EpisodeTokens(max(longest.prompt, sizes[0]), max(longest.completion, sizes[1]))
    return longest


def _tokens(count: Callable[[str], int], messages: Sequence[Message]) -> int:
    texts = []
    for message in messages:
        calls = [
            f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", [])
        ]
        texts.append("\n".join([message["content"] or "", *calls]))
    return sum(count(text) + _FRAME for text in texts)
