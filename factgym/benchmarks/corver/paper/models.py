"""Tables 1, 2, 3, 11 and 15 to 17: what trained models reached, beside what was played here. Never a reproduction.

A benchmark is marked where the questions that were played are not as many as the paper's, and what is no benchmark of
the paper has a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from factgym.agents.difficulty import Buckets
from factgym.benchmarks.corver.ablations import ABLATIONS, OF_REWARD, paid
from factgym.benchmarks.corver.compare import CorverComparison, Difference
from factgym.benchmarks.corver.facts import facts
from factgym.benchmarks.corver.refusals import Decomposition
from factgym.benchmarks.corver.report import BenchmarkScores, CorverReport
from factgym.benchmarks.corver.terminal import provenance
from factgym.benchmarks.corver.zones import zone_cells, zone_columns
from factgym.benchmarks.formats import ABSENT, count, decimal, percent, printable
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import PaperRow, PaperTable, signed

Ours = Sequence[CorverReport]

_NAME = 16


def hundred(one: Estimate | None, places: int = 1) -> str:
    """A share in percent without its sign."""
    return ABSENT if one is None or one.value is None else decimal(100 * one.value, places)


def others(reports: Ours) -> list[str]:
    """Benchmarks that were played and are none of the paper's."""
    known = facts("benchmarks")["columns"]
    return list(dict.fromkeys(name for one in reports for name in one.scores if name not in known))


def titles(reports: Ours) -> list[str]:
    """The heads of the benchmarks' columns, † where the questions played are not as many as the paper's."""
    found = facts("benchmarks")
    heads = []
    for name, title, questions in zip(found["columns"], found["titles"], found["questions"], strict=True):
        played = {one.scores[name].tasks for one in reports if name in one.scores}
        heads.append(f"{title}†" if played and played != {questions} else title)
    return [*heads, *(printable(name, 12) for name in others(reports))]


def labels(reports: Ours) -> list[str]:
    """What ours are, a line for each run; runs that differ in their agent alone are named once."""
    return [
        f"Ours ({', '.join(names)}): {'; '.join(questions)} · {setting}. Here the answers are judged as the paper does."
        for names, questions, setting in provenance(reports)
    ]


def _notes(reports: Ours, *more: str) -> tuple[str, ...]:
    marked = any("†" in title for title in titles(reports))
    dagger = ("† Not the paper’s number of questions: another file, a slice, or a part.",) if marked else ()
    return (*more, *dagger, *labels(reports))


def _cells(report: CorverReport, names: Sequence[str], value: Callable[[BenchmarkScores], Estimate]) -> list[str]:
    return [hundred(value(report.scores[name])) if name in report.scores else ABSENT for name in names]


def _ours(reports: Ours, value: Callable[[BenchmarkScores], Estimate], average: Callable[[CorverReport], Estimate]) -> list[PaperRow]:  # fmt: skip
    names = facts("benchmarks")["columns"]
    rows = []
    for report in reports:
        whole = hundred(average(report)) if set(names) <= set(report.scores) else ABSENT
        cells = _cells(report, names, value)
        rows.append(
            PaperRow(
                (f"{printable(report.name, _NAME)} (ours)", *cells, *_cells(report, others(reports), value), whole)
            )
        )
    return rows


def table_1(reports: Ours) -> PaperTable:
    """Accuracy of raw models, of four baselines, and of CorVer."""
    empty = [ABSENT] * len(others(reports))
    rows = []
    for model, method, accuracy in _theirs():
        mean = sum(accuracy) / len(accuracy)
        cells = (*(decimal(value, 2) for value in accuracy), *empty, decimal(mean, 2))
        rows.append(PaperRow((f"{model} {method}", *cells)))
    rows += _ours(reports, lambda one: one.accuracy, lambda one: one.average["accuracy"])
    return PaperTable(
        "Tables 1, 15, 16", "Accuracy, %", "theirs", ("model", *titles(reports), "Avg"), tuple(rows), _notes(reports)
    )


