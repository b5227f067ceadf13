"""The reward report: scored once, combined many ways.

`components` are kept apart and in their own range; `weights` say how `total` was combined. An infrastructure
fault is `status="error"` with no total, never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["scored", "unscored", "error"]


@dataclass(frozen=True, slots=True)
class SpanCredit:
    """`value` credited to characters `[start, end)` of `message_text(messages[message])`, a policy's own message."""

    message: int
    start: int
    end: int
    value: float


@dataclass(frozen=True, slots=True)
class RewardReport:
    """What an episode earned and why.

    total: the combined reward, None unless `status` is "scored". components: name -> value. weights: name -> weight
    of what `total` sums (a name may be a gated combination that is itself listed in `gates`). gates: name -> factor
    that multiplied a component. metrics: facts that earn nothing (label predicted, turns, reads …).
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
        """Plain JSON data, keys in a fixed order."""
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
