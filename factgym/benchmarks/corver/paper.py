"""The tables of the CorVer paper that set something of ours beside something of theirs.

Results of trained models are printed beside scripts and baselines and are no reproduction. A benchmark is marked where the
questions that were played are not as many as the paper's; a benchmark that the paper lacks has a column of its own. Left
out, because nothing in them can be computed: Tables 4 to 10, 12, 14 and 18 to 21.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from factgym.agents.difficulty import Buckets
from factgym.benchmarks.answers import group_by
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.compare import CorverComparison, Decomposition
from factgym.benchmarks.corver.report import OF_REWARD, CorverReport, mean_reward
from factgym.benchmarks.formats import ABSENT, count, decimal, hundred, hundred_interval, percent, printable, signed
from factgym.benchmarks.report import Row, Table, agrees, layout_table, paper_facts
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.tables import bucket_cells, bucket_columns
from factgym.rewards.corver.rubrics import CorverRules

facts = partial(paper_facts, "corver")
table = partial(layout_table, "corver")
Reports = Sequence[CorverReport]
NamedCurve = tuple[str, CountCalibration]
_NAME_CHARS = 16


def paper_tables(
    reports: Reports = (),
    *,
    curves: Sequence[NamedCurve] = (),
    filters: Sequence[tuple[str, Buckets]] = (),
    refusals: Sequence[tuple[str, Decomposition]] = (),
    comparisons: Sequence[CorverComparison] = (),
) -> tuple[Table, ...]:
    """Return every table with ours in it, by name: curves are calibrations, refusals and comparisons of pairs of runs."""
    played = [diagnostics(reports), variant_rewards(reports)] if reports else []
    return (
        table_1(reports),
        table_15(reports),
        *played,
        table_2(reports),
        table_3(reports, comparisons),
        table_11(filters),
        table_13(curves),
        table_17(refusals),
        reward_tiers(),
    )


def provenance(reports: Reports) -> list[tuple[list[str], list[str], str]]:
    """Return names, questions and setting of the runs; reports of the same questions together."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for report in reports:
        for setting, labels in group_by(report.labels, lambda label: label.setting()).items():
            groups.setdefault((tuple(label.questions() for label in labels), setting), []).append(report.name)
    return [(names, list(questions), setting) for (questions, setting), names in groups.items()]


def own_name(name: str, detail: str = "") -> str:
    """Return the name of one of our rows."""
    return f"{printable(name, _NAME_CHARS)}{detail} (ours)"


def _other_benchmarks(reports: Reports) -> list[str]:
    """Return the benchmarks that were played and are none of the paper's."""
    printed = facts("benchmarks")["columns"]
    return list(dict.fromkeys(name for report in reports for name in report.scores if name not in printed))


def _benchmark_titles(reports: Reports) -> list[str]:
    """Return the heads of the benchmarks' columns, † where the questions played are not as many as the paper's."""
    printed = facts("benchmarks")
    heads = []
    for name, title, questions in zip(printed["columns"], printed["titles"], printed["questions"], strict=True):
        played = {report.scores[name].tasks for report in reports if name in report.scores}
        heads.append(f"{title}†" if played and played != {questions} else title)
    return [*heads, *(printable(name, 12) for name in _other_benchmarks(reports))]


def _cells(report: CorverReport, reports: Reports, measure: str) -> list[str]:
    names = (*facts("benchmarks")["columns"], *_other_benchmarks(reports))
    return [hundred(report.scores[name][measure]) if name in report.scores else ABSENT for name in names]


