"""What plays: a policy turns the messages so far into the next assistant message.

A *player* makes a policy for one episode of an environment; it may look at the environment (an oracle reads the gold
answer there), which a policy that came from outside never does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from factgym.core.messages import Message, ToolSchema


class Policy(Protocol):
    """`act` may be a plain or an async method; a returned string counts as the assistant's completion."""

    def act(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message | str | Awaitable[Message | str]:
        """The next assistant message, given the messages so far and the tools that are open."""
        ...


Role = Literal["oracle", "honest", "baseline", "exploiter", "random"]


@dataclass(frozen=True, slots=True)
class Player:
    """A scripted agent of an environment family.

    role: "oracle" knows the gold; "honest" is the baseline that no exploiter may reach; "exploiter" goes for a hole
    in the reward. start(env, seed): a fresh policy for the episode that `env` has just been reset to.
    """

    name: str
    role: Role
    summary: str
    start: Callable[[Any, int], Policy]
