"""Tables 12 and 13 and figure 5 from their own counts, beside the calibration of ours."""

from __future__ import annotations

from collections.abc import Sequence

from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.facts import facts
from factgym.benchmarks.formats import ABSENT, decimal
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same, signed
from factgym.rewards.corver import CorverRules

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
    figure = facts("table13")["figure5"]
    first = facts("table13")["rows"][0]["precision"]
    notes = [
        f"Figure 5’s text says {figure['first']} % at c = 0, Table 13 {first:.1f} %: Table 13 holds, as 48 of 200 is.",
        "B.5 takes the sentences from training-time generations on TriviaQA prompts, and section 6.4 retrains on a TriviaQA pool; by section 4 and A.2 training prompts come from NQ-Open and WebQuestions alone.",
        *(_said(name, curve) for name, curve in ours),
    ]
    columns = ("count", "right", "ours, [Wilson 95 %]", "theirs")
    return PaperTable("Tables 12, 13", "P(correct | count), %", "arithmetic", columns, tuple(rows), tuple(notes))


def _said(name: str, curve: CountCalibration) -> str:
    rising = "rises" if curve.monotone else "does not rise"
    chance = (
        "" if curve.auc is None else f"; a right one has the higher count in {decimal(100 * curve.auc, 1)} % of pairs"
    )
    return f"{name}: {curve.n:,} sentences with a count, {curve.skipped:,} without; the share {rising} throughout{chance}."


def jump_table() -> PaperTable:
    """How much the share rises at each boundary, and whether its interval leaves out 0."""
    used = (1, *facts("table13")["thresholds"])  # 1: where the first tier, no support at all, ends
    rows = []
    for one, printed in zip(published().jumps, facts("table13")["jumps"], strict=True):
        value = 100 * (one.rise.value or 0.0)
        sure = one.rise.low is not None and one.rise.low > 0
        reach = f"[{signed(100 * (one.rise.low or 0.0))}, {signed(100 * (one.rise.high or 0.0))}]"
        cells = (
            f"c = {one.at}",
            signed(value),
            reach,
            "yes" if sure else "no",
            signed(printed),
            "yes" if one.at in used else "no",
        )
        rows.append(PaperRow(cells, same(value, printed, 1)))
    notes = (
        "Section 6.1 calls +17 at 5 and +8 at 20 the two largest jumps; by B.5 and by the numbers the largest is +29 at 1, where the first tier ends.",
        "Newcombe’s interval of the difference. The rise at 20, a threshold of the reward, is not beyond chance at these sizes, nor is the unused one at 10; which of the two is larger is open.",
    )
    columns = ("boundary", "rise", "95 %", "beyond chance", "theirs", "threshold")
    return PaperTable(
        "Section 6.1", "Jumps of the calibration curve, points", "arithmetic", columns, tuple(rows), notes
    )


def table_12() -> PaperTable:
    """The two extreme buckets, and the reward that they earn."""
    rules = CorverRules()
    rows = []
    for one, count in zip(facts("table12")["rows"], (rules.high_count, 0), strict=True):
        right = one["correct"] if one["reward"] > 0 else one["incorrect"]
        value = 100 * right / (one["correct"] + one["incorrect"])
        reward = rules.count_reward(count)
        agrees = same(value, one["precision"], 1) and reward == one["reward"]
        rows.append(PaperRow((one["bucket"], signed(reward), decimal(value, 1), decimal(one["precision"], 1)), agrees))
    return PaperTable("Table 12", "How often the reward’s sign is right, %", "arithmetic", ("bucket", "reward", "ours", "theirs"), tuple(rows))  # fmt: skip


def _reach(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return ABSENT
    return f"{decimal(100 * one.value, 1)} [{decimal(100 * one.low, 1)}, {decimal(100 * one.high, 1)}]"
