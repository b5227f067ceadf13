"""Table 12 against the files at hand, and what these give away without their sources being read.

The authors publish slices of FEVER, TruthfulQA and HaluEval; whether their labels are those that the paper counts is
what the table shows. GrayFacts holds the ambiguous claims beside ClearFacts and is another set. What a claim's form
alone tells about its label bounds what a score on the slice can mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.formats import percent
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same
from factgym.benchmarks.seva.facts import facts
from factgym.benchmarks.seva.suite import DataSet
from factgym.datasets.attribution import ATTRIBUTABLE, BenchmarkClaims, read_benchmark

CLUES: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "question mark": lambda claim: "?" in claim,
        "≤ 8 words": lambda claim: len(claim.split()) <= 8,
        "a digit": lambda claim: any(char.isdigit() for char in claim),
    }
)
"""What can be told of a claim without its source."""
_TELLING = 0.95


def claims_of(data_sets: Sequence[DataSet]) -> dict[str, BenchmarkClaims]:
    """The claims of every data set that is a file, by name. Raises DataError for an unusable one."""
    return {one.name: read_benchmark(one.name, one.path) for one in data_sets if one.path is not None}


PUBLISHED = "published slice"
_PUBLISHED_FOLDER = "seva_official"
_GRAYFACTS = "grayfacts.jsonl"


def kind_of(name: str, found: BenchmarkClaims) -> str:
    """What a data set at hand is, as far as its place and size tell."""
    file = found.files[0]
    if file.parent.name == _PUBLISHED_FOLDER:
        return PUBLISHED
    if name == "clearfacts" and file.name == _GRAYFACTS:
        return "GrayFacts, another set"
    return "a file of yours"


def table_12(claims: Mapping[str, BenchmarkClaims]) -> PaperTable:
    """Sizes and shares of attributable claims."""
    rows = []
    for one in facts("table12")["rows"]:
        found = claims.get(one["benchmark"])
        rows.append(_missing(one) if found is None else _counted(one, found))
    if "anli" in claims:
        found = claims["anli"]
        share = f"{100 * attributable(found):.1f} %"
        rows.append(PaperRow(("anli", f"{len(found):,}", "–", share, "–", "training data there")))
    notes = ["GrayFacts holds ambiguous claims alone: no number on it is comparable with one on ClearFacts."]
    differing = [row.cells[0] for row in rows if row.agrees is False]
    if differing:
        notes.append(f"The published labels of {' and '.join(differing)} are not those that the paper counts.")
    columns = ("benchmark", "items", "evaluated", "Attr.", "theirs", "what it is")
    return PaperTable("Table 12", "Evaluation data", "data", columns, tuple(rows), tuple(notes))


def _missing(one: Mapping[str, Any]) -> PaperRow:
    cells = (one["benchmark"], "–", f"{one['evaluated']:,}", "–", f"{one['attributable']} %", "no file at hand")
    return PaperRow(cells)


def _counted(one: Mapping[str, Any], found: BenchmarkClaims) -> PaperRow:
    share, kind = 100 * attributable(found), kind_of(one["benchmark"], found)
    evaluated, theirs = one["evaluated"], one["attributable"]
    cells = (one["benchmark"], f"{len(found):,}", f"{evaluated:,}", f"{share:.1f} %", f"{theirs} %", kind)
    agrees = len(found) == evaluated and same(share, theirs, 1)
    return PaperRow(cells, agrees if kind == PUBLISHED else None)


def attributable(found: BenchmarkClaims) -> float:
    """The share of attributable claims."""
    return sum(claim.label == ATTRIBUTABLE for claim in found) / len(found)


def shortcuts(claims: Mapping[str, BenchmarkClaims]) -> PaperTable:
    """The accuracy of the better of two readings of each clue, from the claim alone."""
    rows, notes = (
        [],
        ["Accuracy of a rule that never opens the source; each clue is read in the better of its two directions."],
    )
    for name, found in claims.items():
        share = attributable(found)
        clues = {clue: _accuracy([test(claim.claim) for claim in found], found) for clue, test in CLUES.items()}
        rows.append(PaperRow((name, percent(max(share, 1 - share)), *(percent(one) for one in clues.values()))))
        notes += [
            f"On {name} one clue tells the label: {clue}, {percent(value)}. No score there shows that a source was read."
            for clue, value in clues.items()
            if value >= _TELLING > max(share, 1 - share)
        ]
    columns = ("benchmark", "majority", *CLUES)
    return PaperTable(
        "Data at hand", "What a claim’s form alone gives away", "data", columns, tuple(rows), tuple(notes)
    )


def _accuracy(positive: Sequence[bool], found: BenchmarkClaims) -> float:
    right = sum(one == (claim.label == ATTRIBUTABLE) for one, claim in zip(positive, found, strict=True)) / len(found)
    return max(right, 1 - right)
