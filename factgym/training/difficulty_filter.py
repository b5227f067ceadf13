"""The difficulty filter: questions that a policy answers correctly sometimes, and learns from (CorVer, section 4, A.2, A.4).

A group whose samples are all correct or all wrong has no advantage under a group baseline. `filter_tasks` samples G
episodes of each task through the rollout engine into an ordinary run, `factgym.agents.difficulty.select` counts the
correct ones of any such run and retains `low <= n_correct <= high` with a fixed number of anchors, and `write_selection`
writes the selection; each file whole or not at all. `only` restricts an environment to the retained tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.difficulty import DifficultyBand, Rule, Selection, find_rule, select
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import Engine, collect
from factgym.agents.runs.files import FILTER_SUMMARY, write_bytes, write_json, write_lines
from factgym.core.env import Env
from factgym.core.errors import DataError
from factgym.core.tasks import Subset

KEPT, TASKS, SUMMARY = "kept.jsonl", "tasks.txt", FILTER_SUMMARY


def filter_tasks(
    env: Env[Any],
    agent: Agent,
    folder: str | Path,
    band: DifficultyBand | None = None,
    rule: Rule | None = None,
    *,
    n: int | None = None,
    seed: int = 0,
    limits: Limits | None = None,
    resume: bool = False,
    on_start: Callable[[Progress], None] = lambda _: None,
    engine: Engine = run_jobs,
) -> Selection:
    """Sample G episodes of each of n tasks (all by default) into the run `folder`, and write those in the band.

    seed: of the order of the tasks and of the policy. resume: finished episodes are reused, those with infrastructure
    errors are repeated; another band over the same samples collects nothing. Raises the errors of `collect` and
    `select`; finished episodes stay on disk.
    """
    band = band or DifficultyBand()
    folder = Path(folder)
    run = collect(
        env, agent, folder, n=n, k=band.samples, seed=seed, limits=limits, resume=resume, on_start=on_start, engine=engine
    )  # fmt: skip
    selection = select(run.episodes(), band, rule or find_rule())
    write_selection(selection, run.episodes(), folder, env=env.env_spec.id, agent=agent.name)
    return selection


def write_selection(
    selection: Selection, episodes: Iterable[Mapping[str, Any]], folder: Path, **facts: Any
) -> tuple[Path, ...]:
    """Write `kept.jsonl`, `tasks.txt` and `filter.json`, and return their paths.

    `kept.jsonl` has a question on each line with its answers, as far as the task has them, so that an environment over
    files can read it; `tasks.txt` has the ids alone, for any environment; `filter.json` has the counts and every
    question that lacks a sample. episodes: the run again, for the questions. facts: further entries of `filter.json`,
    JSON data. Raises ConfigError for a folder that cannot be written to.
    """
    rows: dict[str, dict[str, Any]] = {}
    for episode in episodes:
        task = str(episode["task"])
        if task not in selection.retained or task in rows:
            continue
        view = _mapping(episode.get("task_view"))
        metrics = _mapping(_mapping(episode.get("reward")).get("metrics"))
        values = {"question": view.get("question"), "answers": _mapping(view.get("gold")).get("answers")}
        values |= {name: metrics.get(name) for name in ("benchmark", "popularity", "kind")}
        rows[task] = {
            "id": task,
            **{name: value for name, value in values.items() if value is not None},
            "n_correct": selection.groups[task].correct,
            "samples": selection.band.samples,
            "kept_as": selection.retained[task],
        }
    short = selection.incomplete
    summary = {
        "rule": selection.rule,
        "zone": selection.band.to_dict(),
        **selection.buckets.to_dict(),
        "complete": not short,
        "short": {
            group.task: {"scored": group.scored, "errors": group.errors, "unscored": group.unscored} for group in short
        },
        "notes": list(selection.notes),
    }
    write_lines(folder / KEPT, (rows[task] for task in selection.retained))
    write_bytes(folder / TASKS, "".join(f"{task}\n" for task in selection.retained).encode("utf-8", "replace"))
    write_json(folder / SUMMARY, {**facts, **summary})
    return folder / KEPT, folder / TASKS, folder / SUMMARY


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def only(env: Env[Any], ids: Sequence[str]) -> Env[Any]:
    """Restrict an environment to these tasks, in place, and return it.

    Raises ConfigError for an unknown id.
    """
    env.tasks = Subset(env.tasks, ids)
    return env


def read_tasks(path: str | Path) -> list[str]:
    """The ids in a file: one on each line, or JSON lines with an "id". Raises DataError that names file and line."""
    path = Path(path)
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    ids: list[str] = []
    for number, line in enumerate(lines, 1):
        task_id: Any = line.strip()
        if task_id.startswith("{"):
            try:
                task_id = json.loads(line).get("id")
            except (ValueError, RecursionError):
                raise DataError(f"{path} line {number}: no valid JSON") from None
            if not isinstance(task_id, str):
                raise DataError(f'{path} line {number}: an "id" is needed')
        if task_id:
            ids.append(task_id)
    if not ids:
        raise DataError(f"{path} names no task")
    return ids
