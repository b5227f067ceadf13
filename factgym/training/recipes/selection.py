"""Tasks chosen by the episodes of a policy: those in its learning zone, and those that it fails, by label and component."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from factgym.agents.difficulty import Rule, find_rule
from factgym.benchmarks.records import gold_of, is_scored
from factgym.core.errors import DataError

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

    def differs(task: TaskScores) -> bool:
        values: Sequence[Any] = task.outcomes or task.rewards
        return len(set(values)) > 1

    return [task.task for task in scores if differs(task)]


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
    for members in by_reason.values():
        members.sort(key=lambda failure: failure.reward)
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
