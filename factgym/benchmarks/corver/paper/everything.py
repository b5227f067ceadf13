"""All tables in one order: what can be computed, and what was played beside theirs."""

from __future__ import annotations

from collections.abc import Sequence

from factgym.agents.difficulty import Buckets
from factgym.benchmarks.corver.calibration import CountCalibration
from factgym.benchmarks.corver.compare import CorverComparison
from factgym.benchmarks.corver.paper import counts, models, reward
from factgym.benchmarks.corver.refusals import Decomposition
from factgym.benchmarks.corver.report import CorverReport
from factgym.benchmarks.papers.table import PaperTable


def paper_tables(
    reports: Sequence[CorverReport] = (),
    *,
    curves: Sequence[tuple[str, CountCalibration]] = (),
    zones: Sequence[tuple[str, Buckets]] = (),
    refusals: Sequence[tuple[str, Decomposition]] = (),
    comparisons: Sequence[CorverComparison] = (),
) -> tuple[PaperTable, ...]:
    """Every table. reports, curves (calibrations), zones (filters) refusals and comparisons (pairs of runs): ours, by name."""
    played = [models.diagnostics(reports), models.rewards(reports)] if reports else []
    return (
        models.table_1(reports),
        models.table_15(reports),
        *played,
        models.table_2(reports),
        models.table_3(reports, comparisons),
        models.table_11(zones),
        counts.table_13(curves),
        models.table_17(refusals),
        reward.tiers(),
    )
