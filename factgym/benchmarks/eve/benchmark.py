"""The benchmark of EVE: seven sets of questions, answered with the search tool over `corpus` or a file's own documents.

Where neither is there, nothing can be searched: the questions are answered without the tool, and a note says so. In the
paper's tables theirs are trained models, and the text of the paper at hand has lost the cells of its tables: theirs show
which system is best on which benchmark. An unknown number is a dash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from factgym.agents.judges.base import Judge
from factgym.benchmarks.answers import exclusion_notes, manifest_text
from factgym.benchmarks.benchmark import Benchmark, DataSet, Evaluation, Outcome, QuestionSets, Request
from factgym.benchmarks.eve.report import ENV, EveReport, evaluate_runs, named_judge, question_source
from factgym.benchmarks.formats import ABSENT, count, hundred
from factgym.benchmarks.report import Note, Report, Row, Section, Table, layout_table, notes_by_name, paper_facts
from factgym.core.config import DATA_VARIABLE, Settings
from factgym.core.errors import ConfigError, DataError
from factgym.datasets.multihop import BENCHMARKS, TRIPLES, read_triples, triple_file

BEST = "best"
_WITH_DOCUMENTS = {"nq": "oracle", "popqa": "paragraphs"}
"""Splits whose questions bring documents, where a benchmark's first does not."""
_LEGEND = "span: share with evidence; verb.: with verbatim evidence; F1: of the evidence; calls: of the search tool."
facts = partial(paper_facts, "eve")


class EveOptions(Settings):
    """Settings of the benchmark. judge: the model that judges evidence, by default a fallback rule; judge_settings: its own."""

    judge: str | None = None
    judge_settings: dict[str, Any] = Field(default_factory=dict)


def question_file(benchmark: str, folder: Path) -> Path:
    """Return the file of a benchmark, of the split whose questions bring documents where there is one."""
    split = _WITH_DOCUMENTS.get(benchmark)
    if split is not None:
        try:
            return triple_file(benchmark, folder, split)
        except DataError:
            pass
    return triple_file(benchmark, folder)


QUESTIONS = QuestionSets(
    env=ENV,
    names=(*BENCHMARKS, TRIPLES),
    paper=tuple(facts("benchmarks")["columns"]),
    find=question_file,
    file_names={name: tuple(Path(file).name for file in data_set.files) for name, data_set in BENCHMARKS.items()},
)


def has_documents(data_set: DataSet) -> bool:
    """Return whether a set of questions brings documents to search."""
    return data_set.path is None or read_triples(data_set.config["source"], data_set.path).corpus is not None


