"""An EVE evolution so far, read off its folder, and as tables of its two phases and its data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.agents.runs import files
from factgym.agents.runs.files import ROLLOUTS
from factgym.benchmarks.charts import COLOURS, panel_chart
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.report import Note, Part, Report, Section, make_table
from factgym.benchmarks.terminal import render_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group


def summary_of(out: str | Path) -> dict[str, Any]:
    """Return the measures of every finished iteration of both phases, and of the data set (None before it is made).

    caveats: who was not trained, and notes of the environments; they belong beside every result.
    """
    out = Path(out)
    phases: dict[str, list[dict[str, Any]]] = {"proposer": [], "solver": []}
    notes: dict[str, None] = {}
    for phase, rows in phases.items():
        while (path := out / phase / f"iteration-{len(rows) + 1}" / files.METRICS).exists():
            rows.append(files.read_json(path))
        manifest = out / phase / "iteration-1" / ROLLOUTS / files.MANIFEST
        warnings = files.read_json(manifest).get("caveats", ()) if manifest.exists() else ()
        notes |= {note: None for note in warnings if isinstance(note, str)}
    data = out / "data" / files.METRICS
    return {
        "proposer": phases["proposer"],
        "data": files.read_json(data) if data.exists() else None,
        "solver": phases["solver"],
        "caveats": [*untrained_notes(out), *notes],
    }


def untrained_notes(out: str | Path) -> list[str]:
    """Return the sentence that says which policies of an evolution, or of rounds, no trainer changes; empty where both are trained."""
    path = Path(out) / files.MANIFEST
    learners = files.read_json(path) if path.exists() else {}
    fixed = [name for name in _PHASES if str(learners.get(name, {}).get("trainer", "")).endswith(_CHANGES_NOTHING)]
    if len(fixed) == len(_PHASES):
        return ["Nothing was trained: without a trainer that changes a policy, only draws differ between iterations."]
    return [f"The {name} was not trained." for name in fixed]


LEGEND = (
    "V: gain in accuracy by the evidence, over the valid. placed: evidence verbatim in the text. solved: searching "
    "answers that were right. flat: share without an advantage."
)
_PHASES: Mapping[str, tuple[str, str, Mapping[str, int]]] = {
    "proposer": (
        "Phase A: the proposer",
        LEGEND,
        {"reward": 3, "format": 3, "difficulty": 3, "V": 3, "valid": 2, "placed": 2, "solved": 2, "flat": 2},
    ),
    "solver": (
        "Phase B: the solver",
        "",
        {"reward": 3, "em": 3, "f1": 3, "evidence_f1": 3, "verbatim": 2, "searches": 2, "flat": 2},
    ),
}
"""Title, legend, and decimal places by the measures of an iteration; `format` and `difficulty` are components."""
_CHANGES_NOTHING = (".Untrained", ".Checked")
"""Ends of the names of the trainers that return the policy they are given."""
_HEADS = {"em": "EM", "f1": "F1", "evidence_f1": "evidence F1"}


def phase_table(summary: Mapping[str, Any], phase: str) -> tuple[str, str, list[str], list[list[str]]]:
    """Return title, legend, heads and a line of cells for each iteration of a phase of `summary_of`."""
    title, legend, measures = _PHASES[phase]
    rows = []
    for metrics in summary[phase]:
        values = metrics.get("components", {}) | metrics
        cells = (decimal(values.get(name), places) for name, places in measures.items())
        rows.append([f"{metrics['episodes']:,}", *cells])
    return title, legend, ["episodes", *(_HEADS.get(name, name) for name in measures)], rows


def render_phases(summary: Mapping[str, Any]) -> Group:
    """Return both phases and the data set of `summary_of`, for a rich Console."""
    from rich.console import Group

    parts: list[Part] = []
    for phase in _PHASES:
        title, legend, heads, rows = phase_table(summary, phase)
        if phase == "solver" and summary["data"] is not None:
            parts += [Note(line, fine=True) for line in ("Data set", *data_lines(summary["data"]))]
        if rows or phase == "proposer":
            parts.append(make_table(title, ("", *heads), [(str(i), *cells) for i, cells in enumerate(rows, 1)]))
            parts += [Note(legend, fine=True)] if legend else []
    return Group(*render_report(Report("EVE", (Section("", tuple(parts)),), notes=tuple(summary["caveats"]))))


def render_rounds(rounds: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> Group:
    """Return the rounds of `rounds.json` for a rich Console: data sets, the solver on held-out questions, and notes."""
    from rich.console import Group

    rows = []
    for row in rounds:
        data, test = row.get("data") or {}, row.get("test") or {}
        cells = [f"{data['rows']:,}", decimal(data["V"])] if data else ["", ""]
        measures = ("reward", "em", "evidence_f1", "verbatim")
        rows.append([str(row["round"]), *cells, *(decimal(test[name]) if test else "" for name in measures)])
    heads = ("round", "rows", "V", "reward", "EM", "evidence F1", "verbatim")
    section = Section(
        "Rounds", (make_table("The data set of each round, and its solver on held-out questions", heads, rows),)
    )
    return Group(*render_report(Report("EVE", (section,), notes=tuple(notes))))


def rounds_chart(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The curves over the rounds of `rounds.json` as SVG: both policies' rewards in training, and the held-out solver.

    Training's values are those of a round's last iteration. Raises MissingExtraError without the chart library.
    """

    def draw(axes: Axes, series: Mapping[str, tuple[str, str]], label: str) -> None:
        for colour, (name, (part, key)) in zip(COLOURS, series.items(), strict=False):
            points = [(row["round"], row[part][key]) for row in rounds if row.get(part)]
            axes.plot(*zip(*points, strict=True) if points else ((), ()), marker="o", label=name, color=colour)
        axes.set_xticks([row["round"] for row in rounds])
        axes.set(xlabel="round", ylabel=label)
        axes.legend(fontsize=8)

    trained = {phase: (phase, "reward") for phase in ("proposer", "solver")}
    measures = {"reward": ("test", "reward"), "exact match": ("test", "em"), "evidence F1": ("test", "evidence_f1")}
    panels = {"training episodes": partial(draw, series=trained, label="reward")}
    if any(row.get("test") for row in rounds):
        panels["solver on held-out questions"] = partial(draw, series=measures, label="mean over the questions")
    return panel_chart("Rounds of self-evolution", panels)


def data_lines(data: Mapping[str, Any]) -> list[str]:
    """Return the data set in sentences."""
    hops = ", ".join(f"{n:,} of {count(int(name), 'hop')}" for name, n in data["hops"].items())
    lines = [
        f"{count(data['rows'], 'row')} of {count(data['episodes'], 'rollout')} from "
        f"{count(data['prompts'], 'held-out passage')}; mean V {decimal(data['V'])}",
        f"{hops}; {count(data['documents'], 'passage')} used" if data["rows"] else "",
        *(f"{n:,} dropped: {reason}" for reason, n in data["dropped"].items()),
    ]
    return [line for line in lines if line]
