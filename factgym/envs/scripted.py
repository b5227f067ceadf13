"""Parts of the scripted agents of every family: the table of agents, tool calls as text, prompts taken apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import Policy, Role, ScriptedAgent
from factgym.core.strategies import Operator

StartAgent = Callable[[Any, int], Policy]
"""Returns the policy of an episode of an environment, for the episode's seed."""


def agent_table(
    *rows: tuple[str, Role, str, Any], start: Callable[[Any, Any, int], Policy] | None = None
) -> dict[str, ScriptedAgent]:
    """Return the scripted agents of an environment by name: the oracle first, the honest baseline second.

    rows: name, role, summary and script of each. start: returns the policy for a script, the environment and the
    episode's seed; without it a script is a `StartAgent` itself.
    """
    starts = [partial(start, script) if start else script for *_, script in rows]
    return {
        row[0]: ScriptedAgent(row[0], row[1], row[2], policy_start)
        for row, policy_start in zip(rows, starts, strict=True)
    }


class FixedReply:
    """A policy with one reply."""

    def __init__(self, text: str) -> None:
        self._text = text

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
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


def operator_table(honest: Operator, rules: Mapping[str, tuple[str, Any]]) -> tuple[Operator, ...]:
    """Return the operators of a slot. honest: the first. rules: name -> summary and what it applies."""
    return (honest, *(Operator(name, summary, apply) for name, (summary, apply) in rules.items()))
