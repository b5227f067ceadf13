"""Asking a policy, whatever kind it is: its `act` may be plain or async and may answer with a text or a message."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, cast

from factgym.core.action import parse_action
from factgym.core.messages import Message, ToolSchema, Usage
from factgym.core.policy import Policy


async def call_policy(
    policy: Policy, messages: Sequence[Message], tools: Sequence[ToolSchema], blocking: bool = False
) -> Message:
    """The policy's reply as an assistant message, with its completion where it has one.

    blocking: call a plain `act` in a thread, so that the event loop goes on. Raises what the policy raises.
    """
    if blocking and not inspect.iscoroutinefunction(policy.act):
        reply = await asyncio.to_thread(policy.act, messages, tools)
    else:
        reply = policy.act(messages, tools)
    return as_message(await reply if inspect.isawaitable(reply) else reply)


def as_message(reply: object) -> Message:
    """A reply as an assistant message; a message stays as it is, and other forms of an action are written as one."""
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    if isinstance(reply, dict) and ("content" in reply or "tool_calls" in reply):
        whole: dict[str, Any] = {"role": "assistant", "content": None, **reply}
        return cast(Message, whole)
    return parse_action(reply).message


def add_usage(total: Usage, more: Usage | None) -> None:
    """Add the tokens of a reply to a sum; what neither knows stays unknown."""
    sums = cast(dict[str, int], total)
    for key, value in (more or {}).items():
        if isinstance(value, int):
            sums[key] = sums.get(key, 0) + value
