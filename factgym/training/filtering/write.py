"""What a filter leaves beside its run: the kept questions, their ids, and the counts; each file whole or not at all.

`kept.jsonl` has one question a line, with the fields that its environment shows of it, so that an environment over
files plays it again; `tasks.txt` has the ids alone, for any environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from factgym.agents.difficulty import Selection
from factgym.agents.runs import FILTER_SUMMARY
from factgym.agents.runs.artifacts import json_line, write_bytes, write_json

KEPT, TASKS, SUMMARY = "kept.jsonl", "tasks.txt", FILTER_SUMMARY


def write_selection(
    selection: Selection, episodes: Iterable[Mapping[str, Any]], folder: Path, **facts: Any
) -> tuple[Path, ...]:
    """Write `kept.jsonl`, `tasks.txt` and `filter.json`, and return their paths.

    episodes: the run again, for the questions themselves. facts: further entries of `filter.json`, JSON data. Raises
    ConfigError when the folder cannot be written to.
    """
    rows = _rows(selection, episodes)
    write_bytes(folder / KEPT, b"".join(json_line(rows[task]) for task in selection.retained))
    write_bytes(folder / TASKS, "".join(f"{task}\n" for task in selection.retained).encode("utf-8", "replace"))
    write_json(folder / SUMMARY, {**facts, **summary(selection)})
    return folder / KEPT, folder / TASKS, folder / SUMMARY


def summary(selection: Selection) -> dict[str, Any]:
    """The counts as JSON data, and every question that lacks a sample."""
    short = selection.incomplete
    return {
        "rule": selection.rule,
        "zone": selection.band.to_dict(),
        **selection.buckets.to_dict(),
        "complete": not short,
        "short": {one.task: {"scored": one.scored, "errors": one.errors, "unscored": one.unscored} for one in short},
        "notes": list(selection.notes),
    }


def _rows(selection: Selection, episodes: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for episode in episodes:
        task = str(episode["task"])
        if task in selection.retained and task not in found:
            found[task] = dict(_row(selection, task, episode))
    return found


def _row(selection: Selection, task: str, episode: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """A question with its answers in the layout that readers of question files take, where the task is one."""
    view, metrics = _members(episode.get("task_view")), _members(_members(episode.get("reward")).get("metrics"))
    gold = _members(view.get("gold"))
    found = {"question": view.get("question"), "answers": gold.get("answers")}
    found |= {name: metrics.get(name) for name in ("benchmark", "popularity", "kind")}
    yield "id", task
    yield from ((name, value) for name, value in found.items() if value is not None)
    yield "n_correct", selection.groups[task].correct
    yield "samples", selection.band.samples
    yield "kept_as", selection.retained[task]


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
