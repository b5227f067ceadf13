"""What `factgym benchmark corver` does: play or read runs, print tables, write the numbers.

The command line parses options and hands them over here, so that the same can be had from Python.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.agents.difficulty import Buckets
from factgym.agents.runs import FILTER_SUMMARY
from factgym.agents.runs.artifacts import read_json, write_json
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.corver.annotations import read_annotations, sentence_counter
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate
from factgym.benchmarks.corver.compare import CorverComparison, compare
from factgym.benchmarks.corver.page import PageContent, write_page
from factgym.benchmarks.corver.paper import paper_tables
from factgym.benchmarks.corver.refusals import Decomposition, decompose
from factgym.benchmarks.corver.report import CorverReport, evaluate_runs, grouped
from factgym.benchmarks.corver.suite import SUITE
from factgym.benchmarks.corver.terminal import (
    render_comparison,
    render_curve,
    render_decompositions,
    render_popularity,
    render_reports,
)
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.papers.table import PaperTable
from factgym.benchmarks.papers.terminal import render_paper
from factgym.benchmarks.question_sets import DATA_VARIABLE, SYNTHETIC, OnStart, Plan, ignore_start
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import open_counter
from factgym.rewards.corver import find_extractor

if TYPE_CHECKING:
    from rich.console import RenderableType

PAGE, NUMBERS = "report.html", "report.json"
_PAPER_JUDGE = "reference"
_REFERENCE = ("random", "student")
"""Which two are compared where all baselines play: second against first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found. curves: calibrations by name. files: what was written, the page first."""

    reports: tuple[CorverReport, ...]
    comparisons: tuple[CorverComparison, ...] = ()
    refusals: tuple[tuple[str, Decomposition], ...] = ()
    curves: tuple[tuple[str, CountCalibration], ...] = ()
    tables: tuple[PaperTable, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    seconds: float = 0.0

    def render(self) -> Iterator[RenderableType]:
        """Everything for a terminal of eighty columns, in reading order."""
        from rich.text import Text

        yield render_reports(self.reports)
        yield render_popularity(self.reports)
        yield from (render_curve(name, one) for name, one in self.curves)
        yield from (render_comparison(one) for one in self.comparisons)
        if self.refusals:
            yield render_decompositions(self.refusals)
        yield from (render_paper(one) for one in self.tables)
        yield from (Text(f"\n{note}", "yellow") for note in self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "reports": [one.to_dict() for one in self.reports],
            "comparisons": [one.to_dict() for one in self.comparisons],
            "refusals": [{"pair": name, **one.to_dict()} for name, one in self.refusals],
            "calibration": {name: one.to_dict() for name, one in self.curves},
            "paper": [one.to_dict() for one in self.tables],
            "notes": list(self.notes),
        }


def play(
    plan: Plan,
    out: Path,
    *,
    paper: bool = False,
    annotated: Path | None = None,
    on_start: OnStart = ignore_start,
) -> Outcome:
    """Play a plan into `out`, evaluate, compare the first agent with the others, and write `report.html` and `report.json` there.

    paper: the paper's tables as well. annotated: a file of annotated sentences, for a calibration curve. Runs that are
    there are continued. Raises what `Suite.play` and `read_annotations` raise.
    """
    started = time.perf_counter()
    curves = _curves(annotated, plan.env)
    runs = SUITE.play(plan, out, on_start=on_start)
    names = list(runs)
    compared = list(_REFERENCE) if set(_REFERENCE) <= set(SUITE.baselines()) <= set(names) else names
    places = [(names.index(compared[0]), names.index(other)) for other in compared[1:]]
    return _outcome(list(runs.values()), out, curves, tuple(_notes(plan)), started, paper, places)


def read(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    paper: bool = False,
    annotated: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Outcome:
    """Evaluate runs that are there: those of one agent together, the first agent compared with every other.

    out: the folder of `report.html` and `report.json`; without one nothing is written. settings: `counter` and `extractor`, for annotated
    sentences without a count. Raises DataError for what is no run of a corver environment.
    """
    started = time.perf_counter()
    if not folders:
        raise ConfigError("no run is given: name the folders that factgym eval or factgym benchmark wrote")
    curves = _curves(annotated, settings or {})
    runs = [read_run(one) for one in folders]
    return _outcome(grouped(runs), out, curves, (), started, paper)


def _outcome(
    groups: Sequence[Sequence[Run]],
    out: Path | None,
    curves: tuple[tuple[str, CountCalibration], ...],
    notes: tuple[str, ...],
    started: float,
    paper: bool,
    chosen: Sequence[tuple[int, int]] | None = None,
) -> Outcome:
    """chosen: which groups to compare; by default the first with every other that answers its questions."""
    reports = _named([evaluate_runs(list(group)) for group in groups])
    places = [(0, i) for i in range(1, len(reports)) if _meet(reports[0], reports[i])] if chosen is None else chosen
    comparisons, refusals = _compared(reports, places)
    proxies = tuple(
        (f"{one.name}, {PROXY}", one.proxy) for one in reports if one.proxy is not None and _telling(one.proxy)
    )
    tables = _tables(groups, reports, places, curves) if paper else ()
    notes = (*notes, *_together(reports))
    found = Outcome(tuple(reports), comparisons, refusals, (*curves, *proxies), tables, notes)
    files = () if out is None else _write(found, out)
    return replace(found, files=files, seconds=time.perf_counter() - started)


def _compared(
    reports: Sequence[CorverReport], places: Sequence[tuple[int, int]]
) -> tuple[tuple[CorverComparison, ...], tuple[tuple[str, Decomposition], ...]]:
    pairs = [(reports[a], reports[b]) for a, b in places]
    refusals = tuple((b.name, row) for a, b in pairs for row in decompose(a, b))
    return tuple(compare(*pair) for pair in pairs), refusals


def _tables(
    groups: Sequence[Sequence[Run]],
    reports: Sequence[CorverReport],
    places: Sequence[tuple[int, int]],
    curves: Sequence[tuple[str, CountCalibration]],
) -> tuple[PaperTable, ...]:
    """The paper's tables, with ours judged as the paper judges."""
    judged = [_judged(group, one.name) for group, one in zip(groups, reports, strict=True)]
    comparisons, refusals = _compared(judged, places)
    return paper_tables(judged, curves=curves, zones=_zones(groups), refusals=refusals, comparisons=comparisons)


