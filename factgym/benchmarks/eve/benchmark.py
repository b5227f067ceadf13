"""The benchmark of EVE: seven sets of questions, answered with the search tool over `corpus` or a file's own documents.

Where neither is there, nothing can be searched: the questions are answered without the tool, and a note says so. In the
paper's tables theirs are trained models, and the text of the paper at hand has lost the cells of its tables: theirs show
which system is best on which benchmark. An unknown number is a dash.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from factgym.agents.judges import Judge
from factgym.agents.runs.read import Run
from factgym.benchmarks.benchmark import Benchmark, DataSet, Evaluation, Outcome, Request
from factgym.benchmarks.eve.report import ENV, BenchmarkScores, EveReport, evaluate_runs, grouped, named_judge
from factgym.benchmarks.formats import ABSENT, count, decimal, hundred, hundred_interval
from factgym.benchmarks.question_sets import QuestionSets
from factgym.benchmarks.report import (
    Bar,
    Cell,
    Column,
    Note,
    Part,
    Report,
    Row,
    Section,
    Table,
    make_table,
    notes_by_name,
    paper_facts,
    paper_table,
)
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core.config import DATA_VARIABLE, Settings
from factgym.core.errors import ConfigError, DataError
from factgym.datasets.multihop import BENCHMARKS, TRIPLES, read_triples, triple_file

BEST = "best"
_NAME = 14
_WITH_DOCUMENTS = {"nq": "oracle", "popqa": "paragraphs"}
"""Splits whose questions bring documents, where a benchmark's first does not."""
_COLUMNS = ("em", "evidence", "joint", "presence", "verbatim", "evidence_f1")
_TITLES = ("EM", "evid.", "joint", "95 %", "span", "verb.", "F1", "calls")
_LEGEND = "span: share with evidence; verb.: with verbatim evidence; F1: of the evidence; calls: of the search tool."
facts = partial(paper_facts, "eve")


class EveOptions(Settings):
    """Settings of the benchmark. judge: the model that judges evidence, by default a stand-in; judge_settings: its own."""

    judge: str | None = None
    judge_settings: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EveResults:
    """Reports by agent, and the paper's tables."""

    reports: tuple[EveReport, ...]
    tables: tuple[Table, ...]


def _question_file(benchmark: str, folder: Path) -> Path:
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
    find=_question_file,
    file_names={name: tuple(Path(file).name for file in data_set.files) for name, data_set in BENCHMARKS.items()},
)


def has_documents(data_set: DataSet) -> bool:
    """Return whether a set of questions brings documents to search."""
    return data_set.path is None or read_triples(data_set.config["source"], data_set.path).corpus is not None


