"""What `factgym benchmark profact` does: play agents, or read runs and predictions; print tables, write the numbers.

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
from factgym.benchmarks.papers.table import PaperTable
from factgym.benchmarks.profact.facts import facts
from factgym.benchmarks.profact.paper import named, paper_tables
from factgym.benchmarks.profact.report import ProFactReport, evaluate_predictions, evaluate_run
from factgym.benchmarks.profact.suite import (
    AVERITEC,
    ENV,
    DataSet,
    OnStart,
    Plan,
    Result,
    ignore_start,
    play_suite,
)
from factgym.benchmarks.profact.terminal import render_report, render_results
from factgym.benchmarks.sweep import write_json
from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError
from factgym.datasets.averitec import FactCheck, FactChecks, read_fact_checks

if TYPE_CHECKING:
    from rich.console import RenderableType

NUMBERS = "report.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found. results: by name. single: each report is shown in full, not one line of a table."""

    title: str
    results: tuple[Result, ...]
    tables: tuple[PaperTable, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: Path | None = None
    seconds: float = 0.0
    single: bool = False

    def render(self) -> Iterator[RenderableType]:
        """Everything for a terminal of eighty columns, in reading order."""
        from rich.text import Text

        from factgym.benchmarks.papers.terminal import render_paper

        reports = [(one.agent, one.report) for one in self.results]
        if self.single:
            yield from (render_report(one) for _, one in reports)
        if not self.single or len(reports) > 1:
            yield render_results(reports, self.title)
        yield from (render_paper(one) for one in self.tables)
        yield from (Text(f"\n{note}", "yellow") for note in self.notes)


def play(plan: Plan, out: Path, *, paper: bool = False, on_start: OnStart = ignore_start) -> Outcome:
    """Play a plan into `out`, evaluate, and write `report.json` there.

    paper: the paper's tables as well. Runs that are there are continued. Raises what `play_suite` raises.
    """
    started = time.perf_counter()
    results = tuple(play_suite(plan, out, on_start=on_start))
    write_json(results, out / NUMBERS)
    first = results[0].report
    return Outcome(
        title=f"{plan.data_set.name}, {plan.data_set.split}: {count(first.tasks, 'claim')}",
        results=results,
        tables=_tables(results) if paper else (),
        notes=tuple(_notes(plan)),
        numbers=out / NUMBERS,
        seconds=time.perf_counter() - started,
    )


def _tables(results: Sequence[Result]) -> tuple[PaperTable, ...]:
    return paper_tables(named([(one.agent, one.report) for one in results]))


def _notes(plan: Plan) -> Iterator[str]:
    if plan.data_set.path is None:
        yield (
            "Played on generated claims, on which no score of the paper is. Give AVeriTeC's dev.json with --path, or set "
            f"{DATA_VARIABLE}."
        )
    agents = scripted_agents(ENV)
    if any(agents[name].role in ("exploiter", "oracle") for name in plan.agents if name in agents):
        yield (
            "The oracle is told the gold questions, answers and label, and some other scripts are told parts: their "
            "scores are bounds, not results."
        )


def read(
    runs: Sequence[Path] = (),
    predictions: Sequence[Path] = (),
    data: DataSet | None = None,
    *,
    paper: bool = False,
    out: Path | None = None,
) -> Outcome:
    """Evaluate runs that are there, and files of predictions.

    data: the gold claims. Predictions need them; runs are scored anew with them. out: folder for `report.json`, which
    is not written without one. Raises DataError for what is no run of a profact environment, for unusable files, and
    for predictions of other claims; ConfigError for predictions without gold claims.
    """
    started = time.perf_counter()
    checks = _gold(data, needed=bool(predictions))
    found = [evaluate_run(run, checks=checks) for run in runs]
    split = data.split if data is not None else ""
    found += [evaluate_predictions(one, checks or (), split=split) for one in predictions]
    results = tuple(_results(found))
    short = [_first_five(one, checks or (), split) for one in predictions] if paper else []
    if out is not None:
        write_json(results, out / NUMBERS)
    return Outcome(
        title="Runs and predictions",
        results=results,
        tables=_tables((*results, *short)) if paper else (),
        numbers=None if out is None else out / NUMBERS,
        seconds=time.perf_counter() - started,
        single=True,
    )


def _first_five(file: Path, checks: Sequence[FactCheck], split: str) -> Result:
    """Predictions as the paper compares them: no more questions than its own policy may pose."""
    limit = facts("setting")["max_questions"]
    report = evaluate_predictions(file, checks, split=split, limit=limit)
    return Result(split, f"{report.agent}, {limit} questions", report, 0.0)


def _gold(data: DataSet | None, needed: bool) -> FactChecks | None:
    if data is not None and data.path is not None:
        return read_fact_checks(data.path, data.split)
    if needed:
        raise ConfigError(
            f"predictions are scored against gold claims: give AVeriTeC's dev.json with --path, or set {DATA_VARIABLE}"
        )
    return None


def _results(reports: Sequence[ProFactReport]) -> Iterator[Result]:
    agents = Counter(one.agent for one in reports)
    for one in reports:
        name = one.agent if agents[one.agent] == 1 else f"{one.agent} ({one.source})"
        yield Result(one.split or AVERITEC, name, one, 0.0)


def closing(outcome: Outcome) -> str:
    """The last line: what was done in how many seconds, and where the numbers are."""
    episodes = sum(one.report.n for one in outcome.results)
    done = f"{count(len(outcome.results), 'agent')}, {count(episodes, 'episode')} in {decimal(outcome.seconds, 1)} s"
    return done if outcome.numbers is None else f"{done}\nNumbers: {outcome.numbers}"
