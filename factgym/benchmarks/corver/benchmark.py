"""The benchmark of CorVer: closed-book questions with the evaluation prompt, unless the settings say otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from factgym.agents.difficulty import Buckets
from factgym.agents.runs import FILTER_SUMMARY
from factgym.agents.runs.files import read_json
from factgym.agents.runs.read import Run
from factgym.benchmarks.benchmark import Benchmark, Evaluation, Outcome, Request
from factgym.benchmarks.charts import share_curves
from factgym.benchmarks.corver.calibration import CountCalibration, calibrate, read_annotations, sentence_counter
from factgym.benchmarks.corver.compare import CorverComparison, Decomposition, Difference, compare, decompose
from factgym.benchmarks.corver.paper import NamedCurve, paper_tables, provenance, published_curve
from factgym.benchmarks.corver.report import JUDGES, BenchmarkScores, CorverReport, Popularity, evaluate_runs, grouped
from factgym.benchmarks.formats import (
    ABSENT,
    count,
    decimal,
    hundred,
    hundred_interval,
    interval,
    p_value,
    percent,
    signed,
)
from factgym.benchmarks.question_sets import QuestionSets
from factgym.benchmarks.report import (
    Bar,
    Cell,
    Chart,
    Column,
    Note,
    Part,
    Report,
    Row,
    Section,
    Strong,
    Table,
    make_table,
    notes_by_name,
    paper_facts,
)
from factgym.core.config import DATA_VARIABLE, Settings
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import open_counter
from factgym.datasets.questions import BENCHMARKS, question_file
from factgym.rewards.corver.extraction import find_extractor
from factgym.rewards.corver.rubrics import DEFAULT_RULES

_REFERENCE = ("random", "student")
_PAPER_JUDGE = "reference"
_NAME = 15
_MIN_SENTENCES = 20
"""Right and wrong sentences that a curve needs at least."""
PROXY = "by the answer"
"""A sentence of a run counts as right when its completion's answer is: nobody labelled the sentence itself."""

QUESTIONS = QuestionSets(
    env="corver-qa",
    names=tuple(BENCHMARKS),
    paper=tuple(paper_facts("corver", "benchmarks")["columns"]),
    find=question_file,
    file_names={name: tuple(Path(file).name for file in data_set.files) for name, data_set in BENCHMARKS.items()},
    any_file="file",
    config={"prompt": "eval"},
)


class CorverOptions(Settings):
    """Settings of the benchmark. annotated: a file of annotated sentences, for a calibration curve of counts."""

    annotated: str | None = None


@dataclass(frozen=True, slots=True)
class CorverResults:
    """Reports by agent, their comparisons, refusals and calibration curves by name, and the paper's tables."""

    reports: tuple[CorverReport, ...]
    comparisons: tuple[CorverComparison, ...]
    refusals: tuple[tuple[str, Decomposition], ...]
    curves: tuple[NamedCurve, ...]
    tables: tuple[Table, ...]


def annotated_curves(
    request: Request, options: CorverOptions, settings: Mapping[str, Any]
) -> AbstractContextManager[tuple[NamedCurve, ...]]:
    """Return the curve of the annotated sentences, read before anything is played."""
    if options.annotated is None:
        return nullcontext(())
    counter = settings.get("counter")
    if counter is not None and not isinstance(counter, str):
        raise ConfigError(f"counter must be the path of an index here, not {type(counter).__name__}")
    counting = None
    if counter:
        extractor = find_extractor(settings.get("extractor") or "rule")
        counting = sentence_counter(open_counter(counter, **(settings.get("counter_options") or {})), extractor)
    file = Path(options.annotated)
    return nullcontext(((file.name, calibrate(read_annotations(file, counting))),))


