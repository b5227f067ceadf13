"""What `factgym benchmark eve` does: play or read runs of `eve-solver`, print tables, write the numbers.

The command line parses options and hands them over here, so that the same can be had from Python.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.agents.judges import Judge
from factgym.agents.resolve import scripted_agents
from factgym.agents.runs.artifacts import write_json
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.eve.paper import paper_tables
from factgym.benchmarks.eve.report import EveReport, evaluate_runs, grouped
from factgym.benchmarks.eve.suite import SUITE, has_documents
from factgym.benchmarks.eve.terminal import render_reports
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.papers.table import PaperTable
from factgym.benchmarks.papers.terminal import render_paper
from factgym.benchmarks.question_sets import DATA_VARIABLE, SYNTHETIC, OnStart, Plan, ignore_start
from factgym.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

NUMBERS = "report.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found. numbers: the file that was written, if any."""

    reports: tuple[EveReport, ...]
    tables: tuple[PaperTable, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: Path | None = None
    seconds: float = 0.0

    def render(self) -> Iterator[RenderableType]:
        """Everything for a terminal of eighty columns, in reading order."""
        from rich.text import Text

        yield render_reports(self.reports)
        yield from (render_paper(one) for one in self.tables)
        yield from (Text(f"\n{note}", "yellow") for note in self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "reports": [one.to_dict() for one in self.reports],
            "paper": [one.to_dict() for one in self.tables],
            "notes": list(self.notes),
        }


def play(
    plan: Plan, out: Path, *, paper: bool = False, judge: Judge | None = None, on_start: OnStart = ignore_start
) -> Outcome:
    """Play a plan into `out`, evaluate, and write `report.json` there.

    paper: the paper's tables as well. judge: of the evidence; by default the stand-in. Runs that are there are
    continued. Raises what `Suite.play` and the judge raise.
    """
    started = time.perf_counter()
    runs = SUITE.play(plan, out, on_start=on_start)
    return _outcome(list(runs.values()), out, tuple(_notes(plan)), paper, judge, started)


def read(
    folders: Sequence[Path], out: Path | None = None, *, paper: bool = False, judge: Judge | None = None
) -> Outcome:
    """Evaluate runs that are there, those of one agent together.

    out: the folder of `report.json`, which is not written without one. Raises DataError for what is no run of
    `eve-solver`.
    """
    started = time.perf_counter()
    if not folders:
        raise ConfigError("no run is given: name the folders that factgym eval or factgym benchmark wrote")
    return _outcome(grouped([read_run(one) for one in folders]), out, (), paper, judge, started)


def _outcome(
    groups: Sequence[Sequence[Run]],
    out: Path | None,
    notes: tuple[str, ...],
    paper: bool,
    judge: Judge | None,
    started: float,
) -> Outcome:
    reports = _named([evaluate_runs(list(group), judge=judge) for group in groups])
    found = Outcome(
        reports=tuple(reports),
        tables=paper_tables(reports) if paper else (),
        notes=(*notes, *_together(reports)),
        numbers=None if out is None else out / NUMBERS,
    )
    if found.numbers is not None:
        write_json(found.numbers, found.to_dict())
    return replace(found, seconds=time.perf_counter() - started)


def _named(reports: Sequence[EveReport]) -> list[EveReport]:
    """Reports whose names tell them apart: of two with one agent, by the folder of their first run."""
    names = Counter(one.name for one in reports)
    return [
        one if names[one.name] == 1 else replace(one, name=f"{one.name} ({Path(one.folders[0]).name})")
        for one in reports
    ]


def _together(reports: Sequence[EveReport]) -> Iterator[str]:
    """Each note once, with the names of those whom it is about where it is not about all."""
    found: dict[str, list[str]] = {}
    for one in reports:
        left = [f"{count(one.errors, 'infrastructure error')} left out of all scores."] if one.errors else []
        for note in (*left, *one.notes):
            found.setdefault(note, []).append(one.name)
    for note, names in found.items():
        yield note if len(names) == len(reports) else f"{', '.join(names)}: {note}"


def _notes(plan: Plan) -> Iterator[str]:
    if all(one.name == SYNTHETIC for one in plan.sets):
        yield (
            f"Played on generated questions alone. Give --data, or set {DATA_VARIABLE}, for the paper's seven benchmarks."
        )
    bare = [one.name for one in plan.sets if not has_documents(one)]
    if bare and not {"corpus", "search"} & set(plan.env):
        yield (
            f"{', '.join(bare)}: the questions bring no documents, and were answered without search. Name passages with "
            "--set corpus=FILE."
        )
    agents = scripted_agents(SUITE.env)
    if any(agents[name].role in ("oracle", "exploiter") for name in plan.agents if name in agents):
        yield "The oracle is told the gold answer and evidence: its scores are bounds, not results."


def closing(outcome: Outcome) -> str:
    """The last line: what was done in how many seconds, and where the numbers are."""
    answers = sum(one.n for one in outcome.reports)
    done = f"{count(len(outcome.reports), 'agent')}, {count(answers, 'answer')} in {decimal(outcome.seconds, 1)} s"
    return done if outcome.numbers is None else f"{done}\nNumbers: {outcome.numbers}"
