"""The benchmark of SEVA: five public data sets or generated claims, one report for each agent on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from factgym.benchmarks.benchmark import Benchmark, DataSet, Evaluation, Outcome, check_names, data_place
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
    Bar,
    Cell,
    Chart,
    Column,
    Note,
    Part,
    Report,
    Row,
    Section,
    Strong,
    Table,
    make_table,
)
from factgym.benchmarks.seva.collapse import collapse_chart
from factgym.benchmarks.seva.paper import Result, paper_tables
from factgym.benchmarks.seva.report import POSITIVE, SLICE, SevaComparison, SevaReport, compare, evaluate_run
from factgym.benchmarks.statistics.classification import NO_VERDICT
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError
from factgym.datasets.attribution import BENCHMARKS, benchmark_file

GENERATED = "generated"
"""The name, among the data sets, of the claims that need no data."""
GENERATED_TASKS = 200
_REFERENCE = ("lexical", "nli")
_NAME, _AGENT = 20, 19
SCORES: Mapping[str, str] = MappingProxyType(
    {"macro_f1": "macro-F1", "accuracy": "accuracy", "balanced_accuracy": "balanced acc.", "matthews": "Matthews"}
)
STRUCTURE: Mapping[str, str] = MappingProxyType(
    {
        "parsed": "parsed",
        "format": "format",
        "alignment": "alignment",
        "chain": "chain",
        "alignment_all": "alignment, all",
        "chain_all": "chain, all",
        "grounded_alignment": "grounded align.",
        "grounded_chain": "grounded chain",
        "consistent": "consistent",
    }
)


class SevaResults(NamedTuple):
    """Reports by data set and agent, comparisons, and the paper's tables."""

    results: tuple[Result, ...]
    comparisons: tuple[SevaComparison, ...]
    tables: tuple[Table, ...]


