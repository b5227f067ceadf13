"""The tables of the CorVer paper that set something of ours beside something of theirs.

Results of trained models are printed beside scripts and baselines and are no reproduction. A benchmark is marked where the
questions that were played are not as many as the paper's; a benchmark that the paper lacks has a column of its own. Left
out, because nothing in them can be computed: Tables 4 to 10, 12, 14 and 18 to 21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from factgym.agents.difficulty import Buckets
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.compare import CorverComparison, Decomposition
from factgym.benchmarks.corver.report import OF_REWARD, BenchmarkScores, CorverReport, mean_reward
from factgym.benchmarks.formats import ABSENT, count, decimal, hundred, hundred_interval, percent, printable, signed
from factgym.benchmarks.report import Row, Table, agrees, paper_facts, paper_table
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.tables import bucket_cells, bucket_columns
from factgym.rewards.corver.rubrics import CorverRules

facts = partial(paper_facts, "corver")
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
        by_setting: dict[str, list[str]] = {}
        for label in report.labels:
            by_setting.setdefault(label.setting(), []).append(label.questions())
        for setting, questions in by_setting.items():
            groups.setdefault((tuple(questions), setting), []).append(report.name)
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


def _cells(report: CorverReport, reports: Reports, value: Callable[[BenchmarkScores], Estimate]) -> list[str]:
    names = (*facts("benchmarks")["columns"], *_other_benchmarks(reports))
    return [hundred(value(report.scores[name])) if name in report.scores else ABSENT for name in names]


def _score_rows(reports: Reports, value: Callable[[BenchmarkScores], Estimate], average: str) -> Iterator[Row]:
    """Yield our rows by benchmark; an average only where all of the paper's benchmarks were played."""
    for report in reports:
        complete = set(facts("benchmarks")["columns"]) <= set(report.scores)
        mean = hundred(report.average[average]) if complete else ABSENT
        yield Row((own_name(report.name), *_cells(report, reports, value), mean))


def table_1(reports: Reports) -> Table:
    """Return the accuracy of raw models, of four baselines, and of CorVer, then of the two that only Table 15 has."""
    printed = [(row["model"], row["method"], row["accuracy"]) for row in facts("table1")["rows"]]
    models = {model for model, _, _ in printed}
    printed += [
        (row["model"], row["variant"], row["accuracy"])
        for row in facts("table15")["rows"]
        if row["model"] not in models
    ]
    empty = [ABSENT] * len(_other_benchmarks(reports))
    rows = []
    for model, method, accuracy in printed:
        cells = (*(decimal(value, 2) for value in accuracy), *empty, decimal(sum(accuracy) / len(accuracy), 2))
        rows.append(Row((f"{model} {method}", *cells)))
    rows += _score_rows(reports, lambda scores: scores.accuracy, "accuracy")
    columns = ("model", *_benchmark_titles(reports), "Avg")
    notes = [
        f"Ours ({', '.join(names)}): {'; '.join(questions)} · {setting}. Here the answers are judged as the paper does."
        for names, questions, setting in provenance(reports)
    ]
    if any("†" in title for title in columns):
        notes.insert(0, "† Not the paper’s number of questions: another file, a slice, or a part.")
    return paper_table("Tables 1, 15, 16", "Accuracy, %", "theirs", columns, rows, notes)


def table_15(reports: Reports) -> Table:
    """Return refusals of raw and trained models."""
    empty = [ABSENT] * len(_other_benchmarks(reports))
    rows = []
    for row in facts("table15")["rows"]:
        mean = decimal(sum(row["na"]) / len(row["na"]), 2)
        rows.append(
            Row((f"{row['model']} {row['variant']}", *(decimal(share, 2) for share in row["na"]), *empty, mean))
        )
    rows += _score_rows(reports, lambda scores: scores.refusal, "refusal")
    note = "By the published rule, to which “I dont know”, the reply that its prompts ask for, is no refusal."
    columns = ("model", *_benchmark_titles(reports), "Avg")
    return paper_table("Table 15", "Refusals (NA), %", "theirs", columns, rows, (note,))