def evaluate(evaluation: Evaluation) -> Outcome:
    """Evaluate the runs of each agent together, compare agents, and lay the paper's tables beside them."""
    groups = _groups(evaluation)
    reports = _named([evaluate_runs(group) for group in groups])
    if evaluation.played:
        indices = evaluation.pairs(evaluation.agents, _REFERENCE)
    else:
        first = {answer.key for answer in reports[0].answers}
        indices = [
            (0, i + 1) for i, other in enumerate(reports[1:]) if any(answer.key in first for answer in other.answers)
        ]
    comparisons, refusals = _compared(reports, indices)
    curves = [
        *evaluation.resources,
        *((f"{one.name}, {PROXY}", one.proxy) for one in reports if _has_curve(one.proxy)),
    ]
    tables: tuple[Table, ...] = ()
    if evaluation.request.paper:
        judged = [_judged(group, one.name) for group, one in zip(groups, reports, strict=True)]
        theirs = _compared(judged, indices)
        filters = list(_filters(groups))
        tables = paper_tables(judged, curves=curves, filters=filters, refusals=theirs[1], comparisons=theirs[0])
    notes = [
        f"Played on generated questions alone. Give --data, or set {DATA_VARIABLE}, for TriviaQA, NQ-Open, PopQA, "
        "SimpleQA and TruthfulQA."
    ] * evaluation.generated_only
    notes += notes_by_name((one.name, one.notes) for one in reports)
    results = CorverResults(tuple(reports), comparisons, refusals, tuple(curves), tables)
    return Outcome(
        results=results,
        report=Report("CorVer benchmark", tuple(_sections(results)), tables, tuple(notes)),
        numbers={
            "reports": [one.to_dict() for one in reports],
            "comparisons": [one.to_dict() for one in comparisons],
            "refusals": [{"pair": name, **one.to_dict()} for name, one in refusals],
            "calibration": {name: one.to_dict() for name, one in curves},
            "paper": [one.to_dict() for one in tables],
            "notes": notes,
        },
        episodes=sum(one.n for one in reports),
        data_sets=len({name for one in reports for name in one.scores}),
        agents=len(reports),
    )


def _groups(evaluation: Evaluation) -> list[list[Run]]:
    """The runs of each agent, as reports take them."""
    if not evaluation.played:
        return grouped([one.run for one in evaluation.runs])
    return [[one.run for one in evaluation.runs if one.agent == name] for name in evaluation.agents]


def _named(reports: Sequence[CorverReport]) -> list[CorverReport]:
    """Reports with distinct names: of two with one agent, by the variant or folder of their first run."""
    names = [one.name for one in reports]
    return [
        one
        if names.count(one.name) == 1
        else replace(one, name=f"{one.name} ({one.labels[0].variant or Path(one.labels[0].folder).name})")
        for one in reports
    ]


def _compared(
    reports: Sequence[CorverReport], indices: Sequence[tuple[int, int]]
) -> tuple[tuple[CorverComparison, ...], tuple[tuple[str, Decomposition], ...]]:
    pairs = [(reports[a], reports[b]) for a, b in indices]
    refusals = tuple((b.name, row) for a, b in pairs for row in decompose(a, b))
    return tuple(compare(*pair) for pair in pairs), refusals


def _has_curve(curve: CountCalibration | None) -> bool:
    right = sum(bucket.correct for bucket in curve.buckets) if curve else 0
    return curve is not None and min(right, curve.n - right) >= _MIN_SENTENCES


def _judged(group: Sequence[Run], name: str) -> CorverReport:
    """As the paper judges, where the runs hold those labels."""
    try:
        return evaluate_runs(group, name, judge=_PAPER_JUDGE)
    except DataError:
        return evaluate_runs(group, name)


def _filters(groups: Sequence[Sequence[Run]]) -> Iterator[tuple[str, Buckets]]:
    """The buckets of runs that a difficulty filter made."""
    for run in (run for group in groups for run in group):
        file = run.folder / FILTER_SUMMARY
        if file.is_file():
            row = read_json(file)
            buckets = Buckets(tuple(row["histogram"]), row["retained"], row["anchors"], row["incomplete"])
            yield str(row.get("agent") or run.folder.name), buckets


def _sections(results: CorverResults) -> Iterator[Section]:
    reports = results.reports
    yield Section("Runs", tuple(_provenance(reports)))
    for name in dict.fromkeys(name for one in reports for name in one.scores):
        rows = [(one.name, one.scores[name]) for one in reports if name in one.scores]
        about = "Shares in percent; chars and words of the answer; c is the count of a sentence that gave a query."
        yield Section(name, (_accuracies(name, rows), _texts(rows)), about, in_navigation=True)
    several = [one for one in reports if len(one.scores) > 1]
    if several:
        yield Section("Average over benchmarks, %", (_averages(several),))
    popularity = [_popularity(group) for group in _same_quarters(reports)]
    if popularity:
        yield Section("Accuracy by popularity, %", tuple(popularity))
    yield Section("Right sentences by count", tuple(_curves(results.curves)), _CURVES)
    for found in results.comparisons:
        yield Section(f"{found.second} against {found.first}", tuple(_comparison(found)))
    if results.refusals:
        parts = (_refusals(results.refusals), Note(_REFUSALS, fine=True))
        yield Section("Refusals, and where the gain comes from", parts)


_CURVES = "The paper’s are labelled by people. A curve “by the answer” takes a sentence as right when its answer is."
_REFUSALS = (
    "right: accuracy on questions that were refused before and are attempted now. The last three columns add up to the "
    "gain, in points."
)


