"""Table 13 and figure 5 from their own counts, beside the calibration of ours."""

from __future__ import annotations

from collections.abc import Sequence

from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.facts import facts
from factgym.benchmarks.formats import ABSENT, decimal
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same

Named = tuple[str, CountCalibration]


def published() -> CountCalibration:
    """The curve of the paper's 700 sentences, from the counts of Table 13."""
    found = facts("table13")
    pairs = [
        (edge, i < one["correct"])
        for edge, one in zip(found["edges"], found["rows"], strict=True)
        for i in range(one["n"])
    ]
    return calibrate(pairs, found["edges"])


def table_13(ours: Sequence[Named] = ()) -> PaperTable:
    """Shares with Wilson intervals by bucket."""
    rows = []
    for bucket, one in zip(published().buckets, facts("table13")["rows"], strict=True):
        values = (bucket.share.value, bucket.share.low, bucket.share.high)
        theirs = (one["precision"], one["low"], one["high"])
        agrees = all(same(100 * (a or 0.0), b, 1) for a, b in zip(values, theirs, strict=True))
        printed = f"{one['precision']:.1f} [{one['low']}, {one['high']}]"
        rows.append(PaperRow((bucket.name, f"{bucket.correct} of {bucket.n}", _reach(bucket.share), printed), agrees))
    for name, curve in ours:
        rows += [
            PaperRow((f"{bucket.name}, {name}", f"{bucket.correct:,} of {bucket.n:,}", _reach(bucket.share), ABSENT))
            for bucket in curve.buckets
        ]
    notes = [_said(name, curve) for name, curve in ours]
    columns = ("count", "right", "ours, [Wilson 95 %]", "theirs")
    return PaperTable("Table 13", "P(correct | count), %", "computed", columns, tuple(rows), tuple(notes))


def _said(name: str, curve: CountCalibration) -> str:
    rising = "rises" if curve.monotone else "does not rise"
    chance = (
        "" if curve.auc is None else f"; a right one has the higher count in {decimal(100 * curve.auc, 1)} % of pairs"
    )
    return f"{name}: {curve.n:,} sentences with a count, {curve.skipped:,} without; the share {rising} throughout{chance}."


def _reach(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return ABSENT
    return f"{decimal(100 * one.value, 1)} [{decimal(100 * one.low, 1)}, {decimal(100 * one.high, 1)}]"