def diagnostics(reports: Reports) -> Table:
    """Return the paper's diagnostics for ours alone: it prints no table of them."""
    rows = []
    for report in reports:
        for name, scores in report.scores.items():
            median = ABSENT if scores.median_count is None else f"{scores.median_count:,.0f}"
            cells = (
                percent(scores.format.value),
                decimal(scores.chars.value, 0),
                decimal(scores.words.value, 1),
                decimal(scores.sentences.value, 1),
                median,
                percent(scores.unsupported.value),
            )
            rows.append(Row((own_name(report.name), name, *cells)))
    columns = ("agent", "questions", "format", "chars", "words", "sentences", "median c", "c = 0")
    note = "Chars and words of the answer; c is the count of a sentence that gave a query."
    return paper_table("Section 4", "Format, length and counts", "computed", columns, rows, (note,))


def variant_rewards(reports: Reports) -> Table:
    """Return the mean reward of our answers under each variant of the reward."""
    rows = []
    for report in reports:
        cells = [decimal(mean_reward(report.answers, name).value) for name in OF_REWARD]
        strict = decimal(mean_reward(report.answers, OF_REWARD[0], "strict").value)
        rows.append(Row((own_name(report.name), *cells, strict)))
    note = "The mean reward of the same answers, read under the published reward (full), without its sentence term (A1), without its judge (A2), and with the sentences’ mean in place of credit per token (A3). A4 is no reward: factgym filter --keep 0:16."
    return paper_table(
        "Table 2", "Rewards of each variant", "computed", ("agent", *OF_REWARD, "strict"), rows, (note,)
    )


def table_2(reports: Reports) -> Table:
    """Return the ablations: theirs as trained; ours where a run's manifest names a variant."""
    empty = [ABSENT] * len(_other_benchmarks(reports))
    rows = [
        Row((f"{row['title']} (theirs)", *(decimal(value, row["places"]) for value in row["accuracy"]), *empty))
        for row in facts("table2")["rows"]
    ]
    for report in reports:
        variant = next(iter({label.variant for label in report.labels}), "")
        if variant:
            name = own_name(report.name, f", {variant}")
            rows.append(Row((name, *_cells(report, reports, lambda scores: scores.accuracy))))
    note = "Ours is the accuracy of runs under a variant’s reward: a policy trained with it would be the comparison."
    columns = ("variant", *_benchmark_titles(reports))
    return paper_table("Table 2", "Ablations on Llama-3.1-8B, accuracy, %", "theirs", columns, rows, (note,))


def table_3(reports: Reports, comparisons: Sequence[CorverComparison] = ()) -> Table:
    """Return accuracy by popularity; of pairs of ours the second beside the first."""
    rows = []
    for row in facts("table3")["rows"]:
        shares = (decimal(row["raw"], 2), decimal(row["trained"], 2), signed(row["gain"], 2))
        rows.append(Row((f"{row['model']} {row['quartile']}", row["views"] or ABSENT, f"{row['n']:,}", *shares)))
    notes = []
    paired = {name for pair in comparisons if pair.quarters for name in (pair.first, pair.second)}
    for report in reports:
        popularity = report.popularity
        if popularity is None:
            continue
        for part in (*popularity.quartiles, popularity.all) if report.name not in paired else ():
            cells = (f"{part.low:,.0f}–{part.high:,.0f}", f"{part.n:,}", hundred(part.accuracy), ABSENT, ABSENT)
            rows.append(Row((own_name(report.name, f" {part.name}"), *cells)))
        if popularity.excluded:
            notes.append(f"{report.name}: {count(popularity.excluded, 'question')} without popularity left out.")
    for pair in comparisons:
        if pair.quarters:
            notes.append(f"Ours, a pair: {pair.first} as raw, {pair.second} as trained.")
        for quarter in pair.quarters:
            change = quarter.accuracy.difference.value
            cells = (
                f"{quarter.low:,.0f}–{quarter.high:,.0f}",
                f"{quarter.n:,}",
                hundred(quarter.accuracy.first),
                hundred(quarter.accuracy.second),
                ABSENT if change is None else signed(100 * change, 1),
            )
            rows.append(Row((own_name(pair.second, f" {quarter.name}"), *cells)))
    notes.append(
        "Popularity is the monthly page views of the subject; in generated questions, the sentences that state the fact."
    )
    columns = ("model", "views", "n", "raw", "trained", "Δ")
    return paper_table("Table 3", "PopQA by popularity, accuracy, %", "theirs", columns, rows, notes)


