"""What the Inspect door adds: the messages in its types, each turn, the store and the score, without the model's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from factgym.core.messages import Message
from factgym.integrations.speed.frame import Door, Recorded


def door(env_id: str) -> Door:
    """The solver's episode and the scorer. Raises MissingExtraError where Inspect is not installed."""
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelName, ModelOutput
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
        return ModelOutput(model="recorded", choices=[ChatCompletionChoice(message=own, stop_reason="tool_calls")])

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

    async def all_of_them(recorded: Sequence[Recorded]) -> list[float]:
        return [await episode(one) for one in recorded]

    loop = asyncio.new_event_loop()
    return Door(lambda recorded: loop.run_until_complete(all_of_them(recorded)), loop.close)
