"""SEVA's filter: a probe stays only if a judge says that it reads, that its label can be told and is right, and that it
has the error it aims at. The paper drops some 15 % so; what is dropped here is counted by the judge's own answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.judges import Judge, JudgeError, Judgement, judge_note
from factgym.core.messages import Usage
from factgym.core.policy import add_usage
from factgym.generators.perturbations.probes import Probe

_CONCURRENCY = 8
_PASS = 1.0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A probe that was dropped: the judge's label ("wrong-label", "malformed", …) and reason."""

    probe: Probe
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """What a cross-check left.

    judge: the description of who judged. note: the sentence that a report prints beside the numbers; it says when no
    model judged. usage: the tokens that it took.
    """

    kept: tuple[Probe, ...]
    rejected: tuple[Rejected, ...]
    judge: dict[str, Any]
    note: str
    usage: Usage = field(default_factory=Usage)

    @property
    def drop_rate(self) -> float:
        """The share of the probes that were dropped; 0 without probes."""
        judged = len(self.kept) + len(self.rejected)
        return len(self.rejected) / judged if judged else 0.0

    @property
    def reasons(self) -> dict[str, int]:
        """How often each label dropped a probe, sorted by name."""
        return dict(sorted(Counter(one.label for one in self.rejected).items()))

    @property
    def by_strategy(self) -> dict[str, float]:
        """The drop rate of each strategy that had probes, sorted by name."""
        dropped = Counter(one.probe.strategy for one in self.rejected)
        judged = dropped + Counter(one.strategy for one in self.kept)
        return {name: dropped[name] / judged[name] for name in sorted(judged)}

    def to_dict(self) -> dict[str, Any]:
        """The counts, without the probes, as JSON data for a report."""
        return {
            "judged": len(self.kept) + len(self.rejected),
            "kept": len(self.kept),
            "drop_rate": self.drop_rate,
            "reasons": self.reasons,
            "by_strategy": self.by_strategy,
            "judge": self.judge,
            "note": self.note,
            "usage": dict(self.usage),
        }


async def cross_check(probes: Sequence[Probe], judge: Judge, concurrency: int = _CONCURRENCY) -> Filtered:
    """Judge every probe by the rubric "probe-check" and keep those that pass, in their order.

    A probe that the judge cannot judge is dropped under the error's cause. Raises ConfigError for a judge with other
    fields, and PolicyError for a fault of the infrastructure.
    """
    verdicts = await judge.judge_many([probe.as_case() for probe in probes], concurrency)
    kept, rejected, usage = [], [], Usage()
    for probe, verdict in zip(probes, verdicts, strict=True):
        if isinstance(verdict, JudgeError):
            rejected.append(Rejected(probe, verdict.cause, str(verdict)))
            continue
        add_usage(usage, verdict.usage)
        if _passes(verdict):
            kept.append(probe)
        else:
            rejected.append(Rejected(probe, verdict.label, verdict.reason or ""))
    return Filtered(tuple(kept), tuple(rejected), judge.describe(), judge_note(judge), usage)


def _passes(verdict: Judgement) -> bool:
    return verdict.score >= _PASS
