"""The record of one episode: turns with their tool results, and the reward report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from factgym.core.errors import ToolError
from factgym.core.messages import Message
from factgym.core.tasks import Immutable, Task
from factgym.core.untrusted import NO_NONCE

Status = Literal["scored", "unscored", "error"]


class SpanCredit(NamedTuple):
    """`value` credited to characters `[start, end)` of `message_text(messages[message])`, a policy's own message."""

    message: int
    start: int
    end: int
    value: float


@dataclass(frozen=True, slots=True)
class RewardReport:
    """The reward of an episode and its parts.

    total: the combined reward, None unless `status` is "scored". components: name -> value. weights: name -> weight
    of a term of `total`. gates: name -> factor that multiplied a component. metrics: facts that earn nothing (label
    predicted, turns, reads …).
    """

    total: float | None
    components: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    gates: Mapping[str, float] = field(default_factory=dict)
    status: Status = "scored"
    spans: tuple[SpanCredit, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, keys in a fixed order."""
        return {
            "total": self.total,
            "status": self.status,
            "components": dict(self.components),
            "weights": dict(self.weights),
            "gates": dict(self.gates),
            "spans": [[s.message, s.start, s.end, s.value] for s in self.spans],
            "metrics": dict(self.metrics),
            "error": self.error,
        }


TaskT = TypeVar("TaskT", bound=Task)

Stop = Literal["submitted", "turn_limit", "length_limit", "context_limit", "content_filter", "abandoned", "error"]
"""Why an episode ended. content_filter: the filter of the model's provider blocked the prompt. abandoned: its client went away, or was silent for too long; it is scored as it was."""


@dataclass(slots=True)  # not frozen, as `factgym.core.calls.ToolCall` is not
class ToolResult(Immutable):
    """Result of a tool call, or the answer to a message that could not be read as one.

    text: as shown to the policy. tool, arguments, call_id: those of the call. error: None for a call that was done.
    data: returned by the tool; left out of pickles, because it may be a whole passage.
    """

    text: str
    tool: str = ""
    arguments: Any = None
    error: ToolError | None = None
    call_id: str | None = None
    data: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ToolResult, (self.text, self.tool, self.arguments, self.error, self.call_id)

    @property
    def error_code(self) -> str | None:
        """The code of the error, or None."""
        return self.error.code if self.error is not None else None


class Turn(NamedTuple):
    """One action and its results. `message` is the index of the policy's message in the transcript."""

    message: int
    results: tuple[ToolResult, ...]
    observation: str

    @property
    def error(self) -> str | None:
        """The code of the first error of the turn, or None."""
        return next((result.error.code for result in self.results if result.error is not None), None)


@dataclass(slots=True)
class EpisodeState:
    """Base of the state that the tools of an episode work on.

    turn: of the action being played, from 0. nonce: the code of the episode's delimiters (see `core.untrusted`).
    """

    turn: int = field(default=0, kw_only=True)
    nonce: str = field(default=NO_NONCE, kw_only=True)


@dataclass(slots=True)
class Episode(Generic[TaskT]):
    """The transcript and state of one episode; `stop` and `report` are set when it ends.

    tool_seconds: duration of the last action's calls by the environment's clock; for records alone.
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
