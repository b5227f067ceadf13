"""The benchmark of ClaimCheck: its generated splits, and the five surfaces that keep its skills apart.

In the paper's tables theirs are trained models on the paper's own generated splits, under rewards of its own; ours are
whoever was played on our generated splits. They are never a reproduction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.benchmark import Benchmark, DataSet, Evaluation, Outcome, check_names, data_place
from factgym.benchmarks.formats import ABSENT, count, decimal, interval
from factgym.benchmarks.metrics import RunSummary, summarise
from factgym.benchmarks.report import (
    Bar,
    Cell,
    Note,
    Part,
    Report,
    Row,
    Section,
    Strong,
    Table,
    make_table,
    paper_facts,
    paper_table,
)
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate
from factgym.benchmarks.tables import fault_sentence
from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError, DataError

SPLITS: Mapping[str, str] = MappingProxyType(
    {
        "mixed": "claimcheck",
        "hard": "claimcheck-hard",
        "ood": "claimcheck-ood",
        "multihop": "claimcheck-multihop",
    }
)
"""The paper's splits, with the environment of each."""
FILES: Mapping[str, str] = MappingProxyType({"docs": "claimcheck-docs", "contracts": "claimcheck-contracts"})
"""Data sets over files, with the environment of each."""
TASKS = 200
"""Of each split, unless the request says otherwise."""
_AGENT = 16
facts = partial(paper_facts, "claimcheck")


@dataclass(frozen=True, slots=True)
class Result:
    """One agent on one split. seconds: playing, on this machine, now."""

    data_set: str
    agent: str
    report: RunSummary
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ClaimCheckResults:
    """Summaries by split and agent, and the paper's tables."""

    results: tuple[Result, ...]
    tables: tuple[Table, ...]