def _theirs() -> list[tuple[str, str, list[float]]]:
    """Every model of Table 1 with its baselines, then the two that only Table 15 has."""
    known = [(one["model"], one["method"], one["accuracy"]) for one in facts("table1")["rows"]]
    models = {model for model, _, _ in known}
    more = [one for one in facts("table15")["rows"] if one["model"] not in models]
    return [*known, *((one["model"], one["variant"], one["accuracy"]) for one in more)]


def table_15(reports: Ours) -> PaperTable:
    """Refusals of raw and trained models."""
    empty = [ABSENT] * len(others(reports))
    rows = [
        PaperRow((f"{one['model']} {one['variant']}", *(decimal(value, 2) for value in one["na"]), *empty, decimal(sum(one["na"]) / len(one["na"]), 2)))
        for one in facts("table15")["rows"]
    ]  # fmt: skip
    rows += _ours(reports, lambda one: one.refusal, lambda one: one.average["refusal"])
    notes = ("By the published rule, to which “I dont know”, the reply that its prompts ask for, is no refusal.",)
    return PaperTable("Table 15", "Refusals (NA), %", "theirs", ("model", *titles(reports), "Avg"), tuple(rows), notes)


def diagnostics(reports: Ours) -> PaperTable:
    """What the paper calls diagnostics, of ours alone: it prints no table of them."""
    rows = []
    for report in reports:
        for name, one in report.scores.items():
            counts = [
                ABSENT if one.median_count is None else f"{one.median_count:,.0f}",
                percent(one.unsupported.value),
            ]
            cells = (percent(one.format.value), decimal(one.chars.value, 0), decimal(one.words.value, 1))
            rows.append(
                PaperRow(
                    (f"{printable(report.name, _NAME)} (ours)", name, *cells, decimal(one.sentences.value, 1), *counts)
                )
            )
    columns = ("agent", "questions", "format", "chars", "words", "sentences", "median c", "c = 0")
    note = "Chars and words of the answer; c is the count of a sentence that gave a query."
    return PaperTable("Section 4", "Format, length and counts", "computed", columns, tuple(rows), (note,))


def table_2(reports: Ours) -> PaperTable:
    """The ablations: theirs as trained; ours trained where a run's manifest names a variant, else nothing."""
    empty = [ABSENT] * len(others(reports))
    rows = [
        PaperRow((f"{one['title']} (theirs)", *(decimal(value, one["places"]) for value in one["accuracy"]), *empty))
        for one in facts("table2")["rows"]
    ]
    for report in reports:
        variant = next(iter({label.variant for label in report.labels}), "")
        if variant:
            names = [*facts("benchmarks")["columns"], *others(reports)]
            rows.append(
                PaperRow(
                    (
                        f"{printable(report.name, _NAME)}, {variant} (ours)",
                        *_cells(report, names, lambda one: one.accuracy),
                    )
                )
            )
    notes = (
        "Ours is the accuracy of runs under a variant’s reward: a policy trained with it would be the comparison.",
    )
    return PaperTable("Table 2", "Ablations on Llama-3.1-8B, accuracy, %", "theirs", ("variant", *titles(reports)), tuple(rows), notes)  # fmt: skip


def rewards(reports: Ours) -> PaperTable:
    """What each variant of the reward pays our answers."""
    rows = []
    for report in reports:
        cells = [decimal(paid(report.answers, name).value) for name in OF_REWARD]
        strict = decimal(paid(report.answers, OF_REWARD[0], "strict").value)
        rows.append(PaperRow((f"{printable(report.name, _NAME)} (ours)", *cells, strict)))
    columns = ("agent", *(ABLATIONS[name].name for name in OF_REWARD), "strict")
    notes = (
        "The mean reward of the same answers, read under the published reward (full), without its sentence term (A1), without its judge (A2), and with the sentences’ mean in place of credit per token (A3). A4 is no reward: factgym filter --keep 0:16.",
    )
    return PaperTable("Table 2", "What each variant pays", "computed", columns, tuple(rows), notes)


