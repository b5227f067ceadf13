"""The difficulty filter: questions that a policy answers correctly sometimes, and learns from (CorVer, section 4, A.2, A.4).

A group whose samples are all correct or all wrong has no advantage under a group baseline. `filter_tasks` samples G
episodes of each task through the rollout engine into an ordinary run, `factgym.agents.difficulty.select` counts the
correct ones of any such run and retains `low <= n_correct <= high` with a fixed number of anchors, and `write_selection`
writes the selection; each file whole or not at all. `only` restricts an environment to the retained tasks.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.difficulty import DifficultyBand, Rule, Selection, find_rule, select
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import Engine, collect
from factgym.agents.runs.files import FILTER_SUMMARY, write_bytes, write_json, write_lines
from factgym.benchmarks.records import gold_of, is_scored, members, parts_of
from factgym.core.env import Env
from factgym.core.errors import DataError
from factgym.core.paths import read_text
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
        _, metrics, view = parts_of(episode)
        values = {"question": view.get("question"), "answers": members(view.get("gold")).get("answers")}
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


def only(env: Env[Any], ids: Sequence[str]) -> Env[Any]:
    """Restrict an environment to these tasks, in place, and return it.

    Raises ConfigError for an unknown id.
    """
    env.tasks = Subset(env.tasks, ids)
    return env


def read_tasks(path: str | Path) -> list[str]:
    """The ids in a file: one on each line, or JSON lines with an "id". Raises DataError that names file and line."""
    lines = read_text(path).split("\n")
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


# Tasks chosen by the episodes of a policy: those in its learning zone, and those that it fails, by label and component.

LABEL, ANSWER, COMPONENT = "label", "answer", "component"


@dataclass(slots=True)
class TaskScores:
    """The scored episodes of a task. outcomes: whether each is correct, without those that the rule does not decide."""

    task: str
    label: str | None
    rewards: list[float] = field(default_factory=list)
    outcomes: list[bool] = field(default_factory=list)
    components: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that a policy fails.

    reasons: "label LABEL" for a wrong verdict where LABEL is right, "answer" for a wrong answer without a label, and
    "component NAME" for each low component of the reward.
    """

    task: str
    reward: float
    reasons: tuple[str, ...]


def score_tasks(episodes: Iterable[Mapping[str, Any]], rule: Rule | None = None) -> list[TaskScores]:
    """Collect the scored episodes by task, in the order of their first episode; faults are left out.

    Components are those that the reward counts. Raises DataError when no episode has a score.
    """
    rule, tasks = rule or find_rule(), dict[str, TaskScores]()
    for episode in episodes:
        if not is_scored(episode):
            continue
        report = episode["reward"]
        scores = tasks.setdefault(str(episode["task"]), TaskScores(str(episode["task"]), gold_of(episode)))
        scores.rewards.append(float(report["total"]))
        outcome = rule(episode)
        scores.outcomes += [] if outcome is None else [outcome]
        for name, value in report.get("components", {}).items():
            if report.get("weights", {}).get(name):
                scores.components[name].append(float(value))
    if not tasks:
        raise DataError("no episode of the run has a score, so that no task can be chosen by it")
    return list(tasks.values())


def learning_zone(scores: Sequence[TaskScores]) -> list[str]:
    """Tasks that are sometimes correct; where nothing decides correctness, those with different rewards."""
    return [task.task for task in scores if len({*(task.outcomes or task.rewards)}) > 1]


def failures(scores: Sequence[TaskScores], share: float = 0.5) -> list[Failure]:
    """The tasks that fail, in turn by reason, so that rare reasons come early too.

    A label fails where less than `share` of the episodes are correct. A component fails where its mean over the task's
    episodes is below the point that divides the range of those means over all tasks at `share`; one that is the same
    for all tasks does not choose between them.
    """
    means = {task.task: {name: fmean(values) for name, values in task.components.items()} for task in scores}
    ranges: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(name for row in means.values() for name in row):
        values = [row[name] for row in means.values() if name in row]
        ranges[name] = (min(values), max(values))
    by_reason: defaultdict[str, list[Failure]] = defaultdict(list)
    for task in scores:
        reasons = []
        if task.outcomes and fmean(task.outcomes) < share:
            reasons.append(f"{LABEL} {task.label}" if task.label is not None else ANSWER)
        for name, value in means[task.task].items():
            low, high = ranges[name]
            if value < low + share * (high - low):
                reasons.append(f"{COMPONENT} {name}")
        failure = Failure(task.task, fmean(task.rewards), tuple(reasons))
        for reason in reasons:
            by_reason[reason].append(failure)
    for group in by_reason.values():
        group.sort(key=lambda failure: failure.reward)
    return _in_turn([by_reason[reason] for reason in sorted(by_reason)])


def _in_turn(queues: Sequence[Sequence[Failure]]) -> list[Failure]:
    """One of each queue in turn, each task once."""
    chosen: dict[str, Failure] = {}
    iterators = [iter(queue) for queue in queues]
    while iterators:
        remaining = []
        for iterator in iterators:
            failure = next((item for item in iterator if item.task not in chosen), None)
            if failure is not None:
                chosen[failure.task] = failure
                remaining.append(iterator)
        iterators = remaining
    return list(chosen.values())


def reason_counts(chosen: Sequence[Failure]) -> dict[str, int]:
    """Reason -> number of tasks; a task may have several reasons."""
    return dict(sorted(Counter(reason for failure in chosen for reason in failure.reasons).items()))
