"""The benchmark of CorVer: closed-book questions with the evaluation prompt, unless the settings say otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from factgym.agents.difficulty import Buckets
from factgym.agents.runs.files import FILTER_SUMMARY, read_json
from factgym.benchmarks.answers import group_by
from factgym.benchmarks.benchmark import Benchmark, Evaluation, Outcome, QuestionSets, Request
from factgym.benchmarks.charts import share_curves
from factgym.benchmarks.corver.calibration import calibrate, read_annotations, sentence_counter
from factgym.benchmarks.corver.compare import CorverComparison, Decomposition, compare, decompose
from factgym.benchmarks.corver.paper import NamedCurve, facts, paper_tables, provenance, published_curve, table
from factgym.benchmarks.corver.report import CorverReport, evaluate_runs, run_key
from factgym.benchmarks.formats import ABSENT, count, hundred, hundred_interval, p_value, percent, signed
from factgym.benchmarks.report import (
    Bar,
    Cell,
    Chart,
    Column,
    Note,
    Part,
    Report,
    Row,
    Section,
    Table,
    make_cells,
    make_table,
    notes_by_name,
    paper_facts,
)
from factgym.benchmarks.statistics.bootstrap import Comparison
from factgym.core.config import DATA_VARIABLE, Settings
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import open_counter
from factgym.datasets.questions import BENCHMARKS, question_file
from factgym.rewards.corver.extraction import find_extractor
from factgym.rewards.corver.rubrics import DEFAULT_RULES

_REFERENCE = ("random", "student")
_PAPER_JUDGE = "reference"
_NAME = 15
_MIN_SENTENCES = 20
"""Right and wrong sentences that a curve needs at least."""
PROXY = "by the answer"
"""A sentence of a run counts as right when its completion's answer is: nobody labelled the sentence itself."""

QUESTIONS = QuestionSets(
    env="corver-qa",
    names=tuple(BENCHMARKS),
    paper=tuple(paper_facts("corver", "benchmarks")["columns"]),
    find=question_file,
    file_names={name: tuple(Path(file).name for file in data_set.files) for name, data_set in BENCHMARKS.items()},
    any_file="file",
    config={"prompt": "eval"},
)


class CorverOptions(Settings):
    """Settings of the benchmark. annotated: a file of annotated sentences, for a calibration curve of counts."""

    annotated: str | None = None


def annotated_curves(
    request: Request, options: CorverOptions, settings: Mapping[str, Any]
) -> AbstractContextManager[tuple[NamedCurve, ...]]:
    """Return the curve of the annotated sentences, read before anything is played."""
    if options.annotated is None:
        return nullcontext(())
    counter = settings.get("counter")
    if counter is not None and not isinstance(counter, str):
        raise ConfigError(f"counter must be the path of an index here, not {type(counter).__name__}")
    counting = None
    if counter:
        extractor = find_extractor(settings.get("extractor") or "rule")
        counting = sentence_counter(open_counter(counter, **(settings.get("counter_options") or {})), extractor)
    file = Path(options.annotated)
    return nullcontext(((file.name, calibrate(read_annotations(file, counting))),))


_GENERATED_NOTE = (
    f"Played on generated questions alone. Give --data, or set {DATA_VARIABLE}, for TriviaQA, NQ-Open, PopQA, SimpleQA and "
    "TruthfulQA."
)


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate the runs of each agent together, compare agents, and make the paper's tables with ours in them."""
    groups, reports = evaluation.by_agent(run_key, evaluate_runs)
    if evaluation.played:
        indices = evaluation.pairs(evaluation.agents, _REFERENCE)
    else:
        keys = {answer.key for answer in reports[0].answers}
        indices = [
            (0, i) for i, report in enumerate(reports) if i and any(answer.key in keys for answer in report.answers)
        ]
    comparisons, refusals = _compared(reports, indices)
    curves = [*evaluation.resources]
    for report in reports:
        curve = report.proxy
        right = sum(bucket.correct for bucket in curve.buckets) if curve else 0
        if curve is not None and min(right, curve.n - right) >= _MIN_SENTENCES:
            curves.append((f"{report.name}, {PROXY}", curve))
    tables: tuple[Table, ...] = ()
    if evaluation.request.paper:
        judged = []
        for group, report in zip(groups, reports, strict=True):
            try:  # As the paper judges, where the runs hold those labels.
                judged.append(evaluate_runs(group, report.name, judge=_PAPER_JUDGE))
            except DataError:
                judged.append(report)
        paper_comparisons, paper_refusals = _compared(judged, indices)
        filters = []
        for run in (run for group in groups for run in group):
            if (file := run.folder / FILTER_SUMMARY).is_file():
                row = read_json(file)
                buckets = Buckets(tuple(row["histogram"]), row["retained"], row["anchors"], row["incomplete"])
                filters.append((str(row.get("agent") or run.folder.name), buckets))
        tables = paper_tables(
            judged, curves=curves, filters=filters, refusals=paper_refusals, comparisons=paper_comparisons
        )
    notes = evaluation.notes(_GENERATED_NOTE) + notes_by_name((report.name, report.notes) for report in reports)
    sections = tuple(_sections(reports, comparisons, refusals, curves))
    return Outcome(
        results=tuple(reports),
        comparisons=comparisons,
        report=Report("CorVer benchmark", sections, tables, tuple(notes)),
        numbers={
            "reports": [report.to_dict() for report in reports],
            "comparisons": [comparison.to_dict() for comparison in comparisons],
            "refusals": [{"pair": name, **row.to_dict()} for name, row in refusals],
            "calibration": {name: curve.to_dict() for name, curve in curves},
            "paper": [table.to_dict() for table in tables],
            "notes": notes,
        },
        episodes=sum(report.n for report in reports),
        data_sets=len({name for report in reports for name in report.scores}),
        agents=len(reports),
    )