def search_setting(data_set: DataSet, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the setting that turns the search tool off where there is nothing to search."""
    if "corpus" in settings or "search" in settings or has_documents(data_set):
        return {}
    return {"search": False}


@contextmanager
def evidence_judge(request: Request, options: EveOptions, settings: Mapping[str, Any]) -> Iterator[Judge | None]:
    """Open the judge that the options name, with a cache beside the runs, and close it."""
    if options.judge is None:
        if options.judge_settings:
            raise ConfigError("judge_settings go with judge")
        yield None
        return
    judge = named_judge(options.judge, options.judge_settings, BENCHMARK.folder(request) / "judgements")
    try:
        yield judge
    finally:
        asyncio.run(judge.close())


_GENERATED_NOTE = (
    f"Played on generated questions alone. Give --data, or set {DATA_VARIABLE}, for the paper's seven benchmarks."
)
_ORACLE_NOTE = "The oracle knows the gold answer and evidence: its scores are bounds, not results."


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate the runs of each agent together, and make the paper's tables with ours in them."""
    _, reports = evaluation.by_agent(
        lambda run: (manifest_text(run, "agent"), question_source(run)),
        partial(evaluate_runs, judge=evaluation.resources),
    )
    tables = paper_tables(reports) if evaluation.request.paper else ()
    notes = evaluation.notes(_GENERATED_NOTE)
    without = [data_set.name for data_set in evaluation.data_sets if not has_documents(data_set)]
    if without and not {"corpus", "search"} & set(evaluation.env_settings):
        notes.append(
            f"{', '.join(without)}: the questions bring no documents, and were answered without search. Name passages with "
            "--set corpus=FILE."
        )
    notes += evaluation.notes("", {("oracle", "exploiter"): _ORACLE_NOTE})
    by_name = ((report.name, [*exclusion_notes(report.errors), *report.notes]) for report in reports)
    notes += notes_by_name(by_name, len(reports))
    return Outcome(
        results=tuple(reports),
        report=Report("EVE benchmark", tuple(_sections(reports)), tables, tuple(notes)),
        numbers={
            "reports": [report.to_dict() for report in reports],
            "paper": [table.to_dict() for table in tables],
            "notes": notes,
        },
        episodes=sum(report.n for report in reports),
        data_sets=len({name for report in reports for name in report.scores}),
        agents=len(reports),
    )


def _sections(reports: Sequence[EveReport]) -> Iterator[Section]:
    for name in dict.fromkeys(name for report in reports for name in report.scores):
        scores = {report.name: report.scores[name] for report in reports if name in report.scores}
        tasks = max(row.tasks for row in scores.values())
        rows = [{"agent": agent, **row.means} for agent, row in scores.items()]
        title = f"{name}: {count(tasks, 'question')}, in percent"
        yield Section(name, (layout_table("eve", "overview", rows, title=title),), in_navigation=True)
    several = [{"agent": report.name, **report.average} for report in reports if len(report.scores) > 1]
    if several:
        title = "mean of the benchmarks"
        yield Section(title, (layout_table("eve", "overview", several, title=title),))
    judges = [Note(judge) for judge in dict.fromkeys(report.judge for report in reports)]
    yield Section("Who judged", (*judges, Note(_LEGEND, fine=True)))


def paper_tables(reports: Sequence[EveReport]) -> tuple[Table, ...]:
    """Return the layouts of Tables 1 to 4 and 7, theirs first in each."""
    systems, instances = facts("systems"), facts("benchmarks")["instances"]
    judges = dict.fromkeys(report.judge for report in reports)
    setting = {name: systems[name] for name in ("backbone", "judge")}
    return (
        _by_benchmark("table2", "em", reports, judges, largest=instances[0], smallest=instances[-1], **setting),
        _by_benchmark("table3", "evidence", reports),
        _by_benchmark("table4", "joint", reports),
        _diagnostics(reports),
    )


def _titles() -> dict[str, str]:
    printed = facts("benchmarks")
    return dict(zip(printed["columns"], printed["titles"], strict=True))


def _by_benchmark(
    key: str, measure: str, reports: Sequence[EveReport], notes: Iterable[str] = (), **values: object
) -> Table:
    """Return the paper's table by benchmark, its winners beside our numbers."""
    titles, printed = _titles(), facts(key)
    rows = []
    for system in facts("systems")["rows"]:
        winners = (*(printed["best"].get(name) for name in titles), printed["average"])
        rows.append(Row((system, *(BEST if winner == system else ABSENT for winner in winners))))
    for report in reports:
        cells = [hundred(report.scores[name][measure]) if name in report.scores else ABSENT for name in titles]
        # Of fewer benchmarks than all seven the mean is another number.
        average = hundred(report.average[measure]) if set(titles) <= set(report.scores) else ABSENT
        rows.append(Row((f"{report.name} (ours)", *cells, average)))
    return layout_table("eve", key, rows, columns=(*titles.values(), "Avg."), notes=notes, **values)


def _diagnostics(reports: Sequence[EveReport]) -> Table:
    """Return Tables 1 and 7: all the numbers of a benchmark side by side; span: share of answers with a span."""
    titles = _titles()
    rows = [
        {"name": titles.get(name, name), "agent": report.name, **scores.means}
        for report in reports
        for name, scores in report.scores.items()
    ]
    low, high = facts("table7")["presence"]
    return layout_table("eve", "table7", rows, low=low, high=high)


BENCHMARK = Benchmark(
    name="eve",
    env=ENV,
    find_data=QUESTIONS,
    evaluate=evaluate,
    options=EveOptions,
    resources=evidence_judge,
    adapt=search_setting,
)
