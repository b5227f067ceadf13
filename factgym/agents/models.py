"""Any agent as a model that a trainer can be given, and a model that carries rules in its instructions."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any, cast

from factgym.agents.agent import Agent, Model, agent_from_model
from factgym.agents.resolve import find_agent
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy

FEATURES = "features"
"""The name of the untrained feature verifier; `features:PATH` is one on disk."""

_TRAINABLE_SCRIPTS = ("nli", "lexical", "random")


def find_model(text: str, settings: dict[str, Any] | None = None) -> Model:
    """The verifier that a text names: an `--agent`, `features` or `features:PATH`.

    Raises ConfigError for an impossible one, and for oracles and exploiters.
    """
    kind, _, path = text.partition(":")
    if kind == FEATURES:
        from factgym.agents.feature_verifier import FeatureVerifier

        if settings:
            raise ConfigError(f"the feature verifier takes no settings ({', '.join(settings)})")
        return FeatureVerifier.load(path) if path else FeatureVerifier()
    agent = find_agent(text, "seva", settings)
    if dict(agent.describe()).get("kind") == "scripted" and text not in _TRAINABLE_SCRIPTS:
        raise ConfigError(
            f"{text!r} is told the answer or plays for a hole in the reward: nothing can be learned from it"
        )
    return as_model(agent)


def as_model(agent: Agent) -> Model:
    """An agent that does not look at the environment, as a model."""
    return _AgentModel(agent)


class _AgentModel:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.threads = agent.threads

    def start(self, seed: int) -> Policy:
        return self._agent.start(None, seed)

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        return self.start(0).act(messages, tools)

    def describe(self) -> dict[str, Any]:
        return {"agent": self._agent.name, **self._agent.describe()}

    async def prepare(self) -> None:
        await self._agent.prepare()

    async def close(self) -> None:
        await self._agent.close()


def model_path(model: Model) -> str:
    """The path or name of a model, for the command of an external trainer. Empty where its description has none."""
    path = model.describe().get("model")
    return path if isinstance(path, str) else ""


def agent_with_rules(name: str, model: Model, rules: str = "") -> Agent:
    """The agent of a model; rules are appended to its instructions unless they are empty."""
    threads = getattr(model, "threads", 0)  # without the attribute, a model answers at once or is async
    return agent_from_model(name, WithRules(model, rules) if rules else model, threads=threads)


class WithRules:
    """A model whose system message ends with rules. Nothing is learned: with other rules it is another verifier."""

    def __init__(self, model: Model, rules: str) -> None:
        self.model, self.rules = model, rules

    def start(self, seed: int) -> Policy:
        """The policy of one episode."""
        return _RulesPolicy(self.model.start(seed), self.rules)

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        """The next message, by the model's own policy."""
        return _RulesPolicy(self.model, self.rules).act(messages, tools)

    def describe(self) -> dict[str, Any]:
        """The model, and the rules by their hash."""
        return {**self.model.describe(), "rules_sha256": hashlib.sha256(self.rules.encode()).hexdigest()}

    async def prepare(self) -> None:
        """Prepare the model, where it has to be."""
        prepare = getattr(self.model, "prepare", None)
        if callable(prepare):
            result = prepare()
            if inspect.isawaitable(result):
                await result

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


class _RulesPolicy:
    """The policy of one episode with rules. Replies record the sent messages, which the transcript does not hold."""

    def __init__(self, policy: Policy, rules: str) -> None:
        self._policy, self._rules = policy, rules

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        sent = with_rules(messages, self._rules)
        reply = self._policy.act(sent, tools)
        if not inspect.isawaitable(reply):
            return _with_sent(reply, sent)

        async def wait() -> Message:
            return _with_sent(await reply, sent)

        return wait()


def with_rules(messages: Sequence[Message], rules: str) -> list[Message]:
    """The messages with the rules at the end of the system message, which is added where there is none."""
    messages = list(messages)
    if messages and messages[0]["role"] == "system":
        messages[0] = {**messages[0], "content": f"{messages[0]['content'] or ''}\n\n{rules}".strip()}
        return messages
    return [{"role": "system", "content": rules}, *messages]


def _with_sent(reply: Any, sent: list[Message]) -> Message:
    message: dict[str, Any] = {"role": "assistant", "content": reply} if isinstance(reply, str) else dict(reply)
    completion = message.get("completion")
    message["completion"] = {"sent": sent, **(completion if isinstance(completion, dict) else {})}
    return cast(Message, message)