def _compared(
    reports: Sequence[CorverReport], indices: Sequence[tuple[int, int]]
) -> tuple[tuple[CorverComparison, ...], tuple[tuple[str, Decomposition], ...]]:
    pairs = [(reports[a], reports[b]) for a, b in indices]
    refusals = tuple((b.name, row) for a, b in pairs for row in decompose(a, b))
    return tuple(compare(*pair) for pair in pairs), refusals


def _sections(
    reports: Sequence[CorverReport],
    comparisons: Sequence[CorverComparison],
    refusals: Sequence[tuple[str, Decomposition]],
    curves: Sequence[NamedCurve],
) -> Iterator[Section]:
    runs = [
        Note(f"{', '.join(names)}: {'; '.join(questions)}. {setting}", fine=True)
        for names, questions, setting in provenance(reports)
    ]
    for report in reports:
        if report.errors:
            runs.append(Note(f"{report.name}: {count(report.errors, 'infrastructure error')} left out of all scores"))
    yield Section("Runs", tuple(runs))
    for name in dict.fromkeys(name for report in reports for name in report.scores):
        played = [report for report in reports if name in report.scores]
        about = "Shares in percent; chars and words of the answer; c is the count of a sentence that gave a query."
        yield Section(name, _score_tables(name, played), about, in_navigation=True)
    several = [report for report in reports if len(report.scores) > 1]
    if several:
        rows = [{"agent": report.name, "sets": len(report.scores), **report.average} for report in several]
        yield Section("Average over benchmarks, %", (table("averages", rows),))
    if tables := _popularity_tables(reports):
        yield Section("Accuracy by popularity, %", tables)
    yield Section("Right sentences by count", tuple(_curves(curves)), _CURVES)
    for comparison in comparisons:
        yield Section(f"{comparison.second} against {comparison.first}", tuple(_comparison(comparison)))
    if refusals:
        rows = [{"name": f"{name}, {row.benchmark}", "row": row} for name, row in refusals]
        parts = (table("refusals", rows), Note(_REFUSALS, fine=True))
        yield Section("Refusals, and where the gain comes from", parts)


_CURVES = "The paper’s are labelled by people. A curve “by the answer” takes a sentence as right when its answer is."
_REFUSALS = (
    "right: accuracy on questions that were refused before and are attempted now. The last three columns add up to the "
    "gain, in points."
)


def _score_tables(name: str, reports: Sequence[CorverReport]) -> tuple[Table, Table]:
    """Return the accuracies of a benchmark, and lengths and counts."""
    rows = [{"agent": report.name, "scores": report.scores[name]} for report in reports]
    return table("scores", rows, name=name[:40], tasks=reports[0].scores[name].tasks), table("texts", rows)


def _popularity_tables(reports: Sequence[CorverReport]) -> tuple[Table, ...]:
    """Return tables in the layout of Table 3: a quarter a line, an agent a column; reports on the same questions together."""
    populations = [(report.name, report.popularity) for report in reports if report.popularity is not None]
    groups = group_by(
        populations, lambda row: (tuple((part.low, part.high, part.n) for part in row[1].quarters), row[1].excluded)
    )
    tables = []
    for group in groups.values():
        first, alone, rows = group[0][1], len(group) == 1, []
        for i, row in enumerate(first.quarters):
            shares = [popularity.quarters[i].accuracy for _, popularity in group]
            reach = [hundred_interval(shares[0])] if alone else []
            views = f"{row.low:,.0f}–{row.high:,.0f}"
            rows.append((row.name, views, f"{row.n:,}", *(hundred(share) for share in shares), *reach))
        excluded = f"; {count(first.excluded, 'question')} without popularity left out" if first.excluded else ""
        title = f"Accuracy{f' of {group[0][0][:30]}' if alone else ''} by popularity, %{excluded}"
        heads = ["accuracy", "95 %"] if alone else [name[:10] for name, _ in group]
        tables.append(make_table(title, ("quarter", "views", "n", *heads), rows, min_width=_NAME))
    return tuple(tables)


