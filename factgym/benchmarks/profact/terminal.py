"""ProFact's reports at eighty columns: the agents of a benchmark side by side, and everything about one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from factgym.benchmarks.bars import Meter
from factgym.benchmarks.formats import ABSENT, count, decimal, interval, percent, printable
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.plain import add, number_columns, plain_table
from factgym.benchmarks.profact.facts import facts
from factgym.benchmarks.profact.report import ProFactReport
from factgym.benchmarks.summary import NO_VERDICT

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_NAME, _AGENT = 24, 20
_SHORT = {
    "Supported": "Supp.",
    "Refuted": "Ref.",
    "Not Enough Evidence": "NEE",
    "Conflicting Evidence/Cherrypicking": "Confl.",
    NO_VERDICT: "none",
}


def render_results(results: Sequence[tuple[str, ProFactReport]], title: str = "") -> Group:
    """An agent a line, and the notes that they have."""
    from rich.console import Group
    from rich.text import Text

    cutoff = facts("setting")["cutoff"]
    table = plain_table(f"\n{title}, in percent; AVeriTeC score above {cutoff}")
    table.add_column("agent", no_wrap=True, min_width=_AGENT)
    number_columns(table, "Q-only", "Q&A", "acc", "AVeriTeC", "95 %", "macro-F1")
    for name, one in results:
        main = one.averitec[cutoff]
        add(
            table,
            printable(name, _AGENT),
            *(_hundred(found) for found in (one.question, one.qa, one.accuracy)),
            Text(_hundred(main), "bold"),
            _reach(main),
            _hundred(one.macro_f1),
        )
    notes = dict.fromkeys(note for _, one in results for note in _all_notes(one))
    return Group(table, *(Text(printable(note, 400), "yellow") for note in notes))


def _hundred(found: Estimate) -> str:
    return ABSENT if found.value is None else decimal(100 * found.value, 1)


def _reach(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ABSENT
    return f"[{decimal(100 * found.low, 1)}, {decimal(100 * found.high, 1)}]"


def _all_notes(report: ProFactReport) -> list[str]:
    """The report's notes, and what was left out of its scores."""
    left = []
    if report.errors:
        left.append(f"{count(report.errors, 'infrastructure error')} left out of all scores.")
    if report.unscored:
        left.append(f"{count(report.unscored, 'episode')} not scored.")
    return [*left, *report.notes]


def render_report(report: ProFactReport) -> Group:
    """Everything about one run or file of predictions."""
    from rich.console import Group

    parts: list[RenderableType] = [_heading(report), _main_scores(report), _labels(report)]
    parts.append(_costs(report))
    return Group(*parts)


def _heading(report: ProFactReport) -> RenderableType:
    from rich.text import Text

    text = Text.assemble((printable(report.env or "predictions", 40), "bold"), ("  of ", "dim"))
    text.append(printable(report.agent, 60), "bold")
    text.append(f"\n{count(report.n, 'claim' if report.n == report.tasks else 'episode')}")
    text.append(f" of {count(report.tasks, 'claim')}" if report.n != report.tasks else "")
    text.append(f", split {printable(report.split, 30)}" if report.split else "")
    for note in _all_notes(report):
        text.append(f"\n{printable(note, 400)}", "yellow")
    return text.append("\n")


def _main_scores(report: ProFactReport) -> Table:
    rows = {
        "Q-only METEOR": report.question,
        "Q&A METEOR": report.qa,
        "accuracy": report.accuracy,
        "macro-F1": report.macro_f1,
        **{f"AVeriTeC score > {cutoff}": one for cutoff, one in report.averitec.items()},
    }
    table = plain_table("")
    table.add_column("score", no_wrap=True, min_width=_NAME)
    number_columns(table, "value", "95 % interval")
    table.add_column("", no_wrap=True)
    for name, one in rows.items():
        add(table, name, decimal(one.value), interval(one), Meter(one.value))
    return table


def _labels(report: ProFactReport) -> Table:
    found = report.confusion
    table = plain_table("\nLabels")
    table.add_column("gold", no_wrap=True, min_width=_NAME)
    number_columns(table, *(_SHORT[said] for said in found.predictions), "F1", "95 % interval")
    for gold, row in zip(found.golds, found.counts, strict=True):
        one = report.f1[gold]
        add(table, printable(gold, 22), *(f"{n:,}" for n in row), decimal(one.value, 2), interval(one, 2))
    return table


def _costs(report: ProFactReport) -> Table:
    table = plain_table("\nFor a claim")
    table.add_column("", no_wrap=True, min_width=_NAME)
    number_columns(table, "mean", "95 % interval", "total")
    for name, one in {"questions": report.asked, "searches": report.searches}.items():
        add(table, name, decimal(one.value, 1), interval(one, 1), "")
    add(table, "questions unanswered", percent(report.unanswered.value), interval(report.unanswered, 2), "")
    add(table, "without a label", percent(report.no_label.value), interval(report.no_label, 2), "")
    add(table, "seconds on the clock", decimal(report.seconds.value, 2), interval(report.seconds, 2), "")
    for kind, name in (("prompt_tokens", "tokens in"), ("completion_tokens", "tokens out")):
        used = report.usage.tokens.get(kind) if report.usage is not None else None
        if used is not None:
            add(table, name, decimal(used.per_episode.value, 0), interval(used.per_episode, 0), f"{used.total:,}")
    return table
