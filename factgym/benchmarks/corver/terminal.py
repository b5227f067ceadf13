"""What CorVer's evaluation prints, for a terminal of eighty columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from factgym.benchmarks.bars import Meter
from factgym.benchmarks.corver.answers import JUDGES
from factgym.benchmarks.corver.calibration import CountCalibration
from factgym.benchmarks.corver.compare import CorverComparison, Difference
from factgym.benchmarks.corver.popularity import Popularity
from factgym.benchmarks.corver.refusals import Decomposition
from factgym.benchmarks.corver.report import BenchmarkScores, CorverReport
from factgym.benchmarks.formats import ABSENT, count, decimal, interval, p_value, percent, printable
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import signed
from factgym.benchmarks.plain import add, number_columns, plain_table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_NAME = 15
_AVERAGED = {"attempted": "if tried", "refusal": "NA", "format": "format"}
_LENGTHS = ("words",)
_MARKS = ("accuracy", "refusal", "format")


def hundred(value: float | None) -> str:
    """A share in percent, without the sign."""
    return ABSENT if value is None else decimal(100 * value, 1)


def reach(found: Estimate) -> str:
    """The interval of a share in percent."""
    if found.low is None or found.high is None:
        return ABSENT
    return f"[{hundred(found.low)}, {hundred(found.high)}]"


def render_reports(reports: Sequence[CorverReport]) -> Group:
    """What the runs are, then one table for each benchmark, an agent a line, and the averages where there are several."""
    from rich.console import Group

    names = list(dict.fromkeys(name for one in reports for name in one.scores))
    parts: list[RenderableType] = [_heading(reports)]
    for name in names:
        parts.append(_benchmark(name, [(one.name, one.scores[name]) for one in reports if name in one.scores]))
    if any(len(one.scores) > 1 for one in reports):
        parts.append(_averages([one for one in reports if len(one.scores) > 1]))
    return Group(*parts)


def provenance(reports: Sequence[CorverReport]) -> list[tuple[list[str], list[str], str]]:
    """Who answered what under which setting: names, questions, setting; reports of the same questions together."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for report in reports:
        by_setting: dict[str, list[str]] = {}
        for label in report.labels:
            by_setting.setdefault(label.setting(), []).append(label.questions())
        for setting, questions in by_setting.items():
            found.setdefault((tuple(questions), setting), []).append(report.name)
    return [(names, list(questions), setting) for (questions, setting), names in found.items()]


def _heading(reports: Sequence[CorverReport]) -> RenderableType:
    from rich.text import Text

    text = Text()
    for names, questions, setting in provenance(reports):
        text.append(printable(", ".join(names), 76), "bold")
        text.append(f"\n  {'; '.join(questions)}\n  {setting}\n", "dim")
    for report in reports:
        if report.errors:
            text.append(
                f"{report.name}: {count(report.errors, 'infrastructure error')} left out of all scores\n", "yellow"
            )
    return text


def _benchmark(name: str, rows: Sequence[tuple[str, BenchmarkScores]]) -> Group:
    from rich.console import Group
    from rich.text import Text

    table = plain_table(f"\n{printable(name, 40)}: {count(rows[0][1].tasks, 'question')}; shares in %")
    table.add_column("agent", no_wrap=True, min_width=_NAME)
    number_columns(table, "acc", "95 %", *(f"{judge[:5]}." for judge in JUDGES), "NA", "format", "reward")
    for agent, one in rows:
        judged = (hundred(one.judged[judge].value) for judge in JUDGES)
        shares = (hundred(found.value) for found in (one.refusal, one.format))
        value = Text(hundred(one.accuracy.value), "bold")
        add(table, printable(agent, _NAME), value, reach(one.accuracy), *judged, *shares, decimal(one.reward.value, 2))
    return Group(table, _texts(rows))


def _texts(rows: Sequence[tuple[str, BenchmarkScores]]) -> Table:
    """Lengths and counts. c is the count of a sentence that gave a query."""
    table = plain_table("")
    table.add_column("means", no_wrap=True, min_width=_NAME)
    number_columns(table, "chars", "words", "sentences", "with query", "mean c", "median c", "c = 0")
    for agent, one in rows:
        lengths = (decimal(found.value, 1) for found in (one.chars, one.words, one.sentences))
        counts = (ABSENT if value is None else f"{value:,.0f}" for value in (one.mean_count, one.median_count))
        shares = (percent(one.queried.value, 0), percent(one.unsupported.value, 0))
        add(table, printable(agent, _NAME), *lengths, shares[0], *counts, shares[1])
    return table


def _averages(reports: Sequence[CorverReport]) -> Table:
    table = plain_table("\nAverage over benchmarks, %")
    table.add_column("agent", no_wrap=True, min_width=_NAME)
    number_columns(table, "sets", "acc", "95 %", *_AVERAGED.values(), *_LENGTHS)
    for one in reports:
        shown = [hundred(one.average[name].value) for name in _AVERAGED]
        shown += [decimal(one.average[name].value, 1) for name in _LENGTHS]
        found = one.average["accuracy"]
        add(table, printable(one.name, _NAME), str(len(one.scores)), hundred(found.value), reach(found), *shown)
    return table


def render_popularity(reports: Sequence[CorverReport]) -> Group:
    """Accuracy by quarter of popularity, in the layout of Table 3: a quarter a line, an agent a column."""
    from rich.console import Group

    return Group(*(_popularity(group) for group in with_same_quarters(reports)))


def with_same_quarters(reports: Sequence[CorverReport]) -> list[list[tuple[str, Popularity]]]:
    """The accuracies by popularity of reports on the same questions together, with their names."""
    groups: dict[tuple[Any, ...], list[tuple[str, Popularity]]] = {}
    for one in reports:
        if one.popularity is not None:
            parts = tuple((row.low, row.high, row.n) for row in one.popularity.quartiles)
            groups.setdefault((parts, one.popularity.excluded), []).append((one.name, one.popularity))
    return list(groups.values())


