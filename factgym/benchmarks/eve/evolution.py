"""An EVE evolution so far, read off its folder, and as tables of its two phases and its data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.agents.runs import ROLLOUTS, files
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.report import Note, Report, Section, Table, make_table
from factgym.benchmarks.terminal import render_report

if TYPE_CHECKING:
    from rich.console import Group


def summary_of(out: str | Path) -> dict[str, Any]:
    """The measures of every finished iteration of both phases, and of the data set (None before it is there).

    caveats: what the environments want said beside every result.
    """
    out = Path(out)
    data = out / "data" / files.METRICS
    return {
        "proposer": _metrics(out / "proposer"),
        "data": files.read_json(data) if data.exists() else None,
        "solver": _metrics(out / "solver"),
        "caveats": _caveats(out),
    }


def _caveats(out: Path) -> list[str]:
    first = (out / phase / "iteration-1" / ROLLOUTS / files.MANIFEST for phase in ("proposer", "solver"))
    caveats = (text for path in first if path.exists() for text in files.read_json(path).get("caveats", ()))
    return [text for text in dict.fromkeys(caveats) if isinstance(text, str)]


def _metrics(folder: Path) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = []
    while (path := folder / f"iteration-{len(metrics) + 1}" / files.METRICS).exists():
        metrics.append(files.read_json(path))
    return metrics


PROPOSER = ("episodes", "reward", "format", "difficulty", "V", "valid", "placed", "solved", "flat")
SOLVER = ("episodes", "reward", "EM", "F1", "evidence F1", "verbatim", "searches", "flat")
LEGEND = (
    "V: gain in accuracy by the evidence, over the valid. placed: evidence verbatim in the text. solved: searching "
    "answers that were right. flat: share without an advantage."
)


def phase_sections(summary: Mapping[str, Any]) -> Iterator[Section]:
    """Both phases and the data set of `summary_of`, for a terminal and a page."""
    rows = [proposer_cells(metrics) for metrics in summary["proposer"]]
    table = _iterations("Phase A: the proposer", PROPOSER, rows)
    yield Section(table.title, (table, Note(LEGEND, fine=True)))
    if summary["data"] is not None:
        yield Section("Data set", tuple(Note(line, fine=True) for line in data_lines(summary["data"])))
    if summary["solver"]:
        table = _iterations("Phase B: the solver", SOLVER, [solver_cells(metrics) for metrics in summary["solver"]])
        yield Section(table.title, (table,))


def render_phases(summary: Mapping[str, Any]) -> Group:
    """The phases of `summary_of`, for a rich Console."""
    from rich.console import Group

    sections = [
        # A table prints its own title on a terminal; a section of sentences needs a heading.
        section
        if any(isinstance(part, Table) for part in section.parts)
        else replace(section, parts=(Note(section.title, fine=True), *section.parts))
        for section in phase_sections(summary)
    ]
    return Group(*render_report(Report("EVE", tuple(sections), notes=tuple(summary["caveats"]))))


def data_lines(data: Mapping[str, Any]) -> list[str]:
    """The data set in sentences."""
    hops = ", ".join(f"{n:,} of {count(int(name), 'hop')}" for name, n in data["hops"].items())
    lines = [
        f"{count(data['rows'], 'row')} of {count(data['episodes'], 'rollout')} from "
        f"{count(data['prompts'], 'held-out passage')}; mean V {decimal(data['V'])}",
        f"{hops}; {count(data['documents'], 'passage')} used" if data["rows"] else "",
        *(f"{n:,} dropped: {reason}" for reason, n in data["dropped"].items()),
    ]
    return [line for line in lines if line]


def _iterations(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return make_table(title, ("", *names), [(str(number), *cells) for number, cells in enumerate(rows, 1)])


def proposer_cells(metrics: Mapping[str, Any]) -> list[str]:
    """The cells under `PROPOSER` of metrics iteration."""
    parts = metrics["components"]
    values = (metrics["reward"], parts.get("format"), parts.get("difficulty"), metrics["V"])
    shares = (metrics["valid"], metrics["placed"], metrics["solved"], metrics["flat"])
    return [
        f"{metrics['episodes']:,}",
        *(decimal(value) for value in values),
        *(decimal(value, 2) for value in shares),
    ]


def solver_cells(metrics: Mapping[str, Any]) -> list[str]:
    """The cells under `SOLVER` of metrics iteration."""
    values = (metrics["reward"], metrics["em"], metrics["f1"], metrics["evidence_f1"])
    shares = (metrics["verbatim"], metrics["searches"], metrics["flat"])
    return [
        f"{metrics['episodes']:,}",
        *(decimal(value) for value in values),
        *(decimal(value, 2) for value in shares),
    ]
