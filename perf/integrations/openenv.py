"""What the OpenEnv door adds: actions and observations checked; without their JSON and the socket."""

from __future__ import annotations

from perf.integrations.frame import Door, Recorded, one_by_one


def door(env_id: str) -> Door:
    """A session as the server plays it. Raises MissingExtraError where OpenEnv is not installed."""
    from factgym.integrations.openenv import FactAction, environment_class

    env = environment_class(env_id)()

    def play(recorded: Recorded) -> float:
        result = env.reset(task=recorded.task)
        for message in recorded.messages:
            result = env.step(FactAction.model_validate({"message": message}))
            if result.done:
                break
        return float(result.reward or 0.0)

    return Door(one_by_one(play), served=True)
