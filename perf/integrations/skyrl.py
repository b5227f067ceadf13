"""What the SkyRL door adds: init with its prompt, each step, the metrics, the end; without the generator, its engine and tokens."""

from __future__ import annotations

from factgym.integrations.session import Session
from perf.integrations.frame import Door, Recorded, hermes, one_by_one


def door(env_id: str) -> Door:
    """One rollout as skyrl-gym plays it. Raises MissingExtraError where skyrl-gym is not installed."""
    from factgym.integrations.skyrl import FactTextEnv

    session = Session(env_id)
    written: dict[int, list[str]] = {}

    def play(recorded: Recorded) -> float:
        texts = written.get(id(recorded))
        if texts is None:  # what a policy of SkyRL's writes, from the recorded calls
            texts = written[id(recorded)] = [hermes(message) for message in recorded.messages]
        env = FactTextEnv({}, {"task": recorded.task}, env_id=session.env.env_spec.id)
        env.init([])
        for text in texts:
            step = env.step(text)
            if step["done"]:
                break
        reward = float(env.get_metrics()["reward"])
        env.close()
        return reward

    return Door(one_by_one(play), written=hermes)
