"""What the verl door adds: the slot of a row, each sampled turn, the reward; without verl, its tokens and their credit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perf.integrations.frame import Door, Recorded, awaited_one_by_one, hermes


def door(env_id: str) -> Door:
    """One rollout as `FactAgentLoop` plays it. Raises MissingExtraError where verl is not installed."""
    from factgym.integrations import verl

    verl.register()
    from factgym.integrations.credit import Turn
    from factgym.integrations.session import Session
    from factgym.integrations.verl.reading import Reader
    from factgym.integrations.verl.rows import RowTask, slot

    env = Session(env_id).env.env_spec.versioned
    tokenizer: Any = SimpleNamespace(decode=lambda ids, **_: "")
    reader = Reader(tokenizer, "hermes")
    sampled: dict[int, list[str]] = {}

    async def episode(recorded: Recorded) -> float:
        turns = sampled.get(id(recorded))
        if turns is None:  # what the model and the tokenizer have done before the door is asked
            turns = sampled[id(recorded)] = [hermes(message) for message in recorded.messages]
        told = {"env": env, "task": recorded.task, "settings": "{}"}
        async with slot(RowTask.of(told)) as session:
            known = []
            for number, text in enumerate(turns):
                if session.done:
                    break
                message = await reader.read(session.env, text, (), (), number, False)
                known.append(Turn(len(session.env.episode.messages), 0, (), text, message))
                session.say(message)
            report = session.close()
            session.metrics()
            session.turn_rewards()
            return report.total or 0.0

    return Door(awaited_one_by_one(episode))