def data_sets(
    folder: str | Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the data sets in a folder, by default the one in FACTGYM_DATA; generated claims where there is none.

    A data set's file lies where the folder of all public data sets has it, or is named after it. Raises ConfigError for a
    folder that does not exist, for an unknown name, and for requested data sets that are missing, naming each file.
    """
    check_names(only, (*BENCHMARKS, GENERATED))
    place = data_place(folder, folder=True)
    generated = DataSet(GENERATED, "seva", limit=GENERATED_TASKS)
    if place is None:
        requested = [name for name in only if name != GENERATED]
        if requested:
            raise ConfigError(f"{', '.join(requested)}: no data. Give its folder with --data, or set {DATA_VARIABLE}")
        return (generated,)
    names = only or tuple(BENCHMARKS)
    files = {name: benchmark_file(name, place) for name in names if name != GENERATED}
    missing = [f"{name} ({BENCHMARKS[name].files[0]} or {name}.jsonl)" for name, file in files.items() if file is None]
    if missing:
        present = " ".join(f"--only {name}" for name, file in files.items() if file is not None)
        hint = f" or play what is there with {present}" if present else " or name another folder"
        raise ConfigError(f"{place} lacks {', '.join(missing)}: add what is missing,{hint}")
    return tuple(generated if name == GENERATED else DataSet(name, f"seva-{name}", path=files[name]) for name in names)


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate every run, compare agents on the same claims, and lay the paper's tables beside them."""
    results = tuple(Result(one.data_set, one.agent, evaluate_run(one.run), one.seconds) for one in evaluation.runs)
    comparisons = []
    groups = [one.data_set for one in evaluation.runs] if evaluation.played else [""]
    for group in dict.fromkeys(groups):
        runs = [one for one in evaluation.runs if not group or one.data_set == group]
        pairs = evaluation.pairs([one.agent for one in runs], _REFERENCE)
        comparisons += [compare(runs[first].run, runs[second].run) for first, second in pairs]
    tables = paper_tables(evaluation.data_sets, results) if evaluation.request.paper else ()
    notes = tuple(_notes(evaluation))
    return Outcome(
        results=SevaResults(results, tuple(comparisons), tables),
        report=seva_page(results, comparisons, tables, notes, detailed=not evaluation.played),
        numbers=[
            {"data_set": one.data_set, "agent": one.agent, "seconds": one.seconds, "report": one.report.to_dict()}
            for one in results
        ],
        episodes=sum(one.report.n for one in results),
        data_sets=len({one.data_set for one in results}),
        agents=len({one.agent for one in results}),
    )


def _notes(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.generated_only:
        yield (
            "Played on generated claims alone. Give --data, or set "
            f"{DATA_VARIABLE}, for FEVER, TruthfulQA, HaluEval, ClearFacts and ANLI."
        )
    if evaluation.has_role("exploiter"):
        yield (
            "Exploiters such as garbage and label-only are told the right label: their F1 says nothing. The rewards "
            "that they earn are what they are for; factgym audit shows them."
        )


def seva_page(
    results: Sequence[Result],
    comparisons: Sequence[SevaComparison] = (),
    tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
    *,
    title: str = "SEVA benchmark",
    detailed: bool = False,
) -> Report:
    """Return the report. detailed: a terminal shows every agent's details, not one line for each."""
    names = list(dict.fromkeys(one.data_set for one in results))
    sections = [_matrix(results, names)] if len(names) > 1 else []
    for name in names:
        own = [one for one in results if one.data_set == name]
        overview = _data_set(name, own)
        sections.append(Section(name, (overview,), page_only=detailed, in_navigation=True))
        sections += [_details(one, detailed=detailed) for one in own]
    if comparisons:
        parts = [part for one in comparisons for part in _comparison(one)]
        sections.append(Section("Comparisons", tuple(parts), "Paired BCa bootstrap over the same claims."))
    charts = {"Table 18": Chart("Advantages by training step, binary against process reward", collapse_chart)}
    return Report(title, tuple(sections), tuple(tables), tuple(notes), MappingProxyType(charts))


def _matrix(results: Sequence[Result], names: Sequence[str]) -> Section:
    reports = {(one.data_set, one.agent): one.report for one in results}
    rows = []
    for agent in dict.fromkeys(one.agent for one in results):
        scores = [report.scores["macro_f1"] if (report := reports.get((name, agent))) else None for name in names]
        rows.append([agent, *(f"{hundred(f1)} {hundred_interval(f1)}" if f1 else ABSENT for f1 in scores)])
    about = "With BCa 95 % intervals over claims; 10,000 resamples."
    return Section("Macro-F1", (make_table("Macro-F1", ("agent", *names), rows),), about, page_only=True)


def _data_set(name: str, results: Sequence[Result]) -> Table:
    report = results[0].report
    share = percent(report.labels[POSITIVE].gold / report.n)
    columns = ("agent", "F1", "95 %", "acc", "align", "chain", "format", "says NA")
    more = tuple(Column(head, page_only=True) for head in ("false pos.", "ECE", ""))
    rows: list[Sequence[Cell]] = []
    for one in results:
        found, f1 = one.report, one.report.scores["macro_f1"]
        rows.append(
            (
                one.agent,
                Strong(hundred(f1)),
                hundred_interval(f1),
                hundred(found.scores["accuracy"]),
                *(decimal(found.structure[part].value) for part in ("alignment", "chain")),
                percent(found.structure["format"].value, 0),
                percent(found.predicted_negative.value, 0),
                percent(found.false_positive.value),
                decimal(found.reliability.ece),
                Bar(f1),
            )
        )
    title = f"{name}: {count(report.tasks, 'claim')}, {share} attributable"
    return make_table(title, (*columns, *more), rows, name_limit=_AGENT, min_width=_AGENT)


def _details(one: Result, *, detailed: bool) -> Section:
    """Everything about one run, folded on a page."""
    report = one.report
    parts: list[Part] = [Note(_heading(report), fine=True)]
    if report.errors:
        parts.append(Note(f"{count(report.errors, 'infrastructure error')} left out of all scores."))
    if report.unscored:
        parts.append(Note(f"{count(report.unscored, 'episode')} not scored."))
    parts += [Note(note) for note in report.notes]
    parts += [
        _estimates("", "score", {SCORES[name]: one for name, one in report.scores.items()}),
        _estimates("Structure", "structure", {STRUCTURE[name]: one for name, one in report.structure.items()}),
        _estimates("Mean reward", "reward", report.rewards),
        _confusion(report),
        _biases(report),
    ]
    if report.by_style:
        parts.append(_styles(report))
    if report.diagnoses.counts:
        parts.append(_diagnoses(report))
    if report.reliability.n:
        title = f"{one.agent[:40]}: calibration"
        parts += [_calibration(report), Chart(title, partial(reliability_chart, report.reliability, title))]
    took = f", {decimal(one.seconds, 1)} s" if one.seconds else ""
    about = f"{count(report.n, 'answer')}{took}"
    return Section(f"{one.data_set}: {one.agent}", tuple(parts), about, page_only=not detailed, folded=True)


def _heading(report: SevaReport) -> str:
    return f"{report.env}, agent {report.agent}: {count(report.n, 'episode')} of {count(report.tasks, 'claim')}"


def _estimates(title: str, head: str, estimates: Mapping[str, Estimate]) -> Table:
    rows = [(name, decimal(one.value), interval(one), Bar(one)) for name, one in estimates.items()]
    return make_table(title, (head, "value", "95 % interval", ""), rows, min_width=_NAME)


def _confusion(report: SevaReport) -> Table:
    found = report.confusion
    heads = ["none" if name == NO_VERDICT else f"says {name}" for name in found.predictions]
    rows = [
        (
            gold,
            *(f"{n:,}" for n in row),
            decimal(report.labels[gold].recall),
            decimal(report.labels[gold].f1),
        )
        for gold, row in zip(found.golds, found.counts, strict=True)
    ]
    return make_table("Labels", ("gold", *heads, "recall", "F1"), rows, min_width=_NAME)


def _biases(report: SevaReport) -> Table:
    estimates = {
        "false positives": report.false_positive,
        "false negatives": report.false_negative,
        "says Not Attributable": report.predicted_negative,
        "more than there are": report.negative_bias,
    }
    rows = [(name, decimal(one.value), interval(one)) for name, one in estimates.items()]
    slices = report.slices
    if slices is not None and slices.std is not None:
        reach = f"{decimal(slices.low)} to {decimal(slices.high)}"
        rows.append((f"F1, {len(slices.values)} slices of {SLICE}", f"σ {decimal(slices.std)}", reach))
    return make_table("Biases", ("measure", "value", "95 % interval"), rows, min_width=_NAME)


def _styles(report: SevaReport) -> Table:
    rows = []
    for name, groups in report.by_style.items():
        for i, (group, share) in enumerate(groups.items()):
            cells = (name if i == 0 else "", group, f"{share.n:,}", percent(share.value), interval(share, 2))
            rows.append(Row(cells, ends_group=i + 1 == len(groups)))
    columns = ("style", Column("claims that are", left=True), "supported", "rejected", "95 % interval")
    return make_table("False positives by writing style", columns, rows, min_width=10)


def _diagnoses(report: SevaReport) -> Table:
    shares = report.diagnoses.shares
    rows = [
        (label(kind), f"{n:,}", percent(shares[kind].value), interval(shares[kind], 2))
        for kind, n in report.diagnoses.counts.items()
    ]
    if report.diagnosed.value is not None:
        rows.append(("right type", "", percent(report.diagnosed.value), interval(report.diagnosed, 2)))
    columns = ("type", "count", "share", "95 % interval")
    return make_table("Error types of the rejections", columns, rows, min_width=_NAME)


def _calibration(report: SevaReport) -> Table:
    found = report.reliability
    errors = (decimal(value) for value in (found.ece, found.adaptive_ece, found.brier))
    title = "Calibration: ECE {}, of equal mass {}, Brier {}".format(*errors)
    rows = [
        (
            f"{decimal(bin_.low, 1)} to {decimal(bin_.high, 1)}",
            f"{bin_.n:,}",
            decimal(bin_.confidence),
            decimal(bin_.accuracy.value),
            interval(bin_.accuracy),
        )
        for bin_ in found.bins
        if bin_.n
    ]
    columns = ("confidence", "answers", "mean", "accuracy", "95 % interval")
    return make_table(title, columns, rows, min_width=_NAME)


def _comparison(found: SevaComparison) -> Iterator[Part]:
    """Both runs' scores, their differences and McNemar's test."""
    rows = [
        (
            name,
            decimal(score.first),
            decimal(score.second),
            decimal(score.difference.value),
            interval(score.difference),
            p_value(score.p),
        )
        for name, score in (("macro-F1", found.macro_f1), ("accuracy", found.accuracy))
    ]
    title = f"{found.env[:24]}: {found.second[:24]} against {found.first[:24]}, {count(found.n, 'episode')}"
    columns = ("score", found.first[:14], found.second[:14], "difference", "95 % interval", "p")
    yield make_table(title, columns, rows)
    if (test := found.mcnemar) is not None:
        kind, p = "exact" if test.exact else "with continuity correction", p_value(test.p)
        yield Note(
            f"McNemar ({kind}): only {found.first[:24]} right {test.first_only:,}, only {found.second[:24]} right "
            f"{test.second_only:,}, p {p if p.startswith('<') else f'= {p}'}",
            fine=True,
        )
    yield from (Note(note) for note in found.notes)


BENCHMARK = Benchmark(name="seva", env="seva", find_data=data_sets, evaluate=evaluate, run_page="seva.html")
