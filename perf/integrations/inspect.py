"""Overhead of the Inspect integration (turns, store, score) above a solver written by hand, without the model's API."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

from factgym.core.errors import FactgymError
from factgym.core.messages import Message
from factgym.core.registry import make
from factgym.integrations.session import Session
from perf.integrations.compare import Integration, Recorded, awaited_sequentially

Episode = Callable[[Recorded], Awaitable[float]]


def integration(env_id: str) -> Integration:
    """The solver's episode and the scorer. Raises MissingExtraError where Inspect is not installed."""
    import factgym.integrations.inspect  # noqa: F401 - names the missing package

    samples = _Samples(env_id)

    def whole(recorded: Sequence[Recorded]) -> list[float]:
        """`inspect eval` itself, its log included."""
        return _evaluated(env_id, {episode.task: samples.to(episode)[1] for episode in recorded})

    return Integration(
        awaited_sequentially(_through(samples)),
        by_hand=awaited_sequentially(_by_hand(samples, env_id)),
        ready=samples.ready,
        run=whole,
    )


class _Samples:
    """Objects that Inspect makes for every solver: a sample's messages and state, and the model's replies, parsed once."""

    def __init__(self, env_id: str) -> None:
        from inspect_ai.model import ModelName
        from inspect_ai.solver import TaskState

        self.session = Session(env_id)
        self._state, self._model = TaskState, ModelName("mockllm/model")
        self._made: dict[str, tuple[list[Any], list[Any]]] = {}
        self._ready: dict[str, tuple[Any, Any]] = {}

    def to(self, recorded: Recorded) -> tuple[list[Any], list[Any]]:
        """Return the first messages and the replies."""
        from factgym.integrations.inspect import chat_message

        first = [chat_message(message, {}, token_hex(11)) for message in self.session.start(recorded.task)]
        return first, [_output(message) for message in recorded.messages]

    def ready(self, recorded: Sequence[Recorded]) -> None:
        """Make a sample's state for each episode, as Inspect does before it calls a solver."""
        self._ready = {episode.task: self._sample(episode) for episode in recorded}

    def sample(self, recorded: Recorded) -> tuple[Any, Any]:
        """Return the sample's state and the model."""
        return self._ready[recorded.task]

    def _sample(self, recorded: Recorded) -> tuple[Any, Any]:
        made = self._made.get(recorded.task)
        first, outputs = made or self._made.setdefault(recorded.task, self.to(recorded))
        task = {"task": recorded.task}
        state = self._state(model=self._model, sample_id=0, epoch=1, input="", messages=first, metadata=task)
        replies = iter(outputs)

        async def ask(messages: Any, tools: Any) -> Any:
            return next(replies)

        return state, ask


def _output(message: Message) -> Any:
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput, ModelUsage
    from inspect_ai.tool import ToolCall

    functions = [call["function"] for call in message.get("tool_calls") or []]
    calls = [
        ToolCall(id="call_0", function=function["name"], arguments=json.loads(function["arguments"]))
        for function in functions
    ]
    reply = ChatMessageAssistant(content=message["content"] or "", tool_calls=calls or None)
    # Usage is given, else Inspect counts tokens with a tokenizer that it downloads.
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    choice = ChatCompletionChoice(message=reply, stop_reason="tool_calls")
    return ModelOutput(model="recorded", usage=usage, choices=[choice])


def _through(samples: _Samples) -> Episode:
    from factgym.integrations.inspect import REWARD, ToolInfos, metric_names, play_sample, score_of

    session, infos = samples.session, ToolInfos()
    names = metric_names(session)

    async def episode(recorded: Recorded) -> float:
        state, ask = samples.sample(recorded)
        await play_sample(session, state, ask, infos)
        value: Any = score_of(state.store, names).value
        return float(value[REWARD])

    return episode


def _by_hand(samples: _Samples, env_id: str) -> Episode:
    """The smallest working solver and scorer in Inspect's types, without the integration's code.

    No settings, limits or faults, no stages, texts, several calls or malformed ones; nothing in the log but the score.
    """
    from inspect_ai.model import ChatMessageTool
    from inspect_ai.scorer import Score

    from factgym.integrations.inspect import tool_info

    env = make(env_id)
    tools = [tool_info(schema) for schema in env.all_tools()]

    async def episode(recorded: Recorded) -> float:
        state, ask = samples.sample(recorded)
        env.reset(options={"task": recorded.task})
        while env.episode.stop is None:
            state.output = await ask(state.messages, tools)
            reply = state.output.message
            state.messages.append(reply)
            (call,) = reply.tool_calls
            function = {"name": call.function, "arguments": json.dumps(call.arguments)}
            calls = [{"id": call.id, "type": "function", "function": function}]
            _, _, _, _, info = env.step({"role": "assistant", "content": reply.text, "tool_calls": calls})
            text = info["messages"][0]["content"]
            state.messages.append(ChatMessageTool(content=text, tool_call_id=call.id, function=call.function))
        state.completed = True
        report = env.episode.report
        assert report is not None, "the episode is over"
        state.store.set("values", {**report.components, "reward": report.total})
        value: Any = Score(value=state.store.get("values"), explanation=env.episode.stop).value
        return float(value["reward"])

    return episode


def _evaluated(env_id: str, outputs: Mapping[str, Sequence[Any]]) -> list[float]:
    import inspect_ai
    from inspect_ai.model import get_model
    from inspect_ai.solver._task_state import sample_state

    from factgym.integrations.inspect import REWARD, task_of

    remaining = {task: iter(replies) for task, replies in outputs.items()}

    def answer(*_: Any) -> Any:
        state: Any = sample_state()
        return next(remaining[state.metadata["task"]])

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    with TemporaryDirectory() as folder:
        (log,) = inspect_ai.eval(
            task_of(env_id)(), model=model, limit=len(outputs), log_dir=folder, display="none", log_level="error"
        )
        if log.status != "success" or log.samples is None:
            raise FactgymError(f"inspect eval failed: {log.error}")
        return [float(sample.scores["episode_reward"].value[REWARD]) for sample in log.samples if sample.scores]