def _provenance(reports: Sequence[CorverReport]) -> Iterator[Part]:
    for names, questions, setting in provenance(reports):
        yield Note(f"{', '.join(names)}: {'; '.join(questions)}. {setting}", fine=True)
    for report in reports:
        if report.errors:
            yield Note(f"{report.name}: {count(report.errors, 'infrastructure error')} left out of all scores")


def _accuracies(name: str, rows: Sequence[tuple[str, BenchmarkScores]]) -> Table:
    cells: list[Sequence[Cell]] = [
        (
            agent,
            Strong(hundred(scores.accuracy)),
            hundred_interval(scores.accuracy),
            *(hundred(scores.judged[judge]) for judge in JUDGES),
            hundred(scores.refusal),
            hundred(scores.format),
            decimal(scores.reward.value, 2),
            Bar(scores.accuracy),
        )
        for agent, scores in rows
    ]
    heads = ("agent", "acc", "95 %", *(f"{judge[:5]}." for judge in JUDGES), "NA", "format", "reward")
    title = f"{name[:40]}: {count(rows[0][1].tasks, 'question')}; shares in %"
    return make_table(title, (*heads, Column("", page_only=True)), cells, name_limit=_NAME, min_width=_NAME)


def _texts(rows: Sequence[tuple[str, BenchmarkScores]]) -> Table:
    """Lengths and counts."""
    cells = [
        (
            agent,
            *(decimal(one.value, 1) for one in (scores.chars, scores.words, scores.sentences)),
            percent(scores.queried.value, 0),
            *(ABSENT if one is None else f"{one:,.0f}" for one in (scores.mean_count, scores.median_count)),
            percent(scores.unsupported.value, 0),
        )
        for agent, scores in rows
    ]
    heads = ("means", "chars", "words", "sentences", "with query", "mean c", "median c", "c = 0")
    return make_table("", heads, cells, name_limit=_NAME, min_width=_NAME)


def _averages(reports: Sequence[CorverReport]) -> Table:
    rows = [
        (
            one.name,
            str(len(one.scores)),
            hundred(one.average["accuracy"]),
            hundred_interval(one.average["accuracy"]),
            *(hundred(one.average[part]) for part in ("attempted", "refusal", "format")),
            decimal(one.average["words"].value, 1),
        )
        for one in reports
    ]
    heads = ("agent", "sets", "acc", "95 %", "if tried", "NA", "format", "words")
    return make_table("Average over benchmarks, %", heads, rows, name_limit=_NAME, min_width=_NAME)


def _same_quarters(reports: Sequence[CorverReport]) -> list[list[tuple[str, Popularity]]]:
    """The accuracies by popularity, with names; reports on the same questions together."""
    groups: dict[tuple[Any, ...], list[tuple[str, Popularity]]] = {}
    for one in reports:
        if one.popularity is not None:
            parts = tuple((row.low, row.high, row.n) for row in one.popularity.quartiles)
            groups.setdefault((parts, one.popularity.excluded), []).append((one.name, one.popularity))
    return list(groups.values())


def _popularity(group: Sequence[tuple[str, Popularity]]) -> Table:
    """The layout of Table 3: a quarter a line, an agent a column."""
    first = group[0][1]
    alone = len(group) == 1
    rows = []
    for i, row in enumerate((*first.quartiles, first.all)):
        shares = [(*one.quartiles, one.all)[i].accuracy for _, one in group]
        reach = [hundred_interval(shares[0])] if alone else []
        rows.append(
            (row.name, f"{row.low:,.0f}–{row.high:,.0f}", f"{row.n:,}", *(hundred(one) for one in shares), *reach)
        )
    excluded = f"; {count(first.excluded, 'question')} without popularity left out" if first.excluded else ""
    title = f"Accuracy{f' of {group[0][0][:30]}' if alone else ''} by popularity, %{excluded}"
    heads = ["accuracy", "95 %"] if alone else [name[:10] for name, _ in group]
    return make_table(title, ("quarter", "views", "n", *heads), rows, min_width=_NAME)


def _curves(curves: Sequence[NamedCurve]) -> Iterator[Part]:
    for name, curve in curves:
        yield _curve(name, curve)
        lines = [f"From bucket to bucket the share {'never falls' if curve.monotone else 'falls at least once'}."]
        if curve.auc is not None:
            lines.append(
                f"Of a right and a wrong sentence the right one has the higher count in {percent(curve.auc)} of pairs."
            )
        if curve.skipped:
            lines.append(f"{count(curve.skipped, 'sentence')} without a count left out.")
        yield Note(" ".join(lines), fine=True)
    yield Chart("Share of right sentences by count", partial(calibration_chart, curves))


