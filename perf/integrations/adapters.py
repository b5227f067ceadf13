"""The integrations that need no tokens: an episode as each framework plays it, without the framework's own loop."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Self

from factgym.integrations.session import Session
from perf.integrations.compare import Integration, Recorded, awaited_sequentially, hermes, own_split, sequentially


def session(env_id: str) -> Integration:
    """The session itself: messages in, messages out, the report at the end."""
    session = Session(env_id)

    def play(recorded: Recorded) -> float:
        session.start(recorded.task)
        for message in recorded.messages:
            if session.done:
                break
            session.step(message)
        session.close()
        session.metrics()
        return session.reward or 0.0

    return Integration(sequentially(play))


class _Replies:
    """A stand-in for the model's client: recorded answers, one by one."""

    def __init__(self) -> None:
        self.remaining: Iterator[Any] = iter(())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def post(self, path: str, *, cast_to: Any, body: dict[str, Any]) -> Any:
        """Return the next answer."""
        return next(self.remaining)


class _State:
    """The part of a trace's state that the integration uses."""

    __slots__ = ("actions", "key", "result", "task")

    def __init__(self) -> None:
        self.result = None


class _Trace:
    """The part of a trace that the integration uses."""

    __slots__ = ("id", "info", "state", "stop_condition")

    def __init__(self) -> None:
        self.id, self.state, self.stop_condition = "0", _State(), ""
        self.info: dict[str, Any] = {}

    def stop(self, condition: str) -> None:
        """Store the reason for the end."""
        self.stop_condition = condition


def verifiers(env_id: str) -> Integration:
    """The harness, the task's hooks and its scoring. Raises MissingExtraError where verifiers is not installed."""
    from factgym.integrations.verifiers import FactData, FactHarness, FactHarnessConfig, FactTask

    replies = _Replies()
    made: dict[str, tuple[FactTask, list[Any]]] = {}
    harness = FactHarness(FactHarnessConfig(id=env_id))
    harness._client = lambda endpoint, secret: replies  # type: ignore[assignment,return-value,method-assign]
    nothing: Any = None
    ctx: Any = SimpleNamespace(model="recorded")

    async def episode(recorded: Recorded) -> float:
        if recorded.task not in made:  # the framework makes tasks and the server answers: neither is timed
            answers = [{"choices": [{"message": message}]} for message in recorded.messages]
            made[recorded.task] = FactTask(FactData(env=env_id, task=recorded.task, max_turns=0)), answers
        task, answers = made[recorded.task]
        trace: Any = _Trace()
        replies.remaining = iter(answers)
        await task.setup(trace, nothing)
        await harness.launch(ctx, trace, nothing, "http://127.0.0.1/v1", "", {}, task.data)
        await task.finalize(trace, nothing)
        await task.components(trace)
        rewards: dict[str, float] = await task.reward(trace)
        return rewards.get("reward", 0.0)

    return Integration(awaited_sequentially(episode))


class _Decoder:
    """A stand-in for the tokenizer, whose work is not timed: returns the turns' texts."""

    text = ""

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """Return the text of the current turn."""
        return self.text


def trl(env_id: str) -> Integration:
    """One rollout as `StopWhenDone` plays it. Raises MissingExtraError where TRL is not installed."""
    from factgym.integrations.trl import environment_factory

    env = environment_factory(env_id, **own_split(env_id))()
    decoded = _Decoder()
    sampled: dict[int, list[tuple[dict[str, Any], str]]] = {}

    def play(recorded: Recorded) -> float:
        turns = sampled.get(id(recorded))
        if turns is None:  # parsed by the framework before it calls the integration
            turns = sampled[id(recorded)] = [_sampled(message) for message in recorded.messages]
        env.reset(task=recorded.task, prompt=True)
        for parsed, decoded.text in turns:
            env._play_turn(parsed, (), 0, decoded)
        return env.get_reward() or 0.0

    return Integration(sequentially(play))


def _sampled(message: Any) -> tuple[dict[str, Any], str]:
    (function,) = (call["function"] for call in message["tool_calls"])
    parsed = {"name": function["name"], "arguments": json.loads(function["arguments"])}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": parsed}]}, hermes(
        message
    )


def mcp(env_id: str) -> Integration:
    """The handlers alone. Raises MissingExtraError where the protocol's package is not installed."""
    from factgym.agents.rollout.jobs import Job
    from factgym.integrations.mcp import Episodes, Rollout

    episodes = Episodes(env_id)
    tasks = episodes.template.env.tasks

    async def episode(recorded: Recorded) -> float:
        rollout = Rollout(episodes, Job(tasks.index_of(recorded.task)))
        for message in recorded.messages:
            for call in message.get("tool_calls") or []:
                await rollout.call(call["function"]["name"], json.loads(call["function"]["arguments"]))
        rollout.disconnect()
        return rollout.session.reward or 0.0

    return Integration(awaited_sequentially(episode), served=True)


def openenv(env_id: str) -> Integration:
    """A session as the server plays it. Raises MissingExtraError where OpenEnv is not installed."""
    from factgym.integrations.openenv import FactAction, environment_class

    env = environment_class(env_id, own_split(env_id))()

    def play(recorded: Recorded) -> float:
        result = env.reset(task=recorded.task)
        for message in recorded.messages:
            result = env.step(FactAction.model_validate({"message": message}))
            if result.done:
                break
        return float(result.reward or 0.0)

    return Integration(sequentially(play), served=True)


def skyrl(env_id: str) -> Integration:
    """One rollout as skyrl-gym plays it. Raises MissingExtraError where skyrl-gym is not installed."""
    from factgym.integrations.skyrl import FactTextEnv

    session = Session(env_id)
    written: dict[int, list[str]] = {}

    def play(recorded: Recorded) -> float:
        texts = written.get(id(recorded))
        if texts is None:  # the texts that a policy writes under SkyRL, from the recorded calls
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

    return Integration(sequentially(play), written=hermes)


def verl(env_id: str) -> Integration:
    """One rollout as `FactAgentLoop` plays it. Raises MissingExtraError where verl is not installed."""
    from factgym.integrations import verl

    verl.register()
    from factgym.integrations.credit import Turn
    from factgym.integrations.verl.loop import ReplyParser
    from factgym.integrations.verl.rows import RowTask

    env = Session(env_id).env.env_spec.versioned
    tokenizer: Any = SimpleNamespace(decode=lambda ids, **_: "")
    parser = ReplyParser(tokenizer, "hermes")
    sampled: dict[int, list[str]] = {}

    async def episode(recorded: Recorded) -> float:
        texts = sampled.get(id(recorded))
        if texts is None:  # the model's and the tokenizer's work, not timed
            texts = sampled[id(recorded)] = [hermes(message) for message in recorded.messages]
        task = RowTask.of({"env": env, "task": recorded.task, "settings": "{}"})
        session = task.pool.acquire()
        session.env.reset(options={"task": task.task})
        turns = []
        for number, text in enumerate(texts):
            if session.done:
                break
            message = await parser.parse(session.env, text, (), (), number, False)
            turns.append(Turn(len(session.env.episode.messages), 0, (), text, message))
            session.step(message)
        report = session.close()
        session.metrics()
        session.turn_rewards()
        task.pool.release(session)
        return report.total or 0.0

    return Integration(awaited_sequentially(episode))
