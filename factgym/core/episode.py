"""What has happened so far in one episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from factgym.core.errors import ToolError
from factgym.core.messages import Message
from factgym.core.report import RewardReport
from factgym.core.task import Task

TaskT = TypeVar("TaskT", bound=Task)

Stop = Literal["submitted", "turn_limit", "length_limit", "context_limit", "error"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool call, or the answer to a message that could not be read as one. Immutable: copies share it.

    text: as shown to the policy. tool, arguments, call_id: those of the call. error: None for a call that was done.
    data: what the tool returned.
    """

    text: str
    tool: str = ""
    arguments: Any = None
    error: ToolError | None = None
    call_id: str | None = None
    data: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolResult:
        return self

    @property
    def error_code(self) -> str | None:
        """The code of the error, or None."""
        return self.error.code if self.error is not None else None


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and its results. `message` is the index of the policy's message in the transcript."""

    message: int
    results: tuple[ToolResult, ...]
    observation: str

    @property
    def error(self) -> str | None:
        """The code of the first error of the turn, or None."""
        for result in self.results:
            if result.error is not None:
                return result.error.code
        return None


@dataclass(slots=True)
class EpisodeState:
    """Base of the state that the tools of an episode work on. turn: of the action being played, from 0."""

    turn: int = field(default=0, kw_only=True)


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
