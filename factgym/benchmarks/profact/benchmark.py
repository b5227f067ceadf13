"""The benchmark of ProFact: agents on AVeriTeC's claims or on generated ones, runs, and files of predictions.

In the paper's tables theirs are trained models on AVeriTeC's knowledge store; ours are the agents played, on the evidence
at hand. The rows are never a reproduction, and each of ours names its claims and its evidence. Table 3 (training
algorithms) has nothing of ours in it and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import field_validator

from factgym.benchmarks.answers import distinct_names, exclusion_notes
from factgym.benchmarks.benchmark import (
    AgentResult,
    Benchmark,
    DataSet,
    Evaluation,
    Outcome,
    Request,
    check_names,
    data_path,
)
from factgym.benchmarks.formats import ABSENT, count, decimal, hundred, interval
from factgym.benchmarks.profact.report import ProFactReport, evaluate_predictions, evaluate_run
from factgym.benchmarks.report import (
    Note,
    Part,
    Report,
    Row,
    Section,
    Table,
    estimate_table,
    layout_table,
    make_cells,
    make_table,
    paper_facts,
)
from factgym.benchmarks.statistics.classification import NO_VERDICT
from factgym.core.config import DATA_VARIABLE, Settings
from factgym.core.errors import ConfigError
from factgym.datasets.averitec import FactChecks, read_fact_checks
from factgym.datasets.evidence import KNOWLEDGE_STORE
from factgym.rewards.profact.meteor import MAX_PREDICTIONS

ENV = "profact"
GENERATED, AVERITEC = "generated", "averitec"
"""The two data sets."""
GENERATED_TASKS = 100
_NAME, _AGENT = 24, 20
_MILLION = 1e6
_SHORT = {
    "Supported": "Supp.",
    "Refuted": "Ref.",
    "Not Enough Evidence": "NEE",
    "Conflicting Evidence/Cherrypicking": "Confl.",
    NO_VERDICT: "none",
}
facts = partial(paper_facts, "profact")


class ProFactOptions(Settings):
    """Settings of the benchmark. predictions: files in AVeriTeC's submission layout to score, instead of playing."""

    predictions: tuple[str, ...] = ()

    @field_validator("predictions", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def data_sets(
    data: str | Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the claims of `data`, else of the folder in FACTGYM_DATA, else generated ones, as the only data set.

    A file is a split of its own name; of a folder the split is `settings["split"]`, or dev. Raises ConfigError for unknown
    names, and where AVeriTeC is requested and there is no path.
    """
    check_names(only, (GENERATED, AVERITEC))
    if len(set(only)) > 1:
        raise ConfigError("one data set at a time: give --only once")
    path = Path(data) if data is not None else data_path(None)
    if data is None and path is not None and not (path / "averitec" / "dev.json").is_file():
        path = None  # A folder of public data without AVeriTeC.
    split = settings.get("split")
    if GENERATED in only or (path is None and AVERITEC not in only):
        if data is not None:
            raise ConfigError(f"--only {GENERATED} plays no file: leave out the path")
        return (DataSet(GENERATED, ENV, {"split": str(split)} if split else {}, limit=GENERATED_TASKS),)
    if path is None:
        raise ConfigError(f"no claims: give AVeriTeC's dev.json with --data, or set {DATA_VARIABLE}")
    name = split or (path.stem if path.is_file() else "dev")
    return (DataSet(AVERITEC, ENV, {"source": AVERITEC, "split": str(name)}, path),)


def gold_claims(
    request: Request, options: ProFactOptions, settings: Mapping[str, Any]
) -> AbstractContextManager[tuple[FactChecks | None, str]]:
    """Return the gold claims and their split. Predictions need them; recorded runs are scored anew with them.

    Raises ConfigError for predictions without gold claims.
    """
    if not options.predictions and not (request.runs and request.data):
        return nullcontext((None, ""))
    (data_set,) = data_sets(request.data, (), settings)
    if data_set.path is None:
        raise ConfigError(
            f"predictions are scored against gold claims: give AVeriTeC's dev.json with --data, or set {DATA_VARIABLE}"
        )
    split = data_set.config["split"]
    return nullcontext((read_fact_checks(data_set.path, split), split))


_GENERATED_NOTE = (
    "Played on generated claims, on which no score of the paper is. Give AVeriTeC's dev.json with --data, or set "
    f"{DATA_VARIABLE}."
)
_ORACLE_NOTE = (
    "The oracle knows the gold questions, answers and label, and some other scripts know parts: their scores are "
    "bounds, not results."
)


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate every run and every file of predictions, and make the paper's tables with ours in them."""
    checks, split = evaluation.resources

    def predicted(limit: int) -> list[ProFactReport]:
        files = evaluation.options.predictions
        return [evaluate_predictions(file, checks or (), split=split, limit=limit) for file in files]

    if evaluation.played:
        results = list(evaluation.results(evaluate_run))
        first = evaluation.data_sets[0]
        title = f"{first.name}, {first.config.get('split', 'dev')}: {count(results[0].report.tasks, 'claim')}"
    else:
        reports = [*(evaluate_run(run.run, checks=checks) for run in evaluation.runs), *predicted(MAX_PREDICTIONS)]
        names = distinct_names([(report.agent, report.source) for report in reports])
        pairs = zip(names, reports, strict=True)
        results = [AgentResult(report.split or AVERITEC, name, report) for name, report in pairs]
        title = "Runs and predictions"
    tables: tuple[Table, ...] = ()
    if evaluation.request.paper:
        limit = facts("setting")["max_questions"]
        rows = [(result.agent, result.report) for result in results]
        # Predictions as the paper compares them: no more questions than its own policy may pose.
        rows += [(f"{report.agent}, {limit} questions", report) for report in predicted(limit)]
        names = distinct_names([(name, report.source) for name, report in rows])
        tables = paper_tables(dict(zip(names, (report for _, report in rows), strict=True)))
    sections = tuple(_sections(results, title, detailed=not evaluation.played))
    notes = evaluation.notes(_GENERATED_NOTE, {("exploiter", "oracle"): _ORACLE_NOTE})
    report = Report("ProFact benchmark", sections, tables, tuple(notes))
    return Outcome.of_runs(results, report, sum(result.report.n for result in results))


def _sections(results: Sequence[AgentResult[ProFactReport]], title: str, *, detailed: bool) -> Iterator[Section]:
    details = [_details(result, folded=not detailed) for result in results]
    if detailed:
        yield from details
    if not detailed or len(results) > 1:
        cutoff = facts("setting")["cutoff"]
        rows = [
            {"agent": result.agent, "report": result.report, "main": result.report.averitec[cutoff]}
            for result in results
        ]
        overview = layout_table("profact", "overview", rows, title=title, cutoff=cutoff)
        notes = dict.fromkeys(note for result in results for note in _report_notes(result.report))
        yield Section(title, (overview, *(Note(note) for note in notes)), in_navigation=True)
    if not detailed:
        yield from details


def _report_notes(report: ProFactReport) -> list[str]:
    return [*exclusion_notes(report.errors, report.unscored), *report.notes]


def _details(result: AgentResult[ProFactReport], *, folded: bool) -> Section:
    """Return everything about one run or file of predictions."""
    report = result.report
    size = count(report.n, "claim" if report.n == report.tasks else "episode")
    size += f" of {count(report.tasks, 'claim')}" if report.n != report.tasks else ""
    size += f", split {report.split}" if report.split else ""
    scores = {
        "Q-only METEOR": report.question,
        "Q&A METEOR": report.qa,
        "accuracy": report.accuracy,
        "macro-F1": report.macro_f1,
        **{f"AVeriTeC score > {cutoff}": estimate for cutoff, estimate in report.averitec.items()},
    }
    parts: tuple[Part, ...] = (
        Note(f"{report.env or 'predictions'} of {report.agent}: {size}", fine=True),
        *(Note(note) for note in _report_notes(report)),
        estimate_table("", "score", scores, _NAME),
        _labels(report),
        _costs(report),
    )
    return Section(result.agent, parts, page_only=folded, folded=folded)


def _labels(report: ProFactReport) -> Table:
    table = report.confusion
    rows = []
    for gold, counts in zip(table.golds, table.counts, strict=True):
        f1 = report.f1[gold]
        rows.append((gold, *(f"{n:,}" for n in counts), decimal(f1.value, 2), interval(f1, 2)))
    heads = ("gold", *(_SHORT[label] for label in table.predictions), "F1", "95 % interval")
    return make_table("Labels", heads, rows, name_limit=22, min_width=_NAME)


def _costs(report: ProFactReport) -> Table:
    rows = [make_cells(line, report) for line in facts("tables")["costs"]["ours"]]
    for kind, name in (("prompt_tokens", "tokens in"), ("completion_tokens", "tokens out")):
        used = report.usage.tokens.get(kind) if report.usage is not None else None
        if used is not None:
            mean = used.per_episode
            rows.append((name, decimal(mean.value, 0), interval(mean, 0), f"{used.total:,}"))
    return make_table("For a claim", ("", "mean", "95 % interval", "total"), rows, min_width=_NAME)


def paper_tables(reports: Mapping[str, ProFactReport]) -> tuple[Table, Table]:
    """Return Tables 1 and 2, theirs first in each, ours by name."""
    return _table_1(reports), _table_2(reports)


def _table_1(reports: Mapping[str, ProFactReport]) -> Table:
    """METEOR, accuracy and the AVeriTeC score at .25, in percent."""
    printed, cutoff = facts("table1"), facts("setting")["cutoff"]
    rows = []
    for row in printed["rows"]:
        scores = (row[name] for name in ("question", "qa", "accuracy", "averitec"))
        for llm, *values in zip(printed["llms"], *scores, strict=True):
            rows.append(Row((f"{row['method']} (theirs)", llm, *(decimal(value, 2) for value in values))))
    for name, report in reports.items():
        estimates = (report.question, report.qa, report.accuracy, report.averitec[cutoff])
        rows.append(Row((f"{name} (ours)", _setting(report), *(hundred(estimate, 2) for estimate in estimates))))
    layout, setting = facts("tables")["table1"], facts("setting")
    stores = [item for report in reports.values() for item in report.stores.items()]
    notes = sorted({note for kind, note in stores if note and kind != KNOWLEDGE_STORE})
    notes += [layout["submitted"]] if any(not report.stores for report in reports.values()) else []
    notes.append(layout["cutoff"].format(cutoff=cutoff))
    return layout_table("profact", "table1", rows, notes=notes, **setting)


def _table_2(reports: Mapping[str, ProFactReport]) -> Table:
    """Seconds and tokens: theirs in total over 500 claims, and for a claim."""
    printed, claims = facts("table2"), facts("setting")["claims"]
    rows = []
    for row in printed["rows"]:
        for llm, *values in zip(printed["llms"], row["seconds"], row["input"], row["output"], strict=True):
            each = (f"{round(value * _MILLION / claims):,}" for value in values[1:])
            rows.append(Row((f"{row['method']} (theirs)", llm, *(decimal(value, 2) for value in values), *each)))
    for name, report in reports.items():
        tokens = report.usage.tokens if report.usage is not None else {}
        totals = [tokens[kind].total if kind in tokens else None for kind in ("prompt_tokens", "completion_tokens")]
        millions = (ABSENT if total is None else decimal(total / _MILLION, 2) for total in totals)
        each = (ABSENT if total is None else f"{round(total / report.n):,}" for total in totals)
        rows.append(Row((f"{name} (ours)", _setting(report), decimal(report.seconds.value, 2), *millions, *each)))
    return layout_table("profact", "table2", rows, claims=claims)


def _setting(report: ProFactReport) -> str:
    """Split, evidence and number of claims, short enough for a column."""
    return f"{report.split or '?'}, {' + '.join(report.stores) or 'as submitted'}, n {report.n}"


BENCHMARK = Benchmark(
    name="profact",
    env=ENV,
    find_data=data_sets,
    evaluate=evaluate,
    options=ProFactOptions,
    resources=gold_claims,
    reads_without_runs=lambda options: bool(options.predictions),
    gold_with_runs=True,
)
