"""What the Inspect door adds: the messages in its types, each turn, the store and the score, without the model's API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from factgym.core.errors import FactgymError
from factgym.core.messages import Message
from factgym.integrations.speed.frame import Door, Recorded, awaited_one_by_one


def door(env_id: str) -> Door:
    """The solver's episode and the scorer. Raises MissingExtraError where Inspect is not installed."""
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelName, ModelOutput, ModelUsage
    from inspect_ai.solver import TaskState
    from inspect_ai.tool import ToolCall

    import factgym.integrations.inspect  # noqa: F401 - says what is missing
    from factgym.integrations.inspect.messages import ToolInfos, chat_message
    from factgym.integrations.inspect.play import play_through
    from factgym.integrations.inspect.score import REWARD, metric_names, score_of
    from factgym.integrations.session import Session

    session = Session(env_id)
    names, infos = metric_names(session), ToolInfos()
    made: dict[str, tuple[Any, list[Any]]] = {}

    def output(message: Message) -> Any:
        calls = [
            ToolCall(
                id=one["id"], function=one["function"]["name"], arguments=json.loads(one["function"]["arguments"])
            )
            for one in message.get("tool_calls") or []
        ]
        own = ChatMessageAssistant(content=message["content"] or "", tool_calls=calls or None)
        # Usage is said, else Inspect counts tokens with a tokenizer that it downloads.
        usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return ModelOutput(
            model="recorded", usage=usage, choices=[ChatCompletionChoice(message=own, stop_reason="tool_calls")]
        )

    def framework(recorded: Recorded) -> tuple[Any, list[Any]]:
        """A state and the model's replies, which are the framework's to make."""
        if recorded.task not in made:
            session.start(recorded.task)
            state: Any = TaskState(
                model=ModelName("mockllm/model"),
                sample_id=0,
                epoch=1,
                input="",
                messages=[chat_message(message, {}) for message in session.messages],
                metadata={"task": recorded.task},
            )
            made[recorded.task] = (state, [output(message) for message in recorded.messages])
        return made[recorded.task]

    async def episode(recorded: Recorded) -> float:
        state, outputs = framework(recorded)
        replies = iter(outputs)

        async def ask(messages: Any, tools: Any) -> Any:
            return next(replies)

        await play_through(session, state, ask, infos)
        value: Any = score_of(state.store, names).value
        return float(value[REWARD])

    def whole(recorded: Sequence[Recorded]) -> list[float]:
        """`inspect eval` itself, its log included."""
        return _evaluated(env_id, {one.task: framework(one)[1] for one in recorded})

    return Door(awaited_one_by_one(episode), run=whole)


def _evaluated(env_id: str, outputs: Mapping[str, Sequence[Any]]) -> list[float]:
    import inspect_ai
    from inspect_ai.model import get_model
    from inspect_ai.solver._task_state import sample_state

    from factgym.integrations.inspect import task_of
    from factgym.integrations.inspect.score import REWARD

    left = {task: iter(said) for task, said in outputs.items()}

    def answer(*_: Any) -> Any:
        state: Any = sample_state()
        return next(left[state.metadata["task"]])

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    with TemporaryDirectory() as folder:
        (log,) = inspect_ai.eval(
            task_of(env_id)(), model=model, limit=len(outputs), log_dir=folder, display="none", log_level="error"
        )
        if log.status != "success" or log.samples is None:
            raise FactgymError(f"inspect eval failed: {log.error}")
        return [float(one.scores["episode_reward"].value[REWARD]) for one in log.samples if one.scores]