def _score_rows(
    printed: Sequence[tuple[str, Sequence[float]]], reports: Reports, measure: str
) -> tuple[list[Row], list[str]]:
    """Return rows and heads by benchmark and on average, theirs first. printed: name and shares in percent.

    Ours have an average only where all of the paper's benchmarks were played.
    """
    empty = [ABSENT] * len(_other_benchmarks(reports))
    rows = []
    for name, shares in printed:
        mean = decimal(sum(shares) / len(shares), 2)
        rows.append(Row((name, *(decimal(share, 2) for share in shares), *empty, mean)))
    for report in reports:
        complete = set(facts("benchmarks")["columns"]) <= set(report.scores)
        mean = hundred(report.average[measure]) if complete else ABSENT
        rows.append(Row((own_name(report.name), *_cells(report, reports, measure), mean)))
    return rows, [*_benchmark_titles(reports), "Avg"]


def table_1(reports: Reports) -> Table:
    """Return the accuracy of raw models, of four baselines, and of CorVer, then of the two that only Table 15 has."""
    first = facts("table1")["rows"]
    models = {row["model"] for row in first}
    printed = [(f"{row['model']} {row['method']}", row["accuracy"]) for row in first]
    printed += [
        (f"{row['model']} {row['variant']}", row["accuracy"])
        for row in facts("table15")["rows"]
        if row["model"] not in models
    ]
    rows, columns = _score_rows(printed, reports, "accuracy")
    notes = [
        f"Ours ({', '.join(names)}): {'; '.join(questions)} · {setting}. Here the answers are judged as the paper does."
        for names, questions, setting in provenance(reports)
    ]
    if any("†" in title for title in columns):
        notes.insert(0, "† Not the paper’s number of questions: another file, a slice, or a part.")
    return table("table_1", rows, columns=columns, notes=notes)


def table_15(reports: Reports) -> Table:
    """Return refusals of raw and trained models."""
    printed = [(f"{row['model']} {row['variant']}", row["na"]) for row in facts("table15")["rows"]]
    rows, columns = _score_rows(printed, reports, "refusal")
    return table("table_15", rows, columns=columns)


def diagnostics(reports: Reports) -> Table:
    """Return the paper's diagnostics for ours alone: it prints no table of them."""
    rows = [
        {"agent": own_name(report.name), "name": name, "scores": scores}
        for report in reports
        for name, scores in report.scores.items()
    ]
    return table("diagnostics", rows)


def variant_rewards(reports: Reports) -> Table:
    """Return the mean reward of our answers under each variant of the reward."""
    rows = []
    for report in reports:
        rewards = [mean_reward(report.answers, name) for name in OF_REWARD]
        rewards.append(mean_reward(report.answers, OF_REWARD[0], "strict"))
        rows.append(Row((own_name(report.name), *(decimal(reward.value) for reward in rewards))))
    return table("variant_rewards", rows)


def table_2(reports: Reports) -> Table:
    """Return the ablations: theirs as trained; ours where a run's manifest names a variant."""
    empty = [ABSENT] * len(_other_benchmarks(reports))
    rows = [
        Row((f"{row['title']} (theirs)", *(decimal(value, row["places"]) for value in row["accuracy"]), *empty))
        for row in facts("table2")["rows"]
    ]
    for report in reports:
        if variant := next(iter({label.variant for label in report.labels}), ""):
            rows.append(Row((own_name(report.name, f", {variant}"), *_cells(report, reports, "accuracy"))))
    return table("table_2", rows, columns=_benchmark_titles(reports))


def table_3(reports: Reports, comparisons: Sequence[CorverComparison] = ()) -> Table:
    """Return accuracy by popularity; of pairs of ours the second beside the first."""
    rows: list[dict[str, Any]] = []
    notes = []
    paired = {name for pair in comparisons if pair.quarters for name in (pair.first, pair.second)}
    for report in reports:
        popularity = report.popularity
        for part in popularity.quarters if popularity and report.name not in paired else ():
            rows.append({"name": own_name(report.name, f" {part.name}"), "part": part, "raw": part.accuracy})
        if popularity and popularity.excluded:
            notes.append(f"{report.name}: {count(popularity.excluded, 'question')} without popularity left out.")
    for pair in comparisons:
        if pair.quarters:
            notes.append(f"Ours, a pair: {pair.first} as raw, {pair.second} as trained.")
        for quarter in pair.quarters:
            change = quarter.accuracy
            scores = {"raw": change.first, "trained": change.second, "gain": change.difference}
            rows.append({"name": own_name(pair.second, f" {quarter.name}"), "part": quarter, **scores})
    notes.append(
        "Popularity is the monthly page views of the subject; in generated questions, the sentences that state the fact."
    )
    return table("table_3", rows, notes=notes)


