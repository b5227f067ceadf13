"""Any agent as a model that a trainer can be given, and a model that carries rules in its instructions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

from factgym.agents.agent import Agent, Model, agent_from_model
from factgym.agents.resolve import find_agent
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy

FEATURES = "features"
"""The name of the feature verifier that has learned nothing yet, or `features:PATH` for one on disk."""


def find_model(text: str, settings: dict[str, Any] | None = None) -> Model:
    """The verifier that a text names: what `--agent` takes, `features` or `features:PATH`.

    Raises ConfigError for one that cannot be, and for the oracle and other players that are told the answer.
    """
    kind, _, path = text.partition(":")
    if kind == FEATURES:
        from factgym.agents.feature_verifier import FeatureVerifier

        if settings:
            raise ConfigError(f"the feature verifier takes no settings ({', '.join(settings)})")
        return FeatureVerifier.load(path) if path else FeatureVerifier()
    agent = find_agent(text, "seva", settings)
    if dict(agent.describe()).get("kind") == "scripted" and text not in ("nli", "lexical", "random"):
        raise ConfigError(
            f"{text!r} is told the answer or plays for a hole in the reward: nothing can be learned from it"
        )
    return as_model(agent)


def as_model(agent: Agent) -> Model:
    """An agent that does not look at the environment, as a model."""
    return _Played(agent)


class _Played:
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


def path_of(model: Model) -> str:
    """Where a model is, or its name: what a command can be told to begin from. Empty where it does not say."""
    found = model.describe().get("model")
    return found if isinstance(found, str) else ""


def agent_of(name: str, model: Model, rules: str = "") -> Agent:
    """The agent that plays with a model; rules, where there are some, stand at the end of its instructions."""
    threads = getattr(model, "threads", 0)  # a model answers at once or awaits, where it does not say otherwise
    return agent_from_model(name, WithRules(model, rules) if rules else model, threads=threads)


class WithRules:
    """A model whose system message ends with rules. Nothing is learned: with other rules it is another verifier."""

    def __init__(self, model: Model, rules: str) -> None:
        self.model, self.rules = model, rules

    def start(self, seed: int) -> Policy:
        """The policy of one episode."""
        return _Ruled(self.model.start(seed), self.rules)

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        """The next message, by the model's own policy."""
        return _Ruled(self.model, self.rules).act(messages, tools)

    def describe(self) -> dict[str, Any]:
        """The model, and the rules by their hash."""
        import hashlib

        return {**self.model.describe(), "rules_sha256": hashlib.sha256(self.rules.encode()).hexdigest()}

    async def prepare(self) -> None:
        """Prepare the model, where it has to be."""
        prepare = getattr(self.model, "prepare", None)
        if callable(prepare):
            done = prepare()
            if inspect.isawaitable(done):
                await done

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()


class _Ruled:
    """The policy of one episode with rules; what was sent is told, because the transcript does not show it."""

    def __init__(self, policy: Policy, rules: str) -> None:
        self._policy, self._rules = policy, rules

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        sent = with_rules(messages, self._rules)
        said = self._policy.act(sent, tools)
        return self._told_later(said, sent) if inspect.isawaitable(said) else _told(said, sent)

    async def _told_later(self, said: Any, sent: list[Message]) -> Message:
        return _told(await said, sent)


def with_rules(messages: Sequence[Message], rules: str) -> list[Message]:
    """The messages with the rules at the end of the system message; one is put first where there is none."""
    found = list(messages)
    if found and found[0]["role"] == "system":
        found[0] = {**found[0], "content": f"{found[0]['content'] or ''}\n\n{rules}".strip()}
        return found
    return [{"role": "system", "content": rules}, *found]


def _told(said: Any, sent: list[Message]) -> Message:
    message: dict[str, Any] = {"role": "assistant", "content": said} if isinstance(said, str) else dict(said)
    known = message.get("completion")
    message["completion"] = {"sent": sent, **(known if isinstance(known, dict) else {})}
    return cast(Message, message)
