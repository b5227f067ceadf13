"""Recorded runs with known answers, written as a run's files are, without an environment or a reward."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def recorded(
    env: str, task: str, sample: int, total: float, components: Json, metrics: Json, view: Json, error: Json | None
) -> Json:
    """The record of one episode that was scored, or ended by a fault."""
    reward = {
        "total": total,
        "status": "scored",
        "components": components,
        "weights": {},
        "gates": {},
        "spans": [],
        "metrics": metrics,
        "error": None,
    }
    return {
        "schema": 1,
        "env": env,
        "version": 1,
        "task": task,
        "index": int(number) if (number := task.rpartition("-")[2]).isdecimal() else 0,
        "sample": sample,
        "attempt": 1,
        "agent": "made-up",
        "messages": [],
        "turns": [],
        "reward": None if error else reward,
        "stop": "error" if error else "submitted",
        "error": error,
        "task_view": view,
    }


def write_run(folder: Path, episodes: Sequence[Json], env: str, **manifest: Any) -> Path:
    """Write the two files of a run. manifest: added to the members that every run has."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {item["task"] for item in episodes}
    values = {
        "env": env,
        "version": 1,
        "agent": "made-up",
        "n": len(tasks),
        "k": max(1, len(episodes) // max(1, len(tasks))),
        "seed": 0,
        "factgym": "0.1.0",
        "fingerprints": {"tasks": "abc"},
        **manifest,
    }
    lines = "".join(json.dumps({**item, "agent": values["agent"]}) + "\n" for item in episodes)
    (folder / "episodes.jsonl").write_text(lines, "utf-8")
    (folder / "manifest.json").write_text(json.dumps(values), "utf-8")
    return folder
