"""What the verifiers door adds: opening the task, each turn, the result, finishing and scoring, without the framework."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Self

from factgym.integrations.speed.frame import Door, Recorded


class _Replies:
    """In the place of the model's client: the recorded messages, one by one."""

    def __init__(self) -> None:
        self.left: list[Any] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def post(self, path: str, *, cast_to: Any, body: dict[str, Any]) -> Any:
        """The next message, as a server's answer."""
        return {"choices": [{"message": self.left.pop(0)}]}


class _Trace(SimpleNamespace):
    """What the door touches of a trace."""

    def stop(self, condition: str) -> None:
        """Keep why the episode ended."""
        self.stop_condition = condition


def door(env_id: str) -> Door:
    """The harness, the task's hooks and its scoring. Raises MissingExtraError where verifiers is not installed."""
    from factgym.integrations.verifiers import FactData, FactHarness, FactHarnessConfig, FactTask

    replies = _Replies()
    tasks: dict[str, FactTask] = {}
    harness = FactHarness(FactHarnessConfig(id=env_id))
    harness._client = lambda endpoint, secret: replies  # type: ignore[assignment,return-value,method-assign]
    loop = asyncio.new_event_loop()
    nothing: Any = None
    ctx: Any = SimpleNamespace(model="recorded")

    async def episode(recorded: Recorded) -> float:
        if recorded.task not in tasks:  # a task and its trace are the framework's to make
            tasks[recorded.task] = FactTask(FactData(env=env_id, task=recorded.task, max_turns=0))
        task = tasks[recorded.task]
        state = SimpleNamespace(key="", task={}, actions=[], result=None)
        trace: Any = _Trace(id="0", state=state, info={}, stop_condition=None)
        replies.left = list(recorded.messages)
        await task.setup(trace, nothing)
        await harness.launch(ctx, trace, nothing, "http://127.0.0.1/v1", "", {}, task.data)
        await task.finalize(trace, nothing)
        await task.components(trace)
        rewards: dict[str, float] = await task.reward(trace)
        return rewards.get("reward", 0.0)

    async def all_of_them(recorded: Sequence[Recorded]) -> list[float]:
        return [await episode(one) for one in recorded]

    return Door(lambda recorded: loop.run_until_complete(all_of_them(recorded)), loop.close)
