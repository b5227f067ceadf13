"""The overview of several runs side by side: scores of each, paired differences to the first, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run
from factgym.benchmarks.comparison import RunComparison, compare_with_first
from factgym.benchmarks.formats import count
from factgym.benchmarks.metrics import RunSummary
from factgym.benchmarks.viewer.episodes import COLUMNS
from factgym.core.errors import ConfigError


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return names of folders: their ends as far as needed to tell them apart, numbered where one comes twice."""
    paths = [folder.resolve().parts for folder in folders]
    names: list[str] = []
    for length in range(1, max(map(len, paths), default=0) + 1):
        names = ["/".join(parts[-length:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate(names, 1)]


def comparison_values(
    runs: Mapping[str, Run], summaries: Sequence[RunSummary], rows: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return values of the page's template. rows: those of all runs, each with its run's number at the end."""
    names = list(runs)
    compared = compare_with_first(list(runs.values()))
    changes = _changes(rows, len(names))
    entries = [
        {
            "name": name,
            "summary": summary,
            "difference": result.differences[0] if isinstance(result, RunComparison) else None,
            "fixed": fixed,
            "broken": broken,
            "number": number,
        }
        for number, (name, summary, result, (fixed, broken)) in enumerate(
            zip(names, summaries, [None, *compared], changes, strict=True)
        )
    ]
    environments = list(dict.fromkeys(summary.env for summary in summaries if summary.env))
    title = ", ".join(environments)[:80] or "runs"
    return {
        "overview": "runs.html",
        "n": len({(row[COLUMNS.index("task")], row[COLUMNS.index("sample")]) for row in rows}),
        "environment": title,
        "agent": f"{len(names)} runs",
        "title": f"{title} \u00b7 {len(names)} runs",
        "facts": [count(len(rows), "episode"), count(len({row[0] for row in rows}), "task")],
        "notes": list(_notes(runs, summaries, compared)),
        "runs": entries,
        "components": list(dict.fromkeys(name for summary in summaries for name in summary.components)),
    }


def _notes(
    runs: Mapping[str, Run], summaries: Sequence[RunSummary], compared: Sequence[RunComparison | ConfigError]
) -> Iterator[str]:
    for (name, run), summary in zip(runs.items(), summaries, strict=True):
        for note in (*run.notes, *run.warnings):
            yield f"{name}: {note}"
        if summary.errors:
            yield f"{name}: {count(summary.errors, 'infrastructure error')} left out of all scores."
    for name, result in zip(list(runs)[1:], compared, strict=True):
        if isinstance(result, ConfigError):
            yield f"{name} has no paired difference. {result}"


def _changes(rows: Sequence[Sequence[Any]], number: int) -> list[tuple[int, int]]:
    """Return how many tasks' samples each run has right that the first has not, and the reverse."""
    task, sample, state = (COLUMNS.index(name) for name in ("task", "sample", "state"))
    right: list[dict[tuple[Any, Any], bool]] = [{} for _ in range(number)]
    for row in rows:
        right[row[-1]][row[task], row[sample]] = row[state] == "right"
    pairs = [[(right[0][key], value) for key, value in run.items() if key in right[0]] for run in right]
    return [(pair.count((False, True)), pair.count((True, False))) for pair in pairs]
