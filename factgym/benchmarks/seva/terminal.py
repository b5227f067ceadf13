"""SEVA's reports at eighty columns: the matrix of a benchmark, one run, two runs compared, and the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from factgym.benchmarks.bars import Meter
from factgym.benchmarks.formats import ABSENT, count, decimal, interval, label, p_value, percent, printable
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.plain import add, number_columns, plain_table
from factgym.benchmarks.seva.compare import SevaComparison
from factgym.benchmarks.seva.report import SLICE, SevaReport
from factgym.benchmarks.seva.suite import Result
from factgym.benchmarks.summary import NO_VERDICT

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_NAME, _AGENT = 20, 19
SCORES: Mapping[str, str] = {
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced acc.",
    "matthews": "Matthews",
}
STRUCTURE: Mapping[str, str] = {
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


def render_results(results: Sequence[Result]) -> Group:
    """One table for each data set, an agent a line."""
    from rich.console import Group

    names = list(dict.fromkeys(one.data_set for one in results))
    return Group(*(_data_set(name, [one for one in results if one.data_set == name]) for name in names))


def _data_set(name: str, results: Sequence[Result]) -> Table:
    from rich.text import Text

    report = results[0].report
    golds = {gold: scores.gold for gold, scores in report.labels.items()}
    supported = golds["Attributable"] / report.n
    table = plain_table(f"\n{name}: {count(report.tasks, 'claim')}, {percent(supported)} attributable")
    table.add_column("agent", no_wrap=True, min_width=_AGENT)
    number_columns(table, "F1", "95 %", "acc", "align", "chain", "format", "says NA")
    for one in results:
        found = one.report
        f1 = found.scores["macro_f1"]
        add(
            table,
            printable(one.agent, _AGENT),
            Text(_hundred(f1.value), "bold"),
            _reach(f1),
            _hundred(found.scores["accuracy"].value),
            *(decimal(found.structure[part].value, 3) for part in ("alignment", "chain")),
            percent(found.structure["format"].value, 0),
            percent(found.predicted_negative.value, 0),
        )
    return table


def _hundred(value: float | None) -> str:
    return ABSENT if value is None else decimal(100 * value, 1)


def _reach(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ABSENT
    return f"[{_hundred(found.low)}, {_hundred(found.high)}]"


def render_report(report: SevaReport) -> Group:
    """Everything about one run."""
    from rich.console import Group

    parts: list[RenderableType] = [_heading(report), _numbers("score", report.scores, SCORES)]
    parts += [
        _numbers("structure", report.structure, STRUCTURE, "\nStructure"),
        _numbers("reward", report.rewards, {}, "\nMean reward"),
    ]
    parts += [_confusion(report), _biases(report)]
    if report.by_style:
        parts.append(_styles(report))
    if report.diagnoses.counts:
        parts.append(_diagnoses(report))
    if report.reliability.n:
        parts.append(_calibration(report))
    return Group(*parts)


def _heading(report: SevaReport) -> RenderableType:
    from rich.text import Text

    text = Text.assemble(
        (printable(report.env, 40), "bold"), ("  agent ", "dim"), (printable(report.agent, 60), "bold")
    )
    text.append(f"\n{count(report.n, 'episode')} of {count(report.tasks, 'claim')}")
    if report.errors:
        text.append(f"\n{count(report.errors, 'infrastructure error')} left out of all scores", "yellow")
    if report.unscored:
        text.append(f"\n{count(report.unscored, 'episode')} not scored", "yellow")
    for note in report.notes:
        text.append(f"\n{printable(note, 400)}", "yellow")
    return text.append("\n")


def _numbers(head: str, found: Mapping[str, Estimate], names: Mapping[str, str], title: str = "") -> Table:
    table = plain_table(title)
    table.add_column(head, no_wrap=True, min_width=_NAME)
    number_columns(table, "value", "95 % interval")
    table.add_column("", no_wrap=True)
    for name, one in found.items():
        add(table, names.get(name, name), decimal(one.value), interval(one), Meter(one.value))
    return table


def _confusion(report: SevaReport) -> Table:
    found = report.confusion
    table = plain_table("\nLabels")
    table.add_column("gold", no_wrap=True, min_width=_NAME)
    number_columns(table, *("none" if said == NO_VERDICT else f"says {said}" for said in found.predictions))
    number_columns(table, "recall", "F1")
    for gold, row in zip(found.golds, found.counts, strict=True):
        scores = report.labels[gold]
        add(table, gold, *(f"{n:,}" for n in row), decimal(scores.recall), decimal(scores.f1))
    return table


def _biases(report: SevaReport) -> Table:
    table = plain_table("\nBiases")
    table.add_column("measure", no_wrap=True, min_width=_NAME)
    number_columns(table, "value", "95 % interval")
    rows = {
        "false positives": report.false_positive,
        "false negatives": report.false_negative,
        "says Not Attributable": report.predicted_negative,
        "  more than there are": report.negative_bias,
    }
    for name, one in rows.items():
        add(table, name, decimal(one.value), interval(one))
    if report.slices is not None and report.slices.std is not None:
        low, high = decimal(report.slices.low), decimal(report.slices.high)
        add(
            table,
            f"F1, {len(report.slices.values)} slices of {SLICE}",
            f"σ {decimal(report.slices.std)}",
            f"{low} to {high}",
        )
    return table


def _styles(report: SevaReport) -> Table:
    table = plain_table("\nFalse positives by writing style")
    table.add_column("style", no_wrap=True, min_width=10)
    table.add_column("claims that are", no_wrap=True)
    number_columns(table, "supported", "rejected", "95 % interval")
    for name, groups in report.by_style.items():
        for i, (group, one) in enumerate(groups.items()):
            add(table, name if i == 0 else "", group, f"{one.n:,}", percent(one.value), interval(one, 2))
    return table


def _diagnoses(report: SevaReport) -> Table:
    table = plain_table("\nError types of the rejections")
    table.add_column("type", no_wrap=True, min_width=_NAME)
    number_columns(table, "count", "share", "95 % interval")
    for kind, n in report.diagnoses.counts.items():
        one = report.diagnoses.shares[kind]
        add(table, label(kind), f"{n:,}", percent(one.value), interval(one, 2))
    if report.diagnosed.value is not None:
        add(table, "right type", "", percent(report.diagnosed.value), interval(report.diagnosed, 2))
    return table


def _calibration(report: SevaReport) -> Table:
    found = report.reliability
    title = f"\nCalibration: ECE {decimal(found.ece)}, of equal mass {decimal(found.adaptive_ece)}, Brier {decimal(found.brier)}"
    table = plain_table(title)
    table.add_column("confidence", no_wrap=True, min_width=_NAME)
    number_columns(table, "answers", "mean", "accuracy", "95 % interval")
    for one in found.bins:
        if one.n:
            reach = f"{decimal(one.low, 1)} to {decimal(one.high, 1)}"
            add(
                table,
                reach,
                f"{one.n:,}",
                decimal(one.confidence),
                decimal(one.accuracy.value),
                interval(one.accuracy),
            )
    return table


def render_comparison(found: SevaComparison) -> Group:
    """Both runs' scores, their differences and McNemar's test."""
    from rich.console import Group
    from rich.text import Text

    first, second = printable(found.first, 24), printable(found.second, 24)
    table = plain_table(f"\n{printable(found.env, 24)}: {second} against {first}, {count(found.n, 'episode')}")
    table.add_column("score", no_wrap=True)
    number_columns(table, first[:14], second[:14], "difference", "95 % interval", "p")
    for name, one in (("macro-F1", found.macro_f1), ("accuracy", found.accuracy)):
        values = (decimal(one.first), decimal(one.second), decimal(one.difference.value))
        add(table, name, *values, interval(one.difference), p_value(one.p))
    lines = []
    if found.mcnemar is not None:
        test = found.mcnemar
        kind = "exact" if test.exact else "with continuity correction"
        lines.append(
            f"McNemar ({kind}): only {first} right {test.first_only:,}, only {second} right {test.second_only:,}, "
            f"p {_is(p_value(test.p))}"
        )
    return Group(table, Text("\n".join([*lines, *(printable(note, 400) for note in found.notes)])))


def _is(shown: str) -> str:
    return shown if shown.startswith("<") else f"= {shown}"
