"""The paper's Tables 1 and 2 with ours beside them.

Theirs are trained models on AVeriTeC's knowledge store; ours are whoever was played, on what was at hand. The rows are
never a reproduction, and each of ours says on which claims and which evidence it was made. Table 3 (training
algorithms) has nothing of ours in it and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factgym.benchmarks.formats import ABSENT, decimal
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import PaperRow, PaperTable
from factgym.benchmarks.profact.facts import facts
from factgym.benchmarks.profact.report import ProFactReport
from factgym.benchmarks.usage import UsageSummary
from factgym.datasets.evidence_store import KNOWLEDGE_STORE

_MILLION = 1e6
_SCORES = ("question", "qa", "accuracy", "averitec")
Reports = Mapping[str, ProFactReport]
"""Reports by the name that their row is to have."""


def paper_tables(reports: Reports) -> tuple[PaperTable, ...]:
    """Both tables, theirs first in each."""
    return table_1(reports), table_2(reports)


def table_1(reports: Reports) -> PaperTable:
    """METEOR, accuracy and the AVeriTeC score at .25, in percent."""
    rows = [
        PaperRow((f"{method} (theirs)", llm, *(decimal(one, 2) for one in cells))) for method, llm, cells in _theirs()
    ]
    rows += [PaperRow((f"{name} (ours)", _setting(one), *_scores(one))) for name, one in reports.items()]
    columns = ("Method", "LLM, or what ours is on", "Q-only", "Q&A", "Acc.", "AVeriTeC")
    notes = (*_evidence_notes(reports), *_paper_notes())
    return PaperTable("Table 1", "METEOR, accuracy, AVeriTeC score", "theirs", columns, tuple(rows), notes)


def table_2(reports: Reports) -> PaperTable:
    """Seconds and tokens: theirs in total over 500 claims, and for a claim."""
    found, rows = facts("table2"), []
    claims = facts("setting")["claims"]
    for row in found["rows"]:
        for llm, *values in zip(found["llms"], row["seconds"], row["input"], row["output"], strict=True):
            cells = (*(decimal(one, 2) for one in values), *(_whole(one * _MILLION / claims) for one in values[1:]))
            rows.append(PaperRow((f"{row['method']} (theirs)", llm, *cells)))
    rows += [PaperRow((f"{name} (ours)", _setting(one), *_costs(one))) for name, one in reports.items()]
    columns = ("Method", "LLM, or what ours is on", "s/claim", "in, M", "out, M", "in/claim", "out/claim")
    notes = (
        f"Theirs are sums over {claims} claims; ours over the claims of the row. Our seconds are an episode's on the "
        "clock, with others under way at the same time; the paper does not say how it took its own.",
        "A scripted agent has no tokens.",
    )
    return PaperTable("Table 2", "Time and tokens", "theirs", columns, tuple(rows), notes)


def _theirs() -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Method, model and the four scores of each cell of Table 1."""
    yield from _cells(facts("table1"))


def _cells(table: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    for row in table["rows"]:
        for llm, *values in zip(table["llms"], *(row[name] for name in _SCORES), strict=True):
            yield row["method"], llm, tuple(values)


def _setting(report: ProFactReport) -> str:
    """Split, evidence and number of claims, short enough for a column."""
    split = report.split or "?"
    return f"{split}, {_evidence(report)}, n {report.n}"


def _evidence(report: ProFactReport) -> str:
    return " + ".join(report.stores) or "as submitted"


def _scores(report: ProFactReport) -> tuple[str, ...]:
    cutoff = facts("setting")["cutoff"]
    return tuple(_hundred(one) for one in (report.question, report.qa, report.accuracy, report.averitec[cutoff]))


def _hundred(found: Estimate) -> str:
    return ABSENT if found.value is None else decimal(100 * found.value, 2)


def _costs(report: ProFactReport) -> tuple[str, ...]:
    totals = [_total(report.usage, kind) for kind in ("prompt_tokens", "completion_tokens")]
    millions = (ABSENT if one is None else decimal(one / _MILLION, 2) for one in totals)
    each = (ABSENT if one is None else _whole(one / report.n) for one in totals)
    return (decimal(report.seconds.value, 2), *millions, *each)


def _total(usage: UsageSummary | None, kind: str) -> int | None:
    found = usage.tokens.get(kind) if usage is not None else None
    return None if found is None else found.total


def _whole(value: float) -> str:
    return f"{round(value):,}"


def _evidence_notes(reports: Reports) -> Iterator[str]:
    """What makes ours another setting than theirs."""
    setting = facts("setting")
    yield (
        f"Theirs search AVeriTeC’s knowledge store, dense with {setting['encoder']}, top {setting['top_k']}, at most "
        f"{setting['max_questions']} questions. Ours search by BM25 unless --set index says otherwise."
    )
    notes = {note for one in reports.values() for kind, note in one.stores.items() if note and kind != KNOWLEDGE_STORE}
    yield from sorted(notes)
    if any(not one.stores for one in reports.values()):
        yield (
            "“As submitted”: scored from a file of predictions. HerO’s published answers for dev, cut to five questions, "
            "give Q-only 44.33 and Q&A 30.54, with NLTK 3.9 instead of 3.10 44.29 and 30.55; the paper has 44.29 and 30.54 "
            "for HerO. All ten questions give 49.09 and 34.02."
        )


def _paper_notes() -> Iterator[str]:
    setting = facts("setting")
    yield (
        "The AVeriTeC score counts a claim whose Q&A score lies above the cutoff, as the paper’s text and the official "
        f"scorer have it; which cutoff the paper does not say. Ours is at {setting['cutoff']}."
    )


def named(reports: Sequence[tuple[str, ProFactReport]]) -> dict[str, ProFactReport]:
    """Reports by name; where two would have the same, their folders are named too."""
    names = [name for name, _ in reports]
    return {(name if names.count(name) == 1 else f"{name} ({one.source})"): one for name, one in reports}
