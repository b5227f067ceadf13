"""What plays: a policy turns the messages so far into the next assistant message.

A *player* makes a policy for one episode of an environment; it may look at the environment (an oracle reads the gold
answer there), which a policy that came from outside never does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from factgym.core.errors import FactgymError
from factgym.core.messages import Message, ToolSchema


class Policy(Protocol):
    """`act` may be a plain or an async method; a returned string counts as the assistant's completion.

    A message may carry what the policy knows about its reply under "completion"; it goes into the record. `act` raises
    PolicyError for an infrastructure fault and ContextOverflowError when the prompt no longer fits.
    """

    def act(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message | str | Awaitable[Message | str]:
        """The next assistant message, given the messages so far and the tools that are open."""
        ...


class PolicyError(FactgymError):
    """A policy could not answer for a reason that says nothing about what it knows: the infrastructure failed.

    The episode is recorded as an error with this cause, left out of every score, and played again on resume.
    cause: a short code such as "rate_limit", "connection" or "timeout". fatal: every other episode would meet the
    same fault (a wrong key, a model that does not exist), so that the run should stop at once.
    """

    def __init__(self, cause: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.cause = cause
        self.fatal = fatal

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cause, str(self)), {"fatal": self.fatal}


class ContextOverflowError(FactgymError):
    """The prompt no longer fits the model's context. A limit of the policy's own: the episode ends and is scored."""


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
