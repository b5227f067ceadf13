"""What the TRL door adds: reset from a row, reading each sampled turn, the reward; without the trainer and its tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from perf.integrations.frame import Door, Recorded, hermes, one_by_one


class _Decoded:
    """In the place of a tokenizer: the turns' texts, which are the tokenizer's own work."""

    text = ""

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """The text of the turn at hand."""
        return self.text


def door(env_id: str) -> Door:
    """One rollout as `StopWhenDone` plays it. Raises MissingExtraError where TRL is not installed."""
    from factgym.integrations.trl import environment_factory

    env = environment_factory(env_id)()
    decoded = _Decoded()
    sampled: dict[int, list[tuple[dict[str, Any], str]]] = {}

    def play(recorded: Recorded) -> float:
        turns = sampled.get(id(recorded))
        if turns is None:  # what the framework has parsed before it asks the door
            turns = sampled[id(recorded)] = [_sampled(message) for message in recorded.messages]
        env.reset(task=recorded.task, prompt=True)
        for parsed, decoded.text in turns:
            env._play(parsed, (), 0, decoded)
        return env.get_reward() or 0.0

    return Door(one_by_one(play))


def _sampled(message: Any) -> tuple[dict[str, Any], str]:
    (function,) = (call["function"] for call in message["tool_calls"])
    parsed = {"name": function["name"], "arguments": json.loads(function["arguments"])}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": parsed}]}, hermes(
        message
    )
