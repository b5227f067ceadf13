"""Where a change of accuracy comes from when refusals change: Table 17, and the parts that it leaves out.

The paper looks at the questions that the raw model refused and the trained one attempts. Accuracy can change in two
more places: questions that both attempt, and questions that only the raw model attempts. The three parts add up to the
whole change exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from factgym.benchmarks.corver.compare import Pair, pairs
from factgym.benchmarks.corver.report import CorverReport
from factgym.benchmarks.intervals import NO_DATA, Estimate, wilson


@dataclass(frozen=True, slots=True)
class Decomposition:
    """One benchmark, over `n` answers that both gave; shares in [0, 1].

    raw_refusal, trained_refusal: of all answers. unlocked: accuracy of the trained model on the answers that the raw one
    refused and it attempts (the paper's "Subset Cor."), over unlocked.n answers. from_unlocked, from_both, from_withdrawn:
    what newly attempted questions, questions that both attempt and newly refused questions add to the accuracy; together
    they are `gain`.
    """

    benchmark: str
    n: int
    raw_refusal: Estimate
    trained_refusal: Estimate
    unlocked: Estimate
    gain: float
    from_unlocked: float
    from_both: float
    from_withdrawn: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "benchmark": self.benchmark,
            "n": self.n,
            "raw_refusal": self.raw_refusal.value,
            "trained_refusal": self.trained_refusal.value,
            "unlocked": self.unlocked.value,
            "unlocked_n": self.unlocked.n,
            "gain": self.gain,
            "from_unlocked": self.from_unlocked,
            "from_both": self.from_both,
            "from_withdrawn": self.from_withdrawn,
        }


def decompose(raw: CorverReport, trained: CorverReport) -> tuple[Decomposition, ...]:
    """One row for each benchmark that both answer. Raises ConfigError as `compare` does.

    The intervals are Wilson's over answers; where questions were sampled several times they are too narrow.
    """
    found: dict[str, list[Pair]] = {}
    for pair in pairs(raw, trained):
        found.setdefault(pair[0].benchmark, []).append(pair)
    return tuple(_decomposed(name, some) for name, some in found.items())


def _decomposed(name: str, some: Sequence[Pair]) -> Decomposition:
    n = len(some)
    unlocked = [(a, b) for a, b in some if a.refused and not b.refused]
    both = [(a, b) for a, b in some if not a.refused and not b.refused]
    withdrawn = [(a, b) for a, b in some if not a.refused and b.refused]
    return Decomposition(
        benchmark=name,
        n=n,
        raw_refusal=wilson(sum(a.refused for a, _ in some), n),
        trained_refusal=wilson(sum(b.refused for _, b in some), n),
        unlocked=wilson(sum(b.good for _, b in unlocked), len(unlocked)) if unlocked else NO_DATA,
        gain=_gain(some, n),
        from_unlocked=_gain(unlocked, n),
        from_both=_gain(both, n),
        from_withdrawn=_gain(withdrawn, n),
    )


def _gain(some: Sequence[Pair], n: int) -> float:
    return (sum(b.good for _, b in some) - sum(a.good for a, _ in some)) / n