def table_3(reports: Ours, comparisons: Sequence[CorverComparison] = ()) -> PaperTable:
    """Accuracy by popularity; of pairs of ours the second beside the first."""
    rows = [
        PaperRow((f"{one['model']} {one['quartile']}", one["views"] or ABSENT, f"{one['n']:,}", decimal(one["raw"], 2), decimal(one["trained"], 2), signed(one["gain"], 2)))
        for one in facts("table3")["rows"]
    ]  # fmt: skip
    notes = []
    paired = {name for pair in comparisons if pair.quarters for name in (pair.first, pair.second)}
    for report in reports:
        found = report.popularity
        if found is None:
            continue
        for one in (*found.quartiles, found.all) if report.name not in paired else ():
            views = f"{one.low:,.0f}–{one.high:,.0f}"
            cells = (views, f"{one.n:,}", hundred(one.accuracy), ABSENT, ABSENT)
            rows.append(PaperRow((f"{printable(report.name, _NAME)} {one.name} (ours)", *cells)))
        if found.excluded:
            notes.append(f"{report.name}: {count(found.excluded, 'question')} without popularity left out.")
    for pair in comparisons:
        if pair.quarters:
            notes.append(f"Ours, a pair: {pair.first} as raw, {pair.second} as trained.")
        for part in pair.quarters:
            cells = (f"{part.low:,.0f}–{part.high:,.0f}", f"{part.n:,}", *_change(part.accuracy))
            rows.append(PaperRow((f"{printable(pair.second, _NAME)} {part.name} (ours)", *cells)))
    notes.append(
        "Popularity is the monthly page views of the subject; in generated questions, the sentences that state the fact."
    )
    return PaperTable("Table 3", "PopQA by popularity, accuracy, %", "theirs", ("model", "views", "n", "raw", "trained", "Δ"), tuple(rows), tuple(notes))  # fmt: skip


def _change(one: Difference) -> tuple[str, str, str]:
    found = one.difference.value
    values = [ABSENT if value is None else decimal(100 * value, 1) for value in (one.first, one.second)]
    return values[0], values[1], ABSENT if found is None else signed(100 * found, 1)


def table_11(zones: Sequence[tuple[str, Buckets]] = ()) -> PaperTable:
    """The learning zone, and filters of ours by name."""
    rows = []
    for one in facts("table11")["rows"]:
        histogram = (one["never"], one["between"], *([0] * (facts("table11")["samples"] - 2)), one["always"])
        found = Buckets(histogram, one["retained"])
        agrees = found.pool == one["pool"] and percent(found.share) == f"{one['keep']:.1f} %"
        rows.append(PaperRow((f"{one['model']}, pool of {one['pool']:,}", *zone_cells(found)), agrees))
    rows += [
        PaperRow((f"{printable(name, _NAME)}, G = {len(found.histogram) - 1} (ours)", *zone_cells(found)))
        for name, found in zones
    ]
    columns = ("model", *zone_columns(facts("table11")["samples"]))
    return PaperTable("Table 11", "The learning zone", "theirs", columns, tuple(rows))


def table_17(found: Sequence[tuple[str, Decomposition]] = ()) -> PaperTable:
    """Refusals given up, and what they were worth; ours for pairs of runs."""
    rows = [
        PaperRow((f"{one['benchmark']} (theirs)", decimal(one["raw"], 1), decimal(one["trained"], 1), decimal(one["subset"], 1), ABSENT, ABSENT, ABSENT))
        for one in facts("table17")["rows"]
    ]  # fmt: skip
    for name, one in found:
        shares = (hundred(one.raw_refusal), hundred(one.trained_refusal), hundred(one.unlocked))
        parts = [signed(100 * value) for value in (one.from_unlocked, one.from_both, one.from_withdrawn)]
        rows.append(PaperRow((f"{printable(name, _NAME)} {one.benchmark} (ours)", *shares, *parts)))
    columns = ("benchmark", "raw NA", "trained NA", "subset", "unlocked", "both", "withdrawn")
    notes = (
        "Subset: the accuracy on questions that raw refused and trained attempts. The last three columns divide the change of accuracy, in points, among newly attempted questions, those that both attempt, and newly refused ones.",
    )
    return PaperTable("Table 17", "Refusals on Qwen3-8B, %", "theirs", columns, tuple(rows), notes)
