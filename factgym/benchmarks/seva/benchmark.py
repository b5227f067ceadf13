"""The benchmark of SEVA: five public data sets or generated claims, one report for each agent on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.answers import exclusion_notes
from factgym.benchmarks.benchmark import (
    AgentResult,
    Benchmark,
    DataSet,
    Evaluation,
    Outcome,
    check_names,
    data_path,
    require_no_names,
)
from factgym.benchmarks.charts import reliability_chart
from factgym.benchmarks.formats import (
    ABSENT,
    count,
    decimal,
    hundred,
    hundred_interval,
    interval,
    label,
    p_value,
    percent,
)
from factgym.benchmarks.report import (
    Cell,
    Chart,
    Column,
    Note,
    Part,
    Report,
    Row,
    Section,
    Table,
    estimate_table,
    make_cells,
    make_table,
)
from factgym.benchmarks.seva.paper import facts, paper_tables, table
from factgym.benchmarks.seva.report import POSITIVE, SLICE, SevaComparison, SevaReport, compare, evaluate_run
from factgym.benchmarks.statistics.classification import NO_VERDICT
from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError
from factgym.datasets.attribution import BENCHMARKS, KNOWN_CUES, benchmark_file

GENERATED = "generated"
"""The name, among the data sets, of the claims that need no data."""
GENERATED_TASKS = 200
_REFERENCE = ("lexical", "nli")
_NAME = 20
_TITLES = {
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced acc.",
    "matthews": "Matthews",
    "alignment_all": "alignment, all",
    "chain_all": "chain, all",
    "grounded_alignment": "grounded align.",
    "grounded_chain": "grounded chain",
}
_GENERATED_NOTE = (
    f"Played on generated claims alone. Give --data, or set {DATA_VARIABLE}, for FEVER, TruthfulQA, HaluEval, ClearFacts "
    "and ANLI."
)
_EXPLOITER_NOTE = (
    "Exploiters such as garbage and label-only know the gold label: their F1 means nothing. The rewards that they earn "
    "are what they are for; factgym audit shows them."
)


def data_sets(
    folder: str | Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the data sets in a folder, by default the one in FACTGYM_DATA; generated claims where there is none.

    A data set's file lies where the folder of all public data sets has it, or is named after it. Raises ConfigError for a
    folder that does not exist, for an unknown name, and for requested data sets that are missing, naming each file.
    """
    check_names(only, (*BENCHMARKS, GENERATED))
    path = data_path(folder, folder=True)
    generated = DataSet(GENERATED, "seva", limit=GENERATED_TASKS)
    if path is None:
        require_no_names(only, GENERATED, "its folder")
        return (generated,)
    names = only or tuple(BENCHMARKS)
    files = {name: benchmark_file(name, path) for name in names if name != GENERATED}
    missing = [f"{name} ({BENCHMARKS[name].files[0]} or {name}.jsonl)" for name, file in files.items() if file is None]
    if missing:
        present = " ".join(f"--only {name}" for name, file in files.items() if file is not None)
        hint = f" or play the present ones with {present}" if present else " or name another folder"
        raise ConfigError(f"{path} lacks {', '.join(missing)}: add the missing files,{hint}")
    return tuple(generated if name == GENERATED else DataSet(name, f"seva-{name}", path=files[name]) for name in names)


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate every run, compare agents on the same claims, and make the paper's tables with ours in them."""
    results = evaluation.results(evaluate_run)
    comparisons = []
    groups = [run.data_set for run in evaluation.runs] if evaluation.played else [""]
    for group in dict.fromkeys(groups):
        runs = [run for run in evaluation.runs if not group or run.data_set == group]
        pairs = evaluation.pairs([run.agent for run in runs], _REFERENCE)
        comparisons += [compare(runs[first].run, runs[second].run) for first, second in pairs]
    tables = paper_tables(evaluation.data_sets, results) if evaluation.request.paper else ()
    notes = evaluation.notes(_GENERATED_NOTE, {("exploiter",): _EXPLOITER_NOTE})
    notes += [f"{KNOWN_CUES[name]} --set cues=remove takes it out." for name in groups if name in KNOWN_CUES]
    page = seva_page(results, comparisons, tables, notes, detailed=not evaluation.played)
    return Outcome.of_runs(results, page, sum(result.report.n for result in results), comparisons)


def seva_page(
    results: Sequence[AgentResult[SevaReport]],
    comparisons: Sequence[SevaComparison] = (),
    tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
    *,
    detailed: bool = False,
) -> Report:
    """Return the report. detailed: a terminal shows every agent's details, not one line for each."""
    names = list(dict.fromkeys(result.data_set for result in results))
    sections = []
    if len(names) > 1:
        f1 = {(result.data_set, result.agent): result.report.scores["macro_f1"] for result in results}
        rows = []
        for agent in dict.fromkeys(result.agent for result in results):
            scores = [f1.get((name, agent)) for name in names]
            cells = (f"{hundred(score)} {hundred_interval(score)}" if score else ABSENT for score in scores)
            rows.append((agent, *cells))
        about = "With BCa 95 % intervals over claims; 10,000 resamples."
        matrix = make_table("Macro-F1", ("agent", *names), rows)
        sections.append(Section("Macro-F1", (matrix,), about, page_only=True))
    for name in names:
        group = [result for result in results if result.data_set == name]
        sections.append(Section(name, (_overview(name, group),), page_only=detailed, in_navigation=True))
        sections += [_details(result, detailed=detailed) for result in group]
    if comparisons:
        parts = [part for comparison in comparisons for part in _comparison(comparison)]
        sections.append(Section("Comparisons", tuple(parts), "Paired BCa bootstrap over the same claims."))
    return Report("SEVA benchmark", tuple(sections), tuple(tables), tuple(notes))


