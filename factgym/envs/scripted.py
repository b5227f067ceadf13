"""Parts of the scripted agents of every family: the table of agents, tool calls as text, prompts taken apart."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy, Role, ScriptedAgent

ScriptT = TypeVar("ScriptT", bound=Callable[..., Any])


class AgentTable(dict[str, ScriptedAgent]):
    """Scripted agents of an environment by name: the oracle first, the honest baseline second.

    start: returns the policy of an episode for a script, the environment and the episode's seed.
    """

    def __init__(self, start: Callable[[Any, Any, int], Policy]) -> None:
        super().__init__()
        self._start = start

    def add(self, name: str, role: Role, summary: str, script: Any) -> None:
        """Add the agent that follows a script."""
        self[name] = ScriptedAgent(name, role, summary, partial(self._start, script))

    def agent(self, name: str, role: Role = "exploiter") -> Callable[[ScriptT], ScriptT]:
        """Return a decorator that adds an agent; the docstring of its script is the summary."""

        def decorate(script: ScriptT) -> ScriptT:
            self.add(name, role, inspect.getdoc(script) or "", script)
            return script

        return decorate


class FixedReply:
    """A policy with one reply."""

    def __init__(self, text: str) -> None:
        self._text = text

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the reply."""
        return self._text


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a tool call as completion text in the format of Qwen and Hermes."""
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def user_text(messages: Sequence[Message]) -> str:
    """Return the first user message, "" without one."""
    return next((message["content"] or "" for message in messages if message["role"] == "user"), "")


def observations(messages: Sequence[Message]) -> list[str]:
    """Return the environment's replies: the messages after the first user message that are not the policy's own."""
    start = next((index for index, message in enumerate(messages, 1) if message["role"] == "user"), len(messages))
    return [message["content"] or "" for message in messages[start:] if message["role"] != "assistant"]
