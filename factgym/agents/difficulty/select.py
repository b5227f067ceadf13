"""From a run with several samples of each task to the tasks that are kept.

A fault of the infrastructure, or an episode that was not scored, is never a wrong answer: a question that lacks a
sample is in no bucket and is not kept until the sample is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.difficulty.band import Buckets, DifficultyBand
from factgym.agents.difficulty.rules import Rule, find_rule
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive

LEARNING, ANCHOR = "learning", "anchor"

_SHOWN = 12


@dataclass(slots=True)
class Group:
    """The samples of one task.

    index: of the task in its environment. right, scored: samples. errors: ended by the infrastructure. unscored: others
    that the rule says nothing about.
    """

    task: str
    index: int
    right: int = 0
    scored: int = 0
    errors: int = 0
    unscored: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """What became of every question. kept: task id -> `LEARNING` or `ANCHOR`, in the order of the task set.

    notes: sentences for people.
    """

    zone: DifficultyBand
    rule: str
    groups: Mapping[str, Group]
    kept: Mapping[str, str]
    buckets: Buckets
    notes: tuple[str, ...] = ()

    @property
    def incomplete(self) -> list[Group]:
        """Questions with fewer than G scored samples."""
        return [one for one in self.groups.values() if one.scored < self.zone.samples]


@dataclass(slots=True)
class _Count:
    groups: dict[str, Group] = field(default_factory=dict)
    facts: set[str] = field(default_factory=set)

    def add(self, episode: Mapping[str, Any], rule: Rule) -> None:
        task = str(episode["task"])
        group = self.groups.get(task)
        if group is None:
            index = episode.get("index")
            group = self.groups[task] = Group(task, index if isinstance(index, int) else len(self.groups))
        found = rule(episode)
        if found is not None:
            group.scored += 1
            group.right += found
        elif episode.get("error") is not None:
            group.errors += 1
        else:
            group.unscored += 1
            metrics = (episode.get("reward") or {}).get("metrics")
            self.facts.update(metrics if isinstance(metrics, Mapping) else ())


def select(
    episodes: Iterable[Mapping[str, Any]], zone: DifficultyBand | None = None, rule: Rule | None = None
) -> Selection:
    """Count the right samples of every task and decide which tasks are kept.

    episodes: of a run, errors that were played again left out (`Run.episodes` does so). Raises ConfigError when the
    rule says nothing about any scored episode, and when a task has more samples than the zone's.
    """
    zone, rule = zone or DifficultyBand(), rule or find_rule()
    count = _Count()
    for episode in episodes:
        count.add(episode, rule)
    groups = dict(sorted(count.groups.items(), key=lambda one: (one[1].index, one[0])))
    _check(groups, zone, rule, count.facts)
    full = [one for one in groups.values() if one.scored == zone.samples]
    learning = {one.task for one in full if zone.holds(one.right)}
    anchors = _anchors(full, zone)
    histogram = [0] * (zone.samples + 1)
    for one in full:
        histogram[one.right] += 1
    buckets = Buckets(tuple(histogram), len(learning), len(anchors), len(groups) - len(full))
    kept = {task: LEARNING if task in learning else ANCHOR for task in groups if task in learning or task in anchors}
    return Selection(zone, rule.name, groups, kept, buckets, tuple(_notes(groups.values(), zone, buckets)))


def _anchors(full: Iterable[Group], zone: DifficultyBand) -> set[str]:
    """The first so many in an order that each task's own name decides: more anchors keep the ones that were drawn."""
    always = [one.task for one in full if one.right == zone.samples]
    return set(sorted(always, key=lambda task: (derive(zone.seed, "anchor", task), task))[: zone.anchors])


def _check(groups: Mapping[str, Group], zone: DifficultyBand, rule: Rule, facts: set[str]) -> None:
    most = max(groups.values(), key=lambda one: one.scored + one.errors + one.unscored, default=None)
    if most is not None and most.scored + most.errors + most.unscored > zone.samples:
        raise ConfigError(
            f"task {most.task!r:.80} has {most.scored + most.errors + most.unscored} samples, more than the "
            f"{zone.samples} of a group: give -G as the run was made with"
        )
    undecided = sum(one.unscored for one in groups.values())
    if undecided and not any(one.scored for one in groups.values()):
        known = ", ".join(sorted(facts)[:_SHOWN]) or "none"
        raise ConfigError(
            f"the rule {rule.name!r:.80} says nothing about any of the {undecided} episodes: give --correct, such as "
            f"reward>=0.5 or the name of a metric. Their reports have: {known}"
        )


def _notes(groups: Iterable[Group], zone: DifficultyBand, buckets: Buckets) -> Iterable[str]:
    short = [one for one in groups if one.scored < zone.samples]
    if any(one.unscored for one in short):
        unscored = sum(one.unscored for one in short)
        yield f"{unscored} samples were played but not scored: nobody knows whether they are right."
    if zone.anchors > buckets.anchors:
        yield f"Only {buckets.anchors} of {zone.anchors} anchors: no more questions are always right."
