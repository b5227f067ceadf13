"""What has happened so far in one episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from factgym.core.messages import Message
from factgym.core.report import RewardReport
from factgym.core.task import Task

TaskT = TypeVar("TaskT", bound=Task)

Stop = Literal["submitted", "turn_limit", "length_limit", "context_limit", "error"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one tool call, or to something that was meant as one. `error` is a code or None."""

    text: str
    tool: str = ""
    arguments: Any = None
    error: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and its answers. `message` is the index of the policy's message in the transcript."""

    message: int
    replies: tuple[Reply, ...]
    observation: str

    @property
    def error(self) -> str | None:
        """The first error of the turn, or None."""
        for reply in self.replies:
            if reply.error:
                return reply.error
        return None


@dataclass(slots=True)
class Episode(Generic[TaskT]):
    """The transcript and state of one episode; `stop` and `report` are set when it ends.

    tool_seconds: what answering the last action's calls took, by the environment's clock; for records alone.
    """

    task: TaskT
    index: int
    messages: list[Message]
    turns: list[Turn] = field(default_factory=list)
    chars: int = 0
    tool_seconds: float = 0.0
    stop: Stop | None = None
    fault: str | None = None
    report: RewardReport | None = None