def _overview(name: str, results: Sequence[AgentResult[SevaReport]]) -> Table:
    report = results[0].report
    share = report.labels[POSITIVE].gold / report.n
    return table("overview", results, name=name, tasks=report.tasks, share=share)


def _details(result: AgentResult[SevaReport], *, detailed: bool) -> Section:
    """Return everything about one run, folded on a page."""
    report = result.report
    heading = f"{report.env}, agent {report.agent}: {count(report.n, 'episode')} of {count(report.tasks, 'claim')}"
    parts: list[Part] = [Note(heading, fine=True)]
    parts += [Note(note) for note in (*exclusion_notes(report.errors, report.unscored), *report.notes)]
    scores, structure = (
        {_TITLES.get(name, name): score for name, score in scores.items()}
        for scores in (report.scores, report.structure)
    )
    parts += [
        estimate_table("", "score", scores, _NAME),
        estimate_table("Structure", "structure", structure, _NAME),
        estimate_table("Mean reward", "reward", report.rewards, _NAME),
        *_label_tables(report),
    ]
    if report.reliability.n:
        title = f"{result.agent[:40]}: calibration"
        parts += [_calibration(report), Chart(title, partial(reliability_chart, report.reliability, title))]
    duration = f", {decimal(result.seconds, 1)} s" if result.seconds else ""
    about = f"{count(report.n, 'answer')}{duration}"
    return Section(f"{result.data_set}: {result.agent}", tuple(parts), about, page_only=not detailed, folded=True)


def _label_tables(report: SevaReport) -> Iterator[Table]:
    """Yield confusion, biases, false positives by style, and error types."""
    counted = report.confusion
    heads = ["none" if name == NO_VERDICT else f"says {name}" for name in counted.predictions]
    rows: list[Sequence[Cell] | Row] = []
    for gold, counts in zip(counted.golds, counted.counts, strict=True):
        scores = report.labels[gold]
        rows.append((gold, *(f"{n:,}" for n in counts), decimal(scores.recall), decimal(scores.f1)))
    yield make_table("Labels", ("gold", *heads, "recall", "F1"), rows, min_width=_NAME)

    rows = [make_cells(line, report) for line in facts("tables")["biases"]["ours"]]
    slices = report.slices
    if slices is not None and slices.std is not None:
        reach = f"{decimal(slices.low)} to {decimal(slices.high)}"
        rows.append((f"F1, {len(slices.values)} slices of {SLICE}", f"σ {decimal(slices.std)}", reach))
    yield make_table("Biases", ("measure", "value", "95 % interval"), rows, min_width=_NAME)

    if report.by_style:
        rows = []
        for name, groups in report.by_style.items():
            for i, (group, share) in enumerate(groups.items()):
                cells = (name if i == 0 else "", group, f"{share.n:,}", percent(share.value), interval(share, 2))
                rows.append(Row(cells, ends_group=i + 1 == len(groups)))
        columns = ("style", Column("claims that are", left_aligned=True), "supported", "rejected", "95 % interval")
        yield make_table("False positives by writing style", columns, rows, min_width=10)

    if report.diagnoses.counts:
        shares = report.diagnoses.shares
        rows = [
            (label(kind), f"{n:,}", percent(shares[kind].value), interval(shares[kind], 2))
            for kind, n in report.diagnoses.counts.items()
        ]
        if report.diagnosed.value is not None:
            rows.append(("right type", "", percent(report.diagnosed.value), interval(report.diagnosed, 2)))
        heads = ["type", "count", "share", "95 % interval"]
        yield make_table("Error types of the rejections", heads, rows, min_width=_NAME)


def _calibration(report: SevaReport) -> Table:
    curve = report.reliability
    return table("calibration", [bin_ for bin_ in curve.bins if bin_.n], curve=curve)


def _comparison(comparison: SevaComparison) -> Iterator[Part]:
    """Yield both runs' scores with their differences, and McNemar's test."""
    rows = [make_cells(line, comparison) for line in facts("tables")["comparison"]["ours"]]
    first, second = comparison.first[:24], comparison.second[:24]
    title = f"{comparison.env[:24]}: {second} against {first}, {count(comparison.n, 'episode')}"
    yield make_table(title, ("score", first[:14], second[:14], "difference", "95 % interval", "p"), rows)
    if (test := comparison.mcnemar) is not None:
        kind, p = "exact" if test.exact else "with continuity correction", p_value(test.p)
        yield Note(
            f"McNemar ({kind}): only {first} right {test.first_only:,}, only {second} right {test.second_only:,}, "
            f"p {p if p.startswith('<') else f'= {p}'}",
            fine=True,
        )
    yield from (Note(note) for note in comparison.notes)


BENCHMARK = Benchmark(name="seva", env="seva", find_data=data_sets, evaluate=evaluate, run_page="seva.html")
