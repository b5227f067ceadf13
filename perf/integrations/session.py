"""What the shared session adds to the environment: the floor of every door's overhead."""

from __future__ import annotations

from factgym.integrations.session import Session
from perf.integrations.frame import Door, Recorded, one_by_one


def door(env_id: str) -> Door:
    """Messages in, messages out, the report at the end."""
    session = Session(env_id)

    def play(recorded: Recorded) -> float:
        session.start(recorded.task)
        for message in recorded.messages:
            if session.done:
                break
            session.say(message)
        session.close()
        session.metrics()
        return session.reward or 0.0

    return Door(one_by_one(play))