def _write(found: Outcome, out: Path) -> tuple[Path, ...]:
    content = PageContent(found.reports, found.comparisons, found.refusals, found.curves, found.tables, found.notes)
    write_json(out / NUMBERS, found.to_dict())
    return write_page(content, out / PAGE), out / NUMBERS


_FEWEST = 20

PROXY = "by the answer"
"""A sentence of a run counts as right when its completion's answer is: nobody said whether the sentence itself is."""


def _together(reports: Sequence[CorverReport]) -> Iterator[str]:
    """Each note once, with the names of those whom it is about."""
    found: dict[str, list[str]] = {}
    for one in reports:
        for note in one.notes:
            found.setdefault(note, []).append(one.name)
    yield from (f"{', '.join(names)}: {note}" for note, names in found.items())


def _telling(curve: CountCalibration) -> bool:
    """Whether there are right and wrong sentences enough for a curve."""
    right = sum(one.correct for one in curve.buckets)
    return min(right, curve.n - right) >= _FEWEST


def _named(reports: Sequence[CorverReport]) -> list[CorverReport]:
    """Reports whose names tell them apart: of two with one agent, by the folder of their first run."""
    names = [one.name for one in reports]
    found = []
    for one in reports:
        if names.count(one.name) > 1:
            extra = one.labels[0].variant or Path(one.labels[0].folder).name
            one = replace(one, name=f"{one.name} ({extra})")
        found.append(one)
    return found


def _meet(first: CorverReport, second: CorverReport) -> bool:
    known = {(one.benchmark, one.task, one.sample) for one in first.answers}
    return any((one.benchmark, one.task, one.sample) in known for one in second.answers)


def _judged(group: Sequence[Run], name: str) -> CorverReport:
    """As the paper judges, where the runs hold those labels."""
    try:
        return evaluate_runs(list(group), name, judge=_PAPER_JUDGE)
    except DataError:
        return evaluate_runs(list(group), name)


def _zones(groups: Sequence[Sequence[Run]]) -> list[tuple[str, Buckets]]:
    """The buckets of runs that a filter made."""
    found = []
    for run in (run for group in groups for run in group):
        file = run.folder / FILTER_SUMMARY
        if file.is_file():
            row = read_json(file)
            buckets = Buckets(tuple(row["histogram"]), row["retained"], row["anchors"], row["incomplete"])
            found.append((str(row.get("agent") or run.folder.name), buckets))
    return found


def _curves(annotated: Path | None, settings: Mapping[str, Any]) -> tuple[tuple[str, CountCalibration], ...]:
    if annotated is None:
        return ()
    counter = settings.get("counter")
    if counter is not None and not isinstance(counter, str):
        raise ConfigError(f"counter must be the path of an index here, not {type(counter).__name__}")
    counting = None
    if counter:
        options = settings.get("counter_options") or {}
        extractor = find_extractor(settings.get("extractor") or "rule")
        counting = sentence_counter(open_counter(counter, **options), extractor)
    return ((annotated.name, calibrate(read_annotations(annotated, counting))),)


def _notes(plan: Plan) -> Iterator[str]:
    if all(one.name == SYNTHETIC for one in plan.sets):
        yield (
            f"Played on generated questions alone. Give --data, or set {DATA_VARIABLE}, for TriviaQA, NQ-Open, PopQA, "
            "SimpleQA and TruthfulQA."
        )


def closing(outcome: Outcome) -> str:
    """The last line: what was done in how many seconds, and where it is."""
    answers = sum(one.n for one in outcome.reports)
    done = f"{count(len(outcome.reports), 'agent')}, {count(answers, 'answer')} in {decimal(outcome.seconds, 1)} s"
    return f"{done}\nPage: {outcome.files[0]}" if outcome.files else done