def _without_search(data_set: DataSet, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The setting that turns the search tool off where there is nothing to search."""
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


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate the runs of each agent together, and lay the paper's tables beside them."""
    reports = _named([evaluate_runs(group, judge=evaluation.resources) for group in _groups(evaluation)])
    tables = paper_tables(reports) if evaluation.request.paper else ()
    notes = [*_notes(evaluation), *notes_by_name(((one.name, _report_notes(one)) for one in reports), len(reports))]
    return Outcome(
        results=EveResults(tuple(reports), tables),
        report=Report("EVE benchmark", tuple(_sections(reports)), tables, tuple(notes)),
        numbers={
            "reports": [one.to_dict() for one in reports],
            "paper": [one.to_dict() for one in tables],
            "notes": notes,
        },
        episodes=sum(one.n for one in reports),
        data_sets=len({name for one in reports for name in one.scores}),
        agents=len(reports),
    )


def _groups(evaluation: Evaluation) -> list[list[Run]]:
    if not evaluation.played:
        return grouped([one.run for one in evaluation.runs])
    return [[one.run for one in evaluation.runs if one.agent == name] for name in evaluation.agents]


def _named(reports: Sequence[EveReport]) -> list[EveReport]:
    """Reports with distinct names: of two with one agent, by the folder of their first run."""
    names = Counter(one.name for one in reports)
    return [
        one if names[one.name] == 1 else replace(one, name=f"{one.name} ({Path(one.folders[0]).name})")
        for one in reports
    ]


def _report_notes(report: EveReport) -> list[str]:
    excluded = f"{count(report.errors, 'infrastructure error')} left out of all scores."
    return [*([excluded] if report.errors else []), *report.notes]


def _notes(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.generated_only:
        yield (
            f"Played on generated questions alone. Give --data, or set {DATA_VARIABLE}, for the paper's seven benchmarks."
        )
    without = [one.name for one in evaluation.data_sets if not has_documents(one)]
    if without and not {"corpus", "search"} & set(evaluation.env_settings):
        yield (
            f"{', '.join(without)}: the questions bring no documents, and were answered without search. Name passages with "
            "--set corpus=FILE."
        )
    if evaluation.has_role("oracle", "exploiter"):
        yield "The oracle is told the gold answer and evidence: its scores are bounds, not results."


def _sections(reports: Sequence[EveReport]) -> Iterator[Section]:
    for name in dict.fromkeys(name for one in reports for name in one.scores):
        rows = [(one.name, one.scores[name]) for one in reports if name in one.scores]
        tasks = max(scores.tasks for _, scores in rows)
        table = _table(
            f"{name}: {count(tasks, 'question')}, in percent",
            [(agent, {part: getattr(scores, part) for part in (*_COLUMNS, "searches")}) for agent, scores in rows],
        )
        yield Section(name, (table,), in_navigation=True)
    several = [(one.name, one.average) for one in reports if len(one.scores) > 1]
    if several:
        yield Section("mean of the benchmarks", (_table("mean of the benchmarks", several),))
    parts: list[Part] = [Note(judge) for judge in dict.fromkeys(one.judge for one in reports)]
    yield Section("Who judged", (*parts, Note(_LEGEND, fine=True)))


def _table(title: str, rows: Sequence[tuple[str, Mapping[str, Estimate]]]) -> Table:
    lines: list[Sequence[Cell]] = []
    for agent, scores in rows:
        cells = [hundred(scores[part]) for part in _COLUMNS]
        joint = scores["joint"]
        calls = decimal(scores["searches"].value, 1)
        lines.append((agent, *cells[:3], hundred_interval(joint), *cells[3:], calls, Bar(joint)))
    columns = ("agent", *_TITLES, Column("joint", page_only=True))
    return make_table(title, columns, lines, name_limit=_NAME, min_width=_NAME)


def paper_tables(reports: Sequence[EveReport]) -> tuple[Table, ...]:
    """Return the layouts of Tables 1 to 4 and 7, theirs first in each."""
    joint = ("The paper: EVE-Agent is best on 6 of 7 and on average; it does not say which the seventh is.",)
    return (
        _by_benchmark("Table 2", "Answer exact match, in percent", "em", "table2", reports, tuple(_setting(reports))),
        _by_benchmark("Table 3", "Evidence score by a judge, in percent", "evidence", "table3", reports),
        _by_benchmark("Table 4", "Joint answer and evidence, in percent", "joint", "table4", reports, joint),
        _diagnostics(reports),
    )


def _titles() -> dict[str, str]:
    printed = facts("benchmarks")
    return dict(zip(printed["columns"], printed["titles"], strict=True))


def _by_benchmark(
    source: str, title: str, part: str, table: str, reports: Sequence[EveReport], notes: Sequence[str] = ()
) -> Table:
    titles, printed = _titles(), facts(table)
    rows = []
    for system in facts("systems")["rows"]:
        cells = [BEST if printed["best"].get(name) == system else ABSENT for name in titles]
        rows.append(Row((system, *cells, BEST if printed["average"] == system else ABSENT)))
    for one in reports:
        cells = [hundred(getattr(one.scores[name], part)) if name in one.scores else ABSENT for name in titles]
        # Of fewer benchmarks than all seven the mean is another number.
        average = hundred(one.average[part]) if set(titles) <= set(one.scores) else ABSENT
        rows.append(Row((f"{one.name} (ours)", *cells, average)))
    return paper_table(source, title, "theirs", ("System", *titles.values(), "Avg."), rows, notes)


def _diagnostics(reports: Sequence[EveReport]) -> Table:
    """Tables 1 and 7: all the numbers of a benchmark side by side; span: share of answers with a span."""
    titles = _titles()
    rows = [Row((titles.get(name, name), f"{one.name} (ours)", *_diagnosis(scores))) for one in reports for name, scores in one.scores.items()]  # fmt: skip
    low, high = facts("table7")["presence"]
    notes = (
        f"The paper: the prior system emits a span in {low}–{high} % of its answers, about as many as the initial model.",
        "Table 1 is the part of Table 7 on four benchmarks; the paper improves evidence and joint rate on all but 2Wiki.",
    )
    columns = ("on", "who", "EM", "evid.", "joint", "span")
    return paper_table("Tables 1, 7", "Evidence diagnostics", "theirs", columns, rows, notes)


def _diagnosis(scores: BenchmarkScores) -> list[str]:
    return [hundred(getattr(scores, part)) for part in ("em", "evidence", "joint", "presence")]


def _setting(reports: Sequence[EveReport]) -> Iterator[str]:
    systems, instances = facts("systems"), facts("benchmarks")["instances"]
    yield (
        f"Theirs: {systems['backbone']}, {instances[0]:,} questions of each benchmark ({instances[-1]} of Bamboogle), judged by "
        f"{systems['judge']}. “{BEST}” follows from the paper’s sentences; its cells are not in the text at hand."
    )
    yield from dict.fromkeys(one.judge for one in reports)


BENCHMARK = Benchmark(
    name="eve",
    env=ENV,
    find_data=QUESTIONS,
    evaluate=evaluate,
    options=EveOptions,
    resources=evidence_judge,
    adapt=_without_search,
)
