"""The benchmark of ClaimCheck: its generated splits, and the five surfaces that keep its skills apart.

In the paper's tables theirs are trained models on the paper's own generated splits, under rewards of its own; ours are
the agents played on our generated splits. They are never a reproduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.agents.runs.read import Run
from factgym.benchmarks.benchmark import (
    AgentResult,
    Benchmark,
    DataSet,
    Evaluation,
    Outcome,
    check_names,
    data_path,
    require_no_names,
)
from factgym.benchmarks.formats import count, value_at
from factgym.benchmarks.metrics import RunSummary, summarise
from factgym.benchmarks.report import Note, Part, Report, Section, Table, layout_table, paper_facts
from factgym.benchmarks.tables import fault_sentence, surface_table
from factgym.core.errors import DataError

SPLITS: Mapping[str, str] = MappingProxyType(
    {"mixed": "claimcheck", "hard": "claimcheck-hard", "ood": "claimcheck-ood", "multihop": "claimcheck-multihop"}
)
"""The paper's splits, with the environment of each."""
FILES: Mapping[str, str] = MappingProxyType({"docs": "claimcheck-docs", "contracts": "claimcheck-contracts"})
"""Data sets over files, with the environment of each."""
TASKS = 200
"""Of each split, unless the request says otherwise."""
_EXPLOITER_NOTE = "Exploiters may know the gold label; only their rewards matter: see factgym audit."
Results = Sequence[AgentResult[RunSummary]]
facts = partial(paper_facts, "claimcheck")
table = partial(layout_table, "claimcheck")


def data_sets(
    data: Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the paper's four splits, or those of `only`; docs and contracts are read from files.

    Raises ConfigError for unknown names, and for docs or contracts without data.
    """
    check_names(only, (*SPLITS, *FILES))
    path = data_path(data) if set(only) & set(FILES) else None
    if path is None:
        require_no_names([name for name in only if name in FILES], "", "a file or folder")
    return tuple(
        DataSet(name, SPLITS[name], limit=TASKS)
        if name in SPLITS
        else DataSet(name, FILES[name], path=path, limit=TASKS)
        for name in only or SPLITS
    )


def evaluate(evaluation: Evaluation) -> Outcome:
    """Summarise every run, and make the paper's tables with ours in them."""
    results = evaluation.results(summarise_run)
    tables = paper_tables(results) if evaluation.request.paper else ()
    notes = [note for run in evaluation.runs for note in run.run.notes]
    notes += evaluation.notes("", {("exploiter",): _EXPLOITER_NOTE})
    sections = tuple(_sections(results, detailed=not evaluation.played))
    report = Report("ClaimCheck benchmark", sections, tables, tuple(dict.fromkeys(notes)))
    return Outcome.of_runs(results, report, sum(result.report.scored for result in results))


def summarise_run(run: Run) -> RunSummary:
    """Return the summary of a run. Raises DataError for a run without a score, and for one of another family."""
    summary = summarise(run.episodes(), bounds=run.reward_bounds)
    if not summary.scored:
        raise DataError(f"{run.folder}: holds no scored episode ({summary.errors} ended by the infrastructure)")
    if not summary.surfaces:
        raise DataError(f"{run.folder}: its tasks have no gold label; is this a run of a claimcheck environment?")
    return summary


def _sections(results: Results, *, detailed: bool) -> Iterator[Section]:
    for name in dict.fromkeys(result.data_set for result in results):
        group = [result for result in results if result.data_set == name]
        overview = table("overview", group, name=name, tasks=group[0].report.tasks)
        yield Section(name, (overview,), page_only=detailed, in_navigation=True)
        for result in group:
            report, about = result.report, count(result.report.scored, "episode")
            notes = [Note(f"{report.env} of {report.agent}: {about} scored", fine=True)]
            notes += [Note(fault_sentence(report))] if report.errors else []
            details: tuple[Part, ...] = (*notes, surface_table(report, "Five surfaces"))
            yield Section(f"{name}: {result.agent}", details, about, page_only=not detailed, folded=True)


def paper_tables(results: Results) -> tuple[Table, ...]:
    """Return the rewards by split and the components by split, theirs first in each."""
    reports = {(result.data_set, result.agent): result.report for result in results}
    rewards = [
        {
            "agent": agent,
            "reward": [value_at(reports.get((name, agent)), "reward") for name in facts("rewards")["columns"]],
        }
        for agent in dict.fromkeys(result.agent for result in results)
    ]
    printed, components = facts("components"), []
    for split in dict.fromkeys(row["split"] for row in printed["rows"]):
        theirs = [row for row in printed["rows"] if row["split"] == split]
        components += [{"name": f"{row['model']} (theirs)", **row} for row in theirs]
        for result in (result for result in results if result.data_set == split):
            values = [result.report.components.get(name) for name in printed["names"]]
            components.append({"name": f"{result.agent} (ours)", "split": split, "values": values})
    return table("rewards", rewards), table("components", components, columns=printed["titles"])


BENCHMARK = Benchmark(name="claimcheck", env="claimcheck", find_data=data_sets, evaluate=evaluate)
