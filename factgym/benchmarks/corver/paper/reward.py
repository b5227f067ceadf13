"""The reward itself: tiers of equation 2 on the counts that the paper traces."""

from __future__ import annotations

from factgym.benchmarks.papers.table import PaperRow, PaperTable, signed
from factgym.rewards.corver import CorverRules

_TRACED = (
    *(("Case 1", count, reward) for count, reward in ((12_323, 0.1), (16_484, 0.1), (0, -0.3), (12_323, 0.1), (12_323, 0.1))),
    *(("Case 2", count, reward) for count, reward in ((163, 0.1), (389, 0.1), (542, 0.1), (0, -0.3), (3_500, 0.1), (10, 0.0))),
    *(("B.3, first", count, reward) for count, reward in ((50, 0.1),)),
    *(("B.3, min", count, reward) for count, reward in ((0, -0.3),)),
)  # fmt: skip


def tiers() -> PaperTable:
    """Every traced count with its reward."""
    rules = CorverRules()
    rows = [
        PaperRow(
            (case, f"{count:,}", signed(rules.count_reward(count)), signed(theirs)),
            rules.count_reward(count) == theirs,
        )
        for case, count, theirs in _TRACED
    ]
    return PaperTable("B.3, B.6", "Equation 2 on the traced counts", "computed", ("trace", "count", "ours", "theirs"), tuple(rows))  # fmt: skip