def data_sets(
    data: Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the paper's four splits, or those of `only`; docs and contracts are read from files.

    Raises ConfigError for unknown names, and for docs or contracts without data.
    """
    check_names(only, (*SPLITS, *FILES))
    found = []
    for name in only or SPLITS:
        if name in SPLITS:
            found.append(DataSet(name, SPLITS[name], limit=TASKS))
            continue
        place = data_place(data)
        if place is None:
            raise ConfigError(f"{name}: no data. Give its file or folder with --data, or set {DATA_VARIABLE}")
        found.append(DataSet(name, FILES[name], path=place, limit=TASKS))
    return tuple(found)


def evaluate(evaluation: Evaluation) -> Outcome:
    """Summarise every run, and lay the paper's tables beside them."""
    results = tuple(Result(one.data_set, one.agent, _summary(one.run), one.seconds) for one in evaluation.runs)
    tables = paper_tables(results) if evaluation.request.paper else ()
    notes = [note for run in evaluation.runs for note in run.run.notes]
    if evaluation.has_role("exploiter"):
        notes.append("Exploiters may be told the right label. Their rewards are what they are for: see factgym audit.")
    sections = tuple(_sections(results, detailed=not evaluation.played))
    return Outcome(
        results=ClaimCheckResults(results, tables),
        report=Report("ClaimCheck benchmark", sections, tables, tuple(dict.fromkeys(notes))),
        numbers=[
            {
                "data_set": one.data_set,
                "agent": one.agent,
                "seconds": one.seconds,
                "report": dataclasses.asdict(one.report),
            }
            for one in results
        ],
        episodes=sum(one.report.scored for one in results),
        data_sets=len({one.data_set for one in results}),
        agents=len({one.agent for one in results}),
    )


def _summary(run: Any) -> RunSummary:
    summary = summarise(run.episodes())
    if not summary.scored:
        raise DataError(f"{run.folder}: holds no scored episode ({summary.errors} ended by the infrastructure)")
    if not summary.surfaces:
        raise DataError(f"{run.folder}: its tasks have no gold label; is this a run of a claimcheck environment?")
    return summary


def _sections(results: Sequence[Result], *, detailed: bool) -> Iterator[Section]:
    for name in dict.fromkeys(one.data_set for one in results):
        own = [one for one in results if one.data_set == name]
        yield Section(name, (_overview(name, own),), page_only=detailed, in_navigation=True)
        for one in own:
            about = count(one.report.scored, "episode")
            parts = tuple(_details(one.report))
            yield Section(f"{name}: {one.agent}", parts, about, page_only=not detailed, folded=True)


def _overview(name: str, results: Sequence[Result]) -> Table:
    rows: list[Sequence[Cell]] = []
    for one in results:
        report = one.report
        parts = (report.components.get(part, NO_DATA) for part in ("evidence", "quote", "coverage", "span"))
        scores = (decimal(report.accuracy.value), *(decimal(part.value) for part in parts))
        reward = (Strong(decimal(report.reward.value)), interval(report.reward))
        rows.append((one.agent, *reward, *scores))
    heads = ("agent", "reward", "95 %", "verdict", "evid.", "quote", "cover.", "span")
    title = f"{name}: {count(results[0].report.tasks, 'task')}"
    return make_table(title, heads, rows, name_limit=_AGENT, min_width=_AGENT)


def _details(report: RunSummary) -> Iterator[Part]:
    yield Note(f"{report.env} of {report.agent}: {count(report.scored, 'episode')} scored", fine=True)
    if report.errors:
        yield Note(fault_sentence(report))
    yield surface_table(report)


def surface_table(report: RunSummary) -> Table:
    """Return the five surfaces with their measures."""
    rows: list[Row] = []
    for surface in report.surfaces:
        for i, measure in enumerate(surface.measures):
            name = f"{measure.label} ↓" if measure.lower_is_better else measure.label
            value = measure.estimate
            bar = Bar(value, measure.lower_is_better)
            cells = (surface.name if i == 0 else "", name, decimal(value.value), interval(value), bar)
            rows.append(Row(cells, ends_group=i + 1 == len(surface.measures)))
    columns = ("surface", "measure", "value", "95 % interval", "")
    return make_table("Five surfaces", columns, rows, min_width=12)


def paper_tables(results: Sequence[Result]) -> tuple[Table, ...]:
    """Return the rewards by split and the components by split, theirs first in each."""
    return _rewards(results), _components(results)


def _rewards(results: Sequence[Result]) -> Table:
    printed = facts("rewards")
    rows = [Row((f"{row['model']} (theirs)", *(decimal(value) for value in row["reward"]))) for row in printed["rows"]]
    reports = {(one.data_set, one.agent): one.report for one in results}
    for agent in dict.fromkeys(one.agent for one in results):
        found = [reports.get((name, agent)) for name in printed["columns"]]
        cells = [decimal(report.reward.value) if report else ABSENT for report in found]
        rows.append(Row((f"{agent} (ours)", *cells)))
    notes = (
        "Theirs are under the paper’s rewards of each run, GRPO v2’s from its logs; ours under the environment’s reward"
        " on our generated splits.",
    )
    columns = ("model", *printed["columns"])
    return paper_table("Evidence Guardrails", "Reward by split", "theirs", columns, rows, notes)


def _components(results: Sequence[Result]) -> Table:
    printed = facts("components")
    rows = []
    for split in dict.fromkeys(row["split"] for row in printed["rows"]):
        for row in (row for row in printed["rows"] if row["split"] == split):
            rows.append(Row((f"{split}, {row['model']} (theirs)", *(decimal(value) for value in row["values"]))))
        for one in (one for one in results if one.data_set == split):
            values = [_component(one.report, name).value for name in printed["names"]]
            rows.append(Row((f"{split}, {one.agent} (ours)", *(decimal(value) for value in values))))
    columns = ("split, model", *printed["titles"])
    return paper_table("Component metrics", "Components by split", "theirs", columns, rows)


def _component(report: RunSummary, name: str) -> Estimate:
    return report.components.get(name, NO_DATA)


BENCHMARK = Benchmark(name="claimcheck", env="claimcheck", find_data=data_sets, evaluate=evaluate)
