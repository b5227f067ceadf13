"""Tables 4, 5, 16 and 17: what trained models reached, beside what our scripts reach. Never a reproduction.

A column is marked where the claims at hand are other ones than the paper's, or carry other labels than it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from factgym.agents.resolve import scripted_agents
from factgym.benchmarks.formats import ABSENT, decimal, percent
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same
from factgym.benchmarks.seva.facts import facts
from factgym.benchmarks.seva.paper.data import PUBLISHED, attributable, kind_of
from factgym.benchmarks.seva.suite import Result
from factgym.datasets.attribution import BenchmarkClaims

Scores = Mapping[tuple[str, str], Result]
"""Results by data set and agent."""

_TITLES = {"clearfacts": "ClearF.", "fever": "FEVER", "truthfulqa": "TrQA", "halueval": "HaluE."}


def _agents(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(one.agent for one in results))


def _honest(results: Sequence[Result]) -> list[Result]:
    """Without exploiters: their labels may be told to them."""
    agents = scripted_agents("seva")
    return [one for one in results if one.agent not in agents or agents[one.agent].role != "exploiter"]


def _by_name(results: Sequence[Result]) -> Scores:
    return {(one.data_set, one.agent): one for one in results}


def _mark(claims: Mapping[str, BenchmarkClaims], name: str) -> str:
    """How a benchmark at hand differs from the paper's."""
    found = claims.get(name)
    if found is None or kind_of(name, found) != PUBLISHED:
        return " †"
    printed = next(one for one in facts("table12")["rows"] if one["benchmark"] == name)
    return "" if same(100 * attributable(found), printed["attributable"], 1) else " ‡"


def table_4(results: Sequence[Result], claims: Mapping[str, BenchmarkClaims]) -> PaperTable:
    """Macro-F1 across benchmarks."""
    found = facts("table4")
    names = found["columns"]
    rows = [
        PaperRow((f"{one['model']} (theirs)", *(decimal(value, 1) for value in one["f1"]))) for one in found["rows"]
    ]
    scores = _by_name(results)
    for agent in _agents(_honest(results)):
        cells = [_hundred(scores.get((name, agent))) for name in names]
        if any(cell != ABSENT for cell in cells):
            rows.append(PaperRow((f"{agent} (ours)", *cells)))
    titles = [_TITLES[name] + _mark(claims, name) for name in names]
    notes = (
        "† Other claims than the paper’s, or none. ‡ The slice that its authors publish, whose labels are not those that it counts.",
        "All of theirs on HaluEval are below the 50 of a coin on balanced labels.",
    )
    return PaperTable("Tables 3, 4", "Macro-F1 across benchmarks", "theirs", ("model", *titles), tuple(rows), notes)


def _hundred(one: Result | None) -> str:
    value = None if one is None else one.report.scores["macro_f1"].value
    return ABSENT if value is None else decimal(100 * value, 1)


def table_5(results: Sequence[Result]) -> PaperTable:
    """Structural quality, on ClearFacts in the paper and on the first data set that was played here."""
    rows = [
        PaperRow(
            (
                f"{one['model']} (theirs)",
                decimal(one["alignment"]),
                decimal(one["chain"]),
                f"{one['format']} %",
                ABSENT,
            )
        )
        for one in facts("table5")["rows"]
    ]
    name = _first(results)
    for one in results:
        if one.data_set == name:
            found = one.report.structure
            shown = [decimal(found[part].value) for part in ("alignment", "chain")]
            rows.append(
                PaperRow(
                    (
                        f"{one.agent} (ours)",
                        *shown,
                        percent(found["format"].value),
                        decimal(found["grounded_alignment"].value),
                    )
                )
            )
    notes = (
        f"Ours on {name or 'nothing'}. R_a and R_c look at form alone: a script that knows nothing of the claim has"
        " both near 1. The grounded alignment asks whether the spans stand in claim and source.",
        "Ours are means over outputs that parse. .917 beside a format rate of 72 % is hardly a mean over all outputs.",
    )
    return PaperTable(
        "Tables 5, 6",
        "Structural quality",
        "theirs",
        ("model", "align", "chain", "format", "grounded"),
        tuple(rows),
        notes,
    )


def _first(results: Sequence[Result]) -> str:
    """ClearFacts where it was played, else whatever was played first."""
    names = [one.data_set for one in results]
    return "clearfacts" if "clearfacts" in names else next(iter(names), "")


def table_16(results: Sequence[Result]) -> PaperTable:
    """How often claims are rejected."""
    scores = _by_name(results)
    agents = [one for one in ("nli", "lexical") if one in _agents(results)]
    rows = []
    for one in facts("table16")["rows"]:
        name = one["benchmark"]
        cells = [_percent(scores.get((name, agent))) for agent in agents]
        rows.append(PaperRow((name, f"{one['predicted_negative']} %", *cells)))
    columns = ("benchmark", "GRPO, theirs", *(f"{agent}, ours" for agent in agents))
    return PaperTable("Table 16", "Share of claims rejected", "theirs", columns, tuple(rows))


def _percent(one: Result | None) -> str:
    return percent(None if one is None else one.report.predicted_negative.value)


def table_17(results: Sequence[Result]) -> PaperTable:
    """Error types among rejections."""
    name = _first(results)
    mine = [one for one in results if one.data_set == name and one.agent in ("nli", "lexical")]
    rows = []
    for row in facts("table17")["rows"]:
        cells = [percent(_share(one, row["error"]).value) for one in mine]
        rows.append(PaperRow((row["error"], f"{row['share']} %", *cells)))
    columns = ("error type", "GRPO, theirs", *(f"{one.agent}, ours" for one in mine))
    counts = [("GRPO", facts("table17")["n"])]
    counts += [(one.agent, sum(one.report.diagnoses.counts.values())) for one in mine]
    said = ", ".join(f"{agent} {n}" for agent, n in counts)
    notes = (f"Rejections: {said}. Ours on {name or 'nothing'}.",)
    return PaperTable("Table 17", "Error types diagnosed", "theirs", columns, tuple(rows), notes)


def _share(one: Result, error: str) -> Estimate:
    return one.report.diagnoses.shares.get(error, Estimate(0.0, None, None, 0))