def table_11(filters: Sequence[tuple[str, Buckets]] = ()) -> Table:
    """Return the learning zone, and filters of ours by name."""
    samples = facts("table11")["samples"]
    rows = []
    for row in facts("table11")["rows"]:
        buckets = Buckets((row["never"], row["between"], *([0] * (samples - 2)), row["always"]), row["retained"])
        equal = buckets.pool == row["pool"] and percent(buckets.share) == f"{row['keep']:.1f} %"
        rows.append(Row((f"{row['model']}, pool of {row['pool']:,}", *bucket_cells(buckets)), equal))
    for name, buckets in filters:
        rows.append(Row((own_name(name, f", G = {len(buckets.histogram) - 1}"), *bucket_cells(buckets))))
    return table("table_11", rows, columns=bucket_columns(samples))


def published_curve() -> CountCalibration:
    """Return the curve of the paper's 700 sentences, from the counts of Table 13."""
    printed = facts("table13")
    pairs = [
        (edge, i < row["correct"])
        for edge, row in zip(printed["edges"], printed["rows"], strict=True)
        for i in range(row["n"])
    ]
    return calibrate(pairs, printed["edges"])


def table_13(curves: Sequence[NamedCurve] = ()) -> Table:
    """Return shares with Wilson intervals by bucket."""
    rows, notes = [], []
    for bucket, printed in zip(published_curve().buckets, facts("table13")["rows"], strict=True):
        share, numbers = bucket.share, (printed["precision"], printed["low"], printed["high"])
        computed = (100 * (value or 0.0) for value in (share.value, share.low, share.high))
        equal = all(agrees(a, b, 1) for a, b in zip(computed, numbers, strict=True))
        text = f"{numbers[0]:.1f} [{numbers[1]}, {numbers[2]}]"
        rows.append(Row((bucket.name, f"{bucket.correct} of {bucket.n}", _share(share), text), equal))
    for name, curve in curves:
        for bucket in curve.buckets:
            cells = (f"{bucket.correct:,} of {bucket.n:,}", _share(bucket.share), ABSENT)
            rows.append(Row((f"{bucket.name}, {name}", *cells)))
        rising = "rises" if curve.monotone else "does not rise"
        chance = "" if curve.auc is None else f"; a right one has the higher count in {percent(curve.auc)} of pairs"
        notes.append(
            f"{name}: {curve.n:,} sentences with a count, {curve.skipped:,} without; the share {rising} throughout{chance}."
        )
    return table("table_13", rows, notes=notes)


def _share(share: Estimate) -> str:
    return ABSENT if share.low is None else f"{hundred(share)} {hundred_interval(share)}"


def table_17(refusals: Sequence[tuple[str, Decomposition]] = ()) -> Table:
    """Return refusals given up and the accuracy on them; ours for pairs of runs."""
    rows = [{"name": own_name(name, f" {part.benchmark}"), "part": part} for name, part in refusals]
    return table("table_17", rows)


def reward_tiers() -> Table:
    """Return every count that the paper traces with its reward under equation 2."""
    rules = CorverRules()
    rows = []
    for trace in facts("traces")["rows"]:
        for n, printed in zip(trace["counts"], trace["rewards"], strict=True):
            reward = rules.count_reward(n)
            rows.append(Row((trace["name"], f"{n:,}", signed(reward), signed(printed)), reward == printed))
    return table("reward_tiers", rows)
