"""The layouts of the paper's Tables 1 to 4 and 7 with ours in them.

Theirs are trained models; ours are whoever was played, on what was at hand: never a reproduction. The text of the paper
that this was written from has lost the cells of its tables, so that theirs show what its sentences say: which system
is best on which benchmark. A number that is not known is a dash, and never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factgym.benchmarks.eve.facts import facts
from factgym.benchmarks.eve.report import EveReport
from factgym.benchmarks.eve.terminal import hundred
from factgym.benchmarks.formats import ABSENT
from factgym.benchmarks.papers.table import PaperRow, PaperTable

BEST = "best"
_JOINT = ("The paper: EVE-Agent is best on 6 of 7 and on average; it does not say which the seventh is.",)


def paper_tables(reports: Sequence[EveReport]) -> tuple[PaperTable, ...]:
    """All tables, theirs first in each."""
    return (
        _by_benchmark("Table 2", "Answer exact match, in percent", "em", "table2", reports, tuple(_common(reports))),
        _by_benchmark("Table 3", "Evidence score by a judge, in percent", "evidence", "table3", reports),
        _by_benchmark("Table 4", "Joint answer and evidence, in percent", "joint", "table4", reports, _JOINT),
        _diagnostics(reports),
    )


def _columns() -> list[tuple[str, str]]:
    found = facts("benchmarks")
    return list(zip(found["columns"], found["titles"], strict=True))


def _by_benchmark(
    source: str, title: str, part: str, table: str, reports: Sequence[EveReport], notes: Sequence[str] = ()
) -> PaperTable:
    columns, said = _columns(), facts(table)
    rows = [_theirs(system, [name for name, _ in columns], said) for system in facts("systems")["rows"]]
    for one in reports:
        cells = [hundred(getattr(one.scores[name], part)) if name in one.scores else ABSENT for name, _ in columns]
        rows.append(PaperRow((f"{one.name} (ours)", *cells, _average(one, part))))
    names = ("System", *(title for _, title in columns), "Avg.")
    return PaperTable(source, title, "theirs", names, tuple(rows), tuple(notes))


def _theirs(system: str, names: Sequence[str], said: Mapping[str, Any]) -> PaperRow:
    cells = [BEST if said["best"].get(name) == system else ABSENT for name in names]
    return PaperRow((system, *cells, BEST if said["average"] == system else ABSENT))


def _average(report: EveReport, part: str) -> str:
    """The mean over the paper's benchmarks, where all seven were played: of fewer it is another number."""
    complete = all(name in report.scores for name, _ in _columns())
    return hundred(report.average[part]) if complete else ABSENT


def _diagnostics(reports: Sequence[EveReport]) -> PaperTable:
    """Tables 1 and 7: all the numbers of a benchmark side by side; span: share of answers with a span."""
    titles = dict(_columns())
    rows = [
        PaperRow(
            (
                titles.get(name, name),
                f"{one.name} (ours)",
                *(hundred(getattr(scores, part)) for part in ("em", "evidence", "joint", "presence")),
            )
        )
        for one in reports
        for name, scores in one.scores.items()
    ]
    low, high = facts("table7")["presence"]
    notes = (
        f"The paper: the prior system emits a span in {low}–{high} % of its answers, about as many as the initial model.",
        "Table 1 is the part of Table 7 on four benchmarks; the paper improves evidence and joint rate on all but 2Wiki.",
    )
    return PaperTable(
        "Tables 1, 7",
        "Evidence diagnostics",
        "theirs",
        ("on", "who", "EM", "evid.", "joint", "span"),
        tuple(rows),
        notes,
    )


def _common(reports: Sequence[EveReport]) -> Iterator[str]:
    systems, instances = facts("systems"), facts("benchmarks")["instances"]
    yield (
        f"Theirs: {systems['backbone']}, {instances[0]:,} questions of each benchmark ({instances[-1]} of Bamboogle), judged by "
        f"{systems['judge']}. “{BEST}” is what the paper’s sentences say; its cells are not in the text at hand."
    )
    yield from dict.fromkeys(one.judge for one in reports)