def _curve(name: str, curve: CountCalibration) -> Table:
    rises = {jump.at: jump.rise for jump in curve.jumps}
    rows = []
    for bucket in curve.buckets:
        rise, share = rises.get(bucket.low), bucket.share
        change = signed(100 * rise.value) if rise is not None and rise.value is not None else ""
        counts = (f"{bucket.n:,}", f"{bucket.correct:,}")
        rows.append((bucket.name, *counts, hundred(share), hundred_interval(share), change, Bar(share)))
    heads = ("count", "sentences", "right", "share", "95 %", "rise", "")
    return make_table(f"Right sentences by count, %: {name[:60]}", heads, rows, min_width=_NAME)


def calibration_chart(curves: Sequence[NamedCurve] = ()) -> str:
    """Return the paper's curve and those with its buckets, with the boundaries of the reward's tiers, as SVG (figure 5)."""
    theirs = published_curve()
    lows = [bucket.low for bucket in theirs.buckets]
    ours = [(name, curve) for name, curve in curves if [bucket.low for bucket in curve.buckets] == lows]
    named = [("the paper’s 700 sentences", theirs), *ours]
    drawn = [
        (name, [bucket.name for bucket in curve.buckets], [bucket.share for bucket in curve.buckets])
        for name, curve in named
    ]
    tiers = (1, DEFAULT_RULES.low_count, DEFAULT_RULES.high_count)
    return share_curves(drawn, "Right sentences by count", [lows.index(tier) - 0.5 for tier in tiers])


def _comparison(found: CorverComparison) -> Iterator[Part]:
    """Both reports' shares and their paired differences, benchmark by benchmark."""
    rows = []
    for name, one in found.benchmarks.items():
        test = p_value(one.mcnemar.p) if one.mcnemar is not None else ABSENT
        for i, part in enumerate(("accuracy", "refusal", "format")):
            title, p = (f"{name}, {one.n:,}", test) if i == 0 else ("", "")
            rows.append(Row((title, part, *_share_change(one.parts[part]), p)))
        words = one.parts["words"]
        change = ABSENT if words.difference.value is None else signed(words.difference.value)
        values = (decimal(words.first, 1), decimal(words.second, 1), change, interval(words.difference, 1))
        rows.append(Row(("", "words", *values, ""), ends_group=True))
    if len(found.benchmarks) > 1:
        for i, part in enumerate(("accuracy", "refusal", "format")):
            rows.append(Row(("average" if i == 0 else "", part, *_share_change(found.average[part]), "")))
    first, second = found.first[:24], found.second[:24]
    heads = ("benchmark", Column("share", left=True), first[:9], second[:9], "change", "95 %", "p")
    yield make_table(f"{second} against {first}: paired", heads, rows)
    if any(one.mcnemar for one in found.benchmarks.values()):
        yield Note("p: McNemar’s test of the accuracy.", fine=True)
    if found.quarters:
        cells = [
            (one.name, f"{one.low:,.0f}–{one.high:,.0f}", f"{one.n:,}", *_share_change(one.accuracy))
            for one in found.quarters
        ]
        columns = ("quarter", "views", "n", first[:9], second[:9], "change", "95 %")
        yield make_table("Accuracy by popularity, %", columns, cells, min_width=_NAME)
    yield from (Note(note, fine=True) for note in found.notes)


def _share_change(one: Difference) -> tuple[str, ...]:
    change = ABSENT if one.difference.value is None else signed(100 * one.difference.value)
    return hundred(one.first), hundred(one.second), change, hundred_interval(one.difference)


def _refusals(refusals: Sequence[tuple[str, Decomposition]]) -> Table:
    rows = []
    for name, one in refusals:
        shares = [hundred(part) for part in (one.raw_refusal, one.trained_refusal, one.unlocked)]
        parts = [signed(100 * value) for value in (one.gain, one.from_unlocked, one.from_both, one.from_withdrawn)]
        rows.append((f"{name}, {one.benchmark}", *shares, *parts))
    heads = ("agent, benchmark", "before", "after", "right", "gain", "unlocked", "both", "withdrawn")
    title = "Refusals before and after, and where the gain comes from, %"
    return make_table(title, heads, rows, name_limit=26, min_width=_NAME)


BENCHMARK = Benchmark(
    name="corver",
    env=QUESTIONS.env,
    find_data=QUESTIONS,
    evaluate=evaluate,
    options=CorverOptions,
    resources=annotated_curves,
)