def _curves(curves: Sequence[NamedCurve]) -> Iterator[Part]:
    heads = ("count", "sentences", "right", "share", "95 %", "rise", "")
    for name, curve in curves:
        rises = {jump.at: jump.rise.value for jump in curve.jumps}
        rows = []
        for bucket in curve.buckets:
            rise, share = rises.get(bucket.low), bucket.share
            cells = (bucket.name, f"{bucket.n:,}", f"{bucket.correct:,}", hundred(share), hundred_interval(share))
            rows.append((*cells, signed(100 * rise) if rise is not None else "", Bar(share)))
        yield make_table(f"Right sentences by count, %: {name[:60]}", heads, rows, min_width=_NAME)
        lines = [f"From bucket to bucket the share {'never falls' if curve.monotone else 'falls at least once'}."]
        if curve.auc is not None:
            lines.append(
                f"Of a right and a wrong sentence the right one has the higher count in {percent(curve.auc)} of pairs."
            )
        if curve.skipped:
            lines.append(f"{count(curve.skipped, 'sentence')} without a count left out.")
        yield Note(" ".join(lines), fine=True)
    yield Chart("Share of right sentences by count", partial(calibration_chart, curves))


def calibration_chart(curves: Sequence[NamedCurve] = ()) -> str:
    """Return the paper's curve and those with its buckets, with the boundaries of the reward's tiers, as SVG (figure 5)."""
    published = published_curve()
    lows = [bucket.low for bucket in published.buckets]
    drawn = [
        (name, [bucket.name for bucket in curve.buckets], [bucket.share for bucket in curve.buckets])
        for name, curve in (("the paper’s 700 sentences", published), *curves)
        if [bucket.low for bucket in curve.buckets] == lows
    ]
    tiers = (1, DEFAULT_RULES.low_count, DEFAULT_RULES.high_count)
    return share_curves(drawn, "Right sentences by count", [lows.index(tier) - 0.5 for tier in tiers])


def _comparison(comparison: CorverComparison) -> Iterator[Part]:
    """Yield both reports' shares and their paired differences, benchmark by benchmark."""

    def change(difference: Comparison) -> tuple[Cell, ...]:
        return make_cells(facts("tables")["change"]["ours"], difference)

    rows = []
    for name, row in comparison.benchmarks.items():
        p = p_value(row.mcnemar.p) if row.mcnemar is not None else ABSENT
        for i, part in enumerate(("accuracy", "refusal", "format")):
            title = f"{name}, {row.n:,}" if i == 0 else ""
            rows.append(Row((title, part, *change(row.parts[part]), p if i == 0 else "")))
        words = make_cells(facts("tables")["change"]["words"], row.parts["words"])
        rows.append(Row(("", "words", *words, ""), ends_group=True))
    if len(comparison.benchmarks) > 1:
        for i, part in enumerate(("accuracy", "refusal", "format")):
            rows.append(Row(("average" if i == 0 else "", part, *change(comparison.average[part]), "")))
    first, second = comparison.first[:24], comparison.second[:24]
    heads = ("benchmark", Column("share", left_aligned=True), first[:9], second[:9], "change", "95 %", "p")
    yield make_table(f"{second} against {first}: paired", heads, rows)
    if any(row.mcnemar for row in comparison.benchmarks.values()):
        yield Note("p: McNemar’s test of the accuracy.", fine=True)
    if comparison.quarters:
        cells = [
            (quarter.name, f"{quarter.low:,.0f}–{quarter.high:,.0f}", f"{quarter.n:,}", *change(quarter.accuracy))
            for quarter in comparison.quarters
        ]
        columns = ("quarter", "views", "n", first[:9], second[:9], "change", "95 %")
        yield make_table("Accuracy by popularity, %", columns, cells, min_width=_NAME)
    yield from (Note(note, fine=True) for note in comparison.notes)


BENCHMARK = Benchmark(
    name="corver",
    env=QUESTIONS.env,
    find_data=QUESTIONS,
    evaluate=evaluate,
    options=CorverOptions,
    resources=annotated_curves,
)