def _popularity(known: Sequence[tuple[str, Popularity]]) -> Table:
    first = known[0][1]
    left = f"; {count(first.excluded, 'question')} without popularity left out" if first.excluded else ""
    whose = f" of {printable(known[0][0], 30)}" if len(known) == 1 else ""
    table = plain_table(f"\nAccuracy{whose} by popularity, %{left}")
    table.add_column("quarter", no_wrap=True, min_width=_NAME)
    number_columns(
        table, "views", "n", *(["accuracy", "95 %"] if len(known) == 1 else [printable(name, 10) for name, _ in known])
    )
    for i, row in enumerate((*first.quartiles, first.all)):
        found = [(*one.quartiles, one.all)[i].accuracy for _, one in known]
        reaches = [reach(found[0])] if len(known) == 1 else []
        add(
            table,
            row.name,
            f"{row.low:,.0f}–{row.high:,.0f}",
            f"{row.n:,}",
            *(hundred(one.value) for one in found),
            *reaches,
        )
    return table


def render_curve(name: str, curve: CountCalibration) -> Group:
    """Right sentences by bucket of their count."""
    from rich.console import Group
    from rich.text import Text

    table = plain_table(f"\nRight sentences by count, %: {printable(name, 60)}")
    table.add_column("count", no_wrap=True, min_width=_NAME)
    number_columns(table, "sentences", "right", "share", "95 %", "rise")
    table.add_column("", no_wrap=True)
    rises = {one.at: one.rise for one in curve.jumps}
    for one in curve.buckets:
        rise = rises.get(one.low)
        shown = signed(100 * rise.value) if rise is not None and rise.value is not None else ""
        add(
            table,
            one.name,
            f"{one.n:,}",
            f"{one.correct:,}",
            hundred(one.share.value),
            reach(one.share),
            shown,
            Meter(one.share.value),
        )
    lines = [f"From bucket to bucket the share {'never falls' if curve.monotone else 'falls at least once'}."]
    if curve.auc is not None:
        lines.append(
            f"Of a right and a wrong sentence the right one has the higher count in {percent(curve.auc)} of pairs."
        )
    if curve.skipped:
        lines.append(f"{count(curve.skipped, 'sentence')} without a count left out.")
    return Group(table, Text(" ".join(lines), "dim"))


def render_comparison(found: CorverComparison) -> Group:
    """Both reports' shares and their paired differences, benchmark by benchmark."""
    from rich.console import Group
    from rich.text import Text

    first, second = printable(found.first, 24), printable(found.second, 24)
    table = plain_table(f"\n{second} against {first}: paired")
    table.add_column("benchmark", no_wrap=True)
    table.add_column("share", no_wrap=True)
    number_columns(table, printable(first, 9), printable(second, 9), "change", "95 %", "p")
    for name, one in found.benchmarks.items():
        test = p_value(one.mcnemar.p) if one.mcnemar is not None else ABSENT
        for i, part in enumerate(_MARKS):
            add(table, f"{name}, {one.n:,}" if i == 0 else "", part, *_cells(one.parts[part]), test if i == 0 else "")
        add(table, "", "words", *_lengths(one.parts["words"]), "")
    if len(found.benchmarks) > 1:
        for i, part in enumerate(_MARKS):
            add(table, "average" if i == 0 else "", part, *_cells(found.average[part]), "")
    notes = ["p: McNemar’s test of the accuracy." if any(one.mcnemar for one in found.benchmarks.values()) else ""]
    quarters = [_quarters(found)] if found.quarters else []
    return Group(
        table, *quarters, Text("\n".join(filter(None, [*notes, *(printable(one, 400) for one in found.notes)])), "dim")
    )


def _quarters(found: CorverComparison) -> Table:
    """The layout of Table 3."""
    table = plain_table("\nAccuracy by popularity, %")
    table.add_column("quarter", no_wrap=True, min_width=_NAME)
    number_columns(table, "views", "n", printable(found.first, 9), printable(found.second, 9), "change", "95 %")
    for one in found.quarters:
        add(table, one.name, f"{one.low:,.0f}–{one.high:,.0f}", f"{one.n:,}", *_cells(one.accuracy))
    return table


def _cells(one: Difference) -> tuple[str, ...]:
    found = one.difference
    change = ABSENT if found.value is None else signed(100 * found.value)
    return hundred(one.first), hundred(one.second), change, reach(found)


def _lengths(one: Difference) -> tuple[str, ...]:
    found = one.difference
    change = ABSENT if found.value is None else signed(found.value)
    return decimal(one.first, 1), decimal(one.second, 1), change, interval(found, 1)


def render_decompositions(found: Sequence[tuple[str, Decomposition]]) -> Group:
    """Where the change of accuracy came from."""
    from rich.console import Group
    from rich.text import Text

    table = plain_table("\nRefusals before and after, and where the gain comes from, %")
    table.add_column("agent, benchmark", no_wrap=True, min_width=_NAME)
    number_columns(table, "before", "after", "right", "gain", "unlocked", "both", "withdrawn")
    for name, one in found:
        shares = [hundred(part.value) for part in (one.raw_refusal, one.trained_refusal, one.unlocked)]
        parts = [signed(100 * value) for value in (one.gain, one.from_unlocked, one.from_both, one.from_withdrawn)]
        add(table, printable(f"{name}, {one.benchmark}", 26), *shares, *parts)
    said = "right: accuracy on questions that were refused before and are attempted now. The last three columns add up to the gain, in points."
    return Group(table, Text(said, "dim"))
