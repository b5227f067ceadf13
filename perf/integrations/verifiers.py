"""What the verifiers door adds: opening the task, each turn, the result, finishing and scoring, without the framework."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

from perf.integrations.frame import Door, Recorded, awaited_one_by_one


class _Replies:
    """In the place of the model's client: a server's answers, one by one."""

    def __init__(self) -> None:
        self.left: Iterator[Any] = iter(())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def post(self, path: str, *, cast_to: Any, body: dict[str, Any]) -> Any:
        """The next answer."""
        return next(self.left)


class _State:
    """What the door touches of a trace's state."""

    __slots__ = ("actions", "key", "result", "task")

    def __init__(self) -> None:
        self.result = None


class _Trace:
    """What the door touches of a trace."""

    __slots__ = ("id", "info", "state", "stop_condition")

    def __init__(self) -> None:
        self.id, self.state, self.stop_condition = "0", _State(), ""
        self.info: dict[str, Any] = {}

    def stop(self, condition: str) -> None:
        """Keep why the episode ended."""
        self.stop_condition = condition


def door(env_id: str) -> Door:
    """The harness, the task's hooks and its scoring. Raises MissingExtraError where verifiers is not installed."""
    from factgym.integrations.verifiers import FactData, FactHarness, FactHarnessConfig, FactTask

    replies = _Replies()
    made: dict[str, tuple[FactTask, list[Any]]] = {}
    harness = FactHarness(FactHarnessConfig(id=env_id))
    harness._client = lambda endpoint, secret: replies  # type: ignore[assignment,return-value,method-assign]
    nothing: Any = None
    ctx: Any = SimpleNamespace(model="recorded")

    async def episode(recorded: Recorded) -> float:
        if recorded.task not in made:  # a task is the framework's to make, and an answer the server's
            answers = [{"choices": [{"message": message}]} for message in recorded.messages]
            made[recorded.task] = FactTask(FactData(env=env_id, task=recorded.task, max_turns=0)), answers
        task, answers = made[recorded.task]
        trace: Any = _Trace()
        replies.left = iter(answers)
        await task.setup(trace, nothing)
        await harness.launch(ctx, trace, nothing, "http://127.0.0.1/v1", "", {}, task.data)
        await task.finalize(trace, nothing)
        await task.components(trace)
        rewards: dict[str, float] = await task.reward(trace)
        return rewards.get("reward", 0.0)

    return Door(awaited_one_by_one(episode))
