"""What EVE's evaluation prints, for a terminal of eighty columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from factgym.benchmarks.eve.report import BenchmarkScores, EveReport
from factgym.benchmarks.formats import ABSENT, count, decimal, printable
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.plain import add, number_columns, plain_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Group, RenderableType
    from rich.table import Table

_NAME = 17


def hundred(found: Estimate) -> str:
    """A share in percent, without the sign."""
    return ABSENT if found.value is None else decimal(100 * found.value, 1)


def _reach(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ABSENT
    return f"[{decimal(100 * found.low, 1)}, {decimal(100 * found.high, 1)}]"


def render_reports(reports: Sequence[EveReport]) -> Group:
    """One table for each benchmark, an agent a line; the averages where there are several; who judged."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for name in dict.fromkeys(name for one in reports for name in one.scores):
        parts.append(_benchmark(name, [(one.name, one.scores[name]) for one in reports if name in one.scores]))
    several = [one for one in reports if len(one.scores) > 1]
    if several:
        parts.append(_averages(several))
    judges = dict.fromkeys(one.judge for one in reports)
    return Group(*parts, *(Text(f"\n{judge}", "yellow") for judge in judges))


def _benchmark(name: str, rows: Sequence[tuple[str, BenchmarkScores]]) -> Table:
    tasks = max(one.tasks for _, one in rows)
    table = _table(f"\n{name}: {count(tasks, 'question')}, in percent")
    for agent, one in rows:
        parts = {part: getattr(one, part) for part in _COLUMNS}
        _line(table, agent, parts, decimal(one.searches.value, 1))
    return table


def _averages(reports: Sequence[EveReport]) -> Table:
    table = _table("\nmean of the benchmarks")
    for one in reports:
        _line(table, one.name, one.average, decimal(one.average["searches"].value, 1))
    return table


_COLUMNS = ("em", "evidence", "joint", "presence", "verbatim", "evidence_f1")
"""In the order of their titles: span is the share with evidence, verb. that of verbatim evidence, F1 that of the evidence."""
_TITLES = ("EM", "evid.", "joint", "95 %", "span", "verb.", "F1", "calls")


def _table(title: str) -> Table:
    table = plain_table(title)
    table.add_column("agent", no_wrap=True, min_width=_NAME)
    number_columns(table, *_TITLES)
    return table


def _line(table: Table, agent: str, found: Mapping[str, Estimate], searches: str) -> None:
    cells = [hundred(found[part]) for part in _COLUMNS]
    add(table, printable(agent, _NAME), *cells[:3], _reach(found["joint"]), *cells[3:], searches)
