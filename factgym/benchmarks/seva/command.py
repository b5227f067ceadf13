"""What `factgym benchmark seva` does: play or read runs, print tables, write the page and the numbers.

The command line parses options and hands them over here, so that the same can be had from Python.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from factgym.agents.resolve import scripted_agents
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.papers.terminal import render_paper
from factgym.benchmarks.seva.compare import SevaComparison, compare
from factgym.benchmarks.seva.page import PageContent, write_report
from factgym.benchmarks.seva.paper import PaperTable, paper_tables
from factgym.benchmarks.seva.report import evaluate_run
from factgym.benchmarks.seva.suite import (
    GENERATED,
    OnStart,
    Plan,
    Result,
    baselines,
    ignore_start,
    play_suite,
)
from factgym.benchmarks.seva.terminal import render_comparison, render_report, render_results
from factgym.benchmarks.sweep import write_json
from factgym.core.config import DATA_VARIABLE

if TYPE_CHECKING:
    from rich.console import RenderableType

PAGE, NUMBERS = "report.html", "report.json"
_REFERENCE = ("lexical", "nli")
"""Which two are compared where all baselines play: second against first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found. files: what was written, the page first."""

    results: tuple[Result, ...]
    comparisons: tuple[SevaComparison, ...] = ()
    tables: tuple[PaperTable, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    seconds: float = 0.0
    single: bool = False

    def render(self) -> Iterator[RenderableType]:
        """Everything for a terminal of eighty columns, in reading order."""
        from rich.text import Text

        if self.single:
            yield from (render_report(one.report) for one in self.results)
        elif self.results:
            yield render_results(self.results)
        yield from (render_comparison(one) for one in self.comparisons)
        yield from (render_paper(one) for one in self.tables)
        yield from (Text(f"\n{note}", "yellow") for note in self.notes)


def play(plan: Plan, out: Path, *, paper: bool = False, on_start: OnStart = ignore_start) -> Outcome:
    """Play a plan into `out`, evaluate, compare, and write `report.html` and `report.json` there.

    paper: the paper's tables as well. Runs that are there are continued. Raises what `play_suite` raises.
    """
    started = time.perf_counter()
    results = tuple(play_suite(plan, out, on_start=on_start))
    comparisons = tuple(_compared(plan, results))
    tables = paper_tables(plan.data_sets, results) if paper else ()
    seconds = time.perf_counter() - started
    notes = tuple(_notes(plan))
    content = PageContent("SEVA benchmark", results, comparisons, tables, notes)
    files = (write_report(content, out / PAGE), out / NUMBERS)
    write_json(results, out / NUMBERS)
    return Outcome(results, comparisons, tables, notes, files, seconds)


def _compared(plan: Plan, results: Sequence[Result]) -> Iterator[SevaComparison]:
    """The first agent that was named against every other; where all baselines play, their two verifiers."""
    chosen = _REFERENCE if set(baselines()) <= set(plan.agents) else plan.agents
    for data_set in plan.data_sets:
        folders = {one.agent: one.report.folder for one in results if one.data_set == data_set.name}
        first, *others = (folders[name] for name in chosen)
        yield from (compare(first, other) for other in others)


def _notes(plan: Plan) -> Iterator[str]:
    if all(one.name == GENERATED for one in plan.data_sets):
        yield (
            "Played on generated claims alone. Give --data, or set "
            f"{DATA_VARIABLE}, for FEVER, TruthfulQA, HaluEval, ClearFacts and ANLI."
        )
    agents = scripted_agents("seva")
    if any(agents[name].role == "exploiter" for name in plan.agents if name in agents):
        yield (
            "Exploiters such as garbage and label-only are told the right label: their F1 says nothing. What a reward "
            "pays them is what they are for; factgym audit shows it."
        )


def read(runs: Sequence[Path], out: Path | None = None) -> Outcome:
    """Evaluate runs that are there, compare the first with every other, and write the page.

    out: the page's folder, by default the first run's. Raises DataError for what is no run of a seva environment, and
    ConfigError for runs of different tasks.
    """
    started = time.perf_counter()
    reports = [evaluate_run(run) for run in runs]
    comparisons = tuple(compare(runs[0], other) for other in runs[1:])
    agents = Counter(one.agent for one in reports)
    results = tuple(
        Result(one.env, one.agent if agents[one.agent] == 1 else f"{one.agent} ({one.folder})", one, 0.0)
        for one in reports
    )
    page = (out or Path(reports[0].folder)) / ("seva.html" if out is None else PAGE)
    files = (write_report(PageContent("SEVA report", results, comparisons), page),)
    return Outcome(results, comparisons, (), (), files, time.perf_counter() - started, single=True)


def closing(outcome: Outcome) -> str:
    """The last line: what was done in how many seconds, and where it is."""
    sets, agents = (len({getattr(one, key) for one in outcome.results}) for key in ("data_set", "agent"))
    episodes = sum(one.report.n for one in outcome.results)
    done = f"{count(sets, 'data set')}, {count(agents, 'agent')}, {count(episodes, 'episode')} in {decimal(outcome.seconds, 1)} s"
    return f"{done}\nPage: {outcome.files[0]}"