def table_11(filters: Sequence[tuple[str, Buckets]] = ()) -> Table:
    """Return the learning zone, and filters of ours by name."""
    samples = facts("table11")["samples"]
    rows = []
    for row in facts("table11")["rows"]:
        buckets = Buckets((row["never"], row["between"], *([0] * (samples - 2)), row["always"]), row["retained"])
        equal = buckets.pool == row["pool"] and percent(buckets.share) == f"{row['keep']:.1f} %"
        rows.append(Row((f"{row['model']}, pool of {row['pool']:,}", *bucket_cells(buckets)), equal))
    for name, buckets in filters:
        title = own_name(name, f", G = {len(buckets.histogram) - 1}")
        rows.append(Row((title, *bucket_cells(buckets))))
    return paper_table("Table 11", "The learning zone", "theirs", ("model", *bucket_columns(samples)), rows)


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
    columns = ("count", "right", "ours, [Wilson 95 %]", "theirs")
    return paper_table("Table 13", "P(correct | count), %", "computed", columns, rows, notes)


def _share(share: Estimate) -> str:
    return ABSENT if share.low is None else f"{hundred(share)} {hundred_interval(share)}"


def table_17(refusals: Sequence[tuple[str, Decomposition]] = ()) -> Table:
    """Return refusals given up and the accuracy on them; ours for pairs of runs."""
    rows = []
    for row in facts("table17")["rows"]:
        printed = (decimal(row[part], 1) for part in ("raw", "trained", "subset"))
        rows.append(Row((f"{row['benchmark']} (theirs)", *printed, ABSENT, ABSENT, ABSENT)))
    for name, part in refusals:
        shares = (hundred(part.raw_refusal), hundred(part.trained_refusal), hundred(part.unlocked))
        gains = [signed(100 * value) for value in (part.from_unlocked, part.from_both, part.from_withdrawn)]
        rows.append(Row((own_name(name, f" {part.benchmark}"), *shares, *gains)))
    note = "Subset: the accuracy on questions that raw refused and trained attempts. The last three columns divide the change of accuracy, in points, among newly attempted questions, those that both attempt, and newly refused ones."
    columns = ("benchmark", "raw NA", "trained NA", "subset", "unlocked", "both", "withdrawn")
    return paper_table("Table 17", "Refusals on Qwen3-8B, %", "theirs", columns, rows, (note,))


_TRACED: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = (
    ("Case 1", ((12_323, 0.1), (16_484, 0.1), (0, -0.3), (12_323, 0.1), (12_323, 0.1))),
    ("Case 2", ((163, 0.1), (389, 0.1), (542, 0.1), (0, -0.3), (3_500, 0.1), (10, 0.0))),
    ("B.3, first", ((50, 0.1),)),
    ("B.3, min", ((0, -0.3),)),
)
"""Counts that the paper traces, with their rewards."""


def reward_tiers() -> Table:
    """Return every traced count with its reward under equation 2."""
    rules = CorverRules()
    rows = []
    for case, traced in _TRACED:
        for n, printed in traced:
            reward = rules.count_reward(n)
            rows.append(Row((case, f"{n:,}", signed(reward), signed(printed)), reward == printed))
    columns = ("trace", "count", "ours", "theirs")
    return paper_table("B.3, B.6", "Equation 2 on the traced counts", "computed", columns, rows)
